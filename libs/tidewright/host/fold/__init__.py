"""Folding the log. Pure: no clock, no I/O.

decider      the contract between a decider and whatever drives it
explainer    the contract between a service and `tidewright explain`
lister       the contract between a service and `tidewright get`; plotter: and `tidewright series`
series       series that a decider tells of its states, for `/metrics`; parts: of its work, by name
configuration    the part of the configuration that a decider reads, and what in it is no setting
inputs       what a service reads of the log, and which slot a message belongs to
inbox        what is read and not folded yet, and last words on what only some versions follow
order        the defined fold order: one slot's state, its digests, its timers
plan         decisions and checkpoints as messages
restore      a slot's fold rebuilt from recorded messages; restoring: many slots from one run over the log
verify       fold again and compare every decision; provenance: what single messages tell
"""

"""What every service runs in. A service brings a decider (two pure functions); the rest is here.

decider     the contract between a decider and whatever drives it
fold        the defined fold order: one slot's state, its digests, its timers (pure)
restoring   many slots of a service restored from one run over the log (pure)
verify      fold again and compare every decision (pure)
restore     a slot's fold rebuilt from recorded messages (pure)
explainer   the contract between a service and `tidewright explain` (pure)
inputs      what a service reads of the log (pure)
plan        decisions and checkpoints as messages (pure)
membership  who is alive, and which slots are whose
commit      grouped atomic commits, and what a refusal means
settings    how a host runs
arriving    slots on their way in: restored while those already owned go on
snapshotting  when snapshots are taken, and how: beside the decisions
host        the loop: claim, read, fold, commit, hand over
service     a decider as a service
fenced      messages under a checkpoint that one process can advance: for the services at the edge
software    which software decided: a version, and a digest of its code
certificates  certificates of endpoints, made and kept in memory
certificatefiles  a certificate in files, rotated without a restart
misconfigured  the error of a process that is told what cannot be
tokens      bearer tokens of callers, read again when their file changes
bodies      bodies of requests, bounded so that slow senders keep nobody out
connections  connections to a port, bounded in number and time
once        a thing that strangers cause, said once
announce    an endpoint makes itself known to the API server, by a decision
health      probes and metrics over HTTP
exposition  series that a decider tells of its states
measuring   how long the parts of a decider's work take
process     one OS process: logging, signals, exit codes
stderr      where log lines go
"""

"""Asking the log: what happened, why, whether it is true. Nothing here writes to the cluster.

source     the log that is asked: a running one, or a file that was exported
objects    KIND/NAME as people write it; times as people write them
progress   a bar for what takes longer
lines      one readable line per event
events     `tidewright events`
explain    `tidewright explain`: what was decided, why, what became of it, what would have changed it
state      `tidewright state`: any aggregate as of any moment
verify     `tidewright verify`: fold again, compare every decision
exports    `tidewright export` and `tidewright import`
diff       `tidewright diff`: two logs, decision by decision
"""

"""The shard manager in words and numbers. Pure.

lines         events in one line each
sentences     entries of an assignment's ledger as sentences
explaining    what `tidewright explain` tells about sets and fleets
preview       what a change of a ShardSet would do
listing       a ShardSet as a row of a list
exposition    series of a state on /metrics; tally: those that a process counts; samples: one series; metric_names: those of the original
"""

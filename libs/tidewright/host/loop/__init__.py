"""The loop that every decider runs in.

host          claim, restore, read, fold, commit, hand over
settings      how it runs
membership    who is alive, and which slots are whose
arriving      slots on their way in: restored while those already owned go on
commit        grouped atomic commits, and what a refusal means
alarms        which timers fire with the commits of their slot, and when (pure); firing: doing it
snapshotting  when snapshots are taken, and how: beside the decisions
fenced        messages under a checkpoint that one process can advance: for the services at the edge
lookout       whether somebody looks at the cluster now: for who acts
newer         facts of types that only a newer version knows: a slot waits before one
halts         saying on the log that a slot has halted
"""

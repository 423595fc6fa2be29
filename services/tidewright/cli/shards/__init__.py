"""`tidewright shards`: who owns which slot and why, and how to change it.

app        the table of commands
where      which set is meant, and the change of one that most commands are
looking    get, explain, verify, plan
explaining why a key is where it is
moving     move, pin, unpin, drain, freeze, unfreeze
sizing     resize, double
rollouts   rollout status, pause, resume, undo; rolling reads how far one is
fleets     adopt
reading    ShardSets, their members and pods, from the API server
changing   a change of a spec: its plan is shown, it is agreed to, it is written under what was read
showing    tables for people, and what stands in them for programs
answers    the types of what is said to programs
history    why a slot is where it is: the set's ledger on the log
ours       the slots of our own services, from their membership and checkpoints
verifying  the live cluster against the assignment
adopting   fleets of the propeller manager: taken over, and given back

Nothing here decides: a command changes the ShardSet, and the shard manager decides what follows.
"""

"""Provisioning: capacity for groups of pods, all or nothing, decided once.

decide       the decider (one partition): its state, how it evolves, what it decides
state        what it remembers
group_ids    node groups by their ids
unanswered   what the decisions were about that wait for their outcome
holding      what the modes in force hold back
settings     the configuration, with the defaults of the reference
flags        how people write it: the reference's names, what values may be, what is said of wrong ones
differences  where ours decides otherwise than the reference, by number
upcasts      states as earlier versions stored them
fold/        evolve: one module per kind of input; what an event touched
evaluate     one evaluation of the whole cluster, which goes through these:
index/       what is derived from the state: nodes as columns, pods that wait, claims and devices
cluster/     the cluster as an evaluation sees it: groups, health, limits, what became of orders
pending/     which pending pods may cause an increase
foresight/   pods that are about to be, and nodes for them
requests/    life of a ProvisioningRequest: taken up, booked, tried, expired
buffers/     room that is kept free for CapacityBuffers
scaleup/     from pods to one plan, and the plan carried out
scaledown/   nodes that nobody needs
consolidation/  nodes that are used, and that the others have room for
pack/        placing pods on nodes by counting over shapes
tell/        everything in words and numbers
"""

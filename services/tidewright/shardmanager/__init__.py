"""The shard manager: fleets of the propeller manager (compat), ShardSets (native), and our own services' sizes.

decide         the decider: what is done about an event
state          what it remembers in one slot; upcasts: states as earlier versions stored them
fold/          evolve: one module per kind of input; what an event touched
holding        sets and fleets that the modes in force hold back
settings       the service's part of the configuration: what in it is not used
propeller/     compat mode: a fleet, its configuration, a pass over its pods, what its workers make of them
shardset/      native mode: the spec, members and ledger as a fold, the rounds
own_services   how many replicas our own services have
labels/        the slot label on objects: at admission, and on those that missed it
tell/          everything in words: lines, sentences, explaining, preview, exposition
"""

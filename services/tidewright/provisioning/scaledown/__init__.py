"""Nodes that nobody needs.

scanning       a part of a pass on the state; through these:
live           the cluster as passes look at it; lately: what came and went just now
choosing       which nodes go now, those that consolidation found by its budgets
recording      what is recorded of a part, and what the next one has of it
next_pass      whether the next part comes, and when
beginning      the removals that it begins
passes         one pass over the cluster: who is unneeded, who goes now; through these:
scene          what a pass looks at, as values
candidates/    which nodes may be looked at, and in which order
drain/         what stands in the way of a drain, and what it evicts
simulation/    whether the pods of nodes fit elsewhere
going/         which of the unneeded nodes go now
removal/       a removal carried out, from the marks to the deleted instance, or undone; soft taints
cards          what is kept of each node between passes
unregistered   instances that never became a node
idle           empty nodes, and when they go
unneeded       why nodes stay, as the reference's metric counts them
"""

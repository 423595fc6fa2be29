"""Nodes that nobody needs.

passes         one pass over the cluster: who is unneeded, who goes now; through these:
scene          what a pass looks at, as values
candidates/    which nodes may be looked at, and in which order
drain/         what stands in the way of a drain, and what it evicts
simulation/    whether the pods of nodes fit elsewhere
going/         which of the unneeded nodes go now
soft_taints    the taint of nodes that wait to go
unregistered   instances that never became a node
idle           empty nodes, and when they go
unneeded       why nodes stay, as the reference's metric counts them
"""

"""Placing pods on nodes by counting over shapes.

A request of half a million pods is arithmetic on its shapes: how many pods of a shape a node holds is
a division, and nodes in the same state are one entry with a count. Only shapes whose own inter-pod
terms depend on where their earlier pods went are placed pod by pod, and only they pay for it.

classes     which pods are decided as one
nodes       nodes as columns of free amounts, and what is known of them without pods
grid        the pods on them: the cluster as it is, forked for each trial
demands     shapes that want a place, put onto it in their order
holdings    who has which devices on it; together: pods that have some together
topology    one shape pod by pod, under affinity and spread
runs        equal new nodes as runs: fill round robin or first fit, add
templates   the next node of a group, and whether a pod fits there
estimate    how many such nodes hold these shapes; rows: where that takes nodes one by one
"""

"""The simulated scheduler: one pod at a time, as the real one, over arrays of nodes.

requests     what a pod asks for
matching     node selectors, node affinity, taints: what depends on the node alone
table        the nodes as arrays: allocatable, used, masks that are kept current
counts       pods per node by label selector, for affinity and spreading
ranking      nodes by how well they suit a shape, kept from pod to pod
placement    one pod's place: filters in the real order with their reasons, then scores
preemption   whom a pod displaces that has no place
loop         the queue, bindings, conditions and object events

Priority orders the queue, and pods displace others of lower priority.
"""

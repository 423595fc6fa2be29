"""WorkloadSpreads (`apps.kruise.io`), as all who have to know where pods of a workload go read them. Pure.

spec         typed: target, filter, subsets, strategy (both served versions)
limits       `maxReplicas` as numbers: integers and percentages
choose       the choice of a subset: a pure function of free slots and the request
inject       a subset's rules written into a pod
placements   the annotation that says where a pod belongs
sharing      several spreads of one target
"""

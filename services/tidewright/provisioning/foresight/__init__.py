"""Pods that are about to be: how many, of which shape, for whom; and nodes for them before they are there.

kept         what is remembered of workloads and their templates
wanted       how many pods a workload still lacks
counting     whose pods are whose: each counts for the workload at the top
spreading    where WorkloadSpreads put them
templates    what a pod of a template will be like, once admission has had it
shares       what is expected, workload by workload
taking_back  orders for pods that do not come
room         room for it, behind all pods that are there
"""

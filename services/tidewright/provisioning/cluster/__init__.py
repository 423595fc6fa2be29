"""The cluster as an evaluation sees it.

view           groups with templates and counts, limits, upcoming nodes
groups         template nodes, who may grow and why not, similar groups, balancing
cluster_state  readiness, acceptable ranges, upcoming nodes, health, time-outs
arriving       nodes that came before the cloud was heard of them
backoff        groups that failed are left alone for a while
limits         cluster-wide limits and quotas
upkeep         what became of orders: finished, late, failed; which empty nodes and groups go
follow_up      what follows at once, without an evaluation
flaws          what is wrong with objects of others that nodes come and go by
status_map     the status ConfigMap; status_parts: its parts, by name
"""

"""What stands in the way of a drain, and what a drain evicts.

rules       whether a pod lets its node go, by the reference's rules in their order
budgets     what PodDisruptionBudgets have left over the nodes of one pass
evictions   who is evicted, in which groups, with how much grace
"""

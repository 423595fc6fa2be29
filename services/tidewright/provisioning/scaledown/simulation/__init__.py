"""Whether the pods of nodes fit elsewhere, one node after the other.

placing    where a pod goes, on a grid of which some rows are closed
removal    one node's removal tried: its pods placed, budgets charged, the node closed
"""

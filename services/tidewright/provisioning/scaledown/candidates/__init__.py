"""Which nodes may be looked at, and in which order.

utilisation   how much of a node its pods ask for
eligible      what keeps a node from being looked at at all
order         who is examined first, and how many are enough
"""

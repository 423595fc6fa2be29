"""What the load will be, from what it was: for objects that ask for it.

asked    what the annotation says: how far ahead, how sure
load     from a metric's value to the load that replicas share, and back
season   what is folded of a load, and what it says of the time ahead
"""

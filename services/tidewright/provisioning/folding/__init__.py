"""What each event changes in the state.

facts       what is, outside
objects     of that, what it depends on where pods may run
decisions   what was concluded
outcomes    what came of orders
common      what these share
"""

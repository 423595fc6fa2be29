"""What each event changes in the state.

facts       what is, outside
decisions   what was concluded
outcomes    what came of orders
common      what these share
"""

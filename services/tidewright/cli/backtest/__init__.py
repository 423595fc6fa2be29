"""`tidewright backtest`: what a policy would have done with a recorded load.

command    the command and its options
manifest   the objects that are tried: read from files, fields changed for a sweep
objects    the objects that a log has
suggest    of the objects of a log, those for which a forecast would have paid
runs       one run of the decider per object, with progress
text       the result for people on a terminal
page       the result as one self-contained HTML page
"""

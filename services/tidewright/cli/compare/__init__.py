"""`tidewright compare`: what we decide beside what an incumbent does, as the log has observed both.

command   the command, and its result for people and programs
"""

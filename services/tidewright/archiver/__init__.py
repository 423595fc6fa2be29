"""The archiver: seals the log, segment by segment, into an archive that its key alone signs.

It asks the log as people do, and writes nothing there. What is sealed it finds in the archive itself, so it may be killed at any
moment, and several may run.

stretches  what of the log is sealed next
service    the loop around it: when, what if not, metrics
"""

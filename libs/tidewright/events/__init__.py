"""The vocabulary: one msgspec Struct per event type. Imports nothing else of ours.

base        Event and its four classes; Because (one application of a rule); ObjectRef
facts       what the watcher sees: objects, metric samples, jumps of the clock
config      configuration as events: ClockSet, ConfigSet
decisions   what deciders conclude and several services share: effects, records, timers
outcomes    what came of a decision: Applied, Rejected, Failed, Superseded
timers      TimerFired
registry    all types; encode and decode
version     the software version
"""

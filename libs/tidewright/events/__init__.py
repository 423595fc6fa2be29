"""The vocabulary: one msgspec Struct per event type. Imports nothing else of ours.

A new type is written where those are that are read together: what several services read in `facts`, `placement` or
`decisions`, what one service alone reads or decides in the module of its name.

base        Event and its four classes; Because (one application of a rule); ObjectRef
facts       what the watcher sees: objects, metric samples, jumps of the clock
config      configuration as events: ClockSet, ConfigSet
decisions   what deciders conclude and several services share: effects, records, timers
outcomes    what came of a decision: Applied, Rejected, Failed, Superseded
timers      TimerFired
times       RFC 3339 to the microsecond
autoscaler, provisioning, spread, shards     what one service alone sees and decides (`shards`: the shard manager)
placement   what else decides where pods may run: storage, devices, namespaces
acting      which mode holds for a service and an object, from all that was said of modes
incumbents  another controller is at work on the same objects
endpoints   whom of us the API server calls, and whose certificates it trusts
halts       a service has stopped in a slot
registry    all types; encode and decode
version     the software version
"""

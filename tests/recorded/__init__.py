"""A log that an earlier version recorded: what is changed since has to fold, explain and verify it.

chaos.twlog     an exported log of six workloads, spreads, ShardSets, fleets and requests for capacity, as the chaos
                run records it while services are killed
demo.twlog      an exported log of `make demo`: a day of one autoscaler in 40 seconds, so that what stands apart by milliseconds is stamped minutes apart
forecasts.twlog  an exported log of two autoscalers with forecasts over five days (`forecasting` records it)
decisions.json  decisions per service and type on it
inputs.json     what each decider followed then, and in every version since that was given out
snapshots/      `<service>-v<N>.json`: the states at its end, as the version with state version N stored them
ended           what the tests and `python -m tests.recorded` both ask of it

`python -m tests.recorded` writes the snapshots of a state version that has none yet and the inputs of a version that has none, nothing else: what
an earlier version stored cannot be stored anew by a later one.
"""

"""The autoscaler: WatermarkPodAutoscaler, decided as a pure function of the log.

decide       the decider: what is decided about what an event touched
state        what it remembers; upcasts: as earlier versions stored it
fold/        evolve: how each event changes the state, and what it touches
passes/      one look at one object, from readiness to limits, and what it would keep of it [2]
forecast/    what the load of objects that ask for it will be, from what it was
policy       what the installation sets for all objects
holds        reasons for doing nothing; holding: objects that the modes in force hold back
api/         the resource: spec, stored status and its conditions [1, 3]
tell/        everything in words and numbers: reasons, sentences, events, series [3, 4]
backtest     the very same decider over a recorded series and a load model

Numbers in brackets are sections of the specification.
"""

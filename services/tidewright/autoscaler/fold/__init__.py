"""Evolve: how each event changes the state, and what it touches.

evolve       one event, passed to what keeps something of it
objects      WatermarkPodAutoscalers: specs as they are read, and what they ask for themselves
workloads    targets, and what stands between them and their pods; pods: by the sets of their labels
targetpods   the pods of a target, and how many are ready
answers      what others were asked: metrics, recommenders, monitors
decisions    our own decisions, and what came of them
forecasts    the load of objects that ask for forecasts
touched      what an event touched, which is all that `decide` is given beside the state
modes        who is held back, and no longer
index        who is concerned by a fact, in constant time
ownership    whose a pod is, by the chain of its owners [2.4]
"""

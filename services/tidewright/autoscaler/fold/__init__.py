"""Evolve: how each event changes the state, and what it touches.

evolve       one function per kind of event
touched      what an event touched, which is all that `decide` is given beside the state
modes        who is held back, and no longer
index        who is concerned by a fact, in constant time
ownership    whose a pod is, by the chain of its owners [2.4]
"""

"""Evolve: what each event changes in the state, and what it touched. Nothing is judged here.

evolve       which of these an event is for
facts        what is, outside
objects      of that, what it depends on where pods may run
decisions    what was concluded
outcomes     what came of orders
modes        what the service may do
touched      what `decide` is told beside the state
common       what these share
forgetting   what nobody refers to any longer
"""

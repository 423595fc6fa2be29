"""Evolve: what each event changes in the state, and what it touched. Nothing is judged here.

evolve       which of these an event is for
facts        what is, outside
objects      of that, what it depends on where pods may run; workloads: what they want, and their templates
buffers      CapacityBuffers: facts and decisions about them
decisions    what was concluded
removals     nodes that go: decisions, outcomes and facts about them
consolidating  what consolidation remembers
outcomes     what came of orders
modes        what the service may do
stirring     what may change what a pass of scale-down finds
touched      what `decide` is told beside the state
common       what these share
forgetting   what nobody refers to any longer
"""

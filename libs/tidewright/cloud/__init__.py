"""Cloud providers: who owns the node groups, and how they grow and shrink.

provider     the interface that every provider implements, its values
providers    which providers there are, by name
errors       what a cloud can answer instead of doing it
simulated/   the client of a cloud of our own, which is `tidewright.sim.cloud`
"""

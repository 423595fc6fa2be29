"""Cloud providers: who owns the node groups, and how they grow and shrink.

provider     the interface that every provider implements, its values
providers    which providers there are, by name
errors       what a cloud can answer instead of doing it
simulated/   a cloud of our own, served over HTTP, whose instances become Node objects
"""

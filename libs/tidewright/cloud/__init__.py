"""Cloud providers: who owns the node groups, and how they grow and shrink.

provider     the interface that every provider implements, its values, and what a cloud can promise
providers    which kinds there are, and what `--cloud NAME=KIND[:CONFIG]` means
serving      what is served to others is said in the cluster, so that nobody else orders there (pure)
calls        how many calls to a cloud, for how long, and what a failure says about the next one
optional     what a cloud, or a group of one, answers to optional calls that it does not have
errors       what a cloud can answer instead of doing it
kubernetes   an API server, for clouds that are objects of one
rights       what may be done there, as roles
informer     objects of one kind there, as they are now
aws/, clusterapi/, externalgrpc/, kwok/   one kind each; externalgrpc has a server of ours, too
simulated/   the client of a cloud of our own, which is `tidewright.sim.cloud`
"""

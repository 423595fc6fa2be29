"""Provisioning in words and numbers. Pure.

lines        one line per event
sentences    decisions in words; amounts: those of resources; folding: much of the same said once
in_number    sentences about one and about many; capitals: how they begin
explaining   what `tidewright explain` says of what; opposites: what would have led to something else
What it says of each kind, as it is now:
    requests     ProvisioningRequests; buffers: CapacityBuffers; pods
    groups       node groups and nodes; clouds: who orders nodes
awaiting     pods of a workload that are about to come
room         who keeps the room that pods do not find; labels: which one keeps a pod from nodes
leaving      nodes on their way out; staying: why a node stays, or goes; without_place: why its pods find no room elsewhere
what_if      what would be done about a request; what_if_buffers: about a buffer; what_if_scaledown: what would be removed
listing      a row of a list; plotting: lines of a chart
exposition   series on /metrics; counts: those that the state keeps
parts        names of the parts of an evaluation, for who measures them
"""

"""Provisioning: capacity for groups of pods, all or nothing, decided once.

decide          State, evolve, decide: the decider (service `provisioning`, one partition)
state           what the decider remembers
index           what is derived from it; indexing: built and kept; resolving: shapes as placement sees them
fold, folding/  what each event changes in it
forgetting      what nobody refers to any longer
evaluate        one evaluation of the whole cluster; followup: what follows without one
view            the cluster as an evaluation sees it
claims          volumes and devices that pods claim; offers: devices that there are; settling: the index put right after they changed
upkeep          what became of orders: finished, late, failed; orders: decisions as they go to the log
spec            a ProvisioningRequest read, validated and frozen; classes and their names
requestwork/    requests within one evaluation: taken up, expired, booked, tried
requests/       life of a request: conditions, retries, bookings, attempts
pack/           placing pods by counting over shapes
groups          node groups: template nodes, who may grow and why not, similar groups, balancing
clusterstate    readiness, acceptable ranges, upcoming nodes, health, time-outs
arriving        nodes that came before the cloud was heard of them
backoff         groups that failed are left alone for a while
limits          cluster limits and quotas
expander        which of several options
scaleup/        from pods to one plan: options, sharing, rounds
saga            a plan's increases carried out, and taken back
helped          rules by which pending pods cause one or not
idle            empty nodes that nobody needs any more
placeholders    pods that hold booked room, in the profile hold
pending         which pending pods may cause an increase now
exposition      series on /metrics
parts           names of the parts of an evaluation, for who measures them
unneeded        why nodes stay, as the reference's metric counts them
counts          its counters and histograms, kept in the state
statusmap       the ConfigMap with the state of all groups
lines           one line per event, for lists of events
explaining      what `tidewright explain` says; opposites: what would have let a pod fit
whatif          what would be done about a request
settings        the configuration, with the reference's names and defaults
durations       durations as people write them in it
sentences       decisions in words
"""

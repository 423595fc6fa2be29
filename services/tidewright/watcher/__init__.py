"""The watcher: the only reader of the outside world. It writes facts, and nothing else.

service           the process: connects, and runs one task per part
appender          facts onto the log: in batches, each under the checkpoint of its part
log_time          log time that never goes back (pure); resync: what is said again before the log forgets it
Kinds
    follow            one kind, from the API server onto the log
    diff              what is new about its objects (pure)
    kind_ownership    what depends on a kind is where the kind is
Metrics and what scales by them
    metric_queries    which metrics, scales and recommenders are asked (pure); metric_facts: answers as facts (pure)
    sampler           all of them asked on their interval
    recommenders      asking recommenders; outbound: which addresses may be asked; tls: with which certificates
    push_endpoint     `POST /v1/metrics`; pushport: where it listens; passing_on: to the watcher that samples
    pushed            samples that are pushed, and whom they answer (pure); remotewrite: Prometheus's form of them (pure)
Workloads of kinds that nobody built in
    custom_workloads  spread's whitelist and workloads of its kinds; scales: of those that a spread targets
    whitelisted       which kinds that part follows, as spreads and the whitelist say
    scaled_workloads  those of other kinds that autoscalers scale, for provisioning alone
    workload_watch    objects of such a kind as facts; sayings: what is said is what has changed
Everything else
    clouds            all clouds with their groups, polled; nodegroups: a group as a fact
    claims            which group a machine is of, over all clouds (pure); served: groups that we serve to somebody else
    configuration     clock and ConfigMap; modes: what may be done
    incumbents/       other controllers at the same work
    labelscan         objects that no shard's worker would select
    serviceload       how busy our own services are
"""

"""The watcher: the only reader of the outside world. It writes facts, and nothing else.

Pure: diff (what is new about a kind's objects), wanted (which metrics, scales and recommenders are
asked), answers (metrics APIs' answers as facts), pushed (samples that are pushed, and whom they
answer), remotewrite (Prometheus's form of them), stamp (log time that never goes back),
again (what is said again before the log forgets it).
Shell: appender (batches under the checkpoint of their kind), follow (one kind), heard (what depends on a kind is where the kind is), sampler (metrics,
scales and recommendations, on their interval), recommenders and tls (asking them), intake
(`POST /v1/metrics`), nodegroups (the cloud's groups, polled), configuration (clock and ConfigMap), custom (spread's
whitelist and workloads of its kinds), scales (of those that a spread targets), labelscan (objects that no shard's worker would select),
serviceload (how busy our own services are), incumbents (other controllers at the same work), service (the process).
"""

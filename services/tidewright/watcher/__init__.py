"""The watcher: the only reader of the outside world. It writes facts, and nothing else.

Pure: diff (what is new about a kind's objects), wanted (which metrics and scales are asked for),
answers (metrics APIs' answers as facts), stamp (log time that never goes back).
Shell: appender (batches under the checkpoint of their kind), follow (one kind), sampler (metrics
and scales, on their interval), nodegroups (the cloud's groups, polled), configuration (clock and ConfigMap), service (the process).
"""

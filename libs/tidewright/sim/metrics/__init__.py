"""Simulated metrics APIs: `metrics.k8s.io` and `external.metrics.k8s.io`, both v1beta1.

trace     recorded values from a CSV, as a function of log time
values    metrics by name: from traces, constants or pushes, shared by ready pods where asked
server    the HTTP handlers: mounted into the embedded API server, or on a port of their own
"""

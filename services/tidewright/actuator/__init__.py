"""The actuator: the only writer to the outside world. It reads decisions and writes outcomes.

Pure: plan (order, supersession, priorities), requests (bodies, preconditions, comparisons), verdict
(errors to retries and outcomes), correlate (object events: aggregation and limits), ledger (which
decisions have their outcome), identity (a decision's name over all logs), newer (effects of types that are not known).
Shell: apply (one effect against the API server), endpoints (certificates into webhook configurations),
cloud (one against a cloud), acting (read, dispatch, commit), metrics, options, service (the process).
"""

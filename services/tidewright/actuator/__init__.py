"""The actuator: the only writer to the outside world. It reads decisions and writes outcomes.

service          the process: connects, and runs the loops
options          how it is started; metrics: what it counts
acting           the loop: read decisions, dispatch
committing       outcomes onto the log; log_clock: the time that they have
What to do next, pure
    plan         per target in order, across targets by priority, and what is overtaken
    ledger       which decisions have their outcome
    identity     a decision's name over all logs
    modes        what the modes on the log, and incumbents, leave of it
    allowed/     what each service may have done at all
    newer        effects of types that are not known
One effect
    apply        against the API server; cloud: against a cloud; allowance: the requests that it makes
    occupied     whether nodes whose instances are to be deleted carry something; short_lists: all of a kind, where that is little
    requests     bodies, preconditions, comparisons (pure)
    verdict      errors to retries and outcomes (pure)
    marks        taints, cordon and annotation of nodes that go (pure); nodelooks: copies of nodes to write from
    resolving    what admission makes of a template's pod
    endpoints    certificates into webhook configurations
    object_events  those of one decision, over its attempts; correlate: aggregation and limits (pure)
"""

"""What each service may have the actuator do, whatever the bus let through: an effect outside it is `Rejected{NotAllowed}`.

    table       which service may ask for which effect on which kind, one line each; RBAC is generated from it
    judge       one decision against the table: its subject, type, kind, namespace and fields (pure)
    bounds      where, and with how much: what the options of the actuator allow, which nobody on the log can change (pure)
    fields      what may stand in patches, statuses, leases and events (pure)
    pods        what a pod may contain that we create (pure)
    webhooks    what may stand in the webhook configurations of our endpoints (pure)
    grounds     what an effect must be founded on: objects that the watcher told of, looked up on the log

A decider that is taken over can then do what it may do anyway, on objects that users have put under it, and
nothing else. What the table lets through is still made under the effect's own preconditions.
"""

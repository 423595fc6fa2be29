"""Life of a ProvisioningRequest. Spec 2.

An evaluation makes one `RequestWork` and hands it to the steps, each of which sees what the ones
before it have decided.

spec           the object read, validated and frozen; classes, parameters, virtual pods
work           what an evaluation has decided so far, and the status that is written of it at the end
Steps, in their order
    promises     whether promised nodes come, and stay
    expiry       requests and bookings whose time is over
    booking      room that is kept: how much for whom, and its placeholders
    growth       elastic gangs that go on growing
    turns        which requests are tried, and in what order; lifecycle: who may be, retries, batches
    backfill     the head of the queue is not delayed by those that pass it; shortfall: how far it is from its room
    intake       a new request taken up
    attempt      one request tried: ordered, answered or put off; ordering: the orders of attempts and growth
    search       the search for its room: check-capacity and best-effort-atomic-scale-up
    quota        quotas of namespaces, with what will count against them
What is said and held
    conditions   the conditions, in the exact words that clients see
    reasons      why an attempt came out as it did, and when room is expected
    never        shapes that no group can ever hold
    placeholders pods that hold booked room, in the profile `hold`; reserved: nodes that say so
"""

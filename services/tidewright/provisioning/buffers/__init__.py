"""CapacityBuffers: room that is kept free for pods of one shape, counted and never made of pods.

An evaluation makes one `BufferWork`. It works out what each buffer wants, has room taken for it when everybody else
has theirs, orders what is lacking by an ordinary scale-up, and writes the statuses at the end.

spec           the object read; extras: annotations of ours on it
sizing         how many chunks it wants; quotas: how many of them the namespace may have
naming         the name of the PodTemplate that is kept for it
kept           what is remembered of it
work           what an evaluation has decided so far about buffers, and the statuses
Steps, in their order
    resolving    what a chunk is like: admission is asked
    managed      the PodTemplate that is kept: made, changed, and whose it is
    concluding   the controller's half: template, number and quotas make a status
    injection    the loop's half: whose chunks take room
    room         their room: placed last, ordered where there is none; what buffers hold where
    bursts       chunks that are not ordered, since pods wait that they are for
    placeholders pods that hold it, in the profile `hold`
What is said
    conditions   the conditions, in the exact words that clients see
    reports      object events
    gauge        the oldest reconciliation
"""

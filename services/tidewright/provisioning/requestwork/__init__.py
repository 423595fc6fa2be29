"""Requests within one evaluation: taken up, expired, booked, tried. Spec 2.5 to 2.11.

An evaluation makes one `RequestWork` and hands it to these steps, each of which sees what the ones
before it have decided.

work       what has been decided so far, and the status that is written of it at the end
promises   whether promised nodes come, and stay
expiry     requests and bookings whose time is over
bookings   room that is kept, and its placeholders
growth     elastic gangs that go on growing
turns      which requests are tried, and in what order
backfill   the head of the queue is not delayed by those that pass it
intake     a new request taken up: spec and templates frozen
trying     one request tried: ordered, answered or put off
reasons    why an attempt came out as it did, and when room is expected
quota      quotas of namespaces, with what will count against them
"""

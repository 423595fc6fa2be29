"""Life of a ProvisioningRequest.

conditions   the conditions with the exact words that clients see, and how they are set
lifecycle    who is eligible when, expiry, garbage collection, order, batches
booking      how much room is kept for whom
attempt      one attempt: check-capacity and best-effort-atomic-scale-up
never        shapes that no group can ever hold
shortfall    how far a request is from having its room
"""

"""Where ours decides otherwise than the reference, by intention. The spec's list of improvements [B] goes on with these.

The setting `as-reference` takes the reference's way back: in all of them, or in those that it names.
"""

from __future__ import annotations

DIFFERENCES: dict[str, str] = {
    "B16": "a pod that one pass moves twice is charged once to its disruption budgets",
    "B17": "a zero-or-max group of which a node waits for a pod to complete stays as a whole, and no slot is kept for it",
    "B18": "a zero-or-max group that does not fit the limits on deletions at a time does not end the search for others",
    "B19": "in an evaluation that orders nodes none goes, whatever the delays are",
    "B20": "minimum sizes and limits are used up by nodes that go, not by those that a later step keeps",
    "B21": "pods are not thought to move onto nodes that are not ready",
    "B22": "what one pass has found stays found as long as its pods still fit where they were thought to go",
    "B23": "unneeded times run on while a group's own delays last",
    "B24": "of a group that is given up nodes that came are drained, and kept by what may not be evicted",
    "B25": "minimum limits of the cluster count each node with what it has itself",
}
"""Number to what ours does."""
OF_BUFFERS: dict[str, str] = {
    "CB1": "a buffer that refers to nothing is not ready, and says so",
    "CB2": "quotas count the pods of chunks, and their limits",
    "CB3": "a size of a buffer that comes to no number, or of which a part means nothing, is told with its fields and what is valid",
}
"""The same of buffers."""

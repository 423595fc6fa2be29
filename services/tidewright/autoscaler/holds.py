"""Reasons for doing nothing, as `HoldReplicas` records them: one word each, the same for the same cause."""

from __future__ import annotations

INVALID_SPEC = "InvalidSpec"
SCALING_BLOCKED = "ScalingBlocked"
TARGET_TAKEN = "TargetTaken"
TARGET_NOT_FOUND = "TargetNotFound"
TARGET_AT_ZERO = "TargetAtZero"
PODS_NOT_READY = "PodsNotReady"
METRIC_UNAVAILABLE = "MetricUnavailable"
STALE_METRIC = "StaleMetric"
READY_GUARD = "ReadyGuard"
WITHIN_WATERMARKS = "WithinWatermarks"
PROPOSAL_EQUALS_CURRENT = "ProposalEqualsCurrent"

FAILURES = frozenset((PODS_NOT_READY, METRIC_UNAVAILABLE, TARGET_NOT_FOUND, SCALING_BLOCKED))
"""Of passes that could compute nothing: what is said of one is said again when it comes back."""
UNCOMPUTED = FAILURES | {INVALID_SPEC, TARGET_TAKEN}
"""Of all passes that computed nothing: none of them says that a failure is over."""
AWAITING_PODS = frozenset((PODS_NOT_READY, READY_GUARD))
"""Another ready pod alone could change the answer."""

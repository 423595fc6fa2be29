"""What a pass looks at, as a value."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tidewright.autoscaler.forecast.season import Expected
from tidewright.events.autoscaler import RecommendationReceived
from tidewright.events.facts import MetricSampled
from tidewright.kube.readiness import Pod, ReadyCount


class Scene(msgspec.Struct, kw_only=True):
    """What a pass looks at, besides the object's rules.

    Attributes:
        namespace: of the object and its target.
        now: seconds.
        current: requested replicas of the target.
        observed: pods that it has, surge included.
        samples: the latest answer to each metric's query, in the order of the rules' metrics.
        recommendation: the recommender's latest answer.
        pods: those that the target's selector finds.
        count: `pods` counted already (2.4), as of an instant at which the count is still right.
        selector_error: why the target's selector cannot be read.
        above_since: since when `AboveHighWatermark` has been true; None when it is not.
        below_since: likewise `BelowLowWatermark`.
        last_scale_at: when the count was changed last; None when never.
        expected: what the load of each metric will be, in the order of the rules' metrics; empty where no
            forecast is asked for.
    """

    namespace: str
    now: float
    current: int
    observed: int
    samples: Sequence[MetricSampled | None] = ()
    recommendation: RecommendationReceived | None = None
    pods: Sequence[Pod] = ()
    count: ReadyCount | None = None
    selector_error: str = ""
    skip_owner_check: bool = False
    above_since: float | None = None
    below_since: float | None = None
    last_scale_at: float | None = None
    expected: Sequence[Expected | None] = ()

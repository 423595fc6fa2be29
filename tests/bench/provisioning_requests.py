"""1,000 small requests at once: until all are answered."""

from __future__ import annotations

import time

from tests.bench.figures import Bench, Figure, Size, figure
from tests.bench.provisioning_world import NOW, Played, cluster_events
from tidewright.events import provisioning as p

CLASS = "check-capacity.autoscaling.x-k8s.io"


def many_requests(size: Size) -> list[Figure]:
    """Check requests of two pods each, on 200 nodes with 2,000 pods."""
    count = 1000 if size == "full" else 100
    played = Played()
    for event in cluster_events(200, 2000, 20):
        played.tell(event)
    template = {"spec": {"containers": [{"resources": {"requests": {"cpu": "100m"}}}]}}
    played.tell(p.PodTemplateObserved(at=NOW, namespace="ns", name="t", template=template))
    start = time.perf_counter()
    for i in range(count):
        played.tell(
            p.ProvisioningRequestObserved(
                at=NOW, namespace="ns", name=f"r{i}", uid=f"u{i}", generation=1, created_at=NOW,
                spec={
                    "provisioningClassName": CLASS,
                    "podSets": [{"count": 2, "podTemplateRef": {"name": "t"}}],
                },
            )
        )  # fmt: skip
    answered = 0
    for _ in range(50):
        answered += sum(isinstance(d, p.AttemptRequest) for d in played.fire())
        if answered >= count:
            break
    taken_s = time.perf_counter() - start
    return [
        figure("provisioning/1,000 small requests: answered", answered, "requests", "higher", count),
        figure("provisioning/1,000 small requests: all answered", taken_s, "s", "lower", 20.0,
               baseline="one per 10 s loop, as the reference", baseline_value=10.0 * count),
    ]  # fmt: skip


BENCHES = (Bench("provisioning-requests", many_requests),)

"""The autoscaler's pass against a second writing of the specification's arithmetic, on random scenes."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.property import watermark_model as model
from tests.unit.autoscaler.world import NS
from tests.unit.autoscaler.world import spec as spec_of
from tidewright.autoscaler.api.spec import compiled
from tidewright.autoscaler.passes.evaluate import evaluate
from tidewright.autoscaler.passes.scene import Scene
from tidewright.autoscaler.policy import Policy
from tidewright.events.facts import MetricSampled
from tidewright.kube.quantities import milli
from tidewright.kube.readiness import Pod, effective_owner

NOW = 100_000.75
STRICT = Policy(strict=True, stale_after_s=0)


@st.composite
def quantities(draw: st.DrawFn, low: int, high: int) -> str:
    """An amount in milli, spelt in one of the ways that the API allows."""
    value = draw(st.integers(low, high))
    spellings = [f"{value}m", f"{value * 1000}u", f"{value}e-3", f"{value // 1000}.{value % 1000:03d}"]
    if value % 1000 == 0:
        spellings += [f"{value // 1000}", f"{value // 1000}.0", f"{value // 1000}e0"]
    if value > low:
        spellings.append(f"{value - 1}.5m")  # rounded away from zero
    return draw(st.sampled_from(spellings))


owners = st.sampled_from(
    [
        [("ReplicaSet", "web-x1z")],
        [("ReplicaSet", "web-x1z")],
        [("StatefulSet", "web")],
        [("ReplicaSet", "other-abc")],
        [("Custom", "other"), ("Custom", "web")],
        [("ReplicaSet", "web-a-b")],
        [],
    ]
)


@st.composite
def pods(draw: st.DrawFn, most: int) -> list[dict[str, Any]]:
    found = []
    for n in range(draw(st.integers(0, most))):
        started = NOW - 0.75 - draw(st.sampled_from([0, 5, 9, 10, 30, 31, 600]))
        phase = draw(st.sampled_from(["Running", "Running", "Running", "Pending", "Failed", "Succeeded"]))
        found.append(
            {
                "name": f"web-{n}",
                "owners": draw(owners),
                "phase": phase,
                "ready": draw(st.sampled_from(["True", "True", "True", "False", "Unknown", ""])),
                "started_at": draw(st.sampled_from([started, started, started, None])),
                "changed_at": min(started + draw(st.sampled_from([0, 1, 9, 10, 30])), NOW),
                "deleting": draw(st.integers(0, 9)) == 0,
            }
        )
    return found


@st.composite
def scenes(draw: st.DrawFn) -> dict[str, Any]:
    current = draw(st.sampled_from([0, 1, 2, 3, 4, 7, 10, 60]))
    ago = st.sampled_from([0, 1, 14, 15, 16, 29, 30, 31, 60, 1000])
    return {
        "now": NOW,
        "target": "web",
        "current": current,
        "observed": draw(st.sampled_from([current, current, current + 2, 0])),
        "pods": draw(pods(8)),
        "last_scale_at": draw(st.none() | ago.map(lambda s: float(int(NOW) - s))),
        "above_since": draw(st.none() | ago.map(lambda s: float(int(NOW) - s))),
        "below_since": draw(st.none() | ago.map(lambda s: float(int(NOW) - s))),
    }


@st.composite
def specs(draw: st.DrawFn) -> dict[str, Any]:
    minimum = draw(st.integers(1, 5))
    delays = st.sampled_from([0, 0, 15, 30])
    windows = st.sampled_from([1, 15, 30, 300])
    return {
        "minReplicas": minimum,
        "maxReplicas": minimum + draw(st.sampled_from([0, 1, 5, 100])),
        "algorithm": draw(st.sampled_from(["average", "absolute", "Average"])),
        "tolerance": draw(quantities(1, 1000)),
        "scaleUpLimitFactor": draw(st.just("0") | quantities(0, 300_000)),
        "scaleDownLimitFactor": draw(st.just("0") | quantities(0, 99_999)),
        "upscaleForbiddenWindowSeconds": draw(windows),
        "downscaleForbiddenWindowSeconds": draw(windows),
        "upscaleDelayAboveWatermarkSeconds": draw(delays),
        "downscaleDelayBelowWatermarkSeconds": draw(delays),
        "replicaScalingAbsoluteModulo": draw(st.sampled_from([1, 1, 2, 5])),
        "convergeTowardsWatermark": draw(
            st.sampled_from(["", "highwatermark", "lowwatermark", "highWatermark"])
        ),
        "minAvailableReplicaPercentage": draw(st.sampled_from([0, 0, 34, 60, 100])),
        "readinessDelaySeconds": draw(st.sampled_from([0, 10, 30])),
        "tolerateZero": draw(st.booleans()),
    }


@st.composite
def metrics(draw: st.DrawFn, scene: dict[str, Any]) -> tuple[dict[str, Any], MetricSampled, tuple[Any, ...]]:
    """A metric of the spec, its answer, and the same for the model."""
    low = draw(st.sampled_from([0, 1, 500, 2000, 20_086]))
    marks = (
        draw(quantities(low, low)),
        draw(quantities(low, low + draw(st.sampled_from([0, 1, 999, 40_000])))),
    )
    if milli(marks[1]) < milli(marks[0]):
        marks = (marks[0], marks[0])
    body = {
        "metricSelector": {"matchLabels": {"app": "web"}},
        "lowWatermark": marks[0],
        "highWatermark": marks[1],
    }
    edge = st.sampled_from([milli(mark) for mark in marks])
    near = st.builds(lambda mark, by: mark + by, edge, st.integers(-3, 3))
    value = near | st.integers(-100, 200_000) | st.integers(2**40, 2**50)
    if draw(st.booleans()):
        series = draw(st.lists(value, max_size=3))
        sample = MetricSampled(at=NOW, name="", series_milli=tuple(series))
        return {"type": "External", "external": {"metricName": "rps", **body}}, sample, (marks, series)
    name = draw(st.sampled_from(["cpu", "memory"]))
    known = [pod["name"] for pod in scene["pods"]] + ["stranger"]
    used = {pod: draw(value) for pod in known if draw(st.integers(0, 4))}
    sample = MetricSampled(at=NOW, name="", pods_milli=used, **({} if used else EMPTY))
    return {"type": "Resource", "resource": {"name": name, **body}}, sample, (marks, name, used)


EMPTY: dict[str, Any] = {"error": "no metrics", "error_class": "empty"}


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data(), scenes(), specs())
def test_a_strict_pass_is_what_the_specification_computes(
    data: st.DataObject, scene: dict[str, Any], members: dict[str, Any]
) -> None:
    drawn = data.draw(st.lists(metrics(scene), min_size=1, max_size=3))
    rules = compiled(spec_of(*(entry for entry, _, _ in drawn), **members), namespace=NS, name="wpa")
    found = evaluate(
        rules,
        STRICT,
        Scene(
            namespace=NS,
            now=NOW,
            current=scene["current"],
            observed=scene["observed"],
            samples=[sample for _, sample, _ in drawn],
            pods=[
                Pod(
                    name=pod["name"],
                    owners=tuple(effective_owner(kind, name) for kind, name in pod["owners"]),
                    phase=pod["phase"],
                    ready=pod["ready"],
                    ready_changed_at=pod["changed_at"],
                    started_at=pod["started_at"],
                    deleting=pod["deleting"],
                )
                for pod in scene["pods"]
            ],
            above_since=scene["above_since"],
            below_since=scene["below_since"],
            last_scale_at=scene["last_scale_at"],
        ),
    )
    proposals = [
        model.external(scene, members, *given_)
        if len(given_) == 2
        else model.resource(scene, members, *given_)
        for _, _, given_ in drawn
    ]
    expected = model.decided(scene, members, proposals)
    if expected.error:
        assert found.failure is not None
        assert found.failure.error_class == expected.error
        return
    assert found.failure is None
    assert [(c.replicas, c.ready, c.above, c.below) for c in found.calculations] == [
        (p.replicas, p.ready, p.above, p.below) for p in proposals
    ]
    assert found.limited is not None
    assert found.limited.reason == expected.reason
    assert (found.rescale, found.desired) == (
        expected.rescale,
        expected.desired if expected.rescale else scene["current"],
    )

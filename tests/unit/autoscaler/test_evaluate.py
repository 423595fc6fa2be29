"""A pass: what is corrected by default, bad values, and the specification's own cases."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.unit.autoscaler.world import external, spec
from tests.vectors import watermark
from tidewright.autoscaler.api.spec import InvalidSpec, Rules, compiled, laid_over
from tidewright.autoscaler.passes.evaluate import Override, Pass, evaluate
from tidewright.autoscaler.passes.limits import LIMITS
from tidewright.autoscaler.passes.scene import Scene
from tidewright.autoscaler.passes.windows import Hold
from tidewright.autoscaler.policy import Policy, of_config
from tidewright.autoscaler.tell.gauges import Series, of_pass
from tidewright.autoscaler.tell.reasons import because
from tidewright.autoscaler.tell.sentences import TELLERS, sentences
from tidewright.events.acting import MODE
from tidewright.events.autoscaler import RecommendationReceived
from tidewright.events.facts import MetricSampled
from tidewright.kube.readiness import Pod

STRICT, DEFAULT = Policy(strict=True), Policy()
VECTORS = Path(__file__).parents[3] / ".." / "shared" / "spec" / "vectors"


def pods(count: int, **fields: Any) -> list[Pod]:
    given: dict[str, Any] = {
        "owners": ("web",),
        "phase": "Running",
        "ready": "True",
        "started_at": 1.0,
        **fields,
    }
    return [Pod(name=f"web-{i}", **given) for i in range(count)]


def ruled(members: dict[str, Any] | None = None, annotations: dict[str, str] | None = None) -> Rules:
    """The rules of an object with so much in its spec and annotations."""
    rules = compiled(spec(**{"algorithm": "absolute", **(members or {})}), namespace="shop", name="wpa")
    return laid_over(rules, annotations or {})


def look(*values: int, **given: Any) -> Pass:
    """A pass as `passed` makes it."""
    return passed(*values, **given)[1]


def passed(
    *values: int,
    policy: Policy = DEFAULT,
    current: int = 4,
    found: list[Pod] | None = None,
    sample: MetricSampled | None = None,
    members: dict[str, Any] | None = None,
    annotations: dict[str, str] | None = None,
    **scene: Any,
) -> tuple[Rules, Pass]:
    """The rules of an object with so much in its spec and annotations, and a pass over one External metric (marks 5 and 10, absolute)."""
    rules = ruled(members, annotations)
    seen = sample or MetricSampled(at=1000.0, name="", series_milli=values)
    given: dict[str, Any] = {
        "current": current,
        "observed": current,
        "pods": pods(current) if found is None else found,
        "samples": [seen] * len(rules.metrics),
        "last_scale_at": 0.0,
        **scene,
    }
    return rules, evaluate(rules, policy, Scene(namespace="shop", now=1000.0, **given))


@pytest.mark.skipif(not VECTORS.exists(), reason="the specification's cases lie beside the repository")
@pytest.mark.parametrize("name", ["watermark.json", "watermark-generated.json"])
def test_the_specifications_cases(name: str) -> None:
    results = [watermark.run(case) for case in json.loads((VECTORS / name).read_text())]
    assert results
    assert [r for r in results if r.differences] == []


def test_without_metrics_the_count_stays() -> None:  # D1
    assert look(members={"metrics": []}).desired == 4
    assert look(members={"metrics": []}, policy=STRICT).desired == 3


def test_an_untolerated_zero_holds_the_count() -> None:  # D2
    found = [*pods(3), *pods(1, ready="False")]
    assert look(0, found=found).desired == 4
    assert look(0, found=found, policy=STRICT).calculations[0].replicas == 3


def cpu(**members: Any) -> dict[str, Any]:
    body = {"name": "cpu", "metricSelector": {}, "lowWatermark": "5", "highWatermark": "10"}
    return {"metrics": [{"type": "Resource", "resource": body}], **members}


def test_a_pod_that_was_ready_fast_is_measured_after_the_delay() -> None:  # D4
    sample = MetricSampled(at=1000.0, name="", pods_milli={"web-0": 9_000})
    fast = pods(1, started_at=800.0, ready_changed_at=801.0)
    members = cpu(readinessDelaySeconds=60)
    assert look(sample=sample, found=fast, current=1, members=members).calculations[0].ready == 1
    assert look(sample=sample, found=fast, current=1, members=members, policy=STRICT).failure is not None
    young = pods(1, started_at=950.0, ready_changed_at=951.0)
    found = look(sample=sample, found=young, current=1, members=members)
    assert found.failure is not None
    assert found.changes_at == 1010.0


def test_pods_that_are_all_pending_are_a_failure_and_no_crash() -> None:  # D3
    sample = MetricSampled(at=1000.0, name="", pods_milli={"web-0": 9_000})
    found = look(sample=sample, found=pods(4, phase="Pending"), members=cpu())
    assert found.failure is not None
    assert found.failure.reference_fault == "division-by-zero"


def test_a_target_without_pods_is_left_alone() -> None:  # D5
    found = look(members={"metrics": [], "minReplicas": 3}, current=5, observed=0)
    assert (found.desired, found.override) == (5, Override.NONE)
    strict = look(members={"metrics": [], "minReplicas": 3}, current=5, observed=0, policy=STRICT)
    assert (strict.desired, strict.override) == (1, Override.NO_PODS)


def test_bounds_without_metrics_are_enforced_on_demand() -> None:  # D6
    broken = MetricSampled(at=1000.0, name="", error="gone", error_class="not-found")
    assert look(sample=broken, current=40).desired == 40
    wanted = Policy(enforce_bounds_without_metrics=True)
    assert look(sample=broken, current=40, policy=wanted).desired == 10


def test_the_first_pass_scales_only_what_differs_and_heeds_delays() -> None:  # D10
    assert not look(7_000, last_scale_at=None).rescale
    assert look(7_000, last_scale_at=None, policy=STRICT).rescale
    delayed = look(90_000, last_scale_at=None, members={"upscaleDelayAboveWatermarkSeconds": 60})
    assert delayed.verdict is not None
    assert delayed.verdict.hold is Hold.UP_DELAY


def test_a_recommendation_without_bounds_is_not_below_them() -> None:  # D24
    members = {"metrics": [], "recommender": {"url": "http://r"}, "upscaleDelayAboveWatermarkSeconds": 60}
    answer = RecommendationReceived(at=1000.0, name="", target_replicas=6)
    assert look(recommendation=answer, members=members).rescale
    assert not look(recommendation=answer, members=members, policy=STRICT).rescale
    assert not look(
        recommendation=answer, members={**members, "convergeTowardsWatermark": "highwatermark"}, current=6
    ).rescale


def test_bounds_that_contradict_one_another_are_told_as_both() -> None:
    """The count is below one and above the other, so both delays run, and the reason says neither alone."""
    members = {"metrics": [], "recommender": {"url": "http://r"}}
    answer = RecommendationReceived(
        at=1000.0, name="", target_replicas=6, lower_bound_replicas=9, upper_bound_replicas=2
    )
    rules = compiled(spec(**members), namespace="shop", name="wpa")
    found = look(recommendation=answer, members=members)
    assert (found.calculations[0].above, found.calculations[0].below) == (True, True)
    (step,) = [s for s in because(rules, DEFAULT, found, last_scale_at=0.0) if s.rule == "Recommended"]
    assert step.values["position"] == "both"
    assert sentences([step]) == [
        "recommender{targetType:} recommends 6 replicas; its lower bound is above its upper one, and the present count is between them."
    ]


def test_a_recommendation_of_zero_is_not_reasoned_with() -> None:  # D2
    members = {"metrics": [], "recommender": {"url": "http://r"}}
    answer = RecommendationReceived(at=1000.0, name="", target_replicas=0, details="night profile")
    for policy in (STRICT, DEFAULT):
        found = look(recommendation=answer, members=members, policy=policy).calculations[0]
        assert (found.replicas, found.held, found.details) == (4, "UntoleratedZero", "")


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ({"tolerance": "1.5"}, "currently set to : 1500m, which is 150%"),
        ({"tolerance": "1.234"}, "currently set to : 1.234, which is 123%"),
        ({"scaleUpLimitFactor": "-2000m"}, "currently set to : -2, which could yield a -2% growth"),
        ({"scaleDownLimitFactor": "1e2"}, "currently set to : 100, which could yield a 100% decrease"),
    ],
)
def test_a_factor_out_of_range_is_quoted_as_the_api_prints_it(members: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidSpec, match=said):
        compiled(spec(**members), namespace="shop", name="wpa")


@pytest.mark.parametrize(
    ("current", "value", "limits", "plain", "whole"),
    [
        (8, 90_000, {}, 12, 12),
        (8, 90_000, {"scaleUpLimitFactor": "20"}, 9, 12),
        (8, 90_000, {"maxReplicas": 10}, 10, 8),  # the multiples that lie inside the bounds
        (8, 90_000, {"maxReplicas": 14}, 12, 12),
        (20, 1_000, {"scaleDownLimitFactor": "30"}, 14, 16),
        (4, 1_000, {"minReplicas": 2, "scaleDownLimitFactor": "99"}, 4, 4),
    ],
)
def test_a_limited_count_is_made_whole_again_on_demand(
    current: int, value: int, limits: dict[str, Any], plain: int, whole: int
) -> None:  # D19
    members = {"replicaScalingAbsoluteModulo": 4, "maxReplicas": 100, **limits}
    assert look(value, current=current, members=members).desired == plain
    found = look(value, current=current, members=members, policy=Policy(align_after_limits=True))
    assert found.desired == whole
    rules = ruled(members)
    told = " ".join(sentences(because(rules, DEFAULT, found, last_scale_at=0.0)))
    assert ("no multiple of replicaScalingAbsoluteModulo 4" in told) is (plain != whole)


def test_values_of_other_workloads_are_summed_and_said() -> None:  # D25
    sample = MetricSampled(at=1000.0, name="", pods_milli={"web-0": 7_000, "web-1": 7_000, "stranger": 1_000})
    others = pods(1, owners=("other",))
    found = look(sample=sample, found=[*pods(2)[1:], *others], current=2, members=cpu())
    assert (found.calculations[0].utilization, found.calculations[0].foreign) == (15_000, 2)
    rules = ruled(cpu())
    told = sentences(because(rules, DEFAULT, found, last_scale_at=0.0))
    assert told[1].startswith("2 pods of other workloads are in the sum of cpu{map[]}")
    assert look(sample=sample, found=pods(2), current=2, members=cpu()).calculations[0].foreign == 1


def test_zero_of_a_resource_holds_on_demand() -> None:  # D30
    sample = MetricSampled(at=1000.0, name="", pods_milli=dict.fromkeys(["web-0", "web-1"], 0))
    assert look(sample=sample, found=pods(2), current=2, members=cpu()).desired == 1
    guarded = Policy(guard_resource_zero=True)
    assert look(sample=sample, found=pods(2), current=2, members=cpu(), policy=guarded).desired == 2


@pytest.mark.parametrize(
    ("values", "desired"),
    [
        ((2**63 - 1, 2**63 - 1), 6),
        ((-(2**63), -(2**63)), 3),
        ((10**30,), 6),
        ((10**12,), 6),
        ((-5,), 3),
    ],
)
def test_huge_and_negative_values_move_within_the_limits(values: tuple[int, ...], desired: int) -> None:
    assert look(*values).desired == desired


def test_a_proposal_that_no_count_can_hold_wraps_strictly() -> None:
    assert look(10**18, policy=STRICT).calculations[0].replicas == 4
    assert look(10**18).calculations[0].replicas == 2**31 - 1


@pytest.mark.parametrize(
    "error_class", ["unavailable", "forbidden", "not-found", "throttled", "garbage", "timeout"]
)
def test_a_metric_that_cannot_be_read_scales_nothing(error_class: str) -> None:
    found = look(sample=MetricSampled(at=1000.0, name="", error="no", error_class=error_class))
    assert not found.rescale
    assert found.failure is not None
    assert found.failure.error == (
        "unable to get external metric shop/rps/app=web: unable to fetch metrics from external metrics API: no"
    )


def test_a_selector_that_cannot_be_read_is_a_failure() -> None:  # D28
    found = look(90_000, selector_error="found '(', expected: ')'")
    assert found.failure is not None
    assert "selector" in found.failure.error


@pytest.mark.parametrize(
    ("members", "where"),
    [
        ({"maxReplicas": "ten"}, "spec.maxReplicas"),
        ({"maxReplicas": 2**31}, "spec.maxReplicas"),
        ({"tolerance": "much"}, "spec.tolerance"),
        ({"tolerance": "NaN"}, "spec.tolerance"),
        ({"metrics": {}}, "spec.metrics"),
        ({"metrics": [external(low="x")]}, "spec.metrics[0].external.lowWatermark"),
        (
            {"metrics": [{"type": "External", "external": {"metricName": "m"}}]},
            "watermarks are not set correctly",
        ),
        ({"scaleTargetRef": None}, "Spec.ScaleTargetRef"),
    ],
)
def test_a_bad_spec_is_refused_by_name(members: dict[str, Any], where: str) -> None:
    with pytest.raises(InvalidSpec) as refused:
        compiled(spec(**members), namespace="shop", name="wpa")
    assert where in str(refused.value)


def test_a_bad_member_of_the_configuration_keeps_its_default() -> None:
    policy = of_config({"strict": True, "stale_after_s": "soon", "unknown": 1})
    assert policy == Policy(strict=True)


def test_restrictions_are_one_while_they_apply() -> None:  # D12
    rules = ruled()
    values = of_pass(rules, DEFAULT, look(7_000), last_scale_at=0.0)
    assert values[Series("restricted_scaling", "within_bounds")] == 1
    values = of_pass(rules, DEFAULT, look(90_000), last_scale_at=0.0)
    assert values[Series("restricted_scaling", "within_bounds")] == 0
    assert values[Series("restricted_scaling", "upscale_capping")] == 1
    assert values[Series("replicas_scaling_effective")] == 6


def test_a_pass_goes_by_what_annotations_lay_over_the_spec() -> None:
    rules, found = passed(90_000, annotations={MODE: "dry-run"})
    assert found.rescale
    steps = because(rules, DEFAULT, found, last_scale_at=0.0)
    assert [step.values["dry_run"] for step in steps if step.rule == "ScaleDecided"] == [True]


def test_every_rule_of_a_pass_is_told_in_a_sentence() -> None:
    told: list[str] = []
    met: set[str] = set()
    cases: list[tuple[Rules, Pass]] = [
        passed(90_000),
        passed(1_000),
        passed(90_000, current=40),
        passed(7_000, members={"minReplicas": 6}),
        passed(15_000, members={"maxReplicas": 5}),
        passed(0),
        passed(sample=MetricSampled(at=1.0, name="", error="no")),
        passed(1_000, sample=MetricSampled(at=1.0, name="", series_milli=(1,))),
        passed(90_000, last_scale_at=999.0),
        passed(members={"metrics": []}),
        passed(6_000, members={"convergeTowardsWatermark": "highwatermark"}),
        passed(9_900, members={"convergeTowardsWatermark": "lowwatermark"}),
        passed(90_000, members={"metrics": [external(), external("b")]}),
    ]
    for rules, found in cases:
        steps = because(rules, DEFAULT, found, last_scale_at=999.0)
        assert steps
        untold = {step.rule for step in steps} - TELLERS.keys()
        assert not untold, f"give {sorted(untold)} a sentence in TELLERS of tell/sentences.py"
        met |= {step.rule for step in steps}
        told += sentences(steps)
        assert msgspec.json.encode(steps)
    assert met >= LIMITS.keys(), (
        f"no case here meets {sorted(LIMITS.keys() - met)} of passes/limits.py: add one"
    )
    assert not [text for text in told if "was not recorded" in text]
    assert (
        "rps{map[app:web]} is 90, above its high watermark 10 (11 with tolerance); "
        "with 4 of 4 pods ready it proposes 36 replicas."
    ) in told
    assert ("36 is more than scaleUpLimitFactor allows in one step (50 % of 4, so at most 6): 6.") in told

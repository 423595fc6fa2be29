"""The decider: what it orders, when, and what it says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from tests.unit.autoscaler.world import (
    NS,
    World,
    condition,
    external,
    holds,
    of,
    one,
    pod,
    sample,
    spec,
    workload,
    wpa,
)
from tidewright.autoscaler.api.spec import compiled, verdict
from tidewright.autoscaler.passes import passes
from tidewright.autoscaler.state import State
from tidewright.autoscaler.tell import messages
from tidewright.events.autoscaler import (
    DatadogMonitorObserved,
    HoldReplicas,
    RecommendationReceived,
    WatermarkPodAutoscalerGone,
)
from tidewright.events.base import Decision
from tidewright.events.decisions import (
    CancelTimer,
    PatchObject,
    RecordObjectEvent,
    ScaleWorkload,
    SetStatus,
    SetTimer,
)
from tidewright.events.facts import PodGone, WorkloadGone
from tidewright.events.outcomes import Applied, Failed, Rejected
from tidewright.events.timers import TimerFired


def reasons(decisions: list[Decision]) -> list[str]:
    return [event.reason for event in of(decisions, RecordObjectEvent)]


def test_a_value_above_the_high_mark_scales_up_with_its_reasons() -> None:
    world = World()
    world.start(replicas=2)
    order = one(world.feed(sample(101, 40_000)), ScaleWorkload)
    assert (order.from_replicas, order.replicas) == (2, 3)
    assert order.target.kind == "Deployment"
    assert order.owner == f"WatermarkPodAutoscaler/{NS}/wpa"
    assert [step.rule for step in order.because] == ["Measured", "ScaleUpLimit", "ScaleDecided"]
    assert order.because[0].values["high_adjusted_milli"] == 11_000


def test_nothing_is_decided_before_every_metric_was_answered() -> None:
    world = World()
    world.start(replicas=2, metrics=[external("rps"), external("lag")])
    assert world.feed(sample(101, 90_000)) == []
    assert one(world.feed(sample(102, 1_000, name="lag")), ScaleWorkload).replicas == 3


def test_a_round_of_answers_decides_alike_in_any_order() -> None:
    given = []
    for names in (("rps", "lag"), ("lag", "rps")):
        world = World()
        world.start(replicas=4, metrics=[external("rps"), external("lag")])
        first = {"rps": 90_000, "lag": 12_000}
        second = {"rps": 12_000, "lag": 90_000}
        decided: list[Decision] = []
        for at, values in ((101.0, first), (116.0, second)):
            for name in names:
                decided += world.feed(sample(at, values[name], name=name))
        given.append([(d.from_replicas, d.replicas) for d in of(decided, ScaleWorkload)])
    assert given[0] == given[1] == [(4, 6)]


def test_a_metric_that_is_no_longer_answered_does_not_stop_the_others() -> None:
    world = World()
    world.start(replicas=2, metrics=[external("rps"), external("lag")])
    world.feed(sample(101, 15_000), sample(101, 15_000, name="lag"))
    assert world.feed(sample(116, 90_000)) == []
    assert one(world.feed(sample(131, 90_000)), ScaleWorkload).replicas == 3


def test_the_same_scale_is_not_ordered_again_before_its_outcome() -> None:
    world = World()
    world.start(replicas=2)
    one(world.feed(sample(101, 40_000)), ScaleWorkload)
    assert world.feed(sample(116, 60_000), sample(131, 60_000)) == []


def test_a_scale_whose_outcome_never_comes_is_forgotten() -> None:
    world = World(outcome_timeout_s=60)
    world.start(replicas=2)
    world.feed(sample(101, 40_000))
    assert world.feed(sample(160, 40_000)) == []
    assert one(world.feed(sample(161, 40_000)), ScaleWorkload).replicas == 3


def test_the_outcome_starts_the_windows_and_says_so_once() -> None:
    world = World()
    world.start(replicas=2)
    order = one(world.feed(sample(101, 40_000)), ScaleWorkload)
    given = world.apply(order, 101.5)
    assert reasons(given) == ["Scaling"]
    status = one(given, SetStatus)
    assert status.status["lastScaleTime"] == "1970-01-01T00:01:41Z"
    assert status.status["scalingEventsCount"] == 1
    assert status.status["desiredReplicas"] == 3
    assert condition(status, "AbleToScale")["reason"] == "SuccessfulScale"
    assert one(given, SetTimer).due == 161.0


def test_the_count_is_not_decided_twice_when_the_target_shows_it_first() -> None:
    for fact_first in (True, False):
        world = World()
        world.start(replicas=2)
        order = one(world.feed(sample(101, 40_000)), ScaleWorkload)
        outcome, fact = Applied(at=102, decision=order.id), workload(102, 3)
        given = world.feed(fact, outcome) if fact_first else world.feed(outcome, fact)
        assert of(given, ScaleWorkload) == []
        assert world.object().kept.last_scale_at == 101
        assert of(world.feed(sample(116, 60_000)), ScaleWorkload) == []


def test_a_held_scale_is_made_at_the_very_instant_when_the_window_ends() -> None:
    world = World()
    world.start(replicas=2)
    world.apply(one(world.feed(sample(101, 40_000)), ScaleWorkload), 102)
    given = world.feed(sample(116, 60_000))
    assert holds(given) == ["UpscaleForbiddenWindow"]
    assert of(given, SetTimer) == []  # it is set already
    order = one(world.fire(), ScaleWorkload)
    assert (order.at, order.from_replicas, order.replicas) == (161.0, 3, 4)


def test_a_delay_ends_by_its_own_timer() -> None:
    world = World()
    world.start(replicas=2, upscaleDelayAboveWatermarkSeconds=30)
    given = world.feed(sample(101.25, 40_000))
    assert holds(given) == ["UpscaleDelay"]
    assert one(given, SetTimer).due == 131.25
    assert world.feed(sample(116, 41_000)) == []  # the same reason, the same timer
    assert one(world.fire(), ScaleWorkload).replicas == 3


def test_a_value_that_comes_back_restarts_the_delay() -> None:
    world = World()
    world.start(replicas=2, upscaleDelayAboveWatermarkSeconds=30)
    world.feed(sample(101, 40_000))
    assert of(world.feed(sample(116, 15_000)), CancelTimer)
    assert one(world.feed(sample(130, 40_000)), SetTimer).due == 160


def test_a_pending_pod_stops_counting_by_a_timer() -> None:
    world = World()
    world.start(replicas=2, readinessDelaySeconds=60)
    world.feed(workload(100, 3), pod(100, "web-77-2", phase="Pending", ready=False, ready_changed_at=95.0))
    given = world.feed(sample(101, 32_000))
    assert one(given, SetTimer).due == 155
    assert one(given, HoldReplicas).because[0].values["ready"] == 3
    assert of(world.fire(), ScaleWorkload)[0].because[0].values["ready"] == 2


def test_a_late_timer_that_was_replaced_does_nothing() -> None:
    world = World()
    world.start(replicas=2, upscaleDelayAboveWatermarkSeconds=30)
    world.feed(sample(101, 40_000), sample(116, 15_000))
    assert world.feed(TimerFired(at=131, key=f"wpa/{NS}/wpa")) == []


def test_no_change_is_recorded_when_its_reason_changes_and_only_then() -> None:
    world = World()
    world.start(replicas=2)
    assert holds(world.feed(sample(101, 15_000))) == ["WithinWatermarks"]
    assert holds(world.feed(sample(116, 15_001), sample(131, 15_002))) == []


def test_values_alone_are_written_once_a_minute_after_everything_else() -> None:
    world = World()
    world.start(replicas=2)
    assert one(world.feed(sample(101, 15_000)), SetStatus).urgent
    assert world.feed(sample(116, 15_100), sample(131, 15_200), sample(146, 15_300)) == []
    late = one(world.feed(sample(161, 15_400)), SetStatus)
    assert not late.urgent
    assert late.status["currentMetrics"][0]["external"]["currentValue"] == "7700m"
    assert world.feed(sample(230, 15_400)) == []  # nothing has changed


def test_the_transition_times_stand_still_while_nothing_changes() -> None:
    world = World()
    world.start(replicas=2)
    world.feed(sample(101, 15_000))
    late = one(world.feed(sample(200, 15_400)), SetStatus)
    assert condition(late, "ScalingActive")["lastTransitionTime"] == "1970-01-01T00:01:41Z"


def test_the_status_of_another_controller_is_taken_over() -> None:
    world = World()
    status = {
        "lastScaleTime": "1970-01-01T00:01:30Z",
        "scalingEventsCount": 7,
        "conditions": [
            {"type": "AboveHighWatermark", "status": "True", "lastTransitionTime": "1970-01-01T00:01:00Z"}
        ],
    }
    members = spec(upscaleDelayAboveWatermarkSeconds=50)
    world.feed(wpa(100, spec=members, status=status), workload(100, 2), pod(100, "a"), pod(100, "b"))
    given = world.feed(sample(101, 40_000))
    assert holds(given) == ["UpscaleDelay"]  # true since 60 and so until 110, but the window lasts until 150
    assert one(given, SetTimer).due == 150
    order = one(world.fire(), ScaleWorkload)
    assert one(world.apply(order, 150.5), SetStatus).status["scalingEventsCount"] == 8


def test_a_refused_scale_is_said_and_tried_again() -> None:
    world = World()
    world.start(replicas=2)
    order = one(world.feed(sample(101, 40_000)), ScaleWorkload)
    given = world.feed(Rejected(at=102, decision=order.id, reason="Conflict", message="it was changed"))
    assert reasons(given) == ["FailedScale"]
    status = one(given, SetStatus)
    assert condition(status, "AbleToScale")["message"].endswith(
        "unable to update the target scale: it was changed"
    )
    assert "lastScaleTime" not in status.status
    assert status.status["currentReplicas"] == 2  # as it is by now, not as it was when it was written last
    again = one(world.feed(sample(116, 40_000)), ScaleWorkload)
    assert world.feed(Failed(at=117, decision=again.id, reason="Unavailable", message="no answer"))


def test_a_status_that_could_not_be_written_is_written_again() -> None:
    world = World()
    world.start(replicas=2)
    first = one(world.feed(sample(101, 15_000)), SetStatus)
    world.feed(Failed(at=102, decision=first.id, reason="Unavailable"))
    assert world.feed(sample(116, 15_000)) == []
    assert one(world.feed(sample(161, 15_000)), SetStatus).status["conditions"]


def test_a_dry_run_orders_nothing_real_and_runs_its_windows() -> None:
    world = World()
    world.start(replicas=2, dryRun=True)
    given = world.feed(sample(101, 40_000))
    assert one(given, ScaleWorkload).dry_run
    status = one(given, SetStatus)
    assert status.status["desiredReplicas"] == 3
    assert condition(status, "DryRun")["status"] == "True"
    assert reasons(given) == []
    assert of(world.feed(sample(116, 40_000)), ScaleWorkload) == []
    assert one(world.feed(sample(161, 40_000)), ScaleWorkload).from_replicas == 2


def test_a_manual_scale_outside_the_bounds_is_brought_back_at_once() -> None:
    world = World()
    world.start(replicas=2)
    world.apply(one(world.feed(sample(101, 40_000)), ScaleWorkload), 102)
    order = one(world.feed(workload(110, 40)), ScaleWorkload)
    assert order.replicas == 10
    assert [step.rule for step in order.because][-2:] == ["AboveMaximum", "ScaleDecided"]


def test_a_manual_scale_inside_the_bounds_is_the_new_base() -> None:
    world = World()
    world.start(replicas=2)
    world.feed(sample(101, 15_000))
    assert of(world.feed(workload(110, 6)), ScaleWorkload) == []
    assert one(world.feed(sample(116, 90_000)), ScaleWorkload).from_replicas == 6


def test_a_target_that_vanishes_is_said_and_found_again() -> None:
    world = World()
    world.start(replicas=2)
    world.feed(sample(101, 15_000))
    gone = WorkloadGone(at=110, namespace=NS, name="web", api_version="apps/v1", kind="Deployment")
    given = world.feed(gone)
    assert holds(given) == ["TargetNotFound"]
    assert reasons(given) == ["FailedProcessWPA"]
    assert condition(one(given, SetStatus), "AbleToScale")["reason"] == "FailedProcessWPA"
    given = world.feed(workload(120, 2, uid="another"))
    assert holds(given) == ["WithinWatermarks"]
    assert condition(one(given, SetStatus), "AbleToScale")["status"] == "True"
    # Lost once more, it is said once more.
    assert reasons(world.feed(msgspec.structs.replace(gone, at=130.0))) == ["FailedProcessWPA"]


def test_the_older_of_two_objects_acts_and_the_other_says_so() -> None:
    world = World()
    world.start(replicas=2)
    given = world.feed(wpa(101, name="another", created_at=2.0), sample(102, 40_000))
    order = one(given, ScaleWorkload)
    assert order.owner.endswith("/wpa")
    status = next(s for s in of(given, SetStatus) if s.target.name == "another")
    taken = condition(status, "AbleToScale")
    assert (taken["status"], taken["reason"]) == ("False", "TargetTaken")
    assert "shop/wpa" in taken["message"]
    world.feed(Applied(at=103, decision=order.id), workload(103, 3))
    given = world.feed(WatermarkPodAutoscalerGone(at=104, namespace=NS, name="wpa", uid="wpa-uid"))
    assert one(given, ScaleWorkload).owner.endswith("/another")


def test_of_two_objects_of_one_age_the_first_by_name_acts() -> None:
    world = World()
    world.start(replicas=2)
    order = one(world.feed(wpa(101, name="aaa"), sample(102, 40_000)), ScaleWorkload)
    assert order.owner.endswith("/aaa")


def test_a_failing_metric_is_said_once_and_again_after_it_had_recovered() -> None:
    world = World()
    world.start(replicas=2)
    failed = {"error": "the server is unable", "error_class": "unavailable"}
    given = world.feed(sample(101, **failed))
    assert reasons(given) == ["FailedGetExternalMetric", "FailedComputeMetricsReplicas"]
    assert holds(given) == ["MetricUnavailable"]
    assert condition(one(given, SetStatus), "ScalingActive")["reason"] == "FailedGetExternalMetric"
    assert world.feed(sample(116, **failed)) == []
    assert holds(world.feed(sample(131, 15_000))) == ["WithinWatermarks"]
    assert len(reasons(world.feed(sample(146, **failed)))) == 2


def test_a_stale_value_scales_nothing_down_and_says_so() -> None:
    world = World(stale_after_s=120)
    world.start(replicas=4)
    given = world.feed(sample(500, 1_000, sampled_at=300.0))
    assert of(given, ScaleWorkload) == []
    assert holds(given) == ["StaleMetric"]
    assert condition(one(given, SetStatus), "MetricsFresh")["status"] == "False"
    given = world.feed(sample(515, 1_000, sampled_at=510.0))
    assert one(given, ScaleWorkload).replicas == 3
    assert condition(world_status(world), "MetricsFresh")["status"] == "True"


def world_status(world: World) -> SetStatus:
    """The status that the next write would carry."""
    order = world.object().ordered
    if order is None:
        raise AssertionError("nothing is ordered")
    return one(world.feed(Applied(at=world.fold.at, decision=order.decision)), SetStatus)


def test_pods_that_become_ready_end_a_wait_at_once() -> None:
    world = World()
    world.feed(wpa(100), workload(100, 2), pod(100, "a", ready=False), sample(101, 40_000))
    assert world.object().hold == "PodsNotReady"
    assert one(world.feed(pod(103, "a")), ScaleWorkload).replicas == 3


def test_readiness_that_changes_in_between_waits_for_the_next_value() -> None:
    world = World()
    world.start(replicas=2, algorithm="absolute")
    world.feed(sample(101, 9_000))
    assert world.feed(pod(103, "web-77-0", ready=False), PodGone(at=104, namespace=NS, name="web-77-1")) == []


def test_an_invalid_spec_is_said_and_a_valid_one_is_taken_up() -> None:
    world = World()
    world.feed(workload(100, 2), pod(100, "a"), pod(100, "b"), sample(100, 40_000))
    given = world.feed(wpa(101, spec=spec(minReplicas=20)))
    assert reasons(given) == ["FailedSpecCheck"]
    assert condition(one(given, SetStatus), "AbleToScale")["message"].startswith(
        "Invalid WPA specification: "
    )
    assert one(world.feed(wpa(102, generation=2)), ScaleWorkload).replicas == 3


def test_a_malformed_spec_names_the_member() -> None:
    world = World()
    given = world.feed(wpa(101, spec=spec(maxReplicas="ten")))
    assert "spec.maxReplicas" in one(given, RecordObjectEvent).message


def test_lifecycle_control_blocks_until_the_monitor_is_ok() -> None:
    world = World()
    annotations = {"wpa.datadoghq.com/lifecycle-control.enabled": "true"}
    world.feed(wpa(100, annotations=annotations), workload(100, 2), pod(100, "a"), pod(100, "b"))
    given = world.feed(sample(101, 40_000))
    assert of(given, ScaleWorkload) == []
    alert = DatadogMonitorObserved(at=102, namespace=NS, name="wpa", state="Alert")
    blocked = condition(one(world.feed(alert), SetStatus), "ScalingBlocked")
    assert (blocked["status"], blocked["reason"]) == ("True", "DatadogMonitorNotOK")
    fine = DatadogMonitorObserved(at=103, namespace=NS, name="wpa", state="OK")
    assert one(world.feed(fine), ScaleWorkload).replicas == 3


def test_lifecycle_control_that_is_switched_off_leaves_no_condition() -> None:
    world = World()
    annotations = {"wpa.datadoghq.com/lifecycle-control.enabled": "true"}
    world.feed(wpa(100, annotations=annotations), workload(100, 2), pod(100, "a"), pod(100, "b"))
    world.feed(sample(101, 15_000))
    status = one(world.feed(wpa(102)), SetStatus)
    assert "ScalingBlocked" not in [entry["type"] for entry in status.status["conditions"]]


def test_a_recommendation_decides() -> None:
    world = World()
    recommender = {"url": "http://r", "targetType": "cpu"}
    members = spec(recommender=recommender)
    del members["metrics"]
    world.feed(wpa(100, spec=members), workload(100, 2), pod(100, "a"), pod(100, "b"))
    answer = RecommendationReceived(at=101, namespace=NS, name="wpa", target_replicas=6, details="noon")
    order = one(world.feed(answer), ScaleWorkload)
    assert order.replicas == 3
    assert order.because[0].values["details"] == "noon"


def test_a_recommender_that_fails_is_said_as_the_reference_says_it() -> None:
    world = World()
    members = spec(recommender={"url": "http://r", "targetType": "cpu"})
    del members["metrics"]
    world.feed(wpa(100, spec=members), workload(100, 2), pod(100, "a"), pod(100, "b"))
    given = world.feed(
        RecommendationReceived(at=101, namespace=NS, name="wpa", error="no answer within 10 s")
    )
    assert reasons(given) == ["FailedGetResourceMetric", "FailedComputeMetricsReplicas"]
    assert condition(one(given, SetStatus), "ScalingActive")["reason"] == "FailedGetResourceMetric"


def test_an_object_being_deleted_is_let_go_at_once() -> None:
    world = World()
    world.start(replicas=2, minReplicas=5)
    finalizer = "finalizer.watermarkpodautoscaler.datadoghq.com"
    given = world.feed(wpa(101, deleting_at=101.0, finalizers=(finalizer, "other")))
    assert one(given, PatchObject).patch == {"metadata": {"finalizers": ["other"]}}
    assert of(world.feed(sample(102, 40_000)), ScaleWorkload) == []


def test_an_object_that_is_gone_takes_its_timer_along() -> None:
    world = World()
    world.start(replicas=2, upscaleDelayAboveWatermarkSeconds=30)
    world.feed(sample(101, 40_000))
    given = world.feed(WatermarkPodAutoscalerGone(at=102, namespace=NS, name="wpa", uid="wpa-uid"))
    assert given == [msgspec.structs.replace(one(given, CancelTimer), key=f"wpa/{NS}/wpa")]
    assert world.feed(sample(116, 40_000)) == []


def test_what_is_said_again_decides_nothing() -> None:
    world = World()
    world.start(replicas=2)
    assert world.feed(sample(101, 40_000, refresh=True)) == []
    assert world.object().kept.conditions == []


def test_strictly_the_first_pass_writes_the_scale_and_the_defaults() -> None:
    world = World(strict=True)
    world.start(replicas=2)
    given = world.feed(sample(101, 15_000))
    assert one(given, ScaleWorkload).replicas == 2
    assert one(world.feed(wpa(102, name="other")), PatchObject).patch["spec"]["tolerance"] == "100m"


@pytest.mark.parametrize(("strict", "name"), [(False, "p%99d of 100%%"), (True, "p%!d(MISSING) of 100%")])
def test_a_percent_sign_in_a_scales_reason_is_garbled_strictly(strict: bool, name: str) -> None:  # D17
    world = World(strict=strict)
    world.start(replicas=2, metrics=[external("p%99d of 100%%")])
    order = one(world.feed(sample(101, 40_000, name="p%2599d of 100%25%25")), ScaleWorkload)
    said = one(world.apply(order, 101.5), RecordObjectEvent)
    assert said.message == f"New size: 3; reason: {name}{{map[app:web]}} above target"


@pytest.mark.parametrize(("strict", "name"), [(False, "web-%s"), (True, "web-%!s(MISSING)")])
def test_so_is_one_in_what_says_that_nothing_is_scaled(strict: bool, name: str) -> None:  # D17
    rules = compiled(
        spec(scaleTargetRef={"kind": "Deployment", "name": "web-%s", "apiVersion": "apps/v1"}),
        namespace=NS,
        name="wpa",
    )
    said = messages.not_scaling(rules, NS, 2, None, strict=strict)
    assert said.text == f"Decided not to scale Deployment/{NS}/{name} to 2 (last scale time was <nil> )"


def test_the_state_of_a_busy_slot_survives_its_encoding() -> None:
    world = World(stale_after_s=60)
    world.start(replicas=2, upscaleDelayAboveWatermarkSeconds=30)
    world.feed(wpa(101, name="other"), sample(101, 40_000), sample(131, 40_000))
    state = world.fold.state
    encoder = msgspec.json.Encoder(order="deterministic")
    again = msgspec.json.decode(encoder.encode(state), type=State)
    assert again == state
    events = (sample(146, 60_000), workload(150, 9), pod(151, "x"), sample(161, 90_000))
    expected = world.feed(*events)
    other = World()
    other.fold.state, other.fold.timers = again, dict(world.fold.timers)
    other.seq = world.seq - len(events)
    assert [type(d) for d in other.feed(*events)] == [type(d) for d in expected]


def test_a_spec_that_is_refused_asks_for_nothing_and_is_not_judged_anew_by_being_said_again() -> None:
    world = World()
    world.start(replicas=2)
    refused = spec(maxReplicas=0)
    [hold] = of(world.feed(wpa(110, spec=refused, generation=2)), HoldReplicas)
    assert hold.reason == "InvalidSpec"
    assert "minimum number of replicas" in str(hold.because[0].values["problem"])
    assert world.object().rules is None
    again = msgspec.structs.replace(wpa(120, spec=refused, generation=2), refresh=True)
    assert world.feed(again, sample(121, 90_000)) == []
    assert world.object().rules is None


def test_a_refused_spec_that_was_stored_taken_apart_is_known_as_well() -> None:
    world = World()
    world.start(replicas=2)
    refused = wpa(110, spec=spec(maxReplicas=0), generation=2)
    assert of(world.feed(refused), HoldReplicas)
    world.object().asked = refused.spec
    assert world.feed(msgspec.structs.replace(refused, at=120, generation=3), sample(121, 90_000)) == []
    assert world.object().rules is None


def test_a_spec_is_judged_once_and_let_go_when_something_is_recorded_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    judged: list[str] = []

    def counted(spec: Mapping[str, Any], *, namespace: str, name: str) -> str:
        judged.append(name)
        return verdict(spec, namespace=namespace, name=name)

    monkeypatch.setattr(passes, "verdict", counted)
    world = World()
    world.start(replicas=2)
    [index] = world.fold.state.indices.values()
    kept = [index.views["wpa"].verdict]
    assert of(world.feed(sample(300, 90_000)), ScaleWorkload)
    world.feed(workload(310, 2, selector="app=other"), sample(320, 1_000))
    assert judged == ["wpa"]
    kept.append(index.views["wpa"].verdict)
    assert [known is not None for known in kept] == [True, False]
    world.feed(wpa(330, spec=spec(maxReplicas=9), generation=2), sample(340, 90_000))
    assert judged == ["wpa", "wpa"]


def test_another_spec_that_is_refused_is_said_with_its_own_reason() -> None:
    world = World()
    world.start(replicas=2)
    problems = []
    for generation, refused in enumerate((spec(maxReplicas=0), spec(tolerance="7")), 2):
        [hold] = of(world.feed(wpa(110, spec=refused, generation=generation)), HoldReplicas)
        problems.append(str(hold.because[0].values["problem"]))
    assert ["minimum number" in problems[0], "tolerance should be" in problems[1]] == [True, True]


def test_a_spec_that_is_put_right_is_in_force_at_once() -> None:
    world = World()
    world.start(replicas=2)
    world.feed(wpa(110, spec=spec(maxReplicas=0), generation=2))
    world.feed(wpa(120, spec=spec(), generation=3))
    assert of(world.feed(sample(300, 90_000)), ScaleWorkload)
    assert world.object().asked is None


def test_who_asks_for_a_target_with_a_spec_that_is_refused_keeps_nobody_from_it() -> None:
    world = World()
    world.start(replicas=2)
    older = wpa(110, "older", spec=spec(maxReplicas=0), created_at=0.5)
    assert [h.reason for h in of(world.feed(older), HoldReplicas) if h.target.name == "wpa"] == []
    assert of(world.feed(sample(300, 90_000)), ScaleWorkload)


def test_a_spec_that_is_known_only_by_being_said_again_is_judged_before_it_is_acted_upon() -> None:
    world = World()
    refused = wpa(100, spec=spec(maxReplicas=0))
    world.feed(msgspec.structs.replace(refused, refresh=True), workload(100, 2))
    decided = world.feed(*(pod(100, f"web-77-{i}") for i in range(2)), sample(101, 90_000))
    assert of(decided, ScaleWorkload) == []
    assert world.object().rules is None

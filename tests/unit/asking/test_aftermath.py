"""What a decision to scale led to: from the sample to the pods on their nodes, and never beyond the moment that is asked about."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Any, cast

import msgspec

from tidewright.asking import aftermath
from tidewright.asking.lookups import Found
from tidewright.asking.source import Source, matches
from tidewright.events import facts as f
from tidewright.events import provisioning as p
from tidewright.events import registry
from tidewright.events.base import Event, ObjectRef
from tidewright.events.decisions import ScaleWorkload
from tidewright.events.outcomes import Applied
from tidewright.host.fold.explainer import Reference
from tidewright.log.reader import WINDOW, Record
from tidewright.log.subjects import ALL, Subjects, slot_of

WEB = Reference("deployment", "shop", "web")


class Told:
    """A log in memory, as far as this question asks."""

    slots = 4

    def __init__(self) -> None:
        self.subjects = Subjects("tw-test")
        self.kept: list[Record] = []

    def say(self, subject: str, event: Event) -> Found:
        seq = len(self.kept) + 1
        record = Record(subject=subject, seq=seq, headers={}, body=registry.encode(event))
        self.kept.append(record)
        return Found(record, event)

    def fact(self, kind: str, namespace: str, name: str, event: Event) -> Found:
        slot = slot_of(namespace, self.slots) if namespace else ALL
        return self.say(self.subjects.fact(slot, kind, namespace, name), event)

    def decide(self, service: str, kind: str, namespace: str, name: str, event: Event) -> Found:
        slot = ALL if service == "provisioning" else slot_of(namespace, self.slots)
        return self.say(self.subjects.decision(slot, service, kind, namespace, name), event)

    async def records(
        self, pattern: str = "", after: int = 0, ahead: int = WINDOW
    ) -> AsyncGenerator[Record, None]:
        for record in self.kept:
            if record.seq > after and matches(pattern, record.subject):
                yield record

    async def last(self, patterns: Sequence[str], up_to: int = 0) -> list[Record]:
        found = {}
        for record in self.kept:
            if any(matches(pattern, record.subject) for pattern in patterns) and (
                not up_to or record.seq <= up_to
            ):
                found[record.subject] = record
        return list(found.values())

    async def bounds(self) -> tuple[int, int]:
        return 1, len(self.kept)

    async def at(self, seq: int) -> Record | None:
        return self.kept[seq - 1]


def group(*machines: str) -> p.NodeGroupObserved:
    return p.NodeGroupObserved(
        at=5.0, name="g", max_size=20, instances=tuple(p.Instance(id=f"sim://{name}") for name in machines)
    )


def node(name: str, *, ready: bool) -> f.NodeObserved:
    return f.NodeObserved(at=6.0, name=name, provider_id=f"sim://{name}", ready=ready, allocatable={})


def pod(name: str, on: str, deployment: str = "web") -> f.PodObserved:
    owner = f.Owner(
        api_version="apps/v1",
        kind="ReplicaSet",
        name=f"{deployment}-5f",
        uid=f"uid-{deployment}-5f",
        controller=True,
    )
    return f.PodObserved(at=7.0, namespace="shop", name=name, node=on, shape="s", owners=(owner,))


def told(*, decided: bool = True) -> tuple[Told, list[Found]]:
    """A log, and the decisions on it."""
    log, leading = Told(), []
    log.fact("nodegroup", "", "g", group("old"))
    log.fact("node", "", "old", node("old", ready=True))
    sample = log.fact("metric", "shop", "q", f.MetricSampled(at=1.0, namespace="shop", name="q"))
    scale = f"autoscaler.{slot_of('shop', 4)}.{sample.seq}.0"
    if decided:
        target = ObjectRef(api_version="apps/v1", kind="Deployment", namespace="shop", name="web")
        leading.append(
            log.decide(
                "autoscaler", "deployment", "shop", "web",
                ScaleWorkload(at=1.0, id=scale, target=target, replicas=6, from_replicas=2),
            )
        )  # fmt: skip
    cause = len(log.kept)
    share = p.ExpectedPods(workload="Deployment/shop/web", uid="u", pods=2, decision=scale if decided else "")
    other = p.ExpectedPods(workload="Deployment/shop/other", uid="v", pods=9)
    plan = p.PlanScaleUp(at=2.0, id=f"provisioning.all.{cause}.0", plan="p1", expected=(share, other))
    leading.append(log.decide("provisioning", "none", "", "", plan))
    order = p.IncreaseNodeGroup(
        at=2.0, id=f"provisioning.all.{cause}.1", plan="p1", size=3, from_size=1,
        target=ObjectRef(api_version="cloud/v1", kind="NodeGroup", name="g"),
    )  # fmt: skip
    log.decide("provisioning", "nodegroup", "", "g", order)
    log.say(log.subjects.outcome(ALL, "nodegroup", "", "g"), Applied(at=3.0, decision=order.id))
    log.fact("nodegroup", "", "g", group("old", "n1", "n2"))
    for name in ("n1", "n2"):
        log.fact("node", "", name, node(name, ready=False))
    for name in ("n2", "n1", "n2"):
        log.fact("node", "", name, node(name, ready=True))
    log.fact("pod", "shop", "stays", pod("stays", "old"))
    log.fact("pod", "shop", "foreign", pod("foreign", "n1", "other"))
    for name, on in (("a", ""), ("b", "n1"), ("a", "n2"), ("a", "n2")):
        log.fact("pod", "shop", name, pod(name, on))
    return log, leading


def steps(
    log: Told, leading: Sequence[Found], asked: Reference = WEB, up_to: int = 0
) -> list[tuple[str, Any]]:
    found = asyncio.run(aftermath.chain(cast("Source", log), asked, leading, up_to))
    return [
        (step.what, getattr(step.found.event, "name", "") or type(step.found.event).__name__)
        for step in found
    ]


REST = [
    ("pods were expected by it", "PlanScaleUp"),
    ("nodes were ordered", "IncreaseNodeGroup"),
    ("the order was answered", "Applied"),
    ("the first of 2 nodes was ready", "n2"),
    ("the last of 2 nodes was ready", "n1"),
    ("the first of 2 pods had its place", "b"),
    ("the last of 2 pods had its place", "a"),
]
DECIDED = [("it began with", "q"), ("it was decided", "ScaleWorkload")]


def test_a_decision_is_followed_to_the_pods_on_their_nodes() -> None:
    log, leading = told()
    assert steps(log, leading[:1]) == [*DECIDED, *REST]


def test_a_workload_is_followed_from_the_plan_and_back_to_the_sample() -> None:
    log, leading = told()
    assert steps(log, leading) == [*DECIDED, *REST]


def test_without_a_decision_it_begins_with_the_plan() -> None:
    log, leading = told(decided=False)
    assert steps(log, leading) == REST


def test_nothing_is_told_that_came_after_the_moment() -> None:
    log, leading = told()
    ready = next(
        r.seq
        for r in log.kept
        if isinstance(e := registry.read(r.body), f.NodeObserved) and e.name == "n2" and e.ready
    )
    assert steps(log, leading, up_to=ready) == [*DECIDED, *REST[:3], ("the node was ready", "n2")]
    assert steps(log, leading[:1], up_to=leading[0].seq) == []


def test_a_decision_that_led_to_no_plan_has_no_steps() -> None:
    _, leading = told(decided=False)
    alone = msgspec.structs.replace(cast("p.PlanScaleUp", leading[0].event), expected=())
    assert not aftermath.leads_on(Found(leading[0].record, alone))
    down = ScaleWorkload(
        at=1.0,
        replicas=2,
        from_replicas=6,
        target=ObjectRef(api_version="apps/v1", kind="Deployment", name="web"),
    )
    assert not aftermath.leads_on(Found(leading[0].record, down))
    assert not aftermath.leads_on(
        Found(leading[0].record, msgspec.structs.replace(down, replicas=9, shadow=True))
    )


def test_of_a_pod_it_is_told_until_it_runs_on_the_node_that_came_for_it() -> None:
    log, leading = told()
    running = msgspec.structs.replace(pod("a", "n2"), ready=True)
    log.fact("pod", "shop", "a", running)
    asked = Reference("pod", "shop", "a")
    assert steps(log, leading, asked) == [
        *DECIDED,
        *REST[:3],
        ("its node was ready", "n2"),
        ("the pod was there", "a"),
        ("the pod had its place", "a"),
        ("the pod was ready", "a"),
    ]
    came = next(
        r.seq
        for r in log.kept
        if isinstance(e := registry.read(r.body), f.PodObserved) and (e.name, e.node) == ("a", "")
    )
    assert steps(log, leading, asked, up_to=came)[5:] == [("the pod was there", "a")]


def test_of_a_pod_on_a_node_that_was_there_before_nothing_is_told_of_the_node() -> None:
    log, leading = told()
    asked = Reference("pod", "shop", "stays")
    assert steps(log, leading, asked)[5:] == [
        ("the pod was there", "stays"),
        ("the pod had its place", "stays"),
    ]


def test_of_a_pod_of_another_workload_that_the_plan_was_for_the_sample_is_not_told() -> None:
    log, leading = told()
    assert steps(log, leading[1:], Reference("pod", "shop", "foreign"))[:1] == REST[:1]


def test_of_a_group_it_is_told_for_whom_it_grew() -> None:
    log, leading = told()
    others = [("the pod had its place", "foreign")]
    assert steps(log, leading[1:], Reference("nodegroup", "", "g")) == [*DECIDED, *REST, *others]
    assert steps(log, leading[1:], Reference("nodegroup", "", "other")) == [*DECIDED, *REST[:1]]


def test_of_nodes_that_came_for_an_earlier_order_nothing_is_told() -> None:
    log, leading = told()
    order = next(r for r in log.kept if isinstance(registry.read(r.body), p.IncreaseNodeGroup))
    earlier = msgspec.structs.replace(
        cast("p.IncreaseNodeGroup", registry.read(order.body)), from_size=2, size=3
    )
    log.kept[order.seq - 1] = msgspec.structs.replace(order, body=registry.encode(earlier))
    assert steps(log, leading[:1])[5:] == [("the node was ready", "n2"), ("the pod had its place", "a")]

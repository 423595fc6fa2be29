"""Events of spread in one line each."""

from __future__ import annotations

from typing import Any

import pytest

from tidewright.events.base import Event, ObjectRef
from tidewright.events.decisions import PatchObject
from tidewright.events.spread import (
    ChangeLedger,
    EntriesAppended,
    Foreseen,
    ForeseeScaleIn,
    KindRefused,
    LedgerChange,
    LedgerRules,
    PassedOver,
    PodLeaving,
    PodPlaced,
    RecordSpread,
    SubsetRule,
    TargetReplicasObserved,
)
from tidewright.events.timers import TimerFired
from tidewright.spread.tell.lines import line

WS = ObjectRef(api_version="apps.kruise.io/v1alpha1", kind="WorkloadSpread", namespace="shop", name="web")
POD = ObjectRef(api_version="v1", kind="Pod", namespace="shop", name="web-1")
ENTRY: dict[str, Any] = {"at": 0.0, "namespace": "shop", "name": "web"}


def placed(pod: str, subset: str, **more: Any) -> PodPlaced:
    return PodPlaced(key=pod, pod=pod, subset=subset, **ENTRY, **more)


def leaving(pod: str, **more: Any) -> PodLeaving:
    return PodLeaving(key=pod, pod=pod, subset="a", **ENTRY, **more)


def annotated(**annotations: str | None) -> PatchObject:
    names = {
        "matched": "apps.kruise.io/matched-workloadspread",
        "cost": "controller.kubernetes.io/pod-deletion-cost",
    }
    patch = {"metadata": {"annotations": {names[key]: value for key, value in annotations.items()}}}
    return PatchObject(at=0.0, target=POD, patch=patch)


RULES = LedgerRules(subsets=(SubsetRule("a", 10, closed=True), SubsetRule("b")))
CHANGES = tuple(LedgerChange("Seen", f"k{n}", f"web-{n}", "v", "a", "Seen") for n in range(5))


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (
            placed("web-1", "b", passed=(PassedOver("a", "Full", 10, 10),)),
            "web-1 placed in b, after a was full (10 of 10)",
        ),
        (placed("web-1", "", unfenced=True), "web-1 in no subset (recorded afterwards)"),
        (leaving("web-1"), "delete of web-1 from a admitted"),
        (leaving("web-1", evicted=True), "eviction of web-1 from a admitted"),
        (
            EntriesAppended(
                entries=(placed("x", "a"), placed("y", "a"), placed("z", ""), leaving("w")), **ENTRY
            ),
            "2 placed in a, 1 placed in no subset, 1 admitted to leave",
        ),
        (ChangeLedger(at=0.0, target=WS, rules=RULES), "limits a 10 (closed), b unlimited"),
        (ChangeLedger(at=0.0, target=WS, rules=LedgerRules(gone=True)), "places nobody any more"),
        (
            ChangeLedger(
                at=0.0,
                target=WS,
                changes=(
                    *CHANGES,
                    LedgerChange("Held", "w", "w", "v", "b", "Found"),
                    LedgerChange("Released", "k9", "", "v", "b", "NeverSeen"),
                    LedgerChange("Gone", "g", "g", "v", "b", "Deleted"),
                    LedgerChange("Uncounted", "u", "u", "v", "b", "NotCounted"),
                ),
            ),
            (
                "web-0, web-1, web-2 and 2 more seen in a; w in b counted (Found); place of k9 in b free (NeverSeen); "
                "g gone from b; u held no place in b"
            ),
        ),
        (ChangeLedger(at=0.0, target=WS, counts={}), "counts said again"),
        (
            ForeseeScaleIn(at=0.0, target=WS, replicas=3, pods=(Foreseen("web-1"),), count=2),
            "at 3 replicas 2 pods leave: web-1 and 1 more",
        ),
        (RecordSpread(at=0.0, target=WS, reason="Invalid", message="why"), "Invalid: why"),
        (RecordSpread(at=0.0, target=WS, reason="Valid"), "Valid"),
        (TargetReplicasObserved(at=0.0, name="web", replicas=4), "4 at the target's paths"),
        (TargetReplicasObserved(at=0.0, name="web", error="no such key"), "no such key"),
        (KindRefused(at=0.0, name="Game.g", group="g", kind="Game", error="forbidden"), "forbidden"),
        (KindRefused(at=0.0, name="Game.g", group="g", kind="Game"), "can be read"),
        (annotated(cost="100"), "set deletion cost 100"),
        (annotated(matched='{"name":"web","subset":"a"}'), "adopt into a"),
        (annotated(matched=None, cost=None), "take annotation and cost off"),
        (PatchObject(at=0.0, target=POD, patch={}), ""),
        (TimerFired(at=0.0, key="spread/x"), ""),
    ],
)
def test_what_an_event_says(event: Event, expected: str) -> None:
    assert line(event) == expected

"""Our own services: how many replicas each has, by the rule that sizes ShardSets (section 3.8).

    services:                       # of the configuration's part `shardmanager`
    - name: autoscaler              # on the bus
      deployment: tidewright/autoscaler
      min: 1                        # defaults
      max: 8
      capacity: 10000               # facts per second that one replica can carry
      target: 0.7                   # the share of it that is wanted

Their slots stay with the host: who joins or leaves by this takes and gives slots by rendezvous hashing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import copy
from typing import Any

import msgspec

from tidewright.events.base import Because, Decision, Event, JsonObject, ObjectRef
from tidewright.events.config import ConfigSet
from tidewright.events.decisions import ScaleWorkload
from tidewright.events.shards import ReportShards, ServiceLoadObserved, SizeShards
from tidewright.shardmanager.fold.touched import Touched
from tidewright.shardmanager.propeller.fleet_config import NAME
from tidewright.shardmanager.shardset.assignment.autosize import (
    Demand,
    Follower,
    Limits,
    exact,
    known_loads,
    recommend,
)
from tidewright.shardmanager.state import OurService, State

CAPACITY = 10_000.0
"""Facts per second that one replica folds with ease; a quarter of what was measured on a small machine."""
TARGET = 0.7
MAXIMUM = 8
WHOLE = frozenset({"provisioning"})
"""Services that decide over a whole cluster: one replica is active, the others stand by."""
KEEP_S = 60.0
"""How often an unchanged recommendation is remembered, so that the quiet window before shrinking can be seen."""
KEYS = frozenset({"name", "deployment", "min", "max", "capacity", "target"})
"""Of an entry."""


class Sizing(msgspec.Struct, frozen=True, kw_only=True):
    """What an entry says.

    Attributes:
        least, most: bounds of the number of replicas.
        capacity: facts per second that one replica can carry; target: the share of it that is wanted.
        refused: what is wrong with it, empty when nothing is; the others mean nothing then.
    """

    least: int = 1
    most: int = 1
    capacity: float = 1.0
    target: float = 1.0
    refused: str = ""


def read(entry: Any, slots: int = 32) -> Sizing:
    """What an entry of the configuration says; `refused` names what is wrong with it."""
    if not isinstance(entry, Mapping):
        return Sizing(refused=f"services: {entry!r} is no mapping")
    name, where = _named(entry)
    wrong = ""
    low, high = entry.get("min", 1), entry.get("max", MAXIMUM)
    capacity, target = entry.get("capacity", CAPACITY), entry.get("target", TARGET)
    if unknown := sorted(set(entry) - KEYS):
        wrong = f"unknown key {unknown[0]!r}, expected {', '.join(sorted(KEYS))}"
    elif not name:
        wrong = "has no name: expected that of a service on the bus, such as autoscaler"
    elif name in WHOLE:
        wrong = "decides over the whole cluster with one active replica: more of them carry no more load"
    elif where.count("/") != 1 or "" in where.split("/"):
        wrong = f"deployment is {where!r}: expected NAMESPACE/NAME"
    elif (
        not all(isinstance(n, int) and not isinstance(n, bool) for n in (low, high))
        or not 1 <= low <= high <= slots
    ):
        wrong = (
            f"min is {low!r} and max {high!r}: expected whole numbers from 1 to {slots}, the number of slots"
        )
    elif not isinstance(capacity, int | float) or capacity <= 0:
        wrong = f"capacity is {capacity!r}: expected facts per second above 0"
    elif not isinstance(target, int | float) or not 0 < target <= 1:
        wrong = f"target is {target!r}: expected a share above 0 and at most 1"
    if wrong:
        return Sizing(refused=f"services: {name or entry!r} {wrong}")
    return Sizing(least=low, most=high, capacity=float(capacity), target=float(target))


def _named(entry: Any) -> tuple[str, str]:
    """The name of an entry's service, and `namespace/name` of its Deployment."""
    if not isinstance(entry, Mapping):
        return "", ""
    return str(entry.get("name") or ""), str(entry.get("deployment") or "")


def fold(state: State, event: Event, touched: Touched) -> None:
    """Take in one event."""
    match event:
        case ConfigSet(name=name) if name == NAME:
            _configure(state, event.data)
        case ServiceLoadObserved():
            key = f"{event.namespace}/{event.name}"
            seen = state.services.get(key)
            if seen is not None and seen.name == event.service:
                seen.loads, seen.replicas = event.loads, event.replicas
                touched.load = event
        case SizeShards() if event.target.kind == "Deployment":
            sized = state.services.get(f"{event.target.namespace}/{event.target.name}")
            if sized is not None:
                sized.follower.observe(event.at, event.recommended)
                sized.follower.changed(event.at, event.from_shards, event.shards)
        case ReportShards() if event.target.kind == "Deployment":
            service = state.services.get(f"{event.target.namespace}/{event.target.name}")
            if service is not None:
                service.reported = event.message


def _configure(state: State, data: JsonObject) -> None:
    entries = data.get("services")
    read_now: dict[str, OurService] = {}
    for entry in entries if isinstance(entries, list) else ():
        name, where = _named(entry)
        fresh = OurService(name=name, entry=entry)
        old = state.services.get(where)
        if old is not None and old.name == fresh.name:
            fresh.follower, fresh.reported = old.follower, old.reported
        read_now[where] = fresh
    state.services = read_now


def decisions(state: State, touched: Touched) -> Iterator[Decision]:
    """A number of replicas for the service whose load was just seen, when it is another than it has."""
    load = touched.load
    if load is None:
        return
    where = f"{load.namespace}/{load.name}"
    service = state.services[where]
    target = ObjectRef(api_version="apps/v1", kind="Deployment", namespace=load.namespace, name=load.name)
    sizing = read(service.entry)
    if sizing.refused != service.reported:
        yield ReportShards(at=state.now, target=target, reason="InvalidService", message=sizing.refused)
    if not sizing.refused and service.loads:
        yield from _size(state, where, service, sizing, target=target)


def _size(
    state: State, where: str, service: OurService, sizing: Sizing, *, target: ObjectRef
) -> Iterator[Decision]:
    current = max(1, service.replicas)
    demand = Demand(
        loads=known_loads(service.loads[:current]),
        missing=max(0, current - len(service.loads)),
        capacity=exact(sizing.capacity),
        utilisation=exact(sizing.target),
    )
    recommended = recommend(current, demand, Limits(minimum=sizing.least, maximum=sizing.most))
    follower: Follower = copy(service.follower)
    follower.observe(state.now, recommended)
    desired = follower.follow(state.now, current, recommended)
    because = (
        Because(
            rule="Demand",
            values={
                "service": service.name,
                "load": float(sum(demand.loads)),
                "missing": demand.missing,
                "capacity": sizing.capacity,
                "target": sizing.target,
            },
        ),
    )
    last = service.follower.samples[-1].desired if service.follower.samples else -1
    if desired == current and recommended == last and state.now < service.follower.samples[-1].at + KEEP_S:
        return
    yield SizeShards(
        at=state.now,
        target=target,
        shards=desired,
        from_shards=current,
        recommended=recommended,
        because=because,
    )
    if desired != service.replicas and f"scale {where}" not in state.in_flight:
        yield ScaleWorkload(
            at=state.now, target=target, replicas=desired, from_replicas=service.replicas,
            owner=f"service/{service.name}", because=because,
        )  # fmt: skip

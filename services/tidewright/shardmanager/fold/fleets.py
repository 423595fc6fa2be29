"""Fleets of the propeller manager: their configuration, what happened to their pods, their passes and locks."""

from __future__ import annotations

from copy import copy

from tidewright.events.base import Event, Outcome
from tidewright.events.config import ConfigSet
from tidewright.events.decisions import (
    CreateObject,
    DeleteObject,
    HoldLease,
    PatchObject,
    ScaleWorkload,
    SetTimer,
)
from tidewright.events.facts import PodGone, PodObserved
from tidewright.events.outcomes import Applied
from tidewright.events.provisioning import PodTemplateGone, PodTemplateObserved
from tidewright.events.shards import BeginPass, RecordPass
from tidewright.events.timers import TimerFired
from tidewright.shardmanager.fold.touched import Look, Touched
from tidewright.shardmanager.propeller.fleet import Fleet, KnownPod
from tidewright.shardmanager.propeller.fleet_config import NAME, FleetConfig, parsed, read_fleets
from tidewright.shardmanager.propeller.manager_lock import lock_for
from tidewright.shardmanager.propeller.pods import CONFIG_HASH, TEMPLATE_VERSION
from tidewright.shardmanager.state import LOCK_TIMER, SCAN_TIMER, Asked, State


def fold(state: State, event: Event, touched: Touched) -> None:  # a dispatcher by match
    """Take in one event."""
    match event:
        case ConfigSet(name=name) if name == NAME:
            _configure(state, event, touched)
        case PodTemplateObserved() | PodTemplateGone():
            for fleet in _of_namespace(state, event.namespace):
                if fleet.template_key == f"{event.namespace}/{event.name}":
                    if not fleet.local:
                        touched.look(fleet.key, Look.CONFIG)
                    fleet.local = True
                    _pass_due(fleet, touched)
        case PodObserved() | PodGone():
            _pod_changed(state, event, touched)
        case TimerFired(key=key):
            _timer_fired(state, key, touched)
        case HoldLease():
            for fleet in state.fleets.values():
                if fleet.lock is not None and fleet.lock.holder == event.holder:
                    fleet.lock.asked_at = event.at
        case SetTimer(key=key, due=due):
            _timer_set(state, key, due)
        case BeginPass():
            if (begun := state.fleets.get(f"{event.target.namespace}/{event.application}")) is not None:
                begun.begun(event)
        case RecordPass():
            _pass_recorded(state, event)


def asker_of(
    state: State, event: CreateObject | DeleteObject | PatchObject | ScaleWorkload | HoldLease
) -> Asked | None:
    """The fleet that asks for an effect; None when none does."""
    name = event.target.name
    if isinstance(event, HoldLease):
        for key, fleet in state.fleets.items():
            if fleet.lock is not None and fleet.lock.holder == event.holder:
                return Asked(fleet=key, verb="hold", name=name)
        return Asked(verb="hold", name=name)
    if event.target.kind != "Pod" or not isinstance(event, CreateObject | DeleteObject):
        return None
    for key, fleet in sorted(state.fleets.items()):
        if fleet.namespace != event.target.namespace or fleet.current is None:
            continue
        if isinstance(event, DeleteObject):
            if name in fleet.current.deletions:
                return Asked(fleet=key, verb="delete", name=name, uid=event.target.uid)
        elif name in (names := fleet.config.pod_names):
            metadata = event.manifest.get("metadata") or {}
            annotations = metadata.get("annotations") or {}
            return Asked(
                fleet=key,
                verb="create",
                name=name,
                index=names.index(name),
                labels=dict(metadata.get("labels") or {}),
                annotations={k: v for k, v in annotations.items() if k in (TEMPLATE_VERSION, CONFIG_HASH)},
            )
    return None


def answered(state: State, asked: Asked, outcome: Outcome, touched: Touched) -> None:
    """How an effect came out."""
    fleet = state.fleets.get(asked.fleet)
    if fleet is None:
        return
    if asked.verb == "hold":
        if fleet.lock is not None:
            fleet.lock.answered(outcome, state.now)
            touched.look(fleet.key, Look.LOCK_ANSWER)
        return
    refusal = "" if isinstance(outcome, Applied) else outcome.message or outcome.reason
    pods = state.pods.setdefault(fleet.namespace, {})
    if asked.verb == "create":
        if not refusal:
            uid = str(outcome.result.get("uid", "")) if isinstance(outcome, Applied) else ""
            pods.setdefault(
                asked.name,
                KnownPod(
                    name=asked.name,
                    uid=uid,
                    labels=asked.labels,
                    annotations=asked.annotations,
                    expected=True,
                ),
            )
        if fleet.current is not None:
            fleet.current.creation_answered(asked.index, refusal)
    elif (pod := pods.get(asked.name)) is None or asked.meant(pod):
        if pod is not None and not refusal:
            pod.deleting = True
        if fleet.current is not None:
            fleet.current.deletion_answered(asked.name, refusal)
    touched.look(fleet.key, Look.ANSWER)


def _pass_recorded(state: State, event: RecordPass) -> None:
    key = f"{event.target.namespace}/{event.application}"
    fleet = state.fleets.get(key)
    if fleet is None:
        return
    if event.refused and fleet.asked is None:
        fleet = state.fleets[key] = fleet.put_back()
    elif not event.refused and fleet.asked is not None:
        fleet.take(parsed(fleet.asked), event.at)
    fleet.was_recorded(event)


def _pass_due(fleet: Fleet, touched: Touched) -> None:
    if fleet.current is not None:
        fleet.current.again = True
    touched.look(fleet.key, Look.PASS)


def _pod_changed(state: State, event: PodObserved | PodGone, touched: Touched) -> None:
    if touched.pod is None:
        return
    before, after = touched.pod.before, touched.pod.after
    for fleet in _of_namespace(state, event.namespace):
        if fleet.has(before) or fleet.has(after):
            if fleet.has(after) or after is None:
                fleet.pod_changed(before, after, state.now)
            elif fleet.current is not None:
                fleet.current.pod_changed(before, after)
            touched.look(fleet.key, Look.POD)
        if event.name == fleet.manager_pod:
            _pass_due(fleet, touched)


def _timer_fired(state: State, key: str, touched: Touched) -> None:
    if key.startswith(SCAN_TIMER):
        fleet = state.fleets.get(key.removeprefix(SCAN_TIMER))
        if fleet is not None:
            fleet.scan_due = None
            _forget_unseen(state, fleet)
            touched.look(fleet.key, Look.SCAN)
            _pass_due(fleet, touched)
    elif key.startswith(LOCK_TIMER):
        fleet = state.fleets.get(key.removeprefix(LOCK_TIMER))
        if fleet is not None and fleet.lock is not None:
            fleet.lock.due = True
            touched.look(fleet.key, Look.LOCK_TIMER)


def _timer_set(state: State, key: str, due: float) -> None:
    if key.startswith(SCAN_TIMER):
        fleet = state.fleets.get(key.removeprefix(SCAN_TIMER))
        if fleet is not None:
            fleet.scan_set(due)
    elif key.startswith(LOCK_TIMER):
        fleet = state.fleets.get(key.removeprefix(LOCK_TIMER))
        if fleet is not None and fleet.lock is not None:
            fleet.lock.due = False


def _forget_unseen(state: State, fleet: Fleet) -> None:
    """A pod that was created an interval ago and never appeared is not there."""
    pods = state.pods.get(fleet.namespace, {})
    for name in [name for name, pod in pods.items() if pod.expected]:
        del pods[name]


def _configure(state: State, event: ConfigSet, touched: Touched) -> None:
    fleets: dict[str, Fleet] = {}
    for read in read_fleets(event.data):
        if read.key in fleets:
            fleets[read.key].doubled += 1
            continue
        fleet = fleets[read.key] = state.fleets.get(read.key) or _fresh(read, event.at)
        if fleet.key in state.fleets:
            _reconfigure(fleet, read, event.at, touched)
        else:
            touched.look(fleet.key, Look.CONFIG | Look.PASS)
        fleet.doubled = 0
        if not fleet.local and fleet.template_key in state.templates:
            fleet.local = True
            touched.look(fleet.key, Look.CONFIG | Look.PASS)
    touched.dropped = [fleet for key, fleet in sorted(state.fleets.items()) if key not in fleets]
    state.fleets = fleets


def _fresh(read: FleetConfig, at: float) -> Fleet:
    return Fleet(
        entry=read.entry,
        config=read.config,
        namespace=read.namespace,
        manager_pod=read.manager_pod,
        metrics_prefix=read.metrics_prefix,
        lock=lock_for(read.election, read.key, at),
    )


def _reconfigure(fleet: Fleet, read: FleetConfig, at: float, touched: Touched) -> None:
    fleet.resized_from = 0
    if read.entry == fleet.last_entry:
        return
    touched.look(fleet.key, Look.CONFIG)
    if fleet.local and fleet.asked is not None:
        fleet.asked, fleet.judged = read.entry, None
        return
    # Where nothing is decided about the fleet nothing runs that would have to stay as it was.
    fleet.former = None
    former = copy(fleet) if fleet.local else None
    if fleet.take(read, at):
        touched.look(fleet.key, Look.PASS)
    fleet.former = former


def _of_namespace(state: State, namespace: str) -> list[Fleet]:
    return [fleet for _key, fleet in sorted(state.fleets.items()) if fleet.namespace == namespace]

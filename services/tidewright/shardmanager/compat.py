"""Compat mode's part of the decider: fleets of the propeller manager.

`fold` keeps what the passes need and moves them on; `decisions` is what the state asks for now. Both
are called for every event by `decide`.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidewright.events.base import Because, Decision, Event, ObjectRef, Outcome
from tidewright.events.config import ConfigSet
from tidewright.events.decisions import CreateObject, DeleteObject, HoldLease, PatchObject, SetTimer
from tidewright.events.facts import PodGone, PodObserved
from tidewright.events.outcomes import Applied
from tidewright.events.provisioning import PodTemplateGone, PodTemplateObserved
from tidewright.events.shards import RecordPass
from tidewright.events.timers import TimerFired
from tidewright.shardmanager import resize
from tidewright.shardmanager.config import ShardConfig, ShardType
from tidewright.shardmanager.fleet import Fleet, KnownPod, Template, known
from tidewright.shardmanager.fleetconfig import NAME, FleetConfig, read_fleets
from tidewright.shardmanager.managerlock import lock_for
from tidewright.shardmanager.pods import (
    APP_LABEL,
    ContainerMissing,
    find_container,
    owner_references,
    pod_manifest,
    update_error,
)
from tidewright.shardmanager.scan import Pass, Stage, annotations_wanted
from tidewright.shardmanager.state import Asked, State

TIMER = "scan/"
LOCK_TIMER = "lock/"


def fold(state: State, event: Event, before: KnownPod | None) -> None:
    """Take in one event. `before` is the pod of a pod fact as it was until now."""
    match event:
        case ConfigSet(name=name) if name == NAME:
            _configure(state, event)
        case PodTemplateObserved() | PodTemplateGone():
            for fleet in _fleets(state, event.namespace):
                if fleet.template_key == f"{event.namespace}/{event.name}":
                    fleet.local = True
                    _begin(state, fleet)
        case PodObserved() | PodGone():
            after = state.pods.get(event.namespace, {}).get(event.name)
            for fleet in _fleets(state, event.namespace):
                template = state.templates.get(fleet.template_key)
                if fleet.watch_for_rivals(before, after, state.now):
                    continue
                if fleet.matters(before, after, template) or event.name == fleet.manager_pod:
                    _begin(state, fleet)
        case TimerFired(key=key) if key.startswith(TIMER):
            if (scanned := state.fleets.get(key.removeprefix(TIMER))) is not None:
                scanned.scan_due = None
                if scanned.rival:
                    scanned.rearm = True
                    if scanned.rival_is_quiet(state.now):
                        scanned.rival, scanned.unreported = "", True
                _forget_unseen(state, scanned)
                _begin(state, scanned)
        case TimerFired(key=key) if key.startswith(LOCK_TIMER):
            if (locked := state.fleets.get(key.removeprefix(LOCK_TIMER))) is not None:
                _look_at_lock(state, locked)
        case HoldLease():
            for fleet in state.fleets.values():
                if fleet.lock is not None and fleet.lock.holder == event.holder:
                    fleet.lock.asked(event.at)
        case PatchObject(target=target):
            state.returned = [lock for lock in state.returned if lock.ref != target]
        case SetTimer(key=key) if key.startswith(LOCK_TIMER):
            if (
                armed := state.fleets.get(key.removeprefix(LOCK_TIMER))
            ) is not None and armed.lock is not None:
                armed.lock.due = False
        case SetTimer(key=key, due=due) if key.startswith(TIMER):
            if (timed := state.fleets.get(key.removeprefix(TIMER))) is not None:
                timed.scan_due, timed.rearm = due, False
        case RecordPass():
            recorded = state.fleets.get(f"{event.target.namespace}/{event.application}")
            if recorded is not None:
                recorded.reported = _summary(recorded)
                recorded.unreported = False


def answered(state: State, asked: Asked, outcome: Outcome) -> None:
    """How an effect came out."""
    fleet = state.fleets.get(asked.fleet)
    if fleet is None:
        return
    if asked.verb == "hold":
        _lock_answered(state, fleet, outcome)
        return
    error = "" if isinstance(outcome, Applied) else outcome.message or outcome.reason
    pods = state.pods.setdefault(fleet.namespace, {})
    if asked.verb == "create" and not error:
        expected = KnownPod(
            name=asked.name,
            uid=str(outcome.result.get("uid", "")) if isinstance(outcome, Applied) else "",
            labels={APP_LABEL: fleet.config.pod_application},
            annotations=annotations_wanted(fleet.config, _version(state, fleet)),
            expected=True,
        )
        pods.setdefault(asked.name, expected)
    current = fleet.current
    if current is not None:
        if asked.verb == "delete" and current.stage is Stage.DELETING and current.deletions[0] == asked.name:
            current.deletion_answered(fleet.config, error)
        elif asked.verb == "create" and asked.index in current.creations:
            current.creation_answered(fleet.config, asked.index, error)
    if asked.verb == "delete" and not error and asked.name in pods:
        pods[asked.name].deleting = True
    _follow_up(state, fleet)


def asker_of(state: State, event: HoldLease) -> Asked:
    """Whose lock it is that is asked for."""
    for key, fleet in state.fleets.items():
        if fleet.lock is not None and fleet.lock.holder == event.holder:
            return Asked(fleet=key, verb="hold", name=event.target.name)
    return Asked(verb="hold", name=event.target.name)


def _look_at_lock(state: State, fleet: Fleet) -> None:
    """It is time to renew the lock, or to look whether it is free."""
    if fleet.lock is None:
        return
    fleet.lock.due = True
    if fleet.lock.until is not None and not fleet.lock.leads(state.now):
        fleet.lock.until = None
        _stand_by(fleet)


def _stand_by(fleet: Fleet) -> None:
    """Another manager may act from now on: what is under way ends here."""
    fleet.current, fleet.unreported = None, True


def _lock_answered(state: State, fleet: Fleet, outcome: Outcome) -> None:
    if (lock := fleet.lock) is None:
        return
    led, said = lock.until is not None, lock.why_not()
    lock.answered(outcome, state.now)
    if lock.until is not None and not led:
        fleet.unreported = bool(fleet.reported)
        _begin(state, fleet)
    elif lock.until is None and (led or lock.why_not() != said):
        _stand_by(fleet)


def decisions(state: State) -> Iterator[Decision]:
    """What the fleets ask for now."""
    for lock in state.returned:
        yield lock.give_back(state.now)
    for _key, fleet in sorted(state.fleets.items()):
        if not fleet.local:
            continue
        yield from _lock_requests(state, fleet)
        if fleet.current is not None and _leads(state, fleet):
            yield from _requests(state, fleet, fleet.current)
        if fleet.unreported and _summary(fleet) != fleet.reported:
            yield _record(state, fleet)
        if fleet.current is None and fleet.rearm and not fleet.refused:
            due = state.now + fleet.config.scan_interval_s
            yield SetTimer(at=state.now, key=TIMER + fleet.key, due=due)


def _lock_requests(state: State, fleet: Fleet) -> Iterator[Decision]:
    lock = fleet.lock
    if lock is None or not lock.due or fleet.refused or not _acts(state, fleet):
        return
    if f"hold {lock.ref.namespace}/{lock.ref.name}" not in state.in_flight:
        yield lock.ask(state.now)
    yield SetTimer(at=state.now, key=LOCK_TIMER + fleet.key, due=lock.next_at(state.now))


def _elect(state: State, fleet: Fleet, read: FleetConfig, at: float) -> bool:
    """Give a fleet the lock that its configuration elects by. True when that is another one than before."""
    before, after = fleet.lock, lock_for(read.election, fleet.key, at)
    if (before and before.election) == (after and after.election):
        return False
    _return_lock(state, fleet)
    fleet.lock = after
    return True


def _return_lock(state: State, fleet: Fleet) -> None:
    if fleet.local and fleet.lock is not None and fleet.lock.until is not None:
        state.returned.append(fleet.lock)


def _configure(state: State, event: ConfigSet) -> None:
    fleets: dict[str, Fleet] = {}
    for read in read_fleets(event.data):
        fresh = Fleet(
            config=read.config,
            namespace=read.namespace,
            manager_pod=read.manager_pod,
            metrics_prefix=read.metrics_prefix,
            refused=read.refused,
            warnings=list(read.warnings),
        )
        if fresh.key in fleets:
            fleets[fresh.key].warnings.append(read.refused)
            continue
        old = state.fleets.get(fresh.key)
        if old is None:
            fresh.local = fresh.template_key in state.templates
            _elect(state, fresh, read, event.at)
            fleets[fresh.key] = fresh
            if fresh.refused:
                fresh.unreported = True
            else:
                _begin(state, fresh)
            continue
        fleets[fresh.key] = old
        if read.refused:
            # What ran stays as it was: a bad edit must not take the fleet down.
            old.warnings, old.unreported = [read.refused], True
            continue
        resized = _resized(old.config.shard, read.config.shard)
        changed = (old.config, old.manager_pod, old.refused) != (read.config, read.manager_pod, "")
        changed = _elect(state, old, read, event.at) or changed
        old.config, old.manager_pod, old.refused = read.config, read.manager_pod, ""
        old.rival = old.rival if not changed else ""
        old.warnings = [*read.warnings, *resized]
        old.metrics_prefix = read.metrics_prefix
        old.local = old.local or old.template_key in state.templates
        if changed:
            if old.current is not None:
                # Indexes of the pass under way may mean other pods now: what it asked for is answered to nobody.
                old.current = None
            _begin(state, old)
    for key in state.fleets.keys() - fleets.keys():
        _return_lock(state, state.fleets[key])
    state.fleets = fleets


def _resized(before: ShardConfig, after: ShardConfig) -> list[str]:
    """What a change of the number of hash shards does, for whoever has made it."""
    hashed = before.type is after.type is ShardType.HASH
    if not hashed or 0 in (before.pod_count, after.pod_count) or before.pod_count == after.pod_count:
        return []
    return [resize.warning(before.pod_count, after.pod_count)]


def _fleets(state: State, namespace: str) -> list[Fleet]:
    return [fleet for _key, fleet in sorted(state.fleets.items()) if fleet.namespace == namespace]


def _version(state: State, fleet: Fleet) -> str:
    template = state.templates.get(fleet.template_key)
    return template.version if template else ""


def _acts(state: State, fleet: Fleet) -> bool:
    return state.acting.held("shard-manager", fleet.namespace).acts


def _leads(state: State, fleet: Fleet) -> bool:
    """Whether it is ours to say what the fleet needs; what is held back takes no lock, and says it all the same."""
    return fleet.leads(state.now) or not _acts(state, fleet)


def begin_anew(state: State, fleet: Fleet) -> None:
    """Another mode holds for a fleet: its pass begins anew, from what is so."""
    fleet.current = None
    if fleet.lock is not None:
        fleet.lock.due = True
    _begin(state, fleet)


def _begin(state: State, fleet: Fleet) -> None:
    if fleet.local and _leads(state, fleet):
        if not _acts(state, fleet):
            fleet.current = None  # nothing of it was done
        if fleet.current is None:
            fleet.begun_at = state.now
        fleet.begin(state.templates.get(fleet.template_key), state.pods.get(fleet.namespace, {}))
        _follow_up(state, fleet)


def _follow_up(state: State, fleet: Fleet) -> None:
    """Refuse creations that cannot be made, close the pass, and start the one that must follow."""
    for _round in range(2):
        current = fleet.current
        template = state.templates.get(fleet.template_key)
        if current is not None and current.stage is Stage.CREATING and template is not None:
            _refuse_impossible(fleet, current, template)
        if not fleet.finish(state.now) or not _leads(state, fleet):
            return
        fleet.begun_at = state.now
        fleet.begin(template, state.pods.get(fleet.namespace, {}))


def _refuse_impossible(fleet: Fleet, current: Pass, template: Template) -> None:
    try:
        find_container(template.template.get("spec") or {}, fleet.config.pod_template_container_name)
    except ContainerMissing as error:
        for index in list(current.creations):
            current.creation_impossible(index, update_error(fleet.config, index, error))


def _forget_unseen(state: State, fleet: Fleet) -> None:
    """A pod that was created an interval ago and never appeared is not there."""
    pods = state.pods.get(fleet.namespace, {})
    for name in [name for name, pod in pods.items() if pod.expected]:
        del pods[name]


def _requests(state: State, fleet: Fleet, current: Pass) -> Iterator[Decision]:
    for call in current.calls(fleet.config, fleet.namespace):
        if f"{call.verb} {call.namespace}/{call.name}" in state.in_flight:
            continue
        pods = state.pods.get(fleet.namespace, {})
        if call.verb == "delete":
            pod = pods.get(call.name)
            yield DeleteObject(
                at=state.now,
                target=_pod_ref(fleet, call.name, pod.uid if pod else ""),
                because=(_why_deleted(state, fleet, pod),),
            )
        elif call.verb == "create":
            template = state.templates[fleet.template_key]
            manager = pods.get(fleet.manager_pod) if fleet.manager_pod else None
            yield CreateObject(
                at=state.now,
                target=_pod_ref(fleet, call.name, ""),
                manifest=pod_manifest(
                    fleet.config,
                    template.template,
                    template.version,
                    call.index,
                    namespace=fleet.namespace,
                    owner_references=owner_references(manager.owners if manager else ()),
                ),
                because=(Because(rule="ShardMissing", values={"shard": call.index, "pod": call.name}),),
            )


def _why_deleted(state: State, fleet: Fleet, pod: KnownPod | None) -> Because:
    found = pod.annotations if pod else {}
    if pod is not None and pod.phase == "Failed":
        return Because(rule="ShardFailed", values={"pod": pod.name})
    if pod is not None and pod.name in fleet.drifted:
        told = " ".join(pod.args.get(fleet.config.pod_template_container_name, ()))
        return Because(rule="ArgsDrift", values={"pod": pod.name, "found": told})
    wanted = annotations_wanted(fleet.config, _version(state, fleet))
    values: dict[str, str | int | float | bool | None] = {"pod": pod.name if pod else ""}
    for key, value in wanted.items():
        if found.get(key) != value:
            values |= {f"found_{key}": found.get(key), f"wanted_{key}": value}
    return Because(rule="ShardStale", values=values)


def _pod_ref(fleet: Fleet, name: str, uid: str) -> ObjectRef:
    return ObjectRef(api_version="v1", kind="Pod", namespace=fleet.namespace, name=name, uid=uid)


def _record(state: State, fleet: Fleet) -> RecordPass:
    last = fleet.last or Pass(running=None)
    names = set(fleet.config.pod_names)
    return RecordPass(
        at=state.now,
        target=ObjectRef(
            api_version="v1",
            kind="PodTemplate",
            namespace=fleet.namespace,
            name=fleet.config.pod_template_name,
        ),
        application=fleet.config.pod_application,
        created=last.created,
        deleted=last.deleted,
        running=last.running,
        adopted=len(names.intersection(last.existing)),
        foreign=tuple(last.foreign),
        drifted=tuple(fleet.drifted),
        error=_error(fleet),
        because=tuple(Because(rule="ConfigurationWarning", values={"message": w}) for w in fleet.warnings),
    )


def _error(fleet: Fleet) -> str:
    if fleet.refused:
        return fleet.refused
    if fleet.lock is not None and (why := fleet.lock.why_not()):
        return why
    if fleet.rival:
        return (
            f"another manager with another configuration made pod '{fleet.rival}': nothing is written while it runs, "
            "stop it or give both the same configuration"
        )
    if fleet.last is None or not fleet.last.outcome:
        return ""
    return f"failed to create pod(s) [{fleet.last.outcome}]"


def _summary(fleet: Fleet) -> str:
    """What a record says, as text: a record is due when this differs from the last one."""
    last = fleet.last or Pass()
    counted = (last.created, last.deleted, last.running, last.existing, last.foreign)
    return f"{counted} {_error(fleet)} {fleet.warnings} {fleet.drifted}"


def known_pod(event: PodObserved) -> KnownPod:
    """What is kept of a pod fact."""
    return known(event)

"""One readable line per event. Pure."""

from __future__ import annotations

from typing import Any

import msgspec

from tidewright.asking import postponed  # noqa: F401  # before the NATS client
from tidewright.asking.answers.events import LoggedEvent
from tidewright.asking.answers.form import stamp
from tidewright.asking.told_time import told
from tidewright.events import decisions, facts, outcomes, registry
from tidewright.events.acting import NOT_DONE
from tidewright.events.base import Decision, Event, Outcome
from tidewright.events.config import ClockSet, ConfigSet
from tidewright.events.timers import TimerFired
from tidewright.kube.times import readable
from tidewright.log.reader import Record
from tidewright.log.subjects import unescape

_QUIET = frozenset(
    {"at", "id", "prev", "because", "namespace", "name", "uid", "refresh", "labels", "annotations", "target"}
)


_TRANSPORT = ("Nats-Batch-", "Nats-Expected-")
"""Headers that say how a message came, and nothing about it."""


def line(event: Event | registry.Unknown) -> str:
    """What an event says, in one line without its time and object; of what is not done, that it would be."""
    if isinstance(event, Decision) and event.shadow:
        mode = "dry run" if getattr(event, "dry_run", False) else "shadow"
        return f"would {_line(event).removesuffix(' (dry run)')} ({mode})"
    return _line(event)


def _line(event: Event | registry.Unknown) -> str:  # noqa: C901  # a dispatcher by match
    match event:
        case registry.Unknown(type=kind):
            return f"{kind} (of a newer version)"
        case facts.PodObserved():
            ready = {True: "ready", False: "not ready", None: "no readiness yet"}[event.ready]
            where = f" on {event.node}" if event.node else ""
            leaving = ", terminating" if event.deleting_at is not None else ""
            return f"{event.phase}{where}, {ready}{leaving}"
        case facts.WorkloadObserved():
            return f"{event.replicas} wanted, {event.status_replicas} exist, {event.ready_replicas} ready"
        case facts.NodeObserved():
            return ("ready" if event.ready else "not ready") + (", cordoned" if event.unschedulable else "")
        case facts.ObjectFact() if type(event).__name__.endswith("Gone"):
            return "gone" + (f": {reason}" if (reason := getattr(event, "reason", "")) else "")
        case facts.ResourceFact():
            leaving = ", being deleted" if event.deleting_at is not None else ""
            return f"generation {event.generation}{leaving}"
        case facts.MetricSampled() if event.error:
            return f"not readable ({event.error_class}): {event.error}"
        case facts.MetricSampled():
            values = [*event.series_milli, *event.pods_milli.values()]
            shown = f"{sum(values) / 1000:g}"
            return shown if len(values) == 1 else f"{shown} in {len(values)} values"
        case facts.ClockJumped(from_at=before, to_at=after):
            way = "forward" if after > before else "back: log time stands still until it has caught up"
            return f"the clock went {abs(after - before):.1f} s {way}"
        case ClockSet():
            return f"log time runs {event.speed:g} times as fast as the wall's"
        case ConfigSet():
            return f"{event.name} = {msgspec.json.encode(event.data).decode()}"
        case decisions.ScaleWorkload():
            return f"set replicas {event.from_replicas} -> {event.replicas}" + (
                " (dry run)" if event.dry_run else ""
            )
        case decisions.RecordObjectEvent():
            more = f" (and {len(event.also)} more)" if event.also else ""
            return f"say {event.event_type} {event.reason}: {event.message}{more}"
        case decisions.SetTimer():
            return f"wake {event.key} at {_due(event.due)}"
        case decisions.CancelTimer():
            return f"wake {event.key} no more"
        case decisions.SetStatus():
            return "set status" + ("" if event.urgent else " (values only)")
        case outcomes.Applied():
            if event.reason in NOT_DONE:
                return f"not carried out ({event.reason})"
            return "found so" if event.found else "applied" + (f" ({event.reason})" if event.reason else "")
        case outcomes.Superseded():
            return f"superseded by {event.by}"
        case Outcome():
            return f"{type(event).__name__.lower()}: {event.reason} {event.message}".rstrip()
        case TimerFired():
            return f"woke {event.key}"
    return _of_a_service(event) or _fields(event)


def _fields(event: Event) -> str:
    """What an event says for which there are no words: its fields."""
    shown_fields = {
        name: value
        for name in event.__struct_fields__
        if name not in _QUIET and (value := getattr(event, name)) not in ("", (), {}, None, False)
    }
    return (
        ", ".join(f"{name}={_short(value)}" for name, value in list(shown_fields.items())[:5])
        or type(event).__name__
    )


def _of_a_service(event: Event) -> str:
    """What a service has words of its own for, or nobody in particular; imported here, for most answers do without."""
    from tidewright.autoscaler.tell.lines import line as of_replicas

    if words := of_replicas(event):  # the most of them are its
        return words
    from tidewright.asking.wording import wording
    from tidewright.provisioning.tell.lines import line as of_capacity
    from tidewright.shardmanager.tell.lines import line as of_shards
    from tidewright.spread.tell.lines import line as of_spread

    return of_capacity(event) or of_spread(event) or of_shards(event) or wording(event)


def _due(at: float) -> str:
    try:
        return readable(at)
    except (OverflowError, ValueError, OSError):
        return f"{at:.0f}"  # a time that no calendar has


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= 60 else text[:57] + "..."


def subject_object(subject: str) -> tuple[str, str, str, str]:
    """Class, kind, namespace and name that a subject of any cluster names; empty where it names none."""
    _, _, cls, *place = subject.split(".")
    rest = [unescape(token) for token in place[1:]]
    match cls:
        case "fact" | "outcome" if len(rest) == 3:
            return cls, rest[0], rest[1], rest[2]
        case "decision" if len(rest) == 4:
            return cls, rest[1], rest[2], rest[3]
        case "ledger" if len(rest) == 3:
            return cls, rest[0], rest[1], rest[2]
        case "halt" if len(rest) == 1:
            return cls, rest[0], "", place[0]
        case "timer" | "schedule" if len(rest) >= 2:
            return cls, rest[0], "", rest[1]
    return cls, "", "", rest[0] if rest else ""


def object_of(subject: str) -> str:
    """The object that a subject names, for people; empty where what is decided is about none."""
    _, kind, *rest = subject_object(subject)
    return "" if kind == "none" else "/".join(part for part in (kind, *rest) if part)


def answer(record: Record, event: Event | registry.Unknown | registry.NotAnEvent) -> LoggedEvent:
    """A record as an answer."""
    cls, kind, namespace, name = subject_object(record.subject)
    known = None if isinstance(event, registry.NotAnEvent) else event
    return LoggedEvent(
        sequence=record.seq,
        at="" if known is None else stamp(told(known)),
        class_=cls,
        kind=kind,
        namespace=namespace,
        name=name,
        text="" if known is None else line(known),
        decision=decision_of(known),
        subject=record.subject,
        headers={k: v for k, v in record.headers.items() if not k.startswith(_TRANSPORT)},
        event=record.body.decode(errors="replace") if known is None else msgspec.to_builtins(known),
        problem=str(event) if known is None else "",
    )


def decision_of(event: Event | registry.Unknown | None) -> str:
    """The id of a decision, or of the one that an outcome is of; empty for everything else."""
    match event:
        case Decision(id=id_):
            return id_
        case Outcome(decision=id_):
            return id_
    return ""


def title(event: Event | registry.Unknown) -> str:
    """The name of an event's type for people (`PodObserved`)."""
    return event.type if isinstance(event, registry.Unknown) else type(event).__name__

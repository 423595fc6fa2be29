"""What events of the shard manager say, in one line, for lists of events. Pure.

Knows events alone, so that a list of them loads quickly; reasons and numbers are `explain`'s.
"""

from __future__ import annotations

from tidewright.events import shards as s
from tidewright.events.base import Event
from tidewright.events.decisions import HoldLease
from tidewright.shardmanager.tell.sentences import begins, sentence

NAMED = 3
"""Pods that a line names."""


def line(event: Event) -> str:
    """What an event says, without its time and object; "" when it is none of the shard manager's."""
    match event:
        case s.ChangeAssignment(entry=entry):
            said = sentence(entry).removesuffix(".")
            return f"revision {entry.revision + 1}: {said[:1].lower() if said.startswith(_ARTICLE) else said[:1]}{said[1:]}"
        case s.BeginPass():
            return f"{event.application}: a pass is to {begins(event)}"
        case s.RecordPass():
            return _pass(event)
        case s.SizeShards():
            return (
                f"size {event.from_shards} -> {event.shards} shards; the load calls for {event.recommended}"
            )
        case s.ChangeRollout():
            about = f", pod {event.pod}" if event.pod else ""
            why = f": {event.reason}" if event.reason else ""
            return f"rollout of {event.generation} is {event.state}{about}{why}"
        case s.ReportShards():
            if not event.reason:
                return "nothing is wrong any more"
            return f"{event.reason}: {event.message}" if event.message else f"{event.reason} is over"
        case s.SlotLabelsScanned():
            lacking = _many(len(event.objects), "object")
            more = f", and {event.remaining} more" if event.remaining else ""
            return f"{lacking} without a right label {event.label}{more}"
        case s.ServiceLoadObserved():
            loads = ", ".join(f"{load:g}" for load in event.loads) or "none"
            return f"facts per second by replica: {loads}; {event.replicas} wanted"
        case HoldLease():
            taken = ", taken from one that stopped" if event.stopped else ""
            return f"hold the lease as {event.holder} for {event.duration_s} s{taken}"
    return ""


_ARTICLE = ("The ", "Moves ", "Slots ", "Slot ")


def _pass(event: s.RecordPass) -> str:
    running = "" if event.running is None else f", {event.running} running"
    parts = [
        f"{event.application}: {event.created} pods made, {event.deleted} deleted, {event.adopted} as they should be{running}"
    ]
    for names, what in ((event.foreign, "left alone"), (event.drifted, "told other things")):
        if names:
            more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
            parts.append(f"{', '.join(names[:NAMED])}{more} {what}")
    return "; ".join([*parts, *([f"error: {event.error}"] if event.error else [])])


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"

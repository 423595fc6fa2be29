"""One line per event of provisioning, for lists of events: what happened, in words. Pure.

Knows events and their words alone, so that a list of them loads quickly; reasons and numbers are `explain`'s.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from tidewright.events import provisioning as p
from tidewright.events.base import Event
from tidewright.kube.times import readable
from tidewright.provisioning.cluster.status_parts import SCALE_UP, part_of

MOST = 4
"""Groups that a line names."""


def line(event: Event) -> str:
    """What an event of provisioning says; empty for an event of others, and for what its kind says already."""
    match event:
        case p.NodeGroupObserved():
            return _group(event)
        case p.CloudObserved(state="absent"):
            return "no cloud is configured: nothing is ordered"
        case p.CloudObserved():
            what = f"does not answer ({event.error}): {event.message}" if event.error else "answers"
            return f"{event.kind} cloud {what}"
        case p.PlanScaleUp():
            sizes = _named(f"{i.group} {i.from_size} -> {i.size}" for i in event.increases)
            return f"grow {sizes} for {_whom(event)} (plan {event.plan})"
        case p.DeclineScaleUp():
            why = _reasons(event.verdicts) or "no node group could be asked"
            return f"nothing is ordered for {_many(event.count, 'pod')}: {why}"
        case p.AcceptRequest():
            pods = _many(sum(count for _, count in event.sets), "pod")
            return f"accept {_request(event)} for {pods} of {_many(len(event.sets), 'pod set')}"
        case p.AttemptRequest():
            return f"attempt {event.attempt} at {_request(event)}: {_attempt(event)}"
        case p.BookCapacity():
            return (
                f"keep room for {_many(event.pods, 'pod')} of {_request(event)} until {readable(event.until)}"
            )
        case p.ReleaseCapacity():
            return f"keep no more room for {_request(event)}: {event.reason}"
        case p.BackOffGroup():
            why = event.message or event.code
            return f"leave group {event.group} alone until {readable(event.until)}: {why}"
        case p.CloseScaleUp():
            took = f" after {event.boot_s:.0f} s" if event.boot_s else ""
            return f"the increase of group {event.group} is over: {event.result}{took}"
        case p.TrackIdleNodes() | p.TrackUnneededNodes():
            return _tracked(event)
        case p.RemoveNode() | p.UndoRemoval():
            return _removed(event)
        case p.ProposeReplacement() | p.ReplaceNodes() | p.EndReplacement():
            return _replaced(event)
    return _order(event)


def _tracked(event: p.TrackIdleNodes | p.TrackUnneededNodes) -> str:
    if isinstance(event, p.TrackIdleNodes):
        parts = [
            f"{what}: {_named(names)}"
            for what, names in (("now empty", event.idle), ("busy again or gone", event.busy))
            if names
        ]
        return "; ".join(parts)
    blocked = (
        f"{paused.node} ({f'pod {paused.pod}: {paused.pod_reason}' if paused.pod else paused.reason})"
        for paused in event.paused
    )
    parts = [
        f"{what}: {_named(names)}"
        for what, names in (
            ("unneeded", [node.node for node in event.unneeded]),
            ("needed again or gone", event.needed),
            ("cannot go", list(blocked)),
        )
        if names
    ]
    return "; ".join([*parts, *(["the pass goes on"] if event.more else [])]) or "the pass is over"


def _removed(event: p.RemoveNode | p.UndoRemoval) -> str:
    if isinstance(event, p.UndoRemoval):
        return f"keep node {event.node} of group {event.group} after all ({event.reason}): {event.message}"
    along = f" with {len(event.whole) - 1} others of its group" if len(event.whole) > 1 else ""
    if event.kind == "empty":
        return f"remove the empty node {event.node} of group {event.group}{along}"
    pods = _named(f"{pod.namespace}/{pod.name}" for pod in event.pods)
    return f"drain and remove node {event.node} of group {event.group}{along}: {_many(len(event.pods), 'pod')} ({pods}) {'goes' if len(event.pods) == 1 else 'go'} elsewhere"


def _replaced(event: p.ProposeReplacement | p.ReplaceNodes | p.EndReplacement) -> str:
    if isinstance(event, p.ProposeReplacement) and not event.nodes:
        if event.instead is not None:
            return f"{_named(event.instead)} {'is' if len(event.instead) == 1 else 'are'} not to be replaced any more"
        return "nothing is to be replaced any more"
    nodes = _named(event.nodes)
    others = _named(f"{count} of group {group}" for group, count in sorted(event.groups.items()))
    if isinstance(event, p.EndReplacement):
        if event.result == "Done":
            return f"{nodes} {'is' if len(event.nodes) == 1 else 'are'} replaced by {others}"
        return f"do not replace {nodes} by {others} after all ({event.reason}): {event.message}"
    price = f"{event.after_micro / 1e6:.4f} instead of {event.before_micro / 1e6:.4f} an hour"
    if isinstance(event, p.ReplaceNodes):
        return f"replace {nodes} by {others}: {price} (plan {event.plan})"
    return f"{nodes} could be replaced by {others}: {price}; a later round has to agree"


def _whom(event: p.PlanScaleUp) -> str:
    if event.replaces:
        return f"what replaces {_named(event.replaces)}"
    if event.expected:
        coming = sum(share.pods for share in event.expected)
        others = event.placed - coming
        workloads = _named(share.workload.replace("/", " ", 1) for share in event.expected)
        text = f"{_many(coming, 'pod')} that {'is' if coming == 1 else 'are'} about to come of {workloads}"
        return f"{text}, and {others} that wait" if others > 0 else text
    if event.buffers:
        buffers = _named(f"buffer {buffer}" for buffer, _ in event.buffers)
        return f"{_many(event.placed, 'chunk')} of {buffers}"
    return f"request {event.request}" if event.request else _many(event.placed, "pending pod")


def _buffer(event: p.FillBuffer) -> str:
    whole = f"buffer {event.namespace}/{event.name}"
    if not event.shape:
        return f"keep no more room for {whole}"
    text = f"{whole}: {event.ready} of {_many(event.replicas, 'chunk')} on ready nodes, {event.upcoming} on nodes on their way"
    return f"{text}, {event.missing} without a place" if event.missing else text


def _order(event: Event) -> str:
    match event:
        case p.IncreaseNodeGroup():
            how = " all or nothing" if event.atomic else ""
            return f"order {_many(event.size - event.from_size, 'node')}{how}: size {event.from_size} -> {event.size}{_dry(event.dry_run)}"
        case p.DecreaseNodeGroup():
            return f"take back {_many(event.from_size - event.size, 'node')} that have not come: size {event.from_size} -> {event.size}{_dry(event.dry_run)}"
        case p.DeleteInstances():
            names = [node or instance for node, instance in zip(event.nodes, event.instances, strict=False)]
            return f"delete {_many(len(event.instances), 'instance')}: {_named(names or event.instances)}{_dry(event.dry_run)}"
        case p.MarkNode():
            what = f"taint {event.key}" + (" and the cordon" if event.cordon else "")
            how = f"set our {what} on" if event.present else f"take our {what} off"
            return f"{how} {event.target.name}{_dry(event.dry_run)}"
        case p.CreateNodeGroup():
            where = f" in {event.zone}" if event.zone else ""
            return f"make the group of machine type {event.machine_type}{where}, of at most {event.max_size} nodes"
        case p.DeleteNodeGroup():
            return "remove the empty group"
        case p.FillBuffer():
            return _buffer(event)
        case p.ResolvePod():
            how = "asking admission" if event.admission else "reading it"
            return f"find out what a pod of {event.source.kind} {event.source.name} is like, {how}"
        case p.ReportClusterStatus():
            counted = Counter(
                status
                for key, status in event.statuses.items()
                if (part := part_of(key)).kind == SCALE_UP and part.group
            )
            return "report " + (
                ", ".join(f"{n} {status}" for status, n in sorted(counted.items())) or "no group"
            )
    return ""


def _request(event: p.AcceptRequest | p.AttemptRequest | p.BookCapacity | p.ReleaseCapacity) -> str:
    return f"request {event.namespace}/{event.name}"


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"


def _group(event: p.NodeGroupObserved) -> str:
    if event.error:
        why = f"{event.error}: {event.message}" if event.message else event.error
        return f"not readable ({why}); last known size {event.target_size}"
    states = Counter(i.state or "there" for i in event.machines)
    failed = sum(bool(i.error_class) for i in event.machines)
    shown = ", ".join(f"{n} {state}" for state, n in sorted(states.items())) or "no instance"
    wrong = f", {failed} with errors" if failed else ""
    return f"size {event.target_size} of {event.min_size} to {event.max_size}: {shown}{wrong}"


def _attempt(event: p.AttemptRequest) -> str:
    match event.result:
        case "Successful":
            chosen = [v.group for v in event.verdicts if v.chosen]
            grown = f"group {chosen[0]} grows" if len(chosen) == 1 else f"groups {_named(chosen)} grow"
            return f"it has room once {grown}" if chosen else "it has room"
        case "NotNeeded":
            return "it has room"
    again = f"; again at {readable(event.retry_at)}" if event.retry_at else "; it is not tried again"
    reasons = _reasons(event.verdicts)
    return f"no room{f' ({reasons})' if reasons else ''}{again}"


def _reasons(verdicts: Iterable[p.GroupVerdict]) -> str:
    """How many groups for which reason, the most first."""
    counted = Counter(v.reason for v in verdicts if v.reason)
    items = sorted(counted.items(), key=lambda entry: (-entry[1], entry[0]))
    return ", ".join(f"{n} {'group' if n == 1 else 'groups'}: {reason}" for reason, n in items)


def _named(names: Iterable[str]) -> str:
    all_names = list(names)
    more = f" and {len(all_names) - MOST} more" if len(all_names) > MOST else ""
    return ", ".join(all_names[:MOST]) + more


def _dry(dry_run: bool) -> str:
    return " (dry run)" if dry_run else ""

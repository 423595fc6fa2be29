"""What would have led to the opposite: another limit, more nodes beforehand, or a pod that asks for less. Pure.

What a pod could have asked for is tried with the estimator itself, one amount at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from tidewright.events.base import Because
from tidewright.events.provisioning import AttemptRequest
from tidewright.kube.keys import request_key
from tidewright.kube.podshape import PodShape
from tidewright.provisioning.cluster.view import look
from tidewright.provisioning.index.indexing import index_of
from tidewright.provisioning.index.resolving import shape_of
from tidewright.provisioning.pack.templates import Template, fits_reason
from tidewright.provisioning.scaleup.plans import NOT_NEEDED, SUCCESSFUL
from tidewright.provisioning.state import State
from tidewright.provisioning.tell import folding, room
from tidewright.provisioning.tell.amounts import amount_text

NAMED = 3
"""Amounts that are named per shape, the nearest first."""


def smaller_pods(state: State, digests: Iterable[str]) -> list[str]:
    """For each shape that no group's node ever holds: what a pod could ask for at most, group by group."""
    index = index_of(state)
    view = look(state, index, state.now)
    templates = {
        name: group.group.template
        for name, group in sorted(view.groups.items())
        if group.group.template is not None
    }
    sentences: dict[str, None] = {}
    for digest in dict.fromkeys(digests):
        shape = shape_of(state, index, digest)
        if not all(fits_reason(shape, template) for template in templates.values()):
            continue  # some group holds one: it is not the size that counts
        alike: dict[tuple[float, str], list[str]] = {}
        for name, too_much, least in _per_group(shape, templates.items()):
            alike.setdefault((too_much, least), []).append(name)
        for (_, least), names in sorted(alike.items())[:NAMED]:
            sentences[f"{least}, a pod would fit on a new node of {folding.named(names)}."] = None
    return list(sentences)


def _per_group(
    shape: PodShape, templates: Iterable[tuple[str, Template]]
) -> Iterator[tuple[str, float, str]]:
    """Groups where one amount decides: their names, how much of the request is too much, and what would not be."""
    for name, template in templates:
        free = template.free()
        asks = shape.requests_at(template.view.stock)
        short = [r for r, amount in sorted(asks.items()) if amount > free.get(r, 0)]
        if len(short) != 1 or not (room := free.get(short[0], 0)):
            continue
        resource = short[0]
        fitting = msgspec.structs.replace(shape, requests={**shape.requests, resource: room})
        if fits_reason(fitting, template):
            continue
        asked = shape.requests[resource]
        least = f"With {resource} at {amount_text(resource, room)} or less instead of {amount_text(resource, asked)}"
        yield name, (asked - room) / asked, least


def beforehand(added: Iterable[tuple[str, int]]) -> list[str]:
    """What would have made an order needless."""
    parts = [f"{_more(nodes)} in group {group}" for group, nodes in added]
    if not parts:
        return []
    rest = f" and {len(parts) - folding.NAMED} groups more" if len(parts) > folding.NAMED else ""
    return [f"With {', '.join(parts[: folding.NAMED])}{rest} beforehand, nothing would have been ordered."]


def _more(nodes: int) -> str:
    return f"{nodes} more node{'s' * (nodes != 1)}"


def attempted(state: State, event: AttemptRequest) -> list[str]:
    """Of an attempt: what stood in its way, or what it left."""
    key = request_key(event.namespace, event.name)
    request = state.requests.get(key)
    sets = room.sets_of(state, key) if request is not None else ()
    if not sets:
        return []
    chosen = [(v.group, v.nodes) for v in event.verdicts if v.chosen]
    if chosen:
        return beforehand(chosen)
    if event.result in (SUCCESSFUL, NOT_NEEDED):
        most = room.still_fits(state, sets[0], key) if len(sets) == 1 else None
        return [] if most is None else [f"Of {most} pods like these all would have fitted, of more not."]
    lacking = room.lack(state, sets, key)
    return [*lacking.sentences, *room.more_nodes(state, lacking)]


def turned_by(reason: Because, state: State) -> str:
    """Which input would have had to be what for a rule to say the opposite; empty where no threshold decided."""
    try:
        match reason.rule, reason.values:
            case "Idle", {"node": str(node), "idle_s": int(idle_s)}:
                limit_s = index_of(state).settings.unneeded_s
                return (
                    f"With a pod on node {node} in the last {limit_s:.0f} s, or with scale-down-unneeded-time at "
                    f"{idle_s + 1} s or more instead of {limit_s:.0f} s, the node would have stayed."
                )
            case "BelowMinimum", {"group": str(group), "target": int(target), "minimum": int(minimum)}:
                return f"With a minimum of {target} instead of {minimum}, group {group} would have been left alone."
            case "TimedOut", {"missing": int(missing), "group": str(group), "limit_s": int(limit_s)} if (
                limit_s
            ):
                return f"Had the {missing} nodes of group {group} come within {limit_s} s, they would have been waited for."
            case "Expired", {"limit_s": int(limit_s)}:
                return f"Provisioned within {limit_s} s of its creation, it would have been kept."
    except (TypeError, ValueError):  # of another version, with other values
        pass
    return ""

"""Node groups and nodes as they are: what they have, and why groups do not grow, or nodes stay. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from tidewright.kube.times import readable
from tidewright.provisioning.cluster.backoff import backed_off
from tidewright.provisioning.cluster.groups import cannot_grow
from tidewright.provisioning.cluster.view import look
from tidewright.provisioning.group_ids import NodeGroupId
from tidewright.provisioning.index.indexing import index_of
from tidewright.provisioning.state import RESERVED, State
from tidewright.provisioning.tell import clouds, folding, leaving, staying
from tidewright.provisioning.tell.capitals import capital


def growing(state: State, names: Sequence[NodeGroupId]) -> list[str]:
    """Of these groups which can grow, and why the others cannot."""
    view = look(state, index_of(state), state.now)
    total = index_of(state).settings.max_nodes_total
    sentences = [clouds.NO_CLOUD] if clouds.none_configured(state) else []
    stuck: dict[str, str] = {}
    for name in names:
        group = view.groups[name]
        reason = cannot_grow(group.group, view.limits, view.current_nodes, total)
        if not reason:
            sentences.append(f"Group {name} can grow from {group.group.target} to {group.group.max} nodes.")
            continue
        entry = state.backoff.get(name)
        until = (
            f" until {readable(entry.until)} UTC ({entry.message or entry.code})"
            if entry is not None and backed_off(entry, state.now)
            else ""
        )
        stuck[name] = f"{reason}{until}"
    return sentences + [
        f"{capital(folding.named(each))} cannot grow: {reason}." for each, reason in folding.by_reason(stuck)
    ]


def of_node(state: State, name: str) -> list[str]:
    """What a node is of, what is on it, and whether it goes."""
    node = state.nodes.get(name)
    if node is None:
        return []
    if node.group:
        sentences = [f"It is in group {node.group}."]
    elif node.provider_id:
        sentences = [f"No group of a cloud has a machine {node.provider_id}: it is never removed."]
    else:
        unknown = "It has no spec.providerID, by which clouds know their machines: it is of no group and never removed."
        sentences = [unknown, "Its kubelet (--provider-id) or the cloud's controller manager sets it."]
    sentences += leaving.of_node(state, name)
    busy = index_of(state).busy.get(name, 0)
    sentences.append(
        "No pod keeps it busy."
        if not busy
        else "1 pod on it is not of a DaemonSet."
        if busy == 1
        else f"{busy} pods on it are not of DaemonSets."
    )
    if RESERVED in node.annotations:
        sentences.append(f"Room on it is kept for {node.annotations[RESERVED]}.")
    since = state.idle.get(name)
    if since is not None and name not in state.unneeded:
        settings = index_of(state).settings
        sentences.append(
            f"It is empty since {readable(since)} UTC, and goes {settings.unneeded_s:.0f} s after that at the earliest."
        )
    return sentences + (staying.of_node(state, name) if node.group else [])


def of_group(state: State, name: NodeGroupId) -> list[str]:
    """What a group has, what was ordered of it, and whether it can grow."""
    group = state.groups.get(name)
    if group is None:
        return []
    sentences = [
        f"It has {group.target} nodes of {group.min_size} to {group.max_size}.",
        *clouds.of_group(state, group),
        *clouds.own_settings(group),
    ]
    if group.error:
        why = f"{group.error}: {group.message}" if group.message else group.error
        sentences.append(f"It cannot be read ({why}): nothing is ordered.")
    opened = state.open.get(name)
    if opened is not None:
        one, at = opened.increase == 1, f"{readable(opened.requested_at)} UTC"
        sentences.append(
            f"1 node was ordered at {at} and is not ready."
            if one
            else f"{opened.increase} nodes were ordered at {at} and are not all ready."
        )
        if group.boot_s:
            sentences.append(
                f"{'It is' if one else 'They are'} expected at {readable(opened.requested_at + group.boot_s)} UTC."
            )
    return sentences + [text for text in growing(state, [name]) if text != clouds.NO_CLOUD]

"""Nodes that came before the cloud was heard of them: whose they are most likely.

A node's fact and its group's come from two places. Between the two, a node that was ordered is there
and would be counted as on its way as well: its room would be given out twice.
"""

from __future__ import annotations

from collections import Counter

from tidewright.kube.podshape import HOSTNAME
from tidewright.provisioning.cluster.groups import IGNORED_LABELS
from tidewright.provisioning.group_ids import NodeGroupId
from tidewright.provisioning.state import GroupState, Node, State

NEAR = 0.1
"""By what part the cpu of a node and of its group's template may differ."""
_OF_THE_NODE = IGNORED_LABELS | {HOSTNAME}


def arrived(state: State) -> dict[str, NodeGroupId]:
    """Node to the group that waits for nodes like it, and that has not been seen since the node has."""
    waiting = [(name, opened) for name, opened in sorted(state.open.items()) if name in state.groups]
    if not waiting:
        return {}
    there = Counter(node.group for node in state.nodes.values())
    lacking = {name: state.groups[name].target - there[name] for name, _ in waiting}
    since = min(opened.requested_at for _, opened in waiting)
    group_of: dict[str, NodeGroupId] = {}
    for node_name, node in state.nodes.items():
        if node.group or not node.provider_id or node.seen_at < since:
            continue
        for name, opened in waiting:
            group = state.groups[name]
            late = node.seen_at >= opened.requested_at and node.seen_at > group.observed_at
            if late and lacking[name] > 0 and _alike(node, group):
                group_of[node_name] = name
                lacking[name] -= 1
                break
    return group_of


def _alike(node: Node, group: GroupState) -> bool:
    """Whether a node looks like the next one of a group."""
    template = group.template
    if template is None:
        return False
    cpu = (template.allocatable or template.capacity).get("cpu", 0)
    return abs(node.allocatable.get("cpu", 0) - cpu) <= cpu * NEAR and all(
        node.labels.get(key) == value for key, value in template.labels.items() if key not in _OF_THE_NODE
    )

"""Which nodes have come for which replacement: clouds say of a node only its group."""

from __future__ import annotations

from tidewright.provisioning.state import State


def came(state: State) -> dict[str, list[str]]:
    """By the decision that ordered them the nodes that have come since, in the order in which they were seen.

    Each is for the first replacement that lacks one of its group. Where none does it stands beside the last one's,
    and is left alone as long.
    """
    replacements = state.consolidating.replacements
    found: dict[str, list[str]] = {one.decision: [] for one in replacements}
    if not replacements:
        return found
    wanted = frozenset(group for one in replacements for group in one.groups)
    old = frozenset(name for one in replacements for name in one.nodes)
    since = min(one.begun_at for one in replacements)
    lacking = {one.decision: dict(one.groups) for one in replacements}
    fresh = sorted(
        (node.seen_at, name)
        for name, node in state.nodes.items()
        if node.group in wanted and node.seen_at > since and name not in old
    )
    for seen_at, name in fresh:
        group = state.nodes[name].group
        able = [
            one
            for one in replacements
            if group in one.groups and seen_at > one.begun_at and name not in one.past
        ]
        if able:
            one = next((one for one in able if lacking[one.decision][group] > 0), able[-1])
            lacking[one.decision][group] -= 1
            found[one.decision].append(name)
    return found


def being_replaced(state: State) -> dict[str, str]:
    """Nodes that others are to take the place of, to the decision that ordered these."""
    return {name: one.decision for one in state.consolidating.replacements for name in one.nodes}

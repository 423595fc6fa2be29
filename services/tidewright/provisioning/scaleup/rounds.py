"""Option after option, until nothing is left to decide: a burst is decided once. Spec 3.11.

`plan_all` gives one plan for everything. Between its rounds `enact` lets a trial of the world look as
if the nodes of the last one were there; an evaluation uses it in the same way between its plans.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from tidewright.kube.podshape import PodShape
from tidewright.provisioning.cluster.groups import sibling
from tidewright.provisioning.pack.classes import Item
from tidewright.provisioning.scaleup.coming import planned
from tidewright.provisioning.scaleup.options import plan
from tidewright.provisioning.scaleup.plans import (
    ALL_OR_NOTHING,
    NO_OPTIONS,
    NOT_NEEDED,
    SUCCESSFUL,
    Plan,
    World,
)


def plan_all(
    items: Sequence[Item],
    world: World,
    *,
    all_or_nothing: bool = False,
    redistribute: bool = False,
) -> Plan:
    """One plan for everything that can be helped, over as many groups as it takes. Spec 3.11, [B8].

    After each option its nodes and pods are added to a trial, and what is left is decided again, on
    the room that the new nodes have left first. All-or-nothing here means: all pods, over all groups.
    """
    trial = World(
        groups=world.groups,
        grid=world.grid.fork(),
        limits=world.limits.fork(),
        settings=world.settings,
        current_nodes=world.current_nodes,
        seed=world.seed,
    )
    shapes = {item.shape.digest: item.shape for item in items}
    remaining = {item.shape.digest: item.count for item in items}
    total = Plan(result=NO_OPTIONS, option_pods=(0,) * len(items), placed=(0,) * len(items))
    first: Plan | None = None
    rounds = 0
    while any(remaining.values()):
        waiting = [Item(shapes[d], n) for d, n in remaining.items() if n]
        step = plan(waiting, trial, redistribute=redistribute)
        if first is None:
            first = step
        if step.event:
            total.event = step.event
        total.notes += tuple(note for note in step.notes if note not in total.notes)
        if step.result != SUCCESSFUL or not sum(step.placed):
            break
        rounds += 1
        _merge(total, step, remaining, waiting, items)
        enact(trial, step, shapes, rounds)
        rest = [Item(shapes[d], n) for d, n in remaining.items() if n]
        for position, item in enumerate(rest):
            after = rest[position + 1 :] if item.shape.claims else ()
            here = trial.grid.place(item.shape, item.count, after)
            if here:
                _count(total, remaining, items, item.shape.digest, here)
    total.result = SUCCESSFUL if total.targets else (first.result if first is not None else NOT_NEEDED)
    if first is not None:
        total.options, total.able = first.options, first.able
        total.reasons, total.item_reasons = dict(first.reasons), first.item_reasons
    if all_or_nothing and any(remaining.values()):
        return Plan(
            result=NO_OPTIONS,
            option_pods=total.option_pods,
            placed=(0,) * len(items),
            options=total.options,
            reasons={**total.reasons, **{o.group: ALL_OR_NOTHING for o in total.options}},
            item_reasons=total.item_reasons,
            event=total.event,
        )
    return total


def _count(total: Plan, remaining: dict[str, int], items: Sequence[Item], digest: str, pods: int) -> None:
    index = next(i for i, item in enumerate(items) if item.shape.digest == digest)
    placed = list(total.placed)
    placed[index] += pods
    total.placed = tuple(placed)
    remaining[digest] -= pods


def _merge(
    total: Plan, step: Plan, remaining: dict[str, int], waiting: Sequence[Item], items: Sequence[Item]
) -> None:
    """Add one step to the whole plan: targets of one group become one target."""
    for item, pods in zip(waiting, step.placed, strict=True):
        if pods:
            _count(total, remaining, items, item.shape.digest, pods)
    targets = {target.group: target for target in total.targets}
    for target in step.targets:
        before = targets.get(target.group)
        targets[target.group] = (
            target if before is None else msgspec.structs.replace(before, size=target.size)
        )
    total.targets = tuple(targets.values())
    total.created += tuple(name for name in step.created if name not in total.created)
    total.chosen += tuple(name for name in step.chosen if name not in total.chosen)
    total.placements += step.placements
    total.option_pods = tuple(total.placed)


def enact(trial: World, step: Plan, shapes: Mapping[str, PodShape], number: int = 0) -> None:
    """Let the trial look as if the step's nodes were there, with the pods that they are for."""
    groups = {group.id: group for group in trial.groups}
    for target in step.targets:
        group = groups.get(target.group)
        if group is None:  # one that comes into being beside its first
            group = sibling(next(g for g in groups.values() if target.group in g.also), target.group)
        groups[target.group] = msgspec.structs.replace(
            group, target=target.size, nodes=group.nodes + target.added, exists=True, also=(), beside=""
        )
        trial.limits.consume(group.id, group.labels, group.node_capacity, target.added)
        trial.current_nodes += target.added
    trial.groups = tuple(groups.values())
    for placement in step.placements:
        template = groups[placement.group].template
        if template is None:
            continue
        for part, layout in enumerate(placement.layouts):
            before = len(trial.grid.views)
            names = planned(placement.group, layout.nodes, in_round=number, nodes=before, layout=part)
            rows = trial.grid.add_copies(template.view, names)
            for row in rows:
                for item in template.residents:
                    trial.grid.put(item.shape, row, item.count)
                for digest, pods in layout.pods.items():
                    trial.grid.put(shapes[digest], row, pods)

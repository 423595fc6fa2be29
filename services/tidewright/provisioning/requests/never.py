"""Shapes that no group can ever hold, said at once: the nearest group, and what is short there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from tidewright.kube.devices.stock import Stock, among
from tidewright.kube.podshape import PodShape
from tidewright.provisioning.group_ids import NodeGroupId
from tidewright.provisioning.pack.grid import Grid
from tidewright.provisioning.pack.templates import Template, fits_reason
from tidewright.provisioning.requests.search import Asked
from tidewright.provisioning.scaleup.plans import World
from tidewright.provisioning.tell.amounts import amount_text


def never_held(asked: Asked, world: World) -> list[str]:
    """A sentence for each pod set of which neither a group nor a node that exists ever holds a pod."""
    templates = {g.id: g.template for g in sorted(world.groups, key=lambda g: g.id) if g.template is not None}
    sentences: dict[str, None] = {}
    for item in asked.sets:
        if item.shape.blocked:
            sentences[f"its pods go nowhere as things are: {item.shape.blocked}"] = None
            continue
        reasons = _refusals(item.shape, templates)
        if not reasons or _some_node_could(item.shape, world.grid):
            continue
        sentences[_nearest(item.shape, templates) or _nowhere(reasons)] = None
    return list(sentences)


def _refusals(shape: PodShape, templates: Mapping[NodeGroupId, Template]) -> dict[NodeGroupId, str]:
    """Group to why its nodes never hold a pod; empty when some group's do."""
    reasons: dict[NodeGroupId, str] = {}
    for name, template in templates.items():
        reason = fits_reason(shape, template)
        if not reason:
            return {}
        reasons[name] = reason
    return reasons


def _some_node_could(shape: PodShape, grid: Grid) -> bool:
    """Whether a node that exists could hold one pod if it were empty."""
    allowed = grid.mask(shape)
    return any(
        bool(allowed[row])
        and view is not None
        and all(
            amount <= view.allocatable.get(name, 0)
            for name, amount in shape.requests_at(grid.devices.stocks.get(row)).items()
        )
        and not _lacks_devices(shape, grid, row)
        for row, view in enumerate(grid.views)
    )


def _lacks_devices(shape: PodShape, grid: Grid, row: int) -> bool:
    """Whether a node would lack devices for one pod even if nobody had any."""
    claims = [claim for claim in shape.claims if claim.wishes]
    if not claims:
        return False
    places: list[tuple[Stock, Sequence[int]]] = []
    if row in grid.devices.stocks:
        own = grid.devices.stocks[row].full()
        places.append((own, range(len(own.devices))))
    if grid.devices.common is not None:
        places.append((grid.devices.common.stock.full(), grid.reached()[row]))
    return not among(claims, [True] * len(claims), *places).room


def _nearest(shape: PodShape, templates: Mapping[NodeGroupId, Template]) -> str:
    """Of the groups whose nodes lack nothing but room, the one that lacks least; empty when there is none."""
    best: tuple[float, NodeGroupId, str, int] | None = None
    sizeless = msgspec.structs.replace(shape, requests={})
    for name, template in templates.items():
        if fits_reason(sizeless, template):
            continue
        free = template.free()
        short = max(
            (
                ((amount - free.get(resource, 0)) / amount, resource, free.get(resource, 0))
                for resource, amount in sorted(shape.requests_at(template.view.stock).items())
                if amount > free.get(resource, 0)
            ),
            default=None,
        )
        if short is not None and (best is None or short[0] < best[0]):
            best = (short[0], name, short[1], short[2])
    if best is None:
        return ""
    _, name, resource, room = best
    return (
        f"group {name} is nearest and lacks {resource}: a pod asks for"
        f" {amount_text(resource, shape.requests[resource])}, an empty node has {amount_text(resource, room)}"
    )


def _nowhere(reasons: Mapping[NodeGroupId, str]) -> str:
    counted = sorted(Counter(reasons.values()).items(), key=lambda entry: (-entry[1], entry[0]))
    listed = ", ".join(f"{n} {reason}" for reason, n in counted[:5])
    return f"no group has nodes that its pods may run on: {listed}"

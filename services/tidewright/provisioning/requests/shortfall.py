"""How far a request is from having its room: what backfill may not make worse. Spec 8, [B6]."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tidewright.provisioning.pack.classes import Item
from tidewright.provisioning.pack.classes import items as merged
from tidewright.provisioning.requests.attempt import Asked, goals_of, place_sets, variants_of, with_grid
from tidewright.provisioning.requests.spec import Mode
from tidewright.provisioning.scaleup import expander as exp
from tidewright.provisioning.scaleup.options import plan
from tidewright.provisioning.scaleup.plans import World
from tidewright.provisioning.scaleup.rounds import plan_all


def shortfall(mode: Mode, asked: Asked, world: World) -> int:
    """Pods of a request for which there is no room in this world, however its groups grew.

    Of an elastic gang its minimum counts, of a topology the domain that comes nearest. Groups that cannot
    grow for the moment (backoff, unready nodes) count as if they could: the request may be waiting for them.
    """
    counts = goals_of(asked)[-1]
    hopeful = msgspec.structs.replace(
        world,
        groups=tuple(msgspec.structs.replace(g, backed_off=False, healthy=True) for g in world.groups),
    )

    def lacking(sets: Sequence[Item]) -> int:
        return _lacking(mode, asked, hopeful, sets)

    variants = variants_of(asked, hopeful, lambda sets: not lacking(sets), counts)
    return min((lacking(sets) for sets in variants), default=sum(counts))


def _lacking(mode: Mode, asked: Asked, world: World, sets: Sequence[Item]) -> int:
    trial = world.grid.fork()
    here = place_sets(trial, sets, growing=mode is not Mode.CHECK)
    rest = merged((item.shape, item.count - n) for item, n in zip(sets, here, strict=True) if n < item.count)
    total = sum(item.count for item in rest)
    if not rest or mode is Mode.CHECK:
        return total
    beyond = with_grid(world, trial)
    if asked.parameters.across_groups:
        return total - sum(plan_all(rest, beyond, redistribute=True).placed)
    return total - sum(plan(rest, beyond, redistribute=True, chooser=_largest).placed)


def _largest(options: Sequence[exp.Option]) -> exp.Option | None:
    return min(options, key=lambda option: (-option.pods, option.nodes, option.group), default=None)

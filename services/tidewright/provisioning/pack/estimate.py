"""How many nodes of one template hold these shapes, and which pods go there. Spec 3.7, "Estimator".

The reference packs class by class, largest first, round robin over the nodes made so far and then on
fresh ones. The same steps are taken here by counting; then first fit and other orders are tried, and the
best is kept: first the most pods, then the fewest nodes. The reference looks at its fresh nodes in the order
of a Go map, and answers the same question otherwise now and then (64 of 1,500 made by chance, asked twice):
in some of those the luckier answer has a node less, or where a limit binds pods more, than ours (26 of 4,500).
First-fit decreasing needs at most 11/9 of the optimum + 6/9 nodes where one resource dominates.

Deviation [B9]: only nodes made here are counted, never an existing one that was reused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from tidewright.kube.podshape import HOSTNAME, PodShape
from tidewright.kube.predicates import conflict, counted_alone
from tidewright.provisioning.pack.classes import Item
from tidewright.provisioning.pack.grid import Grid
from tidewright.provisioning.pack.rows import Rows
from tidewright.provisioning.pack.runs import Claiming, Needs, Runs, needs_of
from tidewright.provisioning.pack.templates import Estimate, Layout, Template, fits_reason

UNLIMITED = 0
DENIED = -1

Order: TypeAlias = list[int]


def node_limit(*limits: int) -> int:
    """Limits combined: negative denies, 0 is no limit, else the smallest. Spec 3.7, "Limiter"."""
    if any(limit < 0 for limit in limits):
        return DENIED
    return min((limit for limit in limits if limit > 0), default=UNLIMITED)


def cluster_limit(max_nodes_total: int, current: int) -> int:
    """Nodes that `max-nodes-total` still allows; 0 when it is not set."""
    if max_nodes_total == 0:
        return UNLIMITED
    return max_nodes_total - current if max_nodes_total > current else DENIED


def group_limit(rooms: Sequence[int]) -> int:
    """Nodes that a group and its similar ones still take; each room is max - target."""
    return sum(max(0, room) for room in rooms) or DENIED


def reference_order(items: Sequence[Item], template: Template) -> Order:
    """Largest share of cpu and memory first; ties by number of pods, then by digest."""
    shares = [share_of_both(item, template) for item in items]
    return sorted(range(len(items)), key=lambda i: (-shares[i], -items[i].count, items[i].shape.digest))


def share_of_both(item: Item, template: Template) -> float:
    """Which part of a node's cpu and memory a pod asks for, added up."""
    cpu, memory = (template.view.allocatable.get(name, 0) for name in ("cpu", "memory"))
    share = 0.0
    if cpu > 0:
        share += item.shape.requests.get("cpu", 0) / cpu
    if memory > 0:
        share += item.shape.requests.get("memory", 0) / memory
    return share


def estimate(
    items: Sequence[Item],
    template: Template,
    limit: int = UNLIMITED,
    cluster: Grid | None = None,
) -> Estimate:
    """How many nodes, and which pods.

    Args:
        items: shapes with counts; those that cannot run on the template are left unplaced.
        template: the next node.
        limit: nodes that may be made; `UNLIMITED`, or `DENIED` for none.
        cluster: existing nodes and pods, looked at only for shapes with inter-pod terms.
    """
    if limit < 0 or not items:
        return Estimate(0, (0,) * len(items))
    world = cluster if cluster is not None else Grid()
    if any(item.shape.single or item.shape.claims for item in items):
        items = [_singled(item, world) for item in items]
    order = reference_order(items, template)
    related = any(not _apart(item.shape, world) for item in items) or _repelled(items, template, world)
    if related:
        return Rows(items, template, limit, world).pack(order)
    packer = _Counting(items, template, limit)
    best = packer.pack(order, Runs.round_robin)
    a_try, tight = packer.looks, best.nodes <= packer.lower_bound(best.placed)
    binds = limit > 0 and best.pods < packer.placeable
    if tight and not binds:
        return best
    first, left = best.placed, MOST_LOOKS
    usual, more = packer.alternatives(order, binds=binds)
    tried: set[tuple[tuple[int, ...], Fill]] = {(tuple(order), Runs.round_robin)}
    for number, (candidate, fill) in enumerate(usual + more):
        free = number < len(usual) and not tight
        if (tuple(candidate), fill) in tried or not (free or a_try <= left):
            continue
        tried.add((tuple(candidate), fill))
        before = packer.looks
        other = packer.pack(candidate, fill)
        if not free:
            left -= packer.looks - before
        if binds and any(more < least for more, least in zip(other.placed, first, strict=True)):
            continue  # more pods are not better where they are in place of larger ones
        if (-other.pods, other.nodes) < (-best.pods, best.nodes):
            best = other
            if best.pods >= packer.placeable and best.nodes <= packer.lower_bound(best.placed):
                break
    return best


def _singled(item: Item, world: Grid) -> Item:
    """An item with no more pods than its volumes allow at a time."""
    most = world.most(item.shape, item.count)
    return item if most == item.count else Item(item.shape, 0 if world.claimed(item.shape) else most)


def _apart(shape: PodShape, world: Grid) -> bool:
    """Whether where a pod goes depends on nothing but what is on that node."""
    if not counted_alone(shape):
        return False
    return not shape.claims or not (any(c.claim for c in shape.claims) or world.devices.entangled(shape))


def _repelled(items: Sequence[Item], template: Template, cluster: Grid) -> bool:
    """Whether a term on a domain wider than a node keeps an item away from the template's domain."""
    here = [(digest, cluster.shapes[digest]) for digest, inner in cluster.where.items() if inner]
    shapes = [item.shape for item in items] + [item.shape for item in template.residents]
    present = [other for _, other in here] + shapes
    for item in items:
        if any(
            term.key != HOSTNAME and term.key in template.view.labels and term.selects(other)
            for term in item.shape.anti_affinity
            for other in present
        ):
            return True
    return any(
        term.key != HOSTNAME and term.key in template.view.labels and term.selects(item.shape)
        for other in present
        for term in other.anti_affinity
        for item in items
    )


Fill: TypeAlias = Callable[[Runs, Needs, int], int]
Try: TypeAlias = tuple[Order, Fill]
MOST_LOOKS = 4_000
"""So many looks of a shape at nodes may go into tries that are not usual: some dozens of shapes have all of them, many shapes none."""


class _Counting:
    """The estimate by counting, for shapes without terms on wider domains.

    Attributes:
        looks: how often a shape was held against nodes that are equal, a measure of what all packings so far have taken.
    """

    def __init__(self, items: Sequence[Item], template: Template, limit: int) -> None:
        self.items = items
        self.template = template
        self.limit = limit
        self.looks = 0
        free = template.free()
        names = sorted({name for item in items for name, amount in item.shape.requests.items() if amount > 0})
        at = {name: index for index, name in enumerate(names)}
        self.fresh = [max(0, free.get(name, 0)) for name in names]
        self.stock = template.stock()
        self.names = names
        fighters = [
            i
            for i, item in enumerate(items)
            if item.shape.host_ports or item.shape.anti_affinity or item.shape.volumes
        ]
        enemies: dict[int, set[int]] = {}
        alone: set[int] = set()
        for a in fighters:
            for b, other in enumerate(items):
                if conflict(items[a].shape, other.shape):
                    if a == b:
                        alone.add(a)
                    else:
                        enemies.setdefault(a, set()).add(b)
                        enemies.setdefault(b, set()).add(a)
        self.needs = [
            needs_of(
                i,
                [(at[name], n) for name, n in item.shape.requests_at(self.stock).items() if n > 0],
                i in alone,
                frozenset(enemies.get(i, ())),
                item.shape.claims,
            )
            for i, item in enumerate(items)
        ]
        self.per_node = [
            0 if fits_reason(item.shape, template) else needs.room(self.fresh, {}, self.stock)
            for item, needs in zip(items, self.needs, strict=True)
        ]

    @property
    def placeable(self) -> int:
        """How many of the pods may run on such a node at all."""
        return sum(item.count for item, most in zip(self.items, self.per_node, strict=True) if most)

    def pack(self, order: Order, fill: Fill) -> Estimate:
        """The reference's two phases, class by class."""
        runs = Runs(self.fresh, self.stock)
        placed = [0] * len(self.items)
        grow = True
        for i in order:
            needs, rest, per_node = self.needs[i], self.items[i].count, self.per_node[i]
            self.looks += 1 + len(runs.runs)
            if per_node or not needs.amounts:
                done = fill(runs, needs, rest)
                placed[i] += done
                rest -= done
            if not rest or not grow:
                continue
            allowed = self.limit - runs.total if self.limit > 0 else rest
            if not per_node:
                if runs.last_is_empty():
                    continue
                # The reference keeps the fresh node that did not help, and it counts against the limit.
                if allowed <= 0:
                    grow = False
                elif fill is Runs.round_robin:
                    runs.add(needs, 1, 0)
                continue
            nodes = -(-rest // per_node)
            if nodes > allowed:
                grow = False
                runs.add(needs, allowed, per_node)
                placed[i] += allowed * per_node
                continue
            full, odd = divmod(rest, per_node)
            runs.add(needs, full, per_node)
            runs.add(needs, 1 if odd else 0, odd)
            placed[i] += rest
        return Estimate(runs.used(), tuple(placed), self._layouts(runs))

    def _layouts(self, runs: Runs) -> tuple[Layout, ...]:
        return tuple(
            Layout(run.nodes, {self.items[i].shape.digest: n for i, n in sorted(run.held.items())})
            for run in runs.runs
            if run.held
        )

    def lower_bound(self, placed: Sequence[int]) -> int:
        """Nodes that no packing of these pods can do without."""
        best = 0
        for resource, here in enumerate(self.fresh):
            total = sum(
                amount * count
                for needs, count in zip(self.needs, placed, strict=True)
                for r, amount in needs.amounts
                if r == resource
            )
            if here:
                best = max(best, -(-total // here))
        for needs, count in zip(self.needs, placed, strict=True):
            if needs.alone:
                best = max(best, count)
            elif isinstance(needs, Claiming) and count:
                best = max(best, -(-count // self.per_node[needs.index]))
        return best

    def alternatives(self, order: Order, *, binds: bool) -> tuple[list[Try], list[Try]]:
        """Other orders and fills: the usual ones, that are quick, and more; `binds`: more would be placed with more nodes."""
        share = [
            [amount / self.fresh[r] if self.fresh[r] else 0.0 for r, amount in needs.amounts]
            for needs in self.needs
        ]
        rank = {i: position for position, i in enumerate(order)}
        by_largest = sorted(order, key=lambda i: (-max(share[i], default=0.0), rank[i]))
        by_sum = sorted(order, key=lambda i: (-sum(share[i]), rank[i]))
        by_square = sorted(order, key=lambda i: (-sum(x * x for x in share[i]), rank[i]))
        as_given = sorted(order, key=lambda i: (-share_of_both(self.items[i], self.template), i))
        # Where the limit binds, the number of pods counts: the ones that take the least first.
        by_room = sorted(order, key=lambda i: (-self.per_node[i], rank[i]))
        usual: list[Order] = [order, by_largest, by_sum, by_square, *([by_room] if self.limit > 0 else [])]
        others = [as_given, by_room, *([by_largest[::-1], by_sum[::-1]] if binds else [])]
        more: list[Try] = [(o, Runs.first_fit) for o in others]
        more += [
            (o, fill) for fill in (Runs.round_robin, Runs.tightest, Runs.widest) for o in (*usual, *others)
        ]
        return [(o, Runs.first_fit) for o in usual], more

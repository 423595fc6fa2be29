"""How many nodes of one template hold these shapes, and which pods go there. Spec 3.7, "Estimator".

The reference packs class by class, largest first, round robin over the nodes made so far and then on
fresh ones. The same steps are taken here by counting, so the answer is never worse than its; then
first fit and other orders are tried, and the best is kept: first the most pods, then the fewest nodes.
First-fit decreasing needs at most 11/9 of the optimum + 6/9 nodes where one resource dominates.

Deviation [B9]: only nodes made here are counted, never an existing one that was reused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import msgspec
import numpy as np

from tidewright.kube.devicestock import Stock, among, lacking
from tidewright.kube.podshape import HOSTNAME, PODS, NodeView, PodShape
from tidewright.kube.predicates import conflict, counted_alone, node_reason
from tidewright.provisioning.pack.classes import Item
from tidewright.provisioning.pack.grid import Grid, Ints, Mask
from tidewright.provisioning.pack.runs import Claiming, Needs, Runs, needs_of
from tidewright.provisioning.pack.together import best_row, kindred
from tidewright.provisioning.pack.topology import Walk, next_row

TOO_MANY_WAYS = "there are too many ways to hand out devices for its claims to try all of them"
UNLIMITED = 0
DENIED = -1

Order: TypeAlias = list[int]


class Layout(msgspec.Struct, frozen=True):
    """So many nodes that hold these pods each: shape digest to number."""

    nodes: int
    pods: dict[str, int]


class Estimate(msgspec.Struct, frozen=True):
    """Attributes:
    nodes: new nodes with at least one pod.
    placed: pods placed per item, in the order given.
    layouts: what the nodes hold.
    """

    nodes: int
    placed: tuple[int, ...]
    layouts: tuple[Layout, ...] = ()

    @property
    def pods(self) -> int:
        return sum(self.placed)


class Template(msgspec.Struct, frozen=True, kw_only=True):
    """What the next node of a group looks like.

    Attributes:
        view: labels, taints, allocatable; the host name label is given to each copy.
        residents: pods that every such node carries (DaemonSet and static pods), with their number.
    """

    view: NodeView
    residents: tuple[Item, ...] = ()

    def free(self) -> dict[str, int]:
        """Allocatable less what the residents take."""
        left = dict(self.view.allocatable)
        for item in self.residents:
            for name, amount in item.shape.requests.items():
                left[name] = left.get(name, 0) - amount * item.count
        return left

    def stock(self) -> Stock | None:
        """Its devices less what the residents take; None where it has none."""
        left = self.view.stock
        for item in self.residents:
            if left is not None and item.shape.claims:
                served = left.serve(item.shape.claims, (True,) * len(item.shape.claims))
                left = left.less((number, pick) for _, number, pick in served.picks(item.count))
        return left


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


def fits_reason(shape: PodShape, template: Template) -> str:
    """Why one pod of the shape does not fit on a fresh node; empty when it does."""
    reason = node_reason(shape, template.view)
    if reason:
        return reason
    for item in template.residents:
        if conflict(shape, item.shape):
            return "conflicts with a pod that every node of the group carries"
    free = template.free()
    for name, amount in sorted(shape.requests.items()):
        if amount > free.get(name, 0):
            return "Too many pods" if name == PODS else f"Insufficient {name}"
    return _lacks_devices(shape, template) if shape.claims else ""


def _lacks_devices(shape: PodShape, template: Template) -> str:
    """What a fresh node lacks of the devices that a pod claims; empty when it lacks none."""
    claims = tuple(claim for claim in shape.claims if claim.wishes)
    stocks = [stock for stock in (template.stock(), template.view.around) if stock is not None]
    places = [(stock, range(len(stock.devices))) for stock in stocks]
    served = among(claims, (True,) * len(claims), *places)
    if served.room:
        return ""
    return TOO_MANY_WAYS if served.out.gave_up else lacking(claims, *stocks)


def reference_order(items: Sequence[Item], template: Template) -> Order:
    """Largest share of cpu and memory first; ties by number of pods, then by digest."""
    cpu, memory = (template.view.allocatable.get(name, 0) for name in ("cpu", "memory"))

    def score(item: Item) -> float:
        found = 0.0
        if cpu > 0:
            found += item.shape.requests.get("cpu", 0) / cpu
        if memory > 0:
            found += item.shape.requests.get("memory", 0) / memory
        return found

    return sorted(range(len(items)), key=lambda i: (-score(items[i]), -items[i].count, items[i].shape.digest))


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
        return _Rows(items, template, limit, world).pack(order)
    packer = _Counting(items, template, limit)
    best = packer.pack(order, Runs.round_robin)
    bound = packer.lower_bound(best.placed)
    if best.nodes <= bound:
        return best
    tried = {tuple(order)}
    for candidate, fill in packer.alternatives(order):
        if fill is Runs.round_robin and tuple(candidate) in tried:
            continue
        tried.add(tuple(candidate))
        other = packer.pack(candidate, fill)
        if (-other.pods, other.nodes) < (-best.pods, best.nodes):
            best = other
            if limit == UNLIMITED and best.nodes <= bound:
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


class _Counting:
    """The estimate by counting, for shapes without terms on wider domains."""

    def __init__(self, items: Sequence[Item], template: Template, limit: int) -> None:
        self.items = items
        self.limit = limit
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
                [(at[name], amount) for name, amount in item.shape.requests.items() if amount > 0],
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

    def pack(self, order: Order, fill: Fill) -> Estimate:
        """The reference's two phases, class by class."""
        runs = Runs(self.fresh, self.stock)
        placed = [0] * len(self.items)
        grow = True
        for i in order:
            needs, rest, per_node = self.needs[i], self.items[i].count, self.per_node[i]
            if per_node or not needs.amounts:
                done = fill(runs, needs, rest)
                placed[i] += done
                rest -= done
            if not rest or not grow:
                continue
            left = self.limit - runs.total if self.limit > 0 else rest
            if not per_node:
                if runs.last_is_empty():
                    continue
                # The reference keeps the fresh node that did not help, and it counts against the limit.
                if left <= 0:
                    grow = False
                elif fill is Runs.round_robin:
                    runs.add(needs, 1, 0)
                continue
            wanted = -(-rest // per_node)
            if wanted > left:
                grow = False
                runs.add(needs, left, per_node)
                placed[i] += left * per_node
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

    def alternatives(self, order: Order) -> list[tuple[Order, Fill]]:
        """Other orders and fills, in the order in which they are tried."""
        share = [
            [amount / self.fresh[r] if self.fresh[r] else 0.0 for r, amount in needs.amounts]
            for needs in self.needs
        ]
        rank = {i: position for position, i in enumerate(order)}
        by_largest = sorted(order, key=lambda i: (-max(share[i], default=0.0), rank[i]))
        by_sum = sorted(order, key=lambda i: (-sum(share[i]), rank[i]))
        by_square = sorted(order, key=lambda i: (-sum(x * x for x in share[i]), rank[i]))
        orders = [order, by_largest, by_sum, by_square]
        if self.limit > 0:
            # Where the limit binds, the number of pods counts: the ones that take the least last.
            by_room = sorted(order, key=lambda i: (-self.per_node[i], rank[i]))
            orders.append(by_room)
        return [(o, fill) for o in orders for fill in (Runs.first_fit, Runs.round_robin)]


class _Rows:
    """The estimate on single nodes, for shapes whose terms look at domains or at other nodes."""

    def __init__(self, items: Sequence[Item], template: Template, limit: int, cluster: Grid) -> None:
        self.items = items
        self.template = template
        self.limit = limit
        self.grid = cluster.fork()
        self.made: list[int] = []
        self.rows: dict[int, dict[str, int]] = {}
        self._pointer = 0
        self._after: Order = []

    def pack(self, order: Order) -> Estimate:
        placed = [0] * len(self.items)
        grow = True
        for position, i in enumerate(order):
            item = self.items[i]
            self._after = order[position + 1 :] if item.shape.claims else []
            done, grow = self._place(item, grow)
            placed[i] = done
        layouts: dict[tuple[tuple[str, int], ...], int] = {}
        for row in self.made:
            held = self.rows.get(row)
            if held:
                key = tuple(sorted(held.items()))
                layouts[key] = layouts.get(key, 0) + 1
        return Estimate(
            sum(layouts.values()), tuple(placed), tuple(Layout(n, dict(key)) for key, n in layouts.items())
        )

    def _take(self, walk: Walk, row: int, shape: PodShape) -> None:
        walk.take(row)
        held = self.rows.setdefault(row, {})
        held[shape.digest] = held.get(shape.digest, 0) + 1

    def _new_rows(self, count: int) -> list[int]:
        begin = len(self.made)
        names = [f"template-{begin + i}-{self.template.view.name}" for i in range(count)]
        rows = self.grid.add_copies(self.template.view, names)
        for row in rows:
            for item in self.template.residents:
                self.grid.put(item.shape, row, item.count)
        self.made += rows
        return rows

    def _only_new(self, mask: Mask) -> Mask:
        chosen = np.zeros(len(mask), dtype=np.bool_)
        chosen[self.made] = True
        return mask & chosen

    def _place(self, item: Item, grow: bool) -> tuple[int, bool]:
        """One class: what fits the nodes made so far, then fresh ones. Returns (placed, may grow)."""
        if item.shape.claims:
            if self.grid.devices.waits(item.shape):
                return self._together(item, grow)
            if self.grid.tied(item.shape):
                return self._walk(item, False)[0], grow
            if self.grid.devices.entangled(item.shape):
                return self._walk(item, grow)
        if counted_alone(item.shape):
            return self._count_out(item, grow)
        return self._walk(item, grow)

    def _together(self, item: Item, grow: bool) -> tuple[int, bool]:
        """Pods that share a claim: on the node that holds the most of them, then where its devices reach."""
        shape = item.shape
        kin = [item, *kindred(shape, [self.items[i] for i in self._after])]
        row, held = self._best(kin)
        may_grow = grow and not 0 < self.limit <= len(self.made)
        if held < sum(each.count for each in kin) and may_grow and item.count:
            self._new_rows(1)
            row, held = self._best(kin)
        if row is None or not item.count:
            return 0, grow
        pods = min(item.count if counted_alone(shape) else 1, int(self.grid.capacity(shape)[row]))
        self._put(shape, row, pods)
        if pods == item.count:
            return pods, grow
        rest = Item(shape, item.count - pods)
        done, still = self._walk(rest, grow and not self.grid.tied(shape))
        return pods + done, still if not self.grid.tied(shape) else grow

    def _best(self, kin: Sequence[Item]) -> tuple[int | None, int]:
        """Of the nodes made so far the one that holds the most of these pods, and how many."""
        if not self.made:
            return None, 0
        rows = np.array(self.made, dtype=np.int64)
        return best_row(self.grid, self.grid.capacity(kin[0].shape)[rows], rows, kin)

    def _count_out(self, item: Item, grow: bool) -> tuple[int, bool]:
        """As `_walk`, for a shape whose pods do not look at one another: so many at a time."""
        shape, rest = item.shape, item.count
        if self.made and rest:
            room = self.grid.capacity(shape)[self.made]
            for position, pods in self._round_robin(room, rest):
                self._put(shape, self.made[position], pods)
                rest -= pods
        while rest and grow:
            if self.made and not self.rows.get(self.made[-1]):
                break
            if 0 < self.limit <= len(self.made):
                return item.count - rest, False
            row = self._new_rows(1)[0]
            per_node = int(self.grid.capacity(shape)[row])
            if not per_node:
                break
            more = -(-rest // per_node) - 1
            if self.limit > 0:
                more = min(more, self.limit - len(self.made))
            for each in (row, *self._new_rows(more)):
                pods = min(rest, per_node)
                self._put(shape, each, pods)
                rest -= pods
        return item.count - rest, grow

    def _round_robin(self, room: Ints, count: int) -> list[tuple[int, int]]:
        """(position among the nodes made, pods) for one pod per node and round, from the pointer on."""
        start = self._pointer % len(room)
        turned = np.minimum(np.concatenate([room[start:], room[:start]]), count)
        count = min(count, int(turned.sum()))
        if count <= 0:
            return []
        rounds = int(np.searchsorted(np.cumsum(_taking(turned)), count, side="right"))
        given = np.minimum(turned, rounds)
        rest = count - int(given.sum())
        last = int(np.flatnonzero(turned >= rounds)[-1])
        if rest:
            more = np.flatnonzero(turned > rounds)[:rest]
            given[more] += 1
            last = int(more[-1])
        self._pointer = (start + last + 1) % len(room)
        chosen = np.flatnonzero(given)
        return [((start + int(i)) % len(room), int(given[i])) for i in chosen.tolist()]

    def _put(self, shape: PodShape, row: int, pods: int) -> None:
        self.grid.put(shape, row, pods)
        held = self.rows.setdefault(row, {})
        held[shape.digest] = held.get(shape.digest, 0) + pods

    def _walk(self, item: Item, grow: bool) -> tuple[int, bool]:
        shape, rest = item.shape, item.count
        walk = Walk(self.grid, shape)
        while rest and self.made:
            row = self._next(self._only_new(walk.allowed()))
            if row is None:
                break
            self._take(walk, row, shape)
            rest -= 1
        if not rest or not grow:
            return item.count - rest, grow
        rescue = any(c.key == HOSTNAME for c in shape.spread)
        while rest:
            if self.made:
                last = self.made[-1]
                allowed = walk.allowed()
                if allowed[last]:
                    self._take(walk, last, shape)
                    rest -= 1
                    continue
                if rescue and walk.without_spread()[last]:
                    row = next_row(self.grid, self.grid.order(), allowed[self.grid.order()])
                    if row is not None:
                        self._take(walk, row, shape)
                        rest -= 1
                        continue
                if not self.rows.get(last):
                    break
            if 0 < self.limit <= len(self.made):
                return item.count - rest, False
            row = self._new_rows(1)[0]
            walk = Walk(self.grid, shape)
            if not walk.allowed()[row]:
                break
            self._take(walk, row, shape)
            rest -= 1
        return item.count - rest, grow

    def _next(self, mask: Mask) -> int | None:
        good = [row for row in self.made if mask[row]] if mask.any() else []
        if not good:
            return None
        later = [row for row in good if row >= self.made[0] + self._pointer]
        row = later[0] if later else good[0]
        self._pointer = (row - self.made[0] + 1) % len(self.made)
        return row


def _taking(room: Ints) -> Ints:
    """Per round how many nodes take a pod in it."""
    most = int(room.max(initial=0))
    counts = np.bincount(np.minimum(room, most), minlength=most + 1)
    found: Ints = np.cumsum(counts[::-1])[::-1][1:].astype(np.int64)
    return found

"""One pass of scale-down: which nodes nobody needs, and which of them go now. Spec 4, addendum 2.1.

`evaluate` is a function of what is (`Scene`), of what the passes before found (`Memory`) and of settings. Where ours
differs from the reference by intention is said by number (`differences`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import pairwise

import msgspec

from tidewright.kube.keys import PodKey
from tidewright.provisioning.group_ids import NodeGroupId
from tidewright.provisioning.pack.grid import Grid
from tidewright.provisioning.scaledown.candidates import eligible, order
from tidewright.provisioning.scaledown.candidates.utilisation import Use, use_of
from tidewright.provisioning.scaledown.drain.budgets import Allowance
from tidewright.provisioning.scaledown.drain.evictions import Evicted, evicted
from tidewright.provisioning.scaledown.drain.rules import Sorted, sort_pods
from tidewright.provisioning.scaledown.going.parallel import Parallelism, cropped
from tidewright.provisioning.scaledown.going.timers import Floors, too_early
from tidewright.provisioning.scaledown.going.whole import Leaver, chosen, in_order
from tidewright.provisioning.scaledown.scene import (
    GroupTraits,
    Owners,
    Refusal,
    Removable,
    Resident,
    Residents,
    SceneBudget,
    SceneNode,
)
from tidewright.provisioning.scaledown.simulation.placing import Destinations
from tidewright.provisioning.scaledown.simulation.removal import Hints, Simulation
from tidewright.provisioning.settings import Settings

NOBODY = Owners(None)
DELAYED = "InCooldown"
"""Of a node whose group waits, since something of it has just come or gone."""


class Scene:
    """The cluster at the time of a pass.

    Attributes:
        nodes: in the order in which they are listed.
        grid: nodes and pods for placing; forked, never changed.
        empty_going: empty nodes whose deletion has begun.
        drains_going: nodes with pods of which it has.
        delayed: groups whose nodes wait, since something of them has just come or gone.
        most_tries: pods that a part of a pass tries to place, and nodes; 0: all of it at once.
        adopts: what was found before stays found, whatever the settings say.
    """

    most_tries = 0
    adopts = False
    delayed: frozenset[NodeGroupId] = frozenset()

    def __init__(
        self,
        *,
        nodes: Sequence[SceneNode],
        residents: Residents,
        groups: Mapping[NodeGroupId, GroupTraits],
        grid: Grid,
        budgets: Sequence[SceneBudget] = (),
        owners: Owners = NOBODY,
        empty_going: int = 0,
        drains_going: int = 0,
    ) -> None:
        self.nodes = nodes
        self.groups = groups
        self.grid = grid
        self.budgets = budgets
        self.owners = owners
        self.empty_going = empty_going
        self.drains_going = drains_going
        self._residents = residents

    def node(self, name: str) -> SceneNode:
        """A node by its name."""
        return self._by_name[name]

    @cached_property
    def _by_name(self) -> dict[str, SceneNode]:
        return {node.name: node for node in self.nodes}

    def pods(self, name: str) -> Sequence[Resident]:
        """A node's pods, expendable ones left out, in the order in which they are judged."""
        return self._residents.get(name, ())

    def sorted_pods(self, name: str, settings: Settings, allowance: Allowance, now: float) -> Sorted:
        """A node's own pods by what a drain does with them."""
        return sort_pods(self.pods(name), settings, self.owners, allowance, now)

    def closed(self, settings: Settings) -> list[str]:
        """Nodes that take no pods. [B21] Unready nodes are none of ours; the reference goes by their taints alone."""
        return [
            node.name
            for node in self.nodes
            if node.deleting or not node.started or not (node.ready or "B21" in settings.as_reference)
        ]

    def kind_of(self, node: SceneNode, settings: Settings, now: float) -> int:
        """Whether a node is empty, judged without owners and budgets."""
        pods = sort_pods(self.pods(node.name), settings, NOBODY, None, now)
        if pods.blocked is not None or pods.movers:
            return order.OCCUPIED
        return order.EMPTY_BUT_WAITING if pods.waits else order.EMPTY


class Memory(msgspec.Struct, kw_only=True):
    """What passes remember.

    Attributes:
        unneeded: node to the time since when it is.
        recheck_at: node to the time at which it is looked at again after a failed simulation.
        last_pass, interval_s: of the pass before, and the smallest interval between two.
        hints: pod to the node where it found room in the pass before.
        places: unneeded node to where its own pods go.
        pointer: rank of the row at which the last search ended.
        before: nodes that were unneeded when the pass began, where this is a later part of it.
    """

    unneeded: dict[str, float] = {}
    recheck_at: dict[str, float] = {}
    last_pass: float | None = None
    interval_s: float | None = None
    hints: dict[PodKey, str] = {}
    places: Mapping[str, Mapping[PodKey, str]] = {}
    pointer: int = 0
    before: int | None = None


class PassPlan(msgspec.Struct, kw_only=True):
    """What a pass found.

    Attributes:
        candidates: nodes that were looked at, in order of examination.
        uses: of those that got as far.
        unneeded: node to its removal, in the order in which they were found.
        refused: node to why it stays; candidates that are neither here nor unneeded were not reached.
        waiting: unneeded nodes that do not go now, and why.
        budgets: what is left of them, below 0 too.
        empty, drain: nodes that could go now; `going`: those that do.
        evictions: of the nodes that go.
        more: the pass goes on where this part of it has ended.
        limited: it ended since enough nodes were found.
        rest_until: when the first of those that consolidation lets rest may go.
        memory: for the next pass.
    """

    candidates: list[str]
    uses: dict[str, Use]
    unneeded: dict[str, Removable]
    refused: dict[str, Refusal]
    waiting: dict[str, str] = {}
    budgets: Mapping[str, int] = {}
    ready: list[Leaver] = []
    going: list[Leaver] = []
    evictions: dict[str, Evicted] = {}
    more: bool = False
    limited: bool = False
    rest_until: float = math.inf
    memory: Memory


def evaluate(scene: Scene, memory: Memory, settings: Settings, now: float) -> PassPlan:
    """A whole pass over all nodes."""
    paused = {name: at for name, at in memory.recheck_at.items() if at > now}
    refused: dict[str, Refusal] = {}
    uses: dict[str, Use] = {}
    willing: list[SceneNode] = []
    for node in scene.nodes:
        if node.deleting or not node.started or eligible.listed(node, scene.groups):
            continue
        reason, use = judge(scene, node, settings, now, paused=node.name in paused)
        if use is not None:
            uses[node.name] = use
        if reason:
            refused[node.name] = Refusal(reason)
        else:
            willing.append(node)
    plan = simulate(scene, willing, memory, settings, now)
    plan.refused = {**refused, **plan.refused}
    plan.uses = uses
    plan.memory.recheck_at = {**paused, **plan.memory.recheck_at}
    choose(scene, plan, settings, now)
    return plan


class Pass:
    """A pass that is being made: which of these nodes nobody needs, as far as it has got.

    [B22] What was found in a pass before stays found as long as its pods still fit where they were thought to go.

    Attributes:
        more: it goes on where it has ended.
    """

    def __init__(
        self, scene: Scene, willing: Sequence[SceneNode], memory: Memory, settings: Settings, now: float
    ) -> None:
        self.scene, self.memory, self.settings, self.now = scene, memory, settings, now
        self.more = True
        self._allowance = Allowance(scene.budgets, once="B16" not in settings.as_reference)
        self._hints = Hints(memory.hints)
        self._simulation = Simulation(
            Destinations(scene.grid.fork(), scene.closed(settings)),
            scene,
            self._allowance,
            settings,
            now=now,
            hints=self._hints,
        )
        self._simulation.destinations.last = memory.pointer
        self._interval = shortest(memory, settings, now)
        self._willing = willing
        self._examined = order.examined(
            willing, lambda node: scene.kind_of(node, settings, now), memory.unneeded
        )
        self._most = order.enough(
            len(memory.unneeded) if memory.before is None else memory.before,
            parallelism=settings.max_parallelism,
            unneeded_s=settings.unneeded_s,
            interval_s=self._interval,
        )
        kept = _kept(scene, self._examined, memory, settings, self._most)
        self._unneeded = self._simulation.adopt(kept)
        # What was found before is put back in every part: counted, it would leave nothing to try once it is much.
        self._simulation.tries = 0
        self._counted = sum(
            not scene.groups[node.group].zero_or_max for node in self._examined if node.name in self._unneeded
        )
        self._places: Mapping[str, Mapping[PodKey, str]] = {}
        self._before = len(self._unneeded)
        self._ranks: dict[str, int] | None = None
        self._refused: dict[str, Refusal] = {}
        self._limited = False
        self._next = 0

    @property
    def plain(self) -> bool:
        """Whether it may be taken up, see `taken_up`: in whatever order pods are put where they go, the same is left."""
        return self._simulation.plain

    @property
    def destinations(self) -> Destinations:
        """Nodes as it has left them."""
        return self._simulation.destinations

    def go_on(self, most_tries: int) -> None:
        """Try nodes until so many nodes and pods were tried since the pass began; 0: to its end."""
        self.more = False
        for at in range(self._next, len(self._examined)):
            self._next = at
            node = self._examined[at]
            if node.name in self._unneeded:
                continue
            if self._counted >= self._most:
                self._limited = True
                return
            if most_tries and self._simulation.tries >= most_tries:
                self.more = True
                return
            found = self._simulation.attempt(node.name)
            if isinstance(found, Refusal):
                self._refused[node.name] = found
            else:
                self._unneeded[node.name] = found
                self._counted += not self.scene.groups[node.group].zero_or_max
        self._next = len(self._examined)

    def taken_up(self, memory: Memory, now: float) -> bool:
        """Be as a pass would be that begins now, by what is remembered of what this one has found so far.

        Nothing else may have changed, and nothing that this one has refused be looked at again. False: such a one would
        find otherwise, or do so in another order; then this one is of no use any more.
        """
        found, known = self._unneeded, memory.places
        if not self.plain or found.keys() != known.keys() or not self._in_order():
            return False
        if any(known[name] is not moves and known[name] != moves for name, moves in self._places.items()):
            return False
        self._simulation.settle(list(found.values())[self._before :], now)
        self._simulation.destinations.last = memory.pointer
        for name, removal in found.items():
            if removal.moves is not known[name]:
                moves = known[name]
                found[name] = msgspec.structs.replace(removal, moves=moves, own=tuple(moves))
        self.memory, self.now, self._before = memory, now, len(found)
        self._examined = [node for node in self._examined if node.name not in self._refused]
        self._refused, self._limited, self._next = {}, False, 0
        return True

    def _in_order(self) -> bool:
        """Whether what was found is in the order in which it would be taken over."""
        if self._ranks is None:
            ranked = order.examined(
                self._willing, lambda node: self.scene.kind_of(node, self.settings, self.now), ()
            )
            self._ranks = {node.name: rank for rank, node in enumerate(ranked)}
        new = list(self._unneeded)[max(0, self._before - 1) :]
        ranks = [self._ranks[name] for name in new]
        return all(one < other for one, other in pairwise(ranks))

    def plan(self) -> PassPlan:
        """What it has found."""
        memory, now = self.memory, self.now
        self._places = self._simulation.places(self._unneeded)
        return PassPlan(
            candidates=[node.name for node in self._examined],
            uses={},
            unneeded=self._unneeded,
            refused=self._refused,
            more=self.more,
            limited=self._limited,
            budgets=self._allowance.counts(),
            memory=Memory(
                unneeded={name: memory.unneeded.get(name, now) for name in self._unneeded},
                recheck_at=dict.fromkeys(self._refused, now + self.settings.recheck_s),
                last_pass=now,
                interval_s=self._interval,
                hints=self._hints.now,
                places=self._places,
                pointer=self._simulation.destinations.last,
            ),
        )


def simulate(
    scene: Scene,
    willing: Sequence[SceneNode],
    memory: Memory,
    settings: Settings,
    now: float,
) -> PassPlan:
    """A pass, or a part of one, where the scene bounds it: `PassPlan.more` says that it goes on."""
    made = Pass(scene, willing, memory, settings, now)
    made.go_on(scene.most_tries)
    return made.plan()


def _kept(
    scene: Scene, nodes: Sequence[SceneNode], memory: Memory, settings: Settings, most: int
) -> dict[str, Mapping[PodKey, str]]:
    """Nodes that were unneeded before, with where their pods go, as far as that is remembered and wanted.

    Those of zero-or-max groups are wanted however many there are: found anew by every part, they would leave it no time for others.
    """
    if "B22" in settings.as_reference and not scene.adopts:
        return {}
    kept: dict[str, Mapping[PodKey, str]] = {}
    counted = 0
    for node in nodes:
        if node.name in memory.places and (scene.groups[node.group].zero_or_max or counted < most):
            kept[node.name] = memory.places[node.name]
            counted += not scene.groups[node.group].zero_or_max
    return kept


def candidates_of(scene: Scene, memory: Memory, settings: Settings, now: float) -> list[SceneNode]:
    """Nodes that may be looked at, in order of examination."""
    nodes = [node for node in scene.nodes if node.started and not eligible.listed(node, scene.groups)]
    return order.examined(nodes, lambda node: scene.kind_of(node, settings, now), memory.unneeded)


def judge(
    scene: Scene, node: SceneNode, settings: Settings, now: float, *, paused: bool
) -> tuple[str, Use | None]:
    """Why a node is not looked at further (empty: it is), and its use as far as that was looked at."""
    group = scene.groups.get(node.group)
    reason = eligible.before_use(node, group, paused=paused, now=now)
    if reason or group is None:
        return reason, None
    use = use_of(
        node,
        scene.pods(node.name),
        now,
        ignore_daemonsets=eligible.ignores_daemonsets(group, settings),
        ignore_mirror=settings.ignore_mirror,
    )
    reason = eligible.by_use(node, group, use, settings)
    return reason, use if reason != eligible.UNREADY_DISABLED else None


def shortest(memory: Memory, settings: Settings, now: float) -> float:
    """The smallest interval between two passes so far, at most the unneeded time."""
    interval = settings.unneeded_s if memory.interval_s is None else memory.interval_s
    return interval if memory.last_pass is None else min(interval, now - memory.last_pass)


def choose(scene: Scene, plan: PassPlan, settings: Settings, now: float) -> None:
    """Which unneeded nodes could go now, which do, and why the others wait; written into the plan."""
    plan.waiting, plan.ready = ready_now(scene, plan, settings, now)
    room = Parallelism(
        settings.max_parallelism - scene.empty_going - scene.drains_going,
        settings.max_drains - scene.drains_going,
    )
    plan.going = cropped(plan.ready, scene.groups, room, as_reference="B18" in settings.as_reference)
    plan.evictions = {
        leaver.name: evicted(scene.pods(leaver.name), settings, empty=not leaver.drains)
        for leaver in plan.going
    }


def ready_now(
    scene: Scene, plan: PassPlan, settings: Settings, now: float
) -> tuple[dict[str, str], list[Leaver]]:
    """Why unneeded nodes wait, and those that do not, in their order."""
    waiting: dict[str, str] = {}
    due: list[Leaver] = []
    for removal in sorted(plan.unneeded.values(), key=lambda removal: (not removal.empty, removal.node)):
        node = scene.node(removal.node)
        since = plan.memory.unneeded[node.name]
        reason = too_early(node, scene.groups.get(node.group), settings, since, now)
        if not reason and node.group in scene.delayed:
            reason = DELAYED
        if reason:
            waiting[node.name] = reason
            continue
        due.append(
            Leaver(
                name=node.name,
                group=node.group,
                drains=not removal.empty,
                waits=bool(removal.waits),
                risky=removal.risky,
            )
        )
    leavers, refused = kept_of(due, scene, settings)
    return {**waiting, **refused}, leavers


def kept_of(due: Sequence[Leaver], scene: Scene, settings: Settings) -> tuple[list[Leaver], dict[str, str]]:
    """Of nodes whose time has come those that may go: sizes, limits, whole groups, pods that have to complete.

    [B20] As the reference has it sizes and limits are used up by nodes that a later step refuses; ours counts what goes.
    """
    groups = scene.groups
    floors = Floors(scene.nodes, groups, settings)
    whole_as_reference = "B17" in settings.as_reference
    if "B20" not in settings.as_reference:
        leavers, refused = chosen(in_order(due), groups, as_reference=whole_as_reference)
        return _above(leavers, scene, floors, refused)
    waiting: dict[str, str] = {}
    above: list[Leaver] = []
    for leaver in due:
        reason = floors.refusal(scene.node(leaver.name))
        if reason:
            waiting[leaver.name] = reason
        else:
            floors.take(scene.node(leaver.name))
            above.append(leaver)
    leavers, refused = chosen(in_order(above), groups, as_reference=whole_as_reference)
    return leavers, {**waiting, **refused}


def _above(
    leavers: Sequence[Leaver], scene: Scene, floors: Floors, waiting: dict[str, str]
) -> tuple[list[Leaver], dict[str, str]]:
    """Those without whom groups and cluster have enough; of zero-or-max groups all or none."""
    kept: list[Leaver] = []
    broken: dict[NodeGroupId, str] = {}
    for leaver in leavers:
        reason = broken.get(leaver.group) or floors.refusal(scene.node(leaver.name))
        if not reason:
            floors.take(scene.node(leaver.name))
            kept.append(leaver)
            continue
        waiting[leaver.name] = reason
        if scene.groups[leaver.group].zero_or_max:
            broken[leaver.group] = reason
    for leaver in [leaver for leaver in kept if leaver.group in broken]:
        floors.take(scene.node(leaver.name), -1)
        waiting[leaver.name] = broken[leaver.group]
    return [leaver for leaver in kept if leaver.group not in broken], waiting

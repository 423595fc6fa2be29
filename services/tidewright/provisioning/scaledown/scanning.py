"""A part of a pass, on the state: what is recorded of it, what goes now, and when to look again.

The timer `scan` has it done, at most every `scan-interval`, and only while something may come of it: after a change of the
cluster, and at times at which time alone changes something. A part tries a bounded number of pods, and the pass goes on
with the next timer; what was found is recorded, so that each part begins where the one before it has ended.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import msgspec

from tidewright.events.base import Decision
from tidewright.events.provisioning import PausedNode, TrackUnneededNodes, UnneededNode
from tidewright.kube.keys import ObjectKey, PodKey
from tidewright.provisioning.cluster.backoff import backed_off
from tidewright.provisioning.cluster.cluster_state import Counts, Health, cluster_healthy
from tidewright.provisioning.consolidation import budgets as disruptions
from tidewright.provisioning.consolidation import protection
from tidewright.provisioning.consolidation.arrivals import came
from tidewright.provisioning.group_ids import NodeGroupId
from tidewright.provisioning.holding import LOOK_AGAIN_S, marks
from tidewright.provisioning.index.index import Index
from tidewright.provisioning.pack.grid import Grid
from tidewright.provisioning.scaledown import passes
from tidewright.provisioning.scaledown.beginning import begun
from tidewright.provisioning.scaledown.candidates.eligible import listed
from tidewright.provisioning.scaledown.cards import Cards, KnownOwners, traits_of
from tidewright.provisioning.scaledown.drain.budgets import Allowance
from tidewright.provisioning.scaledown.drain.rules import Sorted
from tidewright.provisioning.scaledown.going.cooldown import Last, cool_at, cool_groups, in_cooldown
from tidewright.provisioning.scaledown.going.timers import wait_s
from tidewright.provisioning.scaledown.going.whole import Leaver
from tidewright.provisioning.scaledown.scene import GroupTraits, Refusal, Removable, Resident, SceneNode
from tidewright.provisioning.settings import Settings
from tidewright.provisioning.state import Lately, State, Unneeded

MOST_TRIES = 2000
"""Nodes tried and pods placed in one part of a pass."""
MOST_RESTARTS = 3
"""So often a pass of one piece begins anew, since something came."""
READ_AT_ONCE = 1000
"""Nodes that are read at once before the first pass."""
EXPECTED = Refusal("BlockedByPod", pod_reason="Expected")
"""Of a node with room that is booked, or that pods need which wait or are to come."""
WAITS = PodKey(ObjectKey("/"))
"""In place of the pod that has to complete, where it is only known that there is one."""
SOON_S = 0.001
FULL_S = 1.0
"""How long passes rest at least while as many nodes go as may: what they would find cannot go before one of these has, and
that has the next pass come."""
PARALLEL = "MaxScaleDownParallelism"
"""Of a node that could go but for those that are going."""


class Room(msgspec.Struct):
    """Where an evaluation has put what is not there yet: pods that wait, and what is booked.

    Attributes:
        grid: nodes with all of that on them, those on their way too.
        needed: nodes on which something of it is.
        very_new: pods wait, and all of them are too young to be helped.
    """

    grid: Grid
    needed: frozenset[str] = frozenset()
    very_new: bool = False


class Found(msgspec.Struct):
    """What a part of a pass came to.

    Attributes:
        decisions: what is recorded.
        plan: what it found; None when it did not look.
        due: when to look again; None: when something changes.
    """

    decisions: list[Decision] = []
    plan: passes.PassPlan | None = None
    due: float | None = None


class LiveScene(passes.Scene):
    """The cluster as the state has it, with what is kept of its nodes.

    Attributes:
        kept_for: nodes of replacements that are under way: passes leave them alone.
        replacing: every node is judged as one that consolidation would have go.
    """

    def __init__(self, state: State, index: Index, cards: Cards, room: Room, now: float) -> None:
        groups = groups_of(state)
        super().__init__(
            nodes=[card.node for card in cards.cards.values()],
            residents={},
            groups=groups,
            grid=room.grid,
            budgets=cards.budgets(state),
            owners=KnownOwners(state),
            empty_going=sum(not removal.drains for removal in state.removals.values()),
            drains_going=sum(removal.drains for removal in state.removals.values()),
        )
        self.state = state
        self.index = index
        self.cards = cards
        self.delayed = delayed(state, index.settings, now)
        self.room = room
        self.now = now
        self.kept_for = set_aside(state)
        self.replacing = False

    def goes_on(self, room: Room, now: float) -> None:
        """As of a later time, at which nothing is otherwise but what time itself makes so."""
        self.room, self.now = room, now
        self.delayed = delayed(self.state, self.index.settings, now)

    @classmethod
    def of(cls, state: State, index: Index, now: float) -> LiveScene:
        """Without regard to what is not there yet: for who only asks."""
        return cls(state, index, cards_of(state, index, now), Room(index.grid), now)

    def node(self, name: str) -> SceneNode:
        return self.cards.cards[name].node

    def pods(self, name: str) -> Sequence[Resident]:
        return self.cards.pods(self.state, self.index, name)

    def kind_of(self, node: SceneNode, settings: Settings, now: float) -> int:
        kind = self.cards.cards[node.name].kind
        return kind if kind is not None else self.cards.kind(self.state, self.index, node.name, now)

    def sorted_pods(self, name: str, settings: Settings, allowance: Allowance, now: float) -> Sorted:
        found = self.cards.ordered(self.state, self.index, name, allowance, now)
        if found.blocked is None and (self.cards.cards[name].consolidates or self.replacing):
            kept = protection.of_pods(
                self.pods(name),
                found.movers,
                allowance,
                moved=self.state.consolidating.moved,
                draining=self._draining(allowance),
                now=now,
            )
            return found if kept is None else Sorted(blocked=kept)
        return found

    def _draining(self, allowance: Allowance) -> Mapping[str, int]:
        """Of each budget the pods that still have to leave nodes which go already."""
        charged: Counter[str] = Counter()
        for name, removal in self.state.removals.items() if allowance.budgets else ():
            asked = {key for key, pod in removal.pods.items() if pod.evicted_at is not None}
            for pod in self.pods(name) if name in self.cards.cards else ():
                if pod.key not in asked and pod.deleting_at is None:
                    charged.update(allowance.covering(pod))
        return charged

    def closed(self, settings: Settings) -> list[str]:
        """Beside nodes that take no pods rows that are no nodes yet."""
        closed = [*self.cards.closed, *self.state.removals, *self.kept_for]
        if self.grid is self.index.grid:
            return closed
        return [*closed, *(name for name in self.grid.rows if name not in self.cards.cards)]


def set_aside(state: State) -> frozenset[str]:
    """Nodes that are being replaced, and those that came to replace them."""
    replacements = state.consolidating.replacements
    return frozenset().union(*(one.nodes for one in replacements), *came(state).values())


def draining(state: State) -> bool:
    """Whether pods of nodes that are being replaced are on their way: what they will take is free to see."""
    return any(one.begun for one in state.consolidating.replacements)


def groups_of(state: State) -> dict[NodeGroupId, GroupTraits]:
    """Groups as passes see them."""
    there: dict[NodeGroupId, int] = {}
    if any(group.zero_or_max for group in state.groups.values()):
        for node in state.nodes.values():
            if node.group and not node.doomed:
                there[node.group] = there.get(node.group, 0) + 1
    leaving = Counter(r.group for r in state.removals.values() if not r.deletion)
    return {
        name: traits_of(name, group, there.get(name, 0), leaving[name])
        for name, group in state.groups.items()
    }


def cards_of(state: State, index: Index, now: float, most: int | None = None) -> Cards:
    """The cards of all nodes, up to date; or at most so many more than were."""
    if index.cards is None:
        index.cards = Cards()
    index.cards.bring_up(state, index, now, most)
    return index.cards


def reads_first(state: State, index: Index, now: float) -> bool:
    """Whether nodes are read before the first pass: so many at a time that no event is held up by all of them."""
    if state.scan.fired * READ_AT_ONCE >= len(state.nodes):
        return False
    cards_of(state, index, now, READ_AT_ONCE)
    return True


def may_come(state: State, index: Index) -> bool:
    """Whether a pass may find anything: some group is above its minimum, or something is remembered that may be over.

    Or some node has our soft taint, of which it is to be rid.
    """
    if state.unneeded or index.soft or state.consolidating.replacements:
        return True
    if not index.settings.scale_down or not state.scan.told:
        return False
    return bool(state.paused) or any(group.target > group.min_size for group in state.groups.values())


def rest_s(state: State, settings: Settings, begun: Sequence[Leaver] = ()) -> float:
    """How long after a pass the next one comes, if something has changed; `begun`: nodes whose removal is decided and not folded yet."""
    count = len(state.removals) + len(begun)
    drains = sum(removal.drains for removal in state.removals.values()) + sum(one.drains for one in begun)
    full = count >= settings.max_parallelism or 0 < settings.max_drains <= drains
    return max(settings.scan_interval_s, FULL_S) if full else settings.scan_interval_s


def healthy(cards: Cards, settings: Settings) -> bool:
    """Whether not too many nodes are unready: else what looks unneeded may be what its pods are waiting for."""
    counts = Counts(ready=len(cards.cards) - len(cards.unready), unready=len(cards.unready))
    return cluster_healthy([counts], Health(settings.ok_unready, settings.unready_percent))


def forgotten(state: State, now: float) -> Found:
    """Nothing is known to be unneeded any more: scale-down is off, or the cluster is not healthy."""
    if not state.unneeded:
        return Found()
    return Found([TrackUnneededNodes(at=now, needed=tuple(sorted(state.unneeded)))])


class UnderWay(NamedTuple):
    """A pass of which a part was made.

    Attributes:
        part: which one, counted since the pass began or began anew.
        restarts: how often it had begun anew.
        whole: it is of one piece, as the reference makes it: nothing is recorded of it before its end.
    """

    part: int
    restarts: int
    whole: bool
    scene: LiveScene
    run: passes.Pass


def of_one_piece(state: State, settings: Settings) -> bool:
    """Whether a pass finds what one does that is made in one go, as the reference does.

    Its parts go on from each other while nothing comes between them, and from the beginning when something does. Where that
    has happened a few times the pass goes on as ours do: what was found stays found.
    """
    return bool(settings.as_reference) and state.scan.restarts < MOST_RESTARTS


def as_of(state: State, settings: Settings, now: float) -> float:
    """When what a part looks at is looked at: where the pass is of one piece as its first part did."""
    scan = state.scan
    later = of_one_piece(state, settings) and scan.part > 1
    return scan.began if later and scan.began is not None else now


def taken_up(state: State, index: Index, now: float) -> UnderWay | None:
    """What the next part goes on from, taken out of the index; None where it has to begin, or to make again what is not kept.

    Parts are counted also where none is made, so it is asked whether it is of the same beginning, too.
    """
    made, index.under_way = index.under_way, None
    scan = state.scan
    if made is None or (made.part + 1, made.restarts) != (scan.part, scan.restarts):
        return None
    if made.scene.cards is not index.cards:
        # What came in between has everything read anew, and did not disturb the pass.
        return None
    if of_one_piece(state, index.settings):
        return made if made.whole and made.scene.now == scan.began else None
    return made if not made.whole and _as_it_was(state, index, made, now) else None


def _as_it_was(state: State, index: Index, made: UnderWay, now: float) -> bool:
    """Whether a part that begins with what is recorded would look at what the part before it has left: no node was read anew, and
    time has changed nothing.
    """
    cards, then = made.scene.cards, made.scene.now
    return (
        not (index.changed or index.owners_changed)
        and cards.next_change() > now
        and all(paused.until > now for paused in state.paused.values())
        and all(backed_off(one, then) is backed_off(one, now) for one in state.backoff.values())
    )


def _keeps(made: UnderWay, index: Index) -> bool:
    """Whether the next part may go on from this one. One of ours does only where nothing waits, or keeps room."""
    if not made.run.more:
        return False
    return made.whole or (
        not index.settings.as_reference and made.run.plain and made.scene.room.grid is index.grid
    )


def let_go(state: State, index: Index) -> None:
    """A pass that was disturbed begins anew: what was made of it is not kept until then."""
    if not state.scan.part:
        index.under_way = None


def _made(state: State, index: Index, room: Room, made: UnderWay | None, now: float) -> UnderWay:
    """The pass with a part more.

    One of one piece is made as far as so many parts come: what is not kept any more, after a restart, is made again. Any
    other begins with what is recorded; where the part before is kept, and would have left the same, it goes on from that.
    """
    settings, part = index.settings, max(1, state.scan.part)
    whole = of_one_piece(state, settings)
    if made is not None and not whole:
        stands = room.grid is index.grid and made.run.taken_up(memory_of(state, settings, now), now)
        made = made if stands else None
    if made is not None:
        made.scene.goes_on(room, as_of(state, settings, now))
    else:
        now = as_of(state, settings, now)
        scene = LiveScene(state, index, cards_of(state, index, now), room, now)
        scene.adopts = not whole
        run = passes.Pass(
            scene, _willing(state, scene, settings, now), memory_of(state, settings, now), settings, now
        )
        made = UnderWay(part, state.scan.restarts, whole, scene, run)
    made = made._replace(part=part)
    made.run.go_on(MOST_TRIES * part if whole else MOST_TRIES)
    index.under_way = made if _keeps(made, index) else None
    return made


def part_of_a_pass(state: State, index: Index, room: Room, kept: UnderWay | None, now: float) -> Found:
    """Look at nodes as far as a part of a pass does, after what is `kept` of it, and record what is otherwise than it was."""
    settings = index.settings
    made = _made(state, index, room, kept, now)
    scene, plan = made.scene, made.run.plan()
    # A pass that tried nodes again which it has refused itself would not end; the next one comes no sooner than that.
    rested = now + settings.scan_interval_s
    plan.memory.recheck_at = {name: max(at, rested) for name, at in plan.memory.recheck_at.items()}
    found = Found(plan=plan)
    if plan.more and made.whole:
        if state.scan.before is None:
            before = len(state.unneeded)
            found.decisions.append(TrackUnneededNodes(at=now, before=before, more=True))
        found.due = now + SOON_S
        return found
    if plan.more:
        found.decisions += _changes(state, plan, {}, now)
        found.due = now + SOON_S
        return found
    choose(scene, plan)
    if cools := draining(state) or cooling(state, room, settings, now):
        plan.going = []
    late = _late(scene, plan, settings, now, cools=cools) if settings.track_latency else {}
    found.decisions += _changes(state, plan, late, now, _skipped(plan) if settings.track_skipped else ())
    found.decisions += begun(state, plan, settings, now)
    found.due = _due(state, scene, plan, settings, now)
    return found


def whole_pass(state: State, index: Index, room: Room, now: float) -> passes.PassPlan:
    """A pass in one go, of which nothing is recorded."""
    scene = LiveScene(state, index, cards_of(state, index, now), room, now)
    settings = index.settings
    willing = _willing(state, scene, settings, now)
    plan = passes.simulate(scene, willing, memory_of(state, settings, now), settings, now)
    choose(scene, plan)
    return plan


def choose(scene: LiveScene, plan: passes.PassPlan) -> None:
    """Who goes now, written into the plan: of those that consolidation found, as many as its budgets allow."""
    settings, cards, now = scene.index.settings, scene.cards.cards, scene.now
    passes.choose(scene, plan, settings, now)
    if not any(cards[leaver.name].consolidates for leaver in plan.going):
        return
    away = Away(scene)
    going = []
    for leaver in plan.going:
        if cards[leaver.name].consolidates:
            since = plan.memory.unneeded[leaver.name]
            rests, until = resting(scene, leaver.name, since)
            if rests:
                plan.waiting[leaver.name] = rests
                plan.rest_until = min(plan.rest_until, until)
                continue
            reason = disruptions.UNDERUTILISED if leaver.drains else disruptions.EMPTY
            if not away.left(leaver.group, reason):
                plan.waiting[leaver.name] = disruptions.EXHAUSTED
                continue
        away.go(leaver.group)
        going.append(leaver)
    plan.going = going


def resting(scene: LiveScene, name: str, since: float | None) -> tuple[str, float]:
    """Why a node rests before consolidation has it go, and until when; see `protection.rest_of_node`."""
    return protection.rest_of_node(
        scene.state.consolidating, name, scene.index.settings, since=since, now=scene.now
    )


class Away:
    """How many nodes of each group are away, and how many more may go by the budgets of consolidation."""

    def __init__(self, scene: LiveScene) -> None:
        self._settings, self._now = scene.index.settings, scene.now
        self._gone = Counter[str](removal.group for removal in scene.state.removals.values())
        self._sizes = Counter[str]()
        for name, card in scene.cards.cards.items():
            self._sizes[card.node.group] += 1
            leaves = card.node.deleting or not card.node.ready
            self._gone[card.node.group] += leaves and name not in scene.state.removals

    def left(self, group: str, reason: str) -> int:
        """Nodes of a group that may go now for a reason."""
        budgets = disruptions.of_group(self._settings.consolidation_budgets, group)
        return disruptions.left(budgets, reason, self._sizes[group], self._gone[group], self._now)

    def go(self, group: str) -> None:
        """One more goes."""
        self._gone[group] += 1


def _willing(state: State, scene: LiveScene, settings: Settings, now: float) -> list[SceneNode]:
    """Nodes that a pass looks at."""
    cards, needed = scene.cards, scene.room.needed
    late = scene.delayed if "B23" in settings.as_reference else frozenset()
    return [
        node
        for node in (cards.cards[name].node for name in _in_order(state, cards, now))
        if not listed(node, scene.groups)
        and node.name not in needed
        and node.name not in state.removals
        and node.name not in scene.kept_for
        and node.group not in late
        and (node.name not in state.paused or state.paused[node.name].until <= now)
    ]


def _in_order(state: State, cards: Cards, now: float) -> list[str]:
    """Nodes that may be looked at: those that are used little first, then what consolidation adds to them.

    Of a group in backoff it adds none: what goes there may not come back.
    """
    little: list[str] = []
    used: list[str] = []
    for name in cards.eligible:
        card = cards.cards[name]
        if not card.consolidates:
            little.append(name)
        elif not backed_off(state.backoff.get(card.node.group), now):
            used.append(name)
    return [*sorted(little), *sorted(used)]


def memory_of(state: State, settings: Settings, now: float) -> passes.Memory:
    """What passes before have recorded."""
    places: dict[str, Mapping[PodKey, str]] = {name: node.moves for name, node in state.unneeded.items()}
    return passes.Memory(
        unneeded={name: node.since for name, node in state.unneeded.items()},
        interval_s=settings.scan_interval_s,
        places=places,
        hints={pod: place for moves in places.values() for pod, place in moves.items()}
        if settings.as_reference
        else {},
        before=state.scan.before,
    )


def _late(
    scene: LiveScene, plan: passes.PassPlan, settings: Settings, now: float, *, cools: bool
) -> dict[str, tuple[float, str]]:
    """Unneeded nodes to when their time is over, and what keeps those now of which it is; empty of those that go."""
    going = {leaver.name for leaver in plan.going}
    found: dict[str, tuple[float, str]] = {}
    for name, since in plan.memory.unneeded.items():
        node = scene.cards.cards[name].node
        due = since + wait_s(node, scene.groups[node.group], settings)
        kept = due <= now and name not in going
        reason = plan.waiting.get(name) or (passes.DELAYED if cools else PARALLEL)
        found[name] = (due, reason if kept else "")
    return found


def _skipped(plan: passes.PassPlan) -> list[str]:
    """Candidates that a pass did not get to, since enough nodes were found."""
    reached = plan.unneeded.keys() | plan.refused.keys()
    return sorted(name for name in plan.candidates if name not in reached) if plan.limited else []


def _changes(
    state: State,
    plan: passes.PassPlan,
    late: Mapping[str, tuple[float, str]],
    now: float,
    skipped: Collection[str] = (),
) -> list[TrackUnneededNodes]:
    """What is recorded of a part of a pass; nothing when it found what was known. `late`: where that is recorded, see `_late`."""
    places, since = plan.memory.places, plan.memory.unneeded
    fresh: list[UnneededNode] = []
    for name, removal in plan.unneeded.items():
        known = state.unneeded.get(name)
        before = (known.due, known.delayed) if known is not None else (None, "")
        due, reason = late.get(name, before)
        delayed = reason or before[1]
        if (
            known is None
            or known.since != since[name]
            or known.waits is not bool(removal.waits)
            or known.risky is not removal.risky
            or (known.moves is not places[name] and known.moves != places[name])
            or known.due != due
            or known.delayed != delayed
        ):
            entry = Unneeded(
                since[name], dict(places[name]), bool(removal.waits), removal.risky, due, delayed
            )
            fresh.append(_entry(name, entry))
    # What a part of a pass has not reached is as it was.
    unreached = set(plan.candidates) - set(plan.refused) if plan.more else set()
    needed = sorted(name for name in state.unneeded if name not in plan.unneeded and name not in unreached)
    paused = [
        PausedNode(
            node=name,
            until=plan.memory.recheck_at[name],
            reason=refusal.reason,
            pod=refusal.pod,
            pod_reason=refusal.pod_reason,
        )
        for name, refusal in sorted(plan.refused.items())
    ]
    known_skipped = state.scan.skipped
    newly = tuple(name for name in skipped if name not in known_skipped)
    reached = () if plan.more else tuple(sorted(known_skipped.keys() - set(skipped)))
    goes_on = plan.more is not (state.scan.before is not None)
    if not (fresh or needed or paused or newly or reached or goes_on):
        return []
    begun_with = state.scan.before if state.scan.before is not None else len(state.unneeded)
    return [
        TrackUnneededNodes(
            at=now,
            unneeded=tuple(fresh),
            needed=tuple(needed),
            paused=tuple(paused),
            before=begun_with if plan.more else 0,
            more=plan.more,
            skipped=newly,
            reached=reached,
        )
    ]


def _entry(name: str, entry: Unneeded) -> UnneededNode:
    return UnneededNode(
        node=name,
        since=entry.since,
        moves={str(pod): place for pod, place in entry.moves.items()},
        waits=entry.waits,
        risky=entry.risky,
        due=entry.due,
        delayed=entry.delayed,
    )


def recorded_plan(state: State, index: Index, now: float) -> passes.PassPlan:
    """What goes now, and why the rest waits, by what passes have recorded: nothing is simulated."""
    scene = LiveScene.of(state, index, now)
    there = {name: node for name, node in state.unneeded.items() if name in scene.cards.cards}
    plan = passes.PassPlan(
        candidates=[],
        uses={},
        unneeded={
            name: Removable(
                node=name,
                moves=node.moves,
                own=tuple(node.moves),
                waits=(WAITS,) if node.waits else (),
                risky=node.risky,
            )
            for name, node in there.items()
        },
        refused={},
        memory=passes.Memory(unneeded={name: node.since for name, node in there.items()}),
    )
    choose(scene, plan)
    return plan


def last_of(state: State) -> Last:
    """When nodes came and went last, of whatever group, also of those that are gone."""
    each = [*state.lately.values(), *([state.lately_of_gone] if state.lately_of_gone is not None else [])]
    return Last(
        add=state.last_scale_up,
        delete=max((one.delete for one in each if one.delete is not None), default=None),
        failure=max((one.failure for one in each if one.failure is not None), default=None),
    )


def delayed(state: State, settings: Settings, now: float) -> frozenset[NodeGroupId]:
    """With `scale-down-delay-type-local`, groups of which something came or went just now."""
    if not settings.delay_local:
        return frozenset()
    last = {name: _last_of_group(one) for name, one in state.lately.items()}
    return frozenset(last) - frozenset(cool_groups(last, last, settings, now))


def _last_of_group(one: Lately) -> Last:
    """When nodes of one group came and went last: by the cloud's answers, and failed drains count as failures. Addendum 1."""
    failures = [at for at in (one.failure, one.refused) if at is not None]
    return Last(add=one.add, delete=one.deleted, failure=max(failures, default=None))


def _due(
    state: State, scene: LiveScene, plan: passes.PassPlan, settings: Settings, now: float
) -> float | None:
    """When to look again though nothing changes: the first time at which time alone may make a difference."""
    acts = marks(state)
    local = state.lately.values() if settings.delay_local else ()
    dues = [scene.cards.next_change(), *_tried_again(state, scene, plan, settings, now)]
    for name, since in plan.memory.unneeded.items():
        node = scene.cards.cards[name].node
        dues.append(since + wait_s(node, scene.groups[node.group], settings) + SOON_S)
    if disruptions.EXHAUSTED in plan.waiting.values():
        dues.append(disruptions.next_change(settings.consolidation_budgets, now) or 0.0)
    dues.append(plan.rest_until)
    if plan.unneeded:
        dues.append(cool_at(last_of(state), settings))
        dues += [cool_at(_last_of_group(one), settings) for one in local]
    if plan.limited or (plan.going and acts):  # what only would go is no other the next time
        dues.append(now + (settings.scan_interval_s if acts else LOOK_AGAIN_S))
    future = [due for due in dues if now < due < float("inf")]
    return max(min(future), now + rest_s(state, settings, plan.going)) if future else None


def _tried_again(
    state: State, scene: LiveScene, plan: passes.PassPlan, settings: Settings, now: float
) -> list[float]:
    """When nodes that stay are tried again though nothing changes.

    Those of which a pass would find the same are not: what is refused now, and what was refused before and nothing has changed since.
    """
    index, kept = scene.index, state.consolidating
    # Room that is kept for what is not there ends with time, and so does what makes other nodes dear, or not to be had.
    passing = scene.room.grid is not index.grid or (
        settings.replaces
        and (
            bool(kept.revoked)
            or disruptions.next_change(settings.consolidation_budgets, now) is not None
            or any(backed_off(failure, now) for failure in state.backoff.values())
        )
    )
    dues = [
        plan.memory.recheck_at[name]
        for name, refusal in plan.refused.items()
        if passing or refusal.pod_reason in protection.PASSING
    ]
    dues += [
        paused.until
        for paused in state.paused.values()
        if passing or paused.changes != state.scan.changes or paused.pod_reason in protection.PASSING
    ]
    return dues


def cooling(state: State, room: Room, settings: Settings, now: float) -> bool:
    """Whether nothing goes now, since something has just come or gone, or is coming."""
    return in_cooldown(last_of(state), settings, now, very_new_pods=room.very_new)

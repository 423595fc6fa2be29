"""A replacement from the first round that finds it to the last node that goes. Addendum 4.2, rules 5 and 6.

proposed    a round found it; it is recorded, and later rounds look at the same nodes
ordered     the last of them agreed: the others are ordered, and passes leave both alone
drained     the others stand, and the pods still fit there: the removals begin, as many as may go at a time
over        none of the nodes is on its way out any more; or it is given up, and what came of the order is scale-down's
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tidewright.events.base import Because, Decision
from tidewright.events.provisioning import (
    EndReplacement,
    PausedNode,
    PlanScaleUp,
    ProposeReplacement,
    ReplaceNodes,
    TrackUnneededNodes,
)
from tidewright.provisioning.cluster.backoff import backed_off
from tidewright.provisioning.consolidation import budgets, modes
from tidewright.provisioning.consolidation.arrivals import being_replaced, came
from tidewright.provisioning.consolidation.kept import Proposal, Replacement
from tidewright.provisioning.consolidation.protection import NO_BUDGET, ROUNDS_S
from tidewright.provisioning.consolidation.trials import (
    NOTHING_CHEAPER,
    Round,
    Trial,
    amount,
    grouped,
    named,
)
from tidewright.provisioning.group_ids import NodeGroupId
from tidewright.provisioning.holding import LOOK_AGAIN_S, of_service
from tidewright.provisioning.index.index import Index
from tidewright.provisioning.scaledown import passes
from tidewright.provisioning.scaledown.beginning import replaced
from tidewright.provisioning.scaledown.choosing import cooling, draining
from tidewright.provisioning.scaledown.drain.evictions import evicted
from tidewright.provisioning.scaledown.drain.rules import BLOCKED_BY_POD
from tidewright.provisioning.scaledown.going.cooldown import cool_at
from tidewright.provisioning.scaledown.going.whole import WAITS_FOR_POD
from tidewright.provisioning.scaledown.lately import last_of
from tidewright.provisioning.scaledown.live import Room
from tidewright.provisioning.scaledown.scanning import Found
from tidewright.provisioning.scaledown.scene import Refusal, Removable
from tidewright.provisioning.scaledown.simulation.placing import Destinations
from tidewright.provisioning.scaledown.simulation.removal import NO_PLACE, Hints, Simulation
from tidewright.provisioning.scaleup.orders import Orders, ordered_plan, status_event
from tidewright.provisioning.state import State
from tidewright.provisioning.tell.sentences import because, sentence

DONE, GIVEN_UP = "Done", "GivenUp"
NEEDED = "Needed"
"""Why a replacement waits, and is given up at last: room on its nodes was booked or needed since they were judged first."""
TIMED_OUT = "timeout"
"""Code with which a group is left alone whose nodes did not come in time."""
STANDS_S = 300.0
"""How much longer than its nodes may take to come a replacement waits, for budgets too, before it is given up."""


def concluded(state: State, index: Index, room: Room, plan: passes.PassPlan | None, now: float) -> Found:
    """What comes next for what is being replaced; where nothing is, what a round finds after a pass.

    `plan` is what the pass came to; None when there was none, since scale-down is off or the cluster is not healthy.
    """
    kept = state.consolidating
    if not kept.replacements:
        return _new(state, index, room, plan, now)
    this = Round(state, index, room, plan, now)
    followed = _followed(this)
    # What is under way goes before: nothing is ordered while it, or ordinary scale-down, has something to begin.
    if (
        followed.decisions
        or not of_service(state).acts
        or (plan is not None and draining(state) and plan.ready)
    ):
        return followed
    if not kept.proposals and not this.beside():
        return followed
    more = _new(state, index, room, plan, now, this=this)
    return Found(more.decisions, due=_first(followed.due, more.due))


def _new(
    state: State,
    index: Index,
    room: Room,
    plan: passes.PassPlan | None,
    now: float,
    *,
    this: Round | None = None,
) -> Found:
    """What could be replaced beside what is, as this round has it; `this`: what it leaves to that."""
    proposals = state.consolidating.proposals
    if plan is None or plan.more or plan.going or not index.settings.replaces:
        return Found(_withdrawn(proposals, now)) if plan is None or not plan.more else Found()
    if index.waiting or cooling(state, room, index.settings, now):
        cool = cool_at(last_of(state), index.settings)
        return Found(due=cool if cool > now else None)
    return _rounds(this or Round(state, index, room, plan, now), proposals)


def _first(*dues: float | None) -> float | None:
    return min((due for due in dues if due is not None), default=None)


def _withdrawn(proposals: Sequence[Proposal], now: float) -> list[Decision]:
    return [ProposeReplacement(at=now)] if proposals else []


def _followed(this: Round) -> Found:
    """What comes next for what is being replaced: of one at a time, since the next counts on what has come of it.

    Where one waits, another goes on; it leaves the room to those before it.
    """
    replacements = this.state.consolidating.replacements
    due: float | None = None
    for replacement in replacements:
        following = _Following(this, replacement)
        found = following.next()
        due = _first(due, found.due)
        if found.decisions:
            soon = this.now + this.settings.scan_interval_s if len(replacements) > 1 else None
            return Found(found.decisions, due=_first(due, soon))
        this.leave_to(following.staying)
    return Found(due=due)


def _rounds(this: Round, proposals: Sequence[Proposal]) -> Found:
    """A first round, or one that has to agree with those before it."""
    now = this.now
    due: float | None = None
    lapsed: list[str] = []
    for proposal in proposals:
        again = this.trial(proposal.nodes) if all(this.may_go(name) for name in proposal.nodes) else None
        if again is None or again.groups != proposal.groups:
            lapsed += proposal.nodes
            continue
        since = proposal.since + _wait_s(this, proposal.nodes)
        if since <= now:
            soon = LOOK_AGAIN_S if len(proposals) == 1 else this.settings.scan_interval_s
            return Found(_ordered(this, again), due=now + soon)
        this.leave_to(proposal.nodes)
        due = _first(due, since)
    instead = None if due is None else tuple(lapsed)
    found, tried = this.search()
    decisions: list[Decision] = []
    if tried:
        decisions.append(_nothing_cheaper(this, tried))
    if found is None:
        rests = this.rest_until if now < this.rest_until < float("inf") else None
        if lapsed:
            decisions.append(ProposeReplacement(at=now, instead=instead))
        return Found(decisions, due=_first(due, rests))
    why = arithmetic(found)
    decisions.append(
        ProposeReplacement(
            at=now,
            nodes=found.nodes,
            groups=dict(found.groups),
            before_micro=found.before_micro,
            after_micro=found.after_micro,
            pods=found.pods,
            instead=instead,
            because=(why,),
        )
    )
    return Found(decisions, due=_first(due, now + _wait_s(this, found.nodes)))


def _wait_s(this: Round, nodes: Sequence[str]) -> float:
    """How long rounds must agree: as long as nodes must be unneeded."""
    groups = (this.scene.groups[group] for group in grouped(this.state, nodes))
    own = (this.settings.unneeded_s if g.unneeded_s is None else g.unneeded_s for g in groups)
    return max(ROUNDS_S, *own)


def _nothing_cheaper(this: Round, names: Sequence[str]) -> TrackUnneededNodes:
    """Nodes are left alone until passes look at them again: something keeps them, or what would replace them costs too much."""
    paused = {name: rest.until for name, rest in this.state.paused.items() if rest.until > this.now}
    until = this.now + this.settings.recheck_s
    return TrackUnneededNodes(
        at=this.now,
        paused=tuple(
            PausedNode(
                node=name,
                until=paused.get(name, until),  # whose rest is over this very pass has looked at
                reason=(why := this.kept.get(name, Refusal(NOTHING_CHEAPER))).reason,
                pod=why.pod,
                pod_reason=why.pod_reason,
            )
            for name in sorted(names)
        ),
    )


def arithmetic(trial: Trial) -> Because:
    """What a replacement saves, with the numbers."""
    return because(
        "Replaced",
        nodes=", ".join(trial.nodes),
        others=named(trial.groups),
        pods=trial.pods,
        before=amount(trial.before_micro),
        after=amount(trial.after_micro),
        saving=amount(trial.before_micro - trial.after_micro),
        overlap=amount(trial.overlap_micro),
    )


def _ordered(this: Round, trial: Trial) -> list[Decision]:
    """The others are ordered, and it is recorded for whom."""
    state, now = this.state, this.now
    why = arithmetic(trial)
    orders = Orders(state, now, this.settings.dry_run)
    made = ordered_plan(orders, trial.plan, trial.world, pods=(), why=(why,))
    plan = next(decision for decision in made if isinstance(decision, PlanScaleUp))
    provision_s = max(this.view.groups[NodeGroupId(group)].provision_s for group in trial.groups)
    return [
        ReplaceNodes(
            at=now,
            plan=plan.plan,
            nodes=trial.nodes,
            uids=tuple(state.nodes[name].uid for name in trial.nodes),
            groups=dict(trial.groups),
            before_micro=trial.before_micro,
            after_micro=trial.after_micro,
            pods=trial.pods,
            wait_s=provision_s + STANDS_S,
            because=(why,),
        ),
        *(
            # What the new nodes will hold still has its place: it is not what an increase is for.
            msgspec.structs.replace(decision, replaces=trial.nodes, loads=(), placed=trial.pods)
            if decision is plan
            else decision
            for decision in made
        ),
    ]


class _Following:
    """One look at a replacement that is under way."""

    def __init__(self, this: Round, replacement: Replacement) -> None:
        self.round, self.state, self.now = this, this.state, this.now
        self.settings = this.settings
        self.replacement = replacement
        there = self.state.nodes
        self.staying = [
            name
            for name, uid in replacement.nodes.items()
            if name in there and there[name].uid == uid and not there[name].doomed
        ]

    def next(self) -> Found:
        state, replacement = self.state, self.replacement
        if not of_service(state).acts:
            return Found()  # what is held back is forgotten when it may act again
        left = [name for name in self.staying if name not in replacement.begun]
        under_way = any(name in state.removals for name in replacement.nodes)
        if left:
            why = self._wrong(left)
            if why is not None:
                return self._given_up(*why)
            return self._begin(left)
        if under_way:
            return Found(due=self.now + LOOK_AGAIN_S)
        if not self.staying and replacement.begun:
            return self._over(DONE, "", "")
        if not self.staying:
            return self._given_up("NodesGone", "they are not there any more")
        kept = ", ".join(self.staying)
        return self._given_up("NodesStay", f"the removal of {kept} was undone")

    def _wrong(self, left: Sequence[str]) -> tuple[str, str] | None:
        """What has come to pass that ends it before the others are there."""
        state, settings = self.state, self.settings
        if not settings.scale_down or settings.dry_run:
            return "ScaleDownDisabled", "scale-down-enabled is false, or the configuration says dry-run"
        for name in left:
            group = state.nodes[name].group
            if group not in state.groups:
                return "NodeGroupGone", f"group {group} of node {name} is not there any more"
            if modes.mode_of(settings.consolidation, group) != modes.REPLACE:
                return "ConsolidationOff", f"consolidation of group {group} is not {modes.REPLACE} any more"
        if self._standing():
            return None
        for group in map(NodeGroupId, self.replacement.groups):
            failure = state.backoff.get(group)
            if (
                failure is not None
                and backed_off(failure, self.now)
                and failure.last >= self.replacement.begun_at
            ):
                reason = "NotInTime" if failure.code == TIMED_OUT else "OrderFailed"
                return reason, f"nodes of group {group} did not come: {failure.message or failure.code}"
        execution = state.executions.get(self.replacement.plan)
        if execution is not None and execution.failed:
            return "OrderFailed", f"the order for group {execution.failed[0].group} failed: {execution.error}"
        return None

    def _standing(self) -> bool:
        """Whether the others are there, ready and open."""
        cards = self.round.scene.cards.cards
        there = grouped(
            self.state,
            (
                name
                for name in came(self.state)[self.replacement.decision]
                if cards[name].node.ready
                and cards[name].node.started
                and not cards[name].node.deleting
                and not self.state.nodes[name].unschedulable
            ),
        )
        return all(there[NodeGroupId(group)] >= nodes for group, nodes in self.replacement.groups.items())

    def _begin(self, left: Sequence[str]) -> Found:
        """The removals of those that may go now, where the others stand and the pods of all of them fit there."""
        if not self._standing():
            return self._waits("NotInTime", f"{named(self.replacement.groups)} did not come")
        needed = [name for name in left if name in self.round.scene.room.needed]
        if needed:
            room_of = ", ".join(needed)
            return self._waits(
                NEEDED, f"room of {room_of} is booked, or pods need it that wait or are to come"
            )
        if self._others_go():
            return self._waits("OthersGo", "pods of other nodes are still on their way to where it has room")
        found = self._fitting(left)
        if isinstance(found, Refusal):
            message = f"pod {found.pod} keeps it" if found.pod else "its pods do not fit elsewhere any more"
            if found.pod_reason == NO_BUDGET or (found.reason == NO_PLACE and self._beside()):
                return self._waits(found.pod_reason or found.reason, message)
            return self._given_up(found.pod_reason or found.reason, message)
        prices = [self.state.groups[self.state.nodes[name].group].price_micro for name in left]
        others = [
            (known.price_micro if (known := self.state.groups.get(NodeGroupId(group))) else None, nodes)
            for group, nodes in self.replacement.groups.items()
        ]
        before = sum(price for price in prices if price is not None)
        after = sum(price * nodes for price, nodes in others if price is not None)
        unknown = None in prices or any(price is None for price, _ in others)
        if not self.replacement.begun and (unknown or before <= after):
            return self._given_up(
                "NothingSaved", f"it would cost {amount(after)} instead of {amount(before)}"
            )
        why = because(
            "ReplacementStands",
            others=named(self.replacement.groups),
            before=amount(self.replacement.before_micro),
            after=amount(self.replacement.after_micro),
            saving=amount(self.replacement.before_micro - self.replacement.after_micro),
            replacement=self.replacement.decision,
        )
        decisions: list[Decision] = []
        scene, away = self.round.scene, self.round.away
        room = min(
            self.settings.max_drains - scene.drains_going,
            self.settings.max_parallelism - scene.drains_going - scene.empty_going,
        )
        for name in left:
            removal, group = found[name], self.state.nodes[name].group
            reason = budgets.EMPTY if removal.empty else budgets.UNDERUTILISED
            if len(decisions) < room and away.left(group, reason):
                away.go(group)
                leaves = evicted(scene.pods(name), self.settings, empty=removal.empty)
                decisions.append(replaced(self.state, removal, leaves, self.settings, now=self.now, why=why))
        if not decisions:
            return self._waits(budgets.EXHAUSTED, "budgets let no more of its nodes go")
        return Found(decisions, due=self.now + LOOK_AGAIN_S)

    def _others_go(self) -> bool:
        """Whether scale-down drains other nodes: the room that their pods will take is still free to see."""
        going = self.round.pass_ is not None and bool(self.round.pass_.going)
        replaced = being_replaced(self.state)
        return going or any(r.drains and name not in replaced for name, r in self.state.removals.items())

    def _beside(self) -> bool:
        """Whether nodes of others are being replaced, too: what their pods take may be free again."""
        return len(self.state.consolidating.replacements) > 1

    def _fitting(self, left: Sequence[str]) -> dict[str, Removable] | Refusal:
        """Where the pods of these nodes go, all of them together; or what keeps one."""
        scene = self.round.scene
        stand = set(came(self.state)[self.replacement.decision])
        closed = [name for name in scene.closed(self.settings) if name not in stand]
        simulation = Simulation(
            Destinations(self.round.with_promises(), closed),
            scene,
            self.round.allowance(),
            self.settings,
            now=self.now,
            hints=Hints(self.round.packed(left, closed)),
        )
        found: dict[str, Removable] = {}
        for name in left:
            removal = simulation.attempt(name)
            if isinstance(removal, Refusal):
                return removal
            if removal.waits:
                return Refusal(BLOCKED_BY_POD, pod=removal.waits[0], pod_reason=WAITS_FOR_POD)
            found[name] = removal
        return found

    def _waits(self, reason: str, message: str) -> Found:
        """It goes on when something changes, as long as it has time."""
        if self.now >= self.replacement.until:
            return self._given_up(reason, message)
        again = self.now + (LOOK_AGAIN_S if reason != "NotInTime" else self.replacement.until - self.now)
        return Found(due=min(again, self.replacement.until))

    def _given_up(self, reason: str, message: str) -> Found:
        return self._over(GIVEN_UP, reason, message)

    def _over(self, result: str, reason: str, message: str) -> Found:
        replacement = self.replacement
        why = because(
            "ReplacementOver" if result == DONE else "ReplacementGivenUp",
            nodes=", ".join(replacement.nodes),
            others=named(replacement.groups),
            message=message,
            before=amount(replacement.before_micro),
            after=amount(replacement.after_micro),
        )
        over = EndReplacement(
            at=self.now,
            replacement=replacement.decision,
            nodes=tuple(replacement.nodes),
            groups=dict(replacement.groups),
            result=result,
            reason=reason,
            message=message,
            because=(why,),
        )
        said: list[Decision] = [over]
        if result == GIVEN_UP:
            said.append(status_event(self.now, "ReplacementGivenUp", sentence(why), "Warning"))
        return Found(said, due=self.now + self.settings.scan_interval_s)

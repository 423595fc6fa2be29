"""What comes next on a node's way out. Spec 4.4, addendum 3.1.

Looked at again with every outcome and fact about a node that goes, and by one timer. Nothing lies between two looks
but what the log says.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import msgspec

from tidewright.events.base import Because, Decision
from tidewright.events.provisioning import DeleteInstances, UndoRemoval
from tidewright.kube.keys import PodKey
from tidewright.provisioning import holding
from tidewright.provisioning.consolidation import protection
from tidewright.provisioning.group_ids import NodeGroupId
from tidewright.provisioning.index.index import Index
from tidewright.provisioning.index.indexing import index_of
from tidewright.provisioning.scaledown.candidates.eligible import SHARED
from tidewright.provisioning.scaledown.idle import SCALE_DOWN_DISABLED
from tidewright.provisioning.scaledown.removal import evicting, marking, words
from tidewright.provisioning.scaledown.removal.evicting import KEEPS_COMING, Turns
from tidewright.provisioning.scaledown.removal.saga import Removal
from tidewright.provisioning.scaledown.removal.standing import (
    Occupants,
    asks_to_stay,
    movers,
    occupants,
)
from tidewright.provisioning.scaleup.orders import group_ref
from tidewright.provisioning.state import Node, State
from tidewright.provisioning.tell.sentences import because

SEEN_S = 120.0
"""How long after a node was marked its own fact must show that."""
MOST_AT_ONCE = 50
"""Instances that one call deletes, where no interval is set: who looks at their nodes before it is soon done with that."""
MOST_OF_FEW, FEW_NODES = 200, 500
"""The same where the whole cluster has no more nodes than this: they are looked at in one list."""
ENOUGH = 50
"""So many that are ready wait for no others: another call costs as little by each of them."""
TOGETHER_S = 1.0
"""So long at most a node that is ready waits for those that the same pass has go, and whose marks are on their way, or
whose pods end by then."""


class Undo(msgspec.Struct, frozen=True):
    """Why a removal is undone.

    Attributes:
        failed: something that was tried did not succeed; else circumstances have changed.
    """

    reason: str
    message: str
    failed: bool = False
    pod: str = ""


class Steps:
    """One look at some removals. `decisions` and `due`, the next look by time, are its result."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.index: Index = index_of(state)
        self.settings = self.index.settings
        self.now = state.now
        self.decisions: list[Decision] = []
        self.due: float | None = None
        self._turns = Turns(state, self.settings, self.now)
        self._ready: dict[NodeGroupId, list[str]] = {}
        self._looked_at: set[str] = set()
        self._undone: set[str] = set()

    def run(self, nodes: Iterable[str]) -> None:
        """Look at the removals of these nodes, and at marks that were left over on them."""
        if not holding.of_service(self.state).acts:
            return  # what is held back goes on, or is forgotten, when it may act again
        for name in sorted(set(nodes)):
            removal = self.state.removals.get(name)
            if removal is not None:
                self._step(name, removal)
            elif (left := marking.left_over(self.state, name, self.now)) is not None:
                if (again := self.state.left.get(name, 0.0)) <= self.now:
                    self.decisions.append(left)
                else:
                    self._again(again)
                stuck = self.state.stuck.get(name)
                if stuck is not None and stuck.times == 1 and stuck.at == self.now:
                    self.decisions.append(words.stuck(self.now, name, left.target.uid, stuck))
        for group in sorted(self._ready):
            self._delete(group)

    # --- One node ---

    def _step(self, name: str, removal: Removal) -> None:
        self._looked_at.add(name)
        if removal.deletion or name in self._undone:
            return  # the point of no return: only its outcome says more
        if (why := self._changed(name, removal)) is not None:
            self._undo(name, removal, why)
            return
        if not removal.mark:
            pods = movers(self.state, self.index, name, self.now)
            used = self._used(name)
            self.decisions.append(words.begins(self.now, name, pods, used=used, drains=removal.drains))
            self.decisions.append(marking.mark(self.now, name, removal, cordon=self.settings.cordon))
            return
        held_at = removal.held_at
        if held_at is None:
            self._unseen(name, removal)
            return
        if self.now < held_at + self.settings.after_taint_s:
            self._again(held_at + self.settings.after_taint_s)
            return
        there = occupants(self.state, self.index, name, self.now)
        if (blocked := _refused(removal, there)) is not None:
            self._undo(name, removal, blocked)
            return
        self._drain(name, removal, there)

    def _used(self, name: str) -> str:
        """Of which resource of a node the most is asked for, and which part of it: `cpu 0.25`."""
        row, node = self.index.grid.rows.get(name), self.state.nodes.get(name)
        parts = [
            (1.0 - float(self.index.grid.free[resource][row]) / there, resource)
            for resource in ("cpu", "memory")
            if row is not None and node is not None and (there := node.allocatable.get(resource, 0)) > 0
        ]
        ratio, resource = max(parts, default=(0.0, "nothing"))
        return f"{resource} {ratio:.2f}"

    def _unseen(self, name: str, removal: Removal) -> None:
        """The outcome of the mark, or the node's own fact, is still to come; the latter is not waited for for ever."""
        if removal.marked_at is None:
            return
        until = removal.marked_at + SEEN_S
        if self.now < until:
            self._again(until)
            return
        message = f"it was marked, and has not been seen so for {SEEN_S:.0f} s"
        self._undo(name, removal, Undo("MarkNotSeen", message, failed=True))

    def _changed(self, name: str, removal: Removal) -> Undo | None:
        """What has come to pass since the decision that keeps the node."""
        node, group = self.state.nodes.get(name), self.state.groups.get(removal.group)
        if removal.failed:
            return Undo("Failed", removal.failed, failed=True)
        if node is None or group is None or node.uid != removal.uid:
            return Undo("NodeGone", f"node {name}, or its group, is not there any more")
        if removal.provider_id in self.index.twins:
            several = ", ".join(sorted(self.index.twins[removal.provider_id]))
            return Undo(
                SHARED, f"its spec.providerID {removal.provider_id} is that of several nodes: {several}"
            )
        if removal.unmarked:
            return Undo("MarkRemoved", "somebody took our taint or mark off it")
        if node.annotations.get(SCALE_DOWN_DISABLED) == "true":
            return Undo("ScaleDownDisabledAnnotation", f"it has the annotation {SCALE_DOWN_DISABLED}")
        if removal.rule and (why := self._protected(name, node)) is not None:
            return why
        if not self.settings.scale_down:
            return Undo("ScaleDownDisabled", "scale-down-enabled is false")
        if self.settings.dry_run:
            return Undo("DryRun", "the configuration says dry-run")
        if group.target - 1 < group.min_size and not removal.whole:
            return Undo(
                "NodeGroupMinSizeReached",
                f"group {removal.group} has {group.target} nodes, its minimum is {group.min_size}",
            )
        missing = [other for other in removal.whole if not self._goes_too(other)]
        if missing:
            return Undo("AtomicScaleDownFailed", f"node {missing[0]} stays, and the group goes as a whole")
        return None

    def _protected(self, name: str, node: Node) -> Undo | None:
        """Of a node that consolidation has go: who asks by now that it be left alone."""
        if protection.protects(node.annotations):
            message = f"it has the annotation {protection.DO_NOT_DISRUPT}"
            return Undo(protection.NODE_PROTECTED, message)
        key = asks_to_stay(self.state, self.index, name, self.now)
        if key is None:
            return None
        message = f"pod {key} has the annotation {protection.DO_NOT_DISRUPT}"
        return Undo(protection.POD_PROTECTED, message, pod=key)

    def _goes_too(self, name: str) -> bool:
        return (name in self.state.removals and name not in self._undone) or name not in self.state.nodes

    def _drain(self, name: str, removal: Removal, there: Occupants) -> None:
        settings = self.settings
        turn = self._turns.of(name, there.movers)
        if turn.late is not None:
            key, reason = turn.late
            self.decisions.append(words.not_evicted(self.now, key, self.state.pods[key].uid))
            self._undo(name, removal, Undo(reason, _late(key, reason), failed=True, pod=key))
            return
        self.decisions += turn.evictions
        for key in evicting.daemon_keys(removal):
            pod = self.state.pods.get(key)
            if pod is not None and pod.node == name and pod.uid == removal.daemons[key]:
                self.decisions.append(evicting.eviction(self.state, settings, self.now, key, name))
        if turn.due is not None:
            self._again(turn.due)
        if there.movers:
            return
        node = self.state.nodes[name]
        prepared = self._prepared_at(removal)
        if node.delays is None or node.delays:
            until = prepared + settings.delay_deletion_s
            if self.now < until:
                self._again(until)
                return
        if self.now < removal.again_at:
            self._again(removal.again_at)
            return
        rests = self.state.groups[removal.group].rest is not None
        if (removal.again_at or rests) and self.now >= prepared + self._patience_s:
            message = "its instance could not be deleted: something keeps it, or its group, that the watcher does not tell of"
            self._undo(name, removal, Undo("NotDeleted", message, failed=True))
            return
        if rests:
            self._again(prepared + self._patience_s)
            return  # the answer to an order was lost: nothing more is asked before it is known what came of it
        self._ready.setdefault(removal.group, []).append(name)

    def _prepared_at(self, removal: Removal) -> float:
        """Since when nothing on it is waited for."""
        held_at = (removal.held_at or self.now) + self.settings.after_taint_s
        return max(held_at, removal.emptied_at or 0.0)

    @property
    def _patience_s(self) -> float:
        """How long a deletion that is refused since more is on the node than is known is asked for again."""
        settings = self.settings
        return settings.eviction_s + settings.delay_deletion_s + settings.batch_s

    # --- Deletion ---

    def _delete(self, group: NodeGroupId) -> None:
        """Delete the instances of nodes that are ready.

        The calls of a group are made one after the other anyway: what gets ready during one goes together in the next. A node
        whose deletion was refused before goes by itself when its turn comes, and keeps no other one from going.
        """
        names = [name for name in self._ready[group] if name not in self._undone]
        whole = [name for name in names if self.state.removals[name].whole]
        if whole:
            self._delete_whole(group, whole)
        single = [name for name in names if name not in whole]
        if single and self.settings.batch_s > 0:
            self._delete_gathered(group, single)
            return
        if not single or self._under_way(group):
            return
        first = min(
            single,
            key=lambda name: max(
                self._prepared_at(self.state.removals[name]), self.state.removals[name].again_at
            ),
        )
        if self.state.removals[first].again_at:
            self._order(group, [first])
        else:
            self._delete_fresh(group, [name for name in single if not self.state.removals[name].again_at])

    def _delete_fresh(self, group: NodeGroupId, names: list[str]) -> None:
        """Nodes that are ready for the first time: in one call with those that one pass had go together, unless they are enough."""
        begun = {self.state.removals[name].begun_at for name in names}
        until = min(self._prepared_at(self.state.removals[name]) for name in names) + TOGETHER_S
        others = [
            (name, removal)
            for name, removal in self.state.removals.items()
            if removal.group == group and removal.begun_at in begun and not removal.whole
        ]
        if self.now < until and self._few_are_ready(others, until):
            self._again(until)
            return
        for name, removal in sorted(others):
            if name not in self._looked_at and removal.held_at is not None:
                self._step(name, removal)
        fresh = [
            name
            for name in sorted(self._ready[group])
            if name not in self._undone
            and not self.state.removals[name].whole
            and not self.state.removals[name].again_at
        ]
        most = MOST_OF_FEW if len(self.state.nodes) <= FEW_NODES else MOST_AT_ONCE
        self._order(group, fresh[:most])

    def _few_are_ready(self, others: Sequence[tuple[str, Removal]], until: float) -> bool:
        """Whether more of these may be ready by then, and those that are ready are too few for a call of their own."""
        unseen = sum(removal.held_at is None and _goes_on(removal) for _, removal in others)
        if unseen and len(others) - unseen < ENOUGH:
            return True  # with each mark that is seen this is asked again, and what pods there are takes longer to find
        left = len(others)
        for name, removal in others:
            if self._on_its_way(name, removal, until):
                left -= 1
                if left < ENOUGH:
                    return True
        return False

    def _on_its_way(self, name: str, removal: Removal, until: float) -> bool:
        """Whether a node may be ready by then: its mark is still to come, or not there for long enough, or its pods end."""
        if not _goes_on(removal):
            return False
        if removal.held_at is None or self.now < removal.held_at + self.settings.after_taint_s:
            return True
        there = movers(self.state, self.index, name, self.now)
        return bool(there) and all(self._ends(removal, key) <= until for key in there)

    def _ends(self, removal: Removal, key: PodKey) -> float:
        """When a pod is gone at the latest for all that is known; never, where it was not asked to leave or may not."""
        pod, leaving = self.state.pods[key], removal.pods.get(key)
        if leaving is None or leaving.uid != pod.uid or pod.removal is None:
            return math.inf
        asked_at = self.now if leaving.order else leaving.evicted_at
        return math.inf if asked_at is None else asked_at + (pod.removal.grace_s or 0.0)

    def _under_way(self, group: NodeGroupId) -> bool:
        """Whether the answer to a deletion of a group is still to come: it has the others looked at."""
        return any(removal.deletion and removal.group == group for removal in self.state.removals.values())

    def _delete_gathered(self, group: NodeGroupId, names: list[str]) -> None:
        """The first node of a group that is ready opens a window; all that are at its end go in one call."""
        first = min(self._prepared_at(self.state.removals[name]) for name in names)
        closes = first + self.settings.batch_s
        if self.now < closes:
            self._again(closes)
            return
        self._order(group, names)

    def _delete_whole(self, group: NodeGroupId, names: list[str]) -> None:
        members = [name for name in self.state.removals[names[0]].whole if name in self.state.nodes]
        if all(self._is_ready(name) for name in members):
            self._order(group, members)

    def _is_ready(self, name: str) -> bool:
        """Whether a node that is not looked at now is ready, too."""
        if name in self._ready.get(self.state.removals[name].group, ()):
            return True
        other = Steps(self.state)
        other._undone = self._undone
        other._step(name, self.state.removals[name])
        return any(name in names for names in other._ready.values())

    def _order(self, group: NodeGroupId, names: list[str]) -> None:
        known = self.state.groups[group]
        before = known.target - sum(
            len(d.instances)
            for d in self.decisions
            if isinstance(d, DeleteInstances) and d.target.name == group
        )
        room = max(0, before - known.min_size)
        if room < len(names) and self.state.removals[names[0]].whole:
            room = 0
        for name in names[room:]:
            message = f"group {group} has {before} nodes, its minimum is {known.min_size}"
            self._undo(name, self.state.removals[name], Undo("NodeGroupMinSizeReached", message))
        names = names[:room]
        if not names:
            return
        removals = [self.state.removals[name] for name in names]
        self.decisions.append(
            DeleteInstances(
                at=self.now,
                target=group_ref(group),
                instances=tuple(removal.provider_id for removal in removals),
                nodes=tuple(names),
                uids=tuple(removal.uid for removal in removals),
                from_size=before,
                size=before - len(names),
                because=tuple(
                    because(
                        "Drained" if removal.drains else "StillEmpty", node=name, removal=removal.decision
                    )
                    for name, removal in zip(names, removals, strict=True)
                ),
            )
        )

    # --- Back ---

    def undo(self, name: str, why: Undo) -> None:
        """A node is to stay, says who asks."""
        self._undo(name, self.state.removals[name], why)

    def _undo(self, name: str, removal: Removal, why: Undo) -> None:
        if name in self._undone:
            return
        self._undone.add(name)
        reason: Because = because("Undone", node=name, reason=why.reason, message=why.message)
        self.decisions.append(
            UndoRemoval(
                at=self.now,
                node=name,
                uid=removal.uid,
                group=removal.group,
                removal=removal.decision,
                reason=why.reason,
                message=why.message,
                failed=why.failed,
                pod=why.pod,
                because=(reason,),
            )
        )
        if removal.mark:
            self.decisions.append(marking.unmark(self.now, name, removal.uid, removal.decision, reason))
        self.decisions.append(words.undone(self.now, name, removal, why.message))
        for other in removal.whole:
            too = self.state.removals.get(other)
            if too is not None and other not in self._undone and not too.deletion:
                message = f"node {name} stays, and the group goes as a whole"
                self._undo(other, too, Undo("AtomicScaleDownFailed", message))

    def _again(self, due: float) -> None:
        self.due = due if self.due is None else min(self.due, due)


def _goes_on(removal: Removal) -> bool:
    """Whether nothing has come to pass of which a node would not be ready soon."""
    return not (removal.failed or removal.unmarked or removal.again_at)


def _refused(removal: Removal, there: Occupants) -> Undo | None:
    """Whether the pods that are there now let the node go."""
    if there.blocked:
        message = f"pod {there.pod} keeps it: {there.blocked}"
        return Undo("BlockedByPod", message, pod=there.pod)
    if there.movers and not removal.drains:
        return Undo("NotEmpty", f"pod {there.movers[0]} has come", pod=there.movers[0])
    return None


def _late(key: str, reason: str) -> str:
    if reason == "NotGone":
        return f"pod {key} has not ended in time"
    if reason == KEEPS_COMING:
        return f"pod {key} has come although it takes none: pods that tolerate its taint keep coming"
    return f"pod {key} may not be evicted: {reason}"

"""What scale-down keeps of each node between its passes: read anew where the node, its pods or their owners have changed.

Derived from the state, and lost with the index: it is then read again. Pods are looked at one by one only on nodes that
are used little.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from tidewright.kube.keys import ObjectKey, PodKey, namespace_of, parts
from tidewright.kube.selectors import LabelSelector
from tidewright.kube.taints import taints_of
from tidewright.provisioning.cluster.cluster_state import Readiness, readiness
from tidewright.provisioning.cluster.limits import GPU_LABELS, GPU_RESOURCES
from tidewright.provisioning.consolidation import modes, protection
from tidewright.provisioning.group_ids import NodeGroupId
from tidewright.provisioning.holding import SERVICE, of_service
from tidewright.provisioning.index.index import Index
from tidewright.provisioning.index.indexing import Awaited, awaited, holds_room, unripe
from tidewright.provisioning.index.resolving import shape_of
from tidewright.provisioning.scaledown.candidates import eligible, order
from tidewright.provisioning.scaledown.candidates.utilisation import Use, larger, share
from tidewright.provisioning.scaledown.drain.budgets import Allowance, selector_of
from tidewright.provisioning.scaledown.drain.rules import (
    KUBE_SYSTEM,
    MIRROR,
    Sorted,
    sort_pods,
    thought_gone_after,
)
from tidewright.provisioning.scaledown.scene import (
    GroupTraits,
    Owner,
    Owners,
    Resident,
    SceneBudget,
    SceneNode,
)
from tidewright.provisioning.settings import Settings
from tidewright.provisioning.state import Budget, GroupState, Node, Pod, State, owner_key

DELETION_TAINT = "ToBeDeletedByClusterAutoscaler"
NOT_TOLD = "what rules about removing it ask for was not told"
NEVER = math.inf


class Card(msgspec.Struct):
    """A node as scale-down knows it.

    Attributes:
        reason: why it is not looked at, whatever the time is and whatever was found of it; empty when it is.
        use: how much of it its pods ask for; None: that cannot be computed.
        consolidates: scale-down would not look at it, since it is used; consolidation does.
        until: when the time alone may change what is said here.
        pods, kind: read when they are asked for.
        ordered: its pods by what a drain does with them, budgets left aside; `spaces` are their namespaces.
    """

    node: SceneNode
    reason: str
    use: Use | None
    consolidates: bool = False
    until: float = NEVER
    pods: tuple[Resident, ...] | None = None
    kind: int | None = None
    ordered: Sorted | None = None
    spaces: frozenset[str] = frozenset()


class KnownOwners(Owners):
    """The controllers that the state knows of."""

    def __init__(self, state: State) -> None:
        super().__init__({})
        self.state = state

    def replicas(self, kind: str, namespace: str, name: str) -> int | None:
        if kind == "DaemonSet":
            return 1 if ObjectKey(f"{namespace}/{name}") in self.state.daemons else None
        return self.state.replicas.get(owner_key(kind, namespace, name))


class Cards:
    """The cards of all nodes. `bring_up` before anything is asked.

    Attributes:
        eligible: nodes that may be looked at.
        closed: nodes that take no pods.
        unready: nodes that have started, and are not ready.
    """

    def __init__(self) -> None:
        self.cards: dict[str, Card] = {}
        self.eligible: dict[str, None] = {}
        self.closed: dict[str, None] = {}
        self.unready: dict[str, None] = {}
        self._owned: dict[str, set[str]] = {}
        self._until: dict[str, float] = {}
        self._selectors: dict[ObjectKey, tuple[Budget, LabelSelector | None]] = {}

    def bring_up(self, state: State, index: Index, now: float, most: int | None = None) -> None:
        """Read anew what has changed since the last time; at most so many nodes, where the rest has time."""
        stale = set(index.changed) if self.cards else set(state.nodes)
        for owner in index.owners_changed:
            stale |= self._owned.pop(owner, set())
        stale |= {name for name, until in self._until.items() if until <= now}
        index.changed.clear()
        index.owners_changed.clear()
        kinds: dict[NodeGroupId, _Kind] = {}
        read = sorted(stale)
        if most is not None:
            index.changed.update(read[most:])
        for name in read[:most]:
            node = state.nodes.get(name)
            self._disown(name)
            self._until.pop(name, None)
            for kept in (self.eligible, self.closed, self.unready):
                kept.pop(name, None)
            if node is None:
                self.cards.pop(name, None)
                continue
            kind = kinds.get(node.group)
            if kind is None:
                group = state.groups.get(node.group)
                traits = traits_of(node.group, group) if group is not None else None
                kind = kinds[node.group] = _Kind(traits, awaited(group))
            card = self.cards[name] = _card(state, index, name, kind, now)
            if card.until < NEVER:
                self._until[name] = card.until
            if not card.reason:
                self.eligible[name] = None
            seen = card.node
            if seen.started and not seen.ready:
                self.unready[name] = None
            if seen.deleting or not seen.started or not (seen.ready or "B21" in index.settings.as_reference):
                self.closed[name] = None

    def _disown(self, name: str) -> None:
        """Who made the pods that were read of a node matters to it no more."""
        card = self.cards.get(name)
        for pod in card.pods or () if card is not None else ():
            if pod.owner is not None:
                key = owner_key(pod.owner.kind, pod.namespace, pod.owner.name)
                nodes = self._owned.get(key)
                if nodes is not None:
                    nodes.discard(name)
                    if not nodes:
                        del self._owned[key]

    def pods(self, state: State, index: Index, name: str) -> tuple[Resident, ...]:
        """A node's pods by name, expendable ones left out."""
        card = self.cards[name]
        if card.pods is None:
            card.pods = tuple(_residents(state, index, name))
            for pod in card.pods:
                if pod.owner is not None:
                    key = owner_key(pod.owner.kind, pod.namespace, pod.owner.name)
                    self._owned.setdefault(key, set()).add(name)
        return card.pods

    def kind(self, state: State, index: Index, name: str, now: float) -> int:
        """Whether a node is empty; see `candidates.order`."""
        card = self.cards[name]
        if card.kind is None and _plainly_occupied(state, index, name):
            card.kind = order.OCCUPIED
        if card.kind is None:
            pods = sort_pods(self.pods(state, index, name), index.settings, Owners(None), None, now)
            if pods.blocked is not None or pods.movers:
                card.kind = order.OCCUPIED
            else:
                card.kind = order.EMPTY_BUT_WAITING if pods.waits else order.EMPTY
        return card.kind

    def ordered(self, state: State, index: Index, name: str, allowance: Allowance, now: float) -> Sorted:
        """A node's pods by what a drain does with them; what no budget bears on is remembered."""
        card = self.cards[name]
        pods = self.pods(state, index, name)
        owners = KnownOwners(state)
        if card.ordered is None:
            card.spaces = frozenset(pod.namespace for pod in pods)
            card.ordered = sort_pods(pods, index.settings, owners, None, now)
            for pod in pods:
                if pod.namespace == KUBE_SYSTEM and pod.created_at is not None:
                    self._again(name, pod.created_at + index.settings.system_timeout_s + 0.001, now)
                if pod.deleting_at is not None:
                    self._again(name, thought_gone_after(pod.deleting_at, pod.grace_s) + 0.001, now)
        if not allowance.bears_on(card.spaces):
            return card.ordered
        return sort_pods(pods, index.settings, owners, allowance, now)

    def _again(self, name: str, at: float, now: float) -> None:
        """A node is to be read anew at a time."""
        if now < at < self._until.get(name, NEVER):
            self._until[name] = at

    def next_change(self) -> float:
        """The first time at which time alone changes something of some node."""
        return min(self._until.values(), default=NEVER)

    def budgets(self, state: State) -> list[SceneBudget]:
        """Disruption budgets; one whose selector cannot be read covers all of its namespace and allows nothing."""
        found: list[SceneBudget] = []
        for key in self._selectors.keys() - state.budgets.keys():
            del self._selectors[key]
        for key, budget in state.budgets.items():
            known = self._selectors.get(key)
            if known is None or known[0].selector != budget.selector:
                known = self._selectors[key] = (budget, selector_of(budget.selector))
            selector = known[1]
            namespace, name = parts(key)
            found.append(
                SceneBudget(
                    namespace=namespace,
                    name=name,
                    selector=selector or LabelSelector(),
                    allowed=0 if budget.behind or selector is None else budget.allowed,
                )
            )
        return found


class _Kind(NamedTuple):
    """What the nodes of one group have in common."""

    traits: GroupTraits | None
    devices: Awaited | None


def _card(state: State, index: Index, name: str, kind: _Kind, now: float) -> Card:
    settings, traits, node = index.settings, kind.traits, state.nodes[name]
    startup_s = eligible.startup_s(traits, settings)
    seen = scene_node(index, name, node, kind.devices, now, startup_s=startup_s)
    until = _taint_over(seen, now)
    use, later = _use(
        state, index, name, seen, now, daemons_count=not eligible.ignores_daemonsets(traits, settings)
    )
    reason = "" if seen.started and not seen.deleting else eligible.BEING_DELETED
    reason = reason or eligible.before_use(seen, traits, paused=False, now=now)
    if not reason and node.delays is None:
        reason = eligible.UNEXPECTED
    if not reason and node.provider_id in index.twins:
        reason = eligible.SHARED
    if not reason and traits is not None:
        reason = eligible.by_use(seen, traits, use, settings)
    consolidates = False
    if reason == eligible.NOT_UNDERUTILIZED and _consolidated(index, name, traits):
        reason = protection.of_node(node.annotations, node.created_at, now)
        consolidates = not reason
        if reason == protection.YOUNG:
            until = min(until, node.created_at + protection.YOUNG_S + 0.001)
    if not seen.started:
        until = min(until, node.created_at + startup_s + 0.001)
    return Card(node=seen, reason=reason, use=use, consolidates=consolidates, until=min(until, later))


def _consolidated(index: Index, name: str, group: GroupTraits | None) -> bool:
    """Whether a node that is used is looked at all the same; of a zero-or-max group, which goes as a whole, none is."""
    if group is None or group.zero_or_max:
        return False
    mode = modes.mode_of(index.settings.consolidation, group.id)
    return mode in (modes.UNDERUTILISED, modes.REPLACE) or (mode == modes.EMPTY and name not in index.busy)


def _plainly_occupied(state: State, index: Index, name: str) -> bool:
    """Whether one look tells that a node carries a pod that moves, or keeps it."""
    for key in index.on_node.get(name, ()) if name in index.busy else ():
        pod = state.pods[key]
        if not (pod.daemon or pod.deleting_at is not None or pod.annotations):
            return holds_room(state, index, pod.shape)
    return False


def _taint_over(node: SceneNode, now: float) -> float:
    if node.doomed_at is None or now - node.doomed_at >= eligible.STALE_DELETION_S:
        return NEVER
    return node.doomed_at + eligible.STALE_DELETION_S


_GPUS, _GPU_LABELS = frozenset(GPU_RESOURCES), frozenset(GPU_LABELS)


def _gpu(node: Node) -> str:
    """The resource by which a node with GPUs is measured; empty for one without."""
    if not _GPUS.isdisjoint(node.allocatable):
        found = next((resource for resource in GPU_RESOURCES if node.allocatable.get(resource)), "")
        if found:
            return found
    labelled = not _GPU_LABELS.isdisjoint(node.labels) and any(node.labels.get(key) for key in GPU_LABELS)
    return GPU_RESOURCES[0] if labelled else ""


def scene_node(
    index: Index, name: str, node: Node, devices: Awaited | None, now: float, *, startup_s: float
) -> SceneNode:
    """A node as passes see it; `startup_s` as its group has it."""
    settings = index.settings
    taints = {taint.get("key", ""): taint.get("value", "") for taint in node.taints}
    ready = node.ready and not unripe(index, name, node, devices)
    stage = Readiness.READY
    if not ready or taints:
        stage = readiness(
            ready=ready,
            age_s=now - node.created_at,
            taints=taints_of(node.taints),
            startup_s=startup_s,
            startup_taints=(*settings.startup_taints, *settings.ignore_taints),
        )
    return SceneNode(
        name=name,
        group=node.group,
        allocatable=node.allocatable,
        capacity=node.allocatable,
        labels=node.labels,
        annotations=node.annotations,
        ready=stage is Readiness.READY,
        gpu=_gpu(node),
        doomed_at=_began(taints[DELETION_TAINT]) if DELETION_TAINT in taints else None,
        deleting=node.doomed or node.leaving,
        started=stage is not Readiness.NOT_STARTED,
    )


def _began(value: str) -> float:
    """When a deletion began, as its taint says; long ago when it says nothing that can be read."""
    try:
        return float(value)
    except ValueError:
        return 0.0


def traits_of(name: NodeGroupId, group: GroupState, registered: int = 0, leaving: int = 0) -> GroupTraits:
    """A group as passes see it; its target counts no more what is being deleted."""
    return GroupTraits(
        id=name,
        min=group.min_size,
        target=group.target,
        registered=registered,
        leaving=leaving,
        zero_or_max=group.zero_or_max,
        threshold=group.own.threshold,
        gpu_threshold=group.own.gpu_threshold,
        unneeded_s=group.own.unneeded_s,
        unready_s=group.own.unready_s,
        startup_s=group.own.startup_s,
        ignore_daemonsets=group.own.ignore_daemonsets,
    )


def _use(
    state: State, index: Index, name: str, node: SceneNode, now: float, *, daemons_count: bool
) -> tuple[Use | None, float]:
    """How much of a node is asked for, from what is free on the grid; and when time alone changes that."""
    row = index.grid.rows.get(name)
    if row is None:
        return None, NEVER
    settings = index.settings
    left_out: dict[str, int] = {}
    ignored: dict[str, int] = {}
    until = NEVER
    for key in index.terminating.get(name, ()):
        pod = state.pods[key]
        over = thought_gone_after(pod.deleting_at or 0.0, pod.removal.grace_s if pod.removal else 30.0)
        if over >= now:
            until = min(until, over + 0.001)
        elif holds_room(state, index, pod.shape):
            _add(left_out, shape_of(state, index, pod.shape).requests)
    if not daemons_count or settings.ignore_mirror:
        for key in index.on_node.get(name, ()):
            pod = state.pods[key]
            if key not in index.terminating.get(name, ()) and _ignored(pod, settings, daemons_count):
                _add(ignored, shape_of(state, index, pod.shape).requests)

    def part(resource: str) -> float | None:
        there, column = node.allocatable.get(resource, 0), index.grid.free.get(resource)
        if there <= 0 or column is None:
            return None
        less = ignored.get(resource, 0)
        return share(there - int(column[row]) - left_out.get(resource, 0) - less, there - less)

    if node.gpu:
        return Use(node.gpu, part(node.gpu) or 0.0), until
    return larger(part("cpu"), part("memory")), until


def _add(amounts: dict[str, int], more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        amounts[name] = amounts.get(name, 0) + amount


def _ignored(pod: Pod, settings: Settings, daemons_count: bool) -> bool:
    mirror = pod.removal is not None and pod.removal.mirror
    return settings.ignore_mirror if mirror else pod.daemon and not daemons_count


def _residents(state: State, index: Index, name: str) -> Iterable[Resident]:
    for key in sorted(index.on_node.get(name, ())):
        pod = state.pods[key]
        if holds_room(state, index, pod.shape) or keeps(state, key):
            yield resident_of(state, index, key, pod)


def keeps(state: State, key: PodKey) -> bool:
    """Whether a pod keeps its node since nothing is done in its namespace, where the service acts elsewhere."""
    acting = state.acting
    if acting.modes is None and not acting.incumbents:
        return False
    return of_service(state).acts and not acting.held(SERVICE, namespace_of(key)).acts


def resident_of(state: State, index: Index, key: PodKey, pod: Pod) -> Resident:
    """A pod as the rules of a drain see it."""
    told, annotations = pod.removal, pod.annotations or {}
    by = pod.controller
    owner = Owner(by.kind, by.name, by.api_version.rpartition("/")[0]) if by is not None else None
    if pod.daemon and told is None:
        owner = Owner("DaemonSet", "")
    if told is None:
        return Resident(
            key=key,
            shape=shape_of(state, index, pod.shape),
            owner=owner,
            annotations=annotations,
            unknown=NOT_TOLD,
            held=keeps(state, key),
        )
    return Resident(
        key=key,
        shape=shape_of(state, index, pod.shape),
        owner=owner,
        annotations={**annotations, MIRROR: ""} if told.mirror else annotations,
        restart_policy=told.restart_policy,
        created_at=pod.created_at,
        deleting_at=pod.deleting_at,
        grace_s=told.grace_s,
        held=keeps(state, key),
        local=tuple(v.name for v in told.volumes if v.kind == "hostPath" or v.medium != "Memory"),
    )

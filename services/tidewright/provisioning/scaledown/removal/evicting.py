"""Whose turn it is to leave a node, and what disruption budgets have room for now. Addendum 2.2, 3.2.

The API server has the last word on every eviction. What is asked is what the budgets' facts have room for, less
what was asked since: a refusal costs ten seconds, and the actuator waits for none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from tidewright.events.base import ObjectRef
from tidewright.events.decisions import EvictPod
from tidewright.kube.keys import ObjectKey, PodKey, namespace_of, parts
from tidewright.kube.selectors import LabelSelector
from tidewright.provisioning.scaledown.drain.budgets import selector_of
from tidewright.provisioning.scaledown.drain.evictions import (
    eviction_grace_s,
    grace_most_s,
    level_of,
    wait_at_most_s,
)
from tidewright.provisioning.scaledown.removal.saga import AGAIN_S, Leaving, Removal
from tidewright.provisioning.scaledown.removal.standing import thought_gone_at
from tidewright.provisioning.settings import Settings
from tidewright.provisioning.state import Budget, Pod, State
from tidewright.provisioning.tell.sentences import because

DISRUPTION_BUDGET = "DisruptionBudget"
"""Why an eviction was refused: a budget has nothing left."""
KEEPS_COMING = "KeepsComing"
"""Why a pod is not evicted that came while the node was drained: so would be the one that is made for it."""


class Rooms:
    """What the budgets of pods have left, less the evictions that their facts do not count yet.

    A budget that was closed and open again before the answer to an eviction was heard of, or while it was not watched, has
    nothing new to say: an eviction counts for so long as a refusal is waited for, and then the API server is asked.
    """

    def __init__(self, state: State, now: float) -> None:
        self._state = state
        self._now = now
        self._spaces: dict[str, list[tuple[ObjectKey, LabelSelector, Budget]]] | None = None
        self._covering: dict[tuple[str, str], tuple[ObjectKey, ...]] = {}
        self._used: dict[ObjectKey, int] = {}
        self._moved_at: dict[ObjectKey, float] = {}
        self._counts_until: dict[ObjectKey, float] = {}

    def covering(self, namespace: str, shape: str) -> tuple[ObjectKey, ...]:
        """The budgets that pods of a shape fall under."""
        spaces = self._read() if self._spaces is None else self._spaces
        if namespace not in spaces:
            return ()
        found = self._covering.get((namespace, shape))
        if found is None:
            fields = self._state.shapes.get(shape)
            labels = fields.labels if fields is not None else {}
            found = tuple(key for key, selector, _ in spaces[namespace] if selector.matches(labels))
            self._covering[namespace, shape] = found
        return found

    def has_room(self, budgets: Iterable[ObjectKey]) -> bool:
        """Whether one more pod under these budgets may be asked to leave."""
        for key in budgets:
            budget = self._state.budgets[key]
            left = budget.allowed - self._used.get(key, 0)
            if not budget.unhealthy_always and (budget.behind or left < 1):
                return False
        return True

    def charge(self, budgets: Iterable[ObjectKey]) -> None:
        for key in budgets:
            self._used[key] = self._used.get(key, 0) + 1

    def moved_at(self, budgets: Iterable[ObjectKey]) -> float:
        """When a pod under one of these budgets last left through us."""
        return max((self._moved_at.get(key, 0.0) for key in budgets), default=0.0)

    def counts_until(self, budgets: Iterable[ObjectKey]) -> float | None:
        """When the first of the evictions counts no more that the facts of these budgets do not count yet."""
        return min((self._counts_until[key] for key in budgets if key in self._counts_until), default=None)

    def _read(self) -> dict[str, list[tuple[ObjectKey, LabelSelector, Budget]]]:
        spaces: dict[str, list[tuple[ObjectKey, LabelSelector, Budget]]] = {}
        self._spaces = spaces
        for key, budget in self._state.budgets.items():
            selector = selector_of(budget.selector)  # one that cannot be read is the API server's to judge
            if selector is not None:
                spaces.setdefault(namespace_of(key), []).append((key, selector, budget))
        for removal in self._state.removals.values() if spaces else ():
            for pod_key, leaving in removal.pods.items():
                self._count(pod_key, leaving)
        return spaces

    def _count(self, pod_key: PodKey, leaving: Leaving) -> None:
        if not leaving.order and leaving.evicted_at is None:
            return
        for key in self.covering(namespace_of(pod_key), leaving.shape):
            evicted_at = leaving.evicted_at
            if leaving.order:
                self._used[key] = self._used.get(key, 0) + 1
            elif evicted_at is not None and self._state.budgets[key].at <= evicted_at > self._now - AGAIN_S:
                self._used[key] = self._used.get(key, 0) + 1
                until = evicted_at + AGAIN_S
                self._counts_until[key] = min(self._counts_until.get(key, until), until)
            if evicted_at is not None:
                self._moved_at[key] = max(self._moved_at.get(key, 0.0), evicted_at)


class Turn(msgspec.Struct):
    """What is asked of the pods of one node now.

    Attributes:
        evictions: those that are decided.
        late: the pod that could not leave in time, and why.
        due: when to look again; None when only an event can change anything.
    """

    evictions: list[EvictPod] = []
    late: tuple[PodKey, str] | None = None
    due: float | None = None


class Turns:
    """Asks pods to leave, at one moment."""

    def __init__(self, state: State, settings: Settings, now: float) -> None:
        self._state = state
        self._settings = settings
        self._now = now
        self._rooms = Rooms(state, now)

    def of(self, node: str, movers: Sequence[PodKey]) -> Turn:
        """Whose turn has come on one node; it takes no new pods any more."""
        result, removal = Turn(), self._state.removals[node]
        for key in _first_group(self._state, self._settings, movers):
            pod, leaving = self._state.pods[key], removal.pods.get(key)
            if leaving is not None and leaving.uid != pod.uid:
                leaving = None  # another pod under its name, which has come since
            if leaving is not None and leaving.order:
                continue
            if leaving is not None and leaving.evicted_at is not None:
                self._wait(key, leaving.evicted_at, result)
            elif pod.deleting_at is None:
                self._ask(node, key, leaving, result)
            else:  # it is somebody else's deletion, and counts as gone when it should be
                _look_again(result, thought_gone_at(pod))
        return result

    def _ask(self, node: str, key: PodKey, leaving: Leaving | None, result: Turn) -> None:
        state, now = self._state, self._now
        budgets = self._rooms.covering(namespace_of(key), state.pods[key].shape)
        held_at = state.removals[node].held_at or now
        began_all = held_at + self._settings.after_taint_s
        came_since = leaving is None and state.pods[key].created_at > held_at
        if came_since and now >= began_all + self._settings.eviction_s:
            result.late = result.late or (key, KEEPS_COMING)
            return
        began = began_all if leaving is None else leaving.asked_at
        if leaving is None or leaving.refused == DISRUPTION_BUDGET:
            began = max(began, self._rooms.moved_at(budgets))  # its turn comes when the budget has moved on
        limit = began + self._settings.eviction_s
        asks = leaving is None or (
            now < limit and (leaving.again_at <= now or _opened_since(state, budgets, leaving))
        )
        if asks and self._rooms.has_room(budgets):
            self._rooms.charge(budgets)
            result.evictions.append(eviction(state, self._settings, now, key, node))
        elif now >= limit:
            why = leaving.refused if leaving is not None else DISRUPTION_BUDGET
            result.late = result.late or (key, why)
        else:
            again = leaving.again_at if leaving is not None and leaving.again_at > now else limit
            counted = self._rooms.counts_until(budgets)
            _look_again(result, min(again, limit) if counted is None else min(again, limit, counted))

    def _wait(self, key: PodKey, evicted_at: float, result: Turn) -> None:
        """A pod that is ending: for its grace period and a while longer."""
        pod, most_s = self._state.pods[key], grace_most_s(self._settings, priority_of(self._state, key))
        until = evicted_at + wait_at_most_s(pod.removal.grace_s if pod.removal is not None else 0.0, most_s)
        if self._now >= until:
            result.late = result.late or (key, "NotGone")
        else:
            _look_again(result, until)


def _opened_since(state: State, budgets: Iterable[ObjectKey], leaving: Leaving) -> bool:
    """Whether a budget that refused has said something new since: it is asked at once then."""
    refused_at = leaving.refused_at
    return leaving.refused == DISRUPTION_BUDGET and any(state.budgets[key].at > refused_at for key in budgets)


def _look_again(result: Turn, due: float) -> None:
    result.due = due if result.due is None else min(result.due, due)


def priority_of(state: State, key: PodKey) -> int:
    fields = state.shapes.get(state.pods[key].shape)
    return fields.priority if fields is not None else 0


def _first_group(state: State, settings: Settings, movers: Sequence[PodKey]) -> list[PodKey]:
    """Pods of the lowest priority group that has any: the next one's turn comes when they have left."""
    if not settings.drain_priorities or not movers:
        return list(movers)
    places = {key: level_of(priority_of(state, key), settings.drain_priorities).priority for key in movers}
    first = min(places.values())
    return [key for key in movers if places[key] == first]


def grace_s(settings: Settings, pod: Pod, priority: int) -> int | None:
    """The grace period that an eviction asks for; None: the pod's own."""
    own, most = pod.removal.grace_s if pod.removal is not None else None, grace_most_s(settings, priority)
    if own is None:  # unknown: of the time by which all of its priority go it is told
        return int(most) if most is not None and settings.drain_priorities else None
    asked = eviction_grace_s(own, most)
    return int(asked) if settings.drain_priorities or asked < own else None


def eviction(state: State, settings: Settings, at: float, key: PodKey, node: str) -> EvictPod:
    """The order to leave, to the pod that is known, and to no other of its name."""
    namespace, name = parts(key)
    pod = state.pods[key]
    return EvictPod(
        at=at,
        target=ObjectRef(api_version="v1", kind="Pod", namespace=namespace, name=name, uid=pod.uid),
        grace_period_s=grace_s(settings, pod, priority_of(state, key)),
        node=node,
        because=(because("MovesAway", node=node),),
    )


def daemon_keys(removal: Removal) -> list[PodKey]:
    """DaemonSet pods that are to go along, and were not asked yet."""
    return [key for key in removal.daemons if key not in removal.pods]

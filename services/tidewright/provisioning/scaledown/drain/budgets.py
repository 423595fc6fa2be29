"""What PodDisruptionBudgets have left over the nodes of one pass. Addendum 2.2.

Read once at its start, charged with the pods of every node that was found removable. As the reference has it a pod
that moves twice is charged twice; ours charges it once ([B16]).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from tidewright.events.base import JsonObject
from tidewright.kube.keys import PodKey
from tidewright.kube.selectors import LabelSelector, SelectorError
from tidewright.kube.shapes import REVISION_LABELS
from tidewright.provisioning.scaledown.scene import Resident, SceneBudget


def selector_of(stored: JsonObject | None) -> LabelSelector | None:
    """Whose pods a budget protects, as far as shapes tell; None when its selector cannot be read.

    Shapes leave out labels that differ by revision or by pod: what is asked of these counts as met. So a budget may
    be taken to cover more pods than it does, and never fewer.
    """
    try:
        selector = LabelSelector.of(stored)
    except SelectorError:
        return None
    told = tuple(one for one in selector.requirements if one.key not in REVISION_LABELS)
    return LabelSelector(told, selector.nothing)


class Allowance:
    """The budgets with what is left of each; charging changes it in place."""

    def __init__(self, budgets: Iterable[SceneBudget], *, once: bool = True) -> None:
        """`once`: a pod is charged for one disruption, however often a pass moves it."""
        self.budgets = tuple(budgets)
        self.once = once
        self.remaining = {budget.key: budget.allowed for budget in self.budgets}
        self._charged: set[PodKey] = set()
        self._covering: dict[tuple[str, str], tuple[str, ...]] = {}
        self._spaces: dict[str, list[SceneBudget]] = {}
        for budget in self.budgets:
            self._spaces.setdefault(budget.namespace, []).append(budget)

    def covering(self, pod: Resident) -> tuple[str, ...]:
        """Keys of the budgets that a pod falls under."""
        if not self._spaces or pod.namespace not in self._spaces:
            return ()
        same = (pod.namespace, pod.shape.digest)
        found = self._covering.get(same)
        if found is None:
            found = tuple(
                b.key for b in self._spaces[pod.namespace] if b.covers(pod.namespace, pod.shape.labels)
            )
            self._covering[same] = found
        return found

    def bears_on(self, namespaces: Collection[str]) -> bool:
        """Whether there is a budget in one of these namespaces."""
        return any(namespace in self._spaces for namespace in namespaces)

    def left(self, key: str) -> int:
        return self.remaining[key]

    def fresh(self, pods: Iterable[Resident]) -> list[Resident]:
        """Those that have not been charged yet, where once is enough."""
        return [pod for pod in pods if not self.once or pod.key not in self._charged]

    def exceeded_by(self, pods: Iterable[Resident]) -> PodKey | None:
        """The first pod with which the pods together need more than some budget has left; None when they do not."""
        if not self.budgets:
            return None
        needed: dict[str, int] = {}
        for pod in self.fresh(pods):
            for key in self.covering(pod):
                needed[key] = needed.get(key, 0) + 1
                if needed[key] > self.remaining[key]:
                    return pod.key
        return None

    def blocked_by(self, pods: Iterable[Resident]) -> PodKey | None:
        """The first pod for which some budget has nothing left; None when there is none."""
        for pod in self.fresh(pods):
            if any(self.remaining[key] < 1 for key in self.covering(pod)):
                return pod.key
        return None

    def charge(self, pods: Iterable[Resident]) -> None:
        """These pods go: every budget that covers one has less left, below 0 too."""
        for pod in self.fresh(pods) if self.budgets else ():
            self._charged.add(pod.key)
            for key in self.covering(pod):
                self.remaining[key] -= 1

    def spent(self, pod: PodKey) -> bool:
        """Whether a pod has been charged, and that is enough for it."""
        return self.once and pod in self._charged

    def counts(self) -> Mapping[str, int]:
        return self.remaining

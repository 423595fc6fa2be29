"""Whose pods are whose: a pod counts for the workload at the top of its owners. Kept along with the index.

Owners are known by uid. A ReplicaSet that has not been told of yet is found by its name, which begins with that of its
Deployment: facts of different kinds come in any order, and a pod must not be expected once it is there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from tidewright.kube.digits import whole_number
from tidewright.kube.keys import PodKey, namespace_of
from tidewright.provisioning.foresight.kept import Workload
from tidewright.provisioning.foresight.wanted import WorkloadPods
from tidewright.provisioning.state import Pod, State, owner_key


class Counting:
    """Pods by what controls them, and workloads by what controls those.

    Attributes:
        unsure: workloads at the top, by `owner_key`, of which something has changed since they were looked at.
        untold: namespaces to how many pods of them nothing says by what they are controlled: an earlier watcher told of them.
    """

    def __init__(self, workloads: dict[str, Workload]) -> None:
        self._workloads = workloads
        self._keys: dict[str, str] = {}
        self._children: dict[str, dict[str, None]] = {}
        self._pods: dict[str, dict[PodKey, None]] = {}
        self._unknown: dict[str, dict[str, None]] = {}
        self.unsure: set[str] = set()
        self.untold: Counter[str] = Counter()
        for key, workload in workloads.items():
            self.came(key, workload)

    # --- Kept along ---

    def came(self, key: str, workload: Workload) -> None:
        """A workload is there."""
        self._keys[workload.uid] = key
        if workload.owner:
            self._children.setdefault(workload.owner, {})[workload.uid] = None
        self._changed_with(key, workload)

    def went(self, key: str, workload: Workload) -> None:
        """It is not there any more, or another one than before; undoes `came`, before the state forgets it."""
        self._changed_with(key, workload)
        self._keys.pop(workload.uid, None)
        _drop(self._children, workload.owner, workload.uid)

    def _changed_with(self, key: str, workload: Workload) -> None:
        """What a workload controls may be at the top now, or not any more."""
        self.unsure.update((key, self.top(key)))
        self.unsure.update(
            self._keys[uid] for uid in self._children.get(workload.uid, ()) if uid in self._keys
        )

    def pod_came(self, key: PodKey, pod: Pod) -> None:
        """A pod is there."""
        controller = pod.controller
        self.untold[namespace_of(key)] += _untold(pod)
        if controller is None or not controller.uid or pod.daemon:
            return
        self._pods.setdefault(controller.uid, {})[key] = None
        if controller.uid not in self._keys and (deployment := _named_after(key, pod)):
            self._unknown.setdefault(deployment, {})[controller.uid] = None
        self._changed(key, pod)

    def pod_went(self, key: PodKey, pod: Pod) -> None:
        """Undo `pod_came`."""
        controller = pod.controller
        self.untold[namespace_of(key)] -= _untold(pod)
        if controller is None or not controller.uid or pod.daemon:
            return
        there = self._pods.get(controller.uid)
        if there is not None:
            there.pop(key, None)
            if not there:
                del self._pods[controller.uid]
                if deployment := _named_after(key, pod):
                    _drop(self._unknown, deployment, controller.uid)
        self._changed(key, pod)

    def _changed(self, key: PodKey, pod: Pod) -> None:
        top = self.of_pod(key, pod)
        if top:
            self.unsure.add(top)

    # --- Asked ---

    def top(self, key: str) -> str:
        """The workload at the top of the owners of one that is known."""
        seen = {key}
        while (
            owner := self._keys.get(self._workloads[key].owner, "")
        ) in self._workloads and owner not in seen:
            key = owner
            seen.add(key)
        return key

    def of_pod(self, key: PodKey, pod: Pod) -> str:
        """The workload at the top of a pod's owners; empty where none is known."""
        if pod.controller is None:
            return ""
        known = self._keys.get(pod.controller.uid, "")
        if known in self._workloads:
            return self.top(known)
        named = _named_after(key, pod)
        return self.top(named) if named in self._workloads else ""

    def standing(self, state: State, key: str) -> WorkloadPods:
        """The pods of a workload at the top."""
        revision = self.revision(key)
        active = current = leaving = former = 0
        for uid in self._controllers(key):
            mine = uid == revision if revision else not self._has_another(key, uid)
            for pod in self._pods.get(uid, ()):
                if state.pods[pod].deleting_at is not None:
                    leaving += 1
                    former += revision != uid
                    continue
                active += 1
                current += mine
        return WorkloadPods(active=active, current=current, leaving=leaving, former=former)

    def revision(self, key: str) -> str:
        """The ReplicaSet that has what a Deployment wants now, or that it had last where it is paused; empty where none is known, and for others."""
        deployment = self._workloads[key]
        sets = [
            (child.template == deployment.template, _number(child.revision), self._keys[uid], uid)
            for uid in self._children.get(deployment.uid, ())
            if (child := self._workloads.get(self._keys.get(uid, ""))) is not None
            and (child.template == deployment.template or deployment.paused)
        ]
        return max(sets)[3] if sets else ""

    def newest(self, state: State, key: str, place: str = "") -> Pod | None:
        """The newest pod of the revision that is wanted which is there and stays; of those that a spread has put into one place."""
        pods = ((state.pods[pod], pod) for pod in self.current(key) if state.subsets.get(pod, "") == place)
        staying = [(pod.created_at, key, pod) for pod, key in pods if pod.deleting_at is None]
        return max(staying, key=lambda found: found[:2])[2] if staying else None

    def with_template(self, key: str) -> Workload | None:
        """What a workload controls that has a template, the one with the highest revision; None where nothing does."""
        below = self._below([self._workloads[key].uid], set())
        found = [
            (_number(child.revision), uid, child)
            for uid in below
            if (child := self._workloads.get(self._keys.get(uid, ""))) is not None and child.template
        ]
        return max(found, key=lambda one: one[:2])[2] if found else None

    def current(self, key: str) -> Iterator[PodKey]:
        """The pods of a workload that have the revision which is wanted, or may; all where there are none to tell apart."""
        revision = self.revision(key)
        uids: Iterable[str] = (revision,) if revision else self._controllers(key)
        if not revision:
            uids = [uid for uid in uids if not self._has_another(key, uid)]
        for uid in uids:
            yield from self._pods.get(uid, ())

    def _has_another(self, key: str, uid: str) -> bool:
        """Whether what a Deployment controls is known to be of another template, where none is of the one which it wants: that is about to be made."""
        child = self._workloads.get(self._keys.get(uid, ""))
        return key.startswith("Deployment/") and child is not None and bool(child.template)

    def _controllers(self, key: str) -> Iterator[str]:
        """Uids of a workload and of all that it controls."""
        yield from self._below([self._workloads[key].uid], set())
        for uid in self._unknown.get(key, ()):
            if uid not in self._keys:
                yield uid

    def _below(self, uids: Iterable[str], seen: set[str]) -> Iterator[str]:
        for uid in uids:
            if uid not in seen:
                seen.add(uid)
                yield uid
                yield from self._below(self._children.get(uid, ()), seen)


def _untold(pod: Pod) -> bool:
    return pod.removal is None or (pod.controller is not None and not pod.controller.uid)


def _named_after(key: PodKey, pod: Pod) -> str:
    """The Deployment that the ReplicaSet of a pod is named after, by `owner_key`; empty for what is no ReplicaSet."""
    if pod.controller is None or pod.controller.kind != "ReplicaSet":
        return ""
    name = pod.controller.name.rpartition("-")[0]
    return owner_key("Deployment", namespace_of(key), name) if name else ""


def _number(revision: str) -> int:
    return whole_number(revision) or 0


def _drop(groups: dict[str, dict[str, None]], group: str, key: str) -> None:
    keys = groups.get(group)
    if keys is not None:
        keys.pop(key, None)
        if not keys:
            del groups[group]

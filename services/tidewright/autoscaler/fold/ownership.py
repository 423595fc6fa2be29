"""Whose a pod is, by its real owners: the chain of owner references up to the target (D26).

By default a pod is its target's when an owner is named like it, as in the reference. On demand the
chain is walked: pod, ReplicaSet, Deployment, or whatever stands between, each of the kind, the name
and the uid that the reference below it says. A chain ends where an owner was never seen, or where
another object of the same name has taken its place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Protocol

from tidewright.autoscaler.api.spec import target_key
from tidewright.events.facts import Owner
from tidewright.kube.readiness import Pod, effective_owner

_UID = "#"  # no name of an object contains it


class Owned(Protocol):
    """What the walk reads of an object: its uid, and the references to its owners."""

    @property
    def uid(self) -> str: ...

    @property
    def owners(self) -> tuple[str, ...]: ...


@lru_cache(
    maxsize=65536
)  # the pods of one ReplicaSet share what comes of it, and this is asked for every pod
def of_owners(owners: tuple[Owner, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The effective names of a pod's owners, and the references that a walk from it follows."""
    return tuple([effective_owner(owner.kind, owner.name) for owner in owners]), references(owners)


@lru_cache(maxsize=65536)
def references(owners: tuple[Owner, ...]) -> tuple[str, ...]:
    """The references that a walk follows: the controller's, and without one all of them."""
    controllers = [owner for owner in owners if owner.controller]
    return tuple(
        [
            f"{target_key(owner.api_version, owner.kind, owner.name)}{_UID}{owner.uid}"
            for owner in controllers or owners
        ]
    )


def ancestors(objects: Mapping[str, Owned], owners: Iterable[str]) -> Iterator[str]:
    """Keys of the objects that references lead to, the nearest first; see `spec.target_key`.

    A uid that is not known on one of the two sides is not compared.
    """
    waiting, seen = list(owners), set[str]()
    for reference in waiting:
        key, _, uid = reference.rpartition(_UID)
        owner = objects.get(key)
        if owner is None or key in seen or (uid and owner.uid and uid != owner.uid):
            continue
        seen.add(key)
        yield key
        waiting.extend(owner.owners)


def walked(pods: Iterable[Pod], objects: Mapping[str, Owned], *, target_name: str, target: str) -> list[Pod]:
    """The pods with their effective owner as the walk finds it: the target (by its key), or none."""
    known: dict[tuple[str, ...], bool] = {}
    owned: list[Pod] = []
    for pod in pods:
        belongs = known.get(pod.references)
        if belongs is None:
            belongs = known[pod.references] = target in ancestors(objects, pod.references)
        owned.append(pod if belongs is (target_name in pod.owners) else _owned(pod, target_name, belongs))
    return owned


def _owned(pod: Pod, target_name: str, belongs: bool) -> Pod:
    return Pod(
        pod.name,
        (target_name,) if belongs else (),
        pod.phase,
        pod.ready,
        pod.ready_changed_at,
        pod.started_at,
        pod.deleting,
        pod.references,
    )

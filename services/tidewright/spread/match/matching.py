"""Whose pod is it (specification, 2.3).

    owner_matches    the owner chain from a pod up to a target
    could_lead_to    whether an owner that cannot be read may be on that chain

Objects come through a `Reader`, so the same rules serve recorded facts and test cases.
"""

from __future__ import annotations

from collections.abc import Callable

from tidewright.events.base import JsonObject
from tidewright.kube.customworkloads import (
    GroupKind,
    Whitelist,
    group_version,
)
from tidewright.kube.workloadspreads.spec import TargetRef
from tidewright.spread.match.pods import Owner, controller_of


class NotFound(LookupError):
    """An object that a decision needs is not there (yet)."""


class Forbidden(PermissionError):
    """We may not read an object that a decision needs."""


Reader = Callable[[str, str, str], JsonObject]
"""(apiVersion, kind, name) to the object in the spread's namespace; NotFound or Forbidden. The version does not matter."""


def group_kind(ref: TargetRef | Owner) -> GroupKind:
    """Raises BadApiVersion."""
    return GroupKind(group_version(ref.api_version)[0], ref.kind)


def owner_matches(target: TargetRef, owner: Owner | None, whitelist: Whitelist, read: Reader) -> bool:
    """Whether the chain of controllers from `owner` upwards reaches the target (2.3).

    Raises:
        NotFound, Forbidden: of the reader.
        BadApiVersion: of the target or of an owner.
    """
    if owner is None:
        return False
    target_kind, owner_kind = group_kind(target), group_kind(owner)
    if target_kind == owner_kind and target.name == owner.name:
        return True
    if not whitelist.known(owner_kind):
        return False
    return owner_matches(
        target, controller_of(read(owner.api_version, owner.kind, owner.name)), whitelist, read
    )


def could_lead_to(target: TargetRef, missing: Owner, whitelist: Whitelist) -> bool:
    """Whether an owner that cannot be read might be controlled by the target, as far as one can tell [Q-5]."""
    if whitelist.entry(group_kind(target)) is not None:
        return True
    if (target.kind, missing.kind) == ("Deployment", "ReplicaSet"):
        return missing.name.startswith(f"{target.name}-")
    return False

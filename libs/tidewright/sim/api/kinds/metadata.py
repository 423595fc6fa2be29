"""Object metadata: what the server sets, keeps and lets nobody change."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from typing import Any

from tidewright.kube.times import rfc3339

_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH = 5
_MAX_GENERATED_PREFIX = 63 - _SUFFIX_LENGTH
_random = random.SystemRandom()

# metadata that an update cannot change: the stored value is kept
KEPT = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "selfLink",
)


class Stamps:
    """RFC 3339 times from a clock; whole seconds are formatted once."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._second = -1
        self._text = ""

    def now_s(self) -> float:
        return self._clock()

    def now(self) -> str:
        """The present second, as metadata carries it."""
        second = int(self._clock())
        if second != self._second:
            self._second, self._text = second, rfc3339(second)
        return self._text


def generated_name(prefix: str) -> str:
    """A name made from `generateName`: the prefix, cut where needed, and five random letters."""
    suffix = "".join(_random.choices(_SUFFIX_LETTERS, k=_SUFFIX_LENGTH))
    return prefix[:_MAX_GENERATED_PREFIX] + suffix


_NOT_GIVEN = frozenset({*KEPT, "resourceVersion"}) - {"generation"}


def wipe(metadata: dict[str, Any]) -> None:
    """Remove from metadata of a new object what clients may not choose, and what is empty."""
    for key in _NOT_GIVEN & metadata.keys():
        del metadata[key]
    _drop_empty(metadata)


def initialise(metadata: dict[str, Any], created: str, *, generation: bool) -> None:
    """Set what the server chooses for a new object; of a kind that counts none, a generation stays as sent."""
    metadata["uid"] = str(uuid.uuid4())
    metadata["creationTimestamp"] = created
    if generation:
        metadata["generation"] = 1


def keep(new: dict[str, Any], old: dict[str, Any]) -> None:
    """Undo changes of what no update can change."""
    for key in KEPT:
        if key in old:
            new[key] = old[key]
        else:
            new.pop(key, None)
    new["name"] = old["name"]
    if "namespace" in old:
        new["namespace"] = old["namespace"]
    else:
        new.pop("namespace", None)
    _drop_empty(new)


def _drop_empty(metadata: dict[str, Any]) -> None:
    for key in ("labels", "annotations", "finalizers", "ownerReferences"):
        if key in metadata and not metadata[key]:
            del metadata[key]

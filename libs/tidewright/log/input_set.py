"""The set of inputs that a service follows, by which its checkpoints say what they are made of. Pure."""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b

import msgspec

INPUTS_BYTES = 8


class InputSet(msgspec.Struct, frozen=True):
    """What a service follows of the log besides its own timers and outcomes, and the configuration.

    Attributes:
        kinds: kinds of facts, as subject tokens, in order.
        follows: other services whose decisions it reads, in order.
        outcomes: kinds of targets, as subject tokens, in order: what came of those decisions it reads, too. Unset and
            not empty where there are none, so that sets of before are called as they were.
    """

    kinds: tuple[str, ...] = ()
    follows: tuple[str, ...] = ()
    outcomes: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET

    @property
    def tokens(self) -> frozenset[str]:
        """Class and next token of the subjects: `fact.pod`, `decision.autoscaler`."""
        outcomes = () if self.outcomes is msgspec.UNSET else self.outcomes
        return frozenset(
            (
                *(f"fact.{kind}" for kind in self.kinds),
                *(f"decision.{name}" for name in self.follows),
                *(f"outcome.{kind}" for kind in outcomes),
            )
        )

    @property
    def digest(self) -> str:
        """What checkpoints call it by."""
        return _named(self)


@lru_cache(maxsize=64)
def _named(inputs: InputSet) -> str:
    """The digest of a set of inputs: asked for at every checkpoint, and always of the same few."""
    return blake2b(msgspec.json.encode(inputs), digest_size=INPUTS_BYTES).hexdigest()

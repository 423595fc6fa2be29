"""The set of inputs that a service follows, by which its checkpoints say what they are made of. Pure."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from hashlib import blake2b

import msgspec

INPUTS_BYTES = 8
_OUTCOMES = "outcome."


class Tokens(msgspec.Struct, frozen=True):
    """A set of tokens, class and next token of subjects: `fact.pod`, `decision.autoscaler`.

    It may have all outcomes but some: what kinds of targets there are is not known, others name these.

    Attributes:
        named: those that it has one by one.
        but: outcomes that it has not, where it has all others; None where it has none but those named.
    """

    named: frozenset[str] = frozenset()
    but: frozenset[str] | None = None

    def __contains__(self, token: object) -> bool:
        if token in self.named:
            return True
        return (
            self.but is not None
            and isinstance(token, str)
            and token.startswith(_OUTCOMES)
            and token not in self.but
        )

    def __bool__(self) -> bool:
        return bool(self.named) or self.but is not None

    def __or__(self, other: Tokens) -> Tokens:
        return self._with(other, lambda mine, theirs: mine or theirs)

    def __and__(self, other: Tokens) -> Tokens:
        return self._with(other, lambda mine, theirs: mine and theirs)

    def __sub__(self, other: Tokens) -> Tokens:
        return self._with(other, lambda mine, theirs: mine and not theirs)

    def __le__(self, other: Tokens) -> bool:
        return not self - other

    def _with(self, other: Tokens, keeps: Callable[[bool, bool], bool]) -> Tokens:
        """What is kept of two sets: asked of each token that either mentions, and once of all other outcomes."""
        mentioned = frozenset().union(self.named, self.but or (), other.named, other.but or ())
        kept = frozenset(token for token in mentioned if keeps(token in self, token in other))
        if not keeps(self.but is not None, other.but is not None):
            return Tokens(kept)
        outcomes = frozenset(token for token in mentioned if token.startswith(_OUTCOMES))
        return Tokens(kept - outcomes, outcomes - kept)

    @property
    def patterns(self) -> list[str]:
        """What it has, in order, as patterns of tokens: one of them may have more than it has, and never two the same."""
        return sorted((*self.named, *((f"{_OUTCOMES}*",) if self.but is not None else ())))


class InputSet(msgspec.Struct, frozen=True):
    """What a service follows of the log besides its own timers and outcomes, and the configuration.

    Attributes:
        kinds: kinds of facts, as subject tokens, in order.
        follows: other services whose decisions it reads, in order.
        outcomes: kinds of targets, as subject tokens, in order: what came of those decisions it reads, too. Unset and
            not empty where there are none, so that sets of before are called as they were.
        outcomes_but: where it is set, what came of those decisions is read of all kinds of targets but these.
    """

    kinds: tuple[str, ...] = ()
    follows: tuple[str, ...] = ()
    outcomes: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    outcomes_but: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET

    @property
    def tokens(self) -> Tokens:
        """Class and next token of the subjects."""
        outcomes = () if self.outcomes is msgspec.UNSET else self.outcomes
        named = Tokens(
            frozenset(
                (
                    *(f"fact.{kind}" for kind in self.kinds),
                    *(f"decision.{name}" for name in self.follows),
                    *(f"{_OUTCOMES}{kind}" for kind in outcomes),
                )
            )
        )
        if self.outcomes_but is msgspec.UNSET:
            return named
        return named | Tokens(but=frozenset(f"{_OUTCOMES}{kind}" for kind in self.outcomes_but))

    @property
    def digest(self) -> str:
        """What checkpoints call it by."""
        return _named(self)


@lru_cache(maxsize=64)
def _named(inputs: InputSet) -> str:
    """The digest of a set of inputs: asked for at every checkpoint, and always of the same few."""
    return blake2b(msgspec.json.encode(inputs), digest_size=INPUTS_BYTES).hexdigest()

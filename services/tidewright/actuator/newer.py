"""Effects of types that this version does not know: what a decider of a newer one asked for, and waits for.

A decider whose effect is never answered waits for ever, so each is answered: `Rejected` with reason `UnknownType`. Which
unknown decisions are effects is not on them. A newer version of a type that is none here is none; of the others
those that name a target are taken for effects: an answer that nobody waits for is read past.
"""

from __future__ import annotations

from typing import Final

import msgspec

from tidewright.events import registry
from tidewright.events.decisions import Effect

NEWER: Final = "NewerType"
"""The rule by which one is refused."""


class NewerEffect(Effect, frozen=True, kw_only=True, tag=False):
    """What can be read of it: when, which id, what it is about. `named` is its type."""

    named: str = msgspec.field(name="type", default="")


_decoder = msgspec.json.Decoder(NewerEffect)
_NO_EFFECTS: Final = frozenset(
    name.rpartition(".")[0] for name, known in registry.BY_NAME.items() if not issubclass(known, Effect)
)


def newer_effect(body: bytes) -> NewerEffect | None:
    """The effect in a message whose type is unknown; None for what is not taken for one."""
    try:
        effect = _decoder.decode(body)
    except msgspec.MsgspecError:
        return None
    return None if effect.named.rpartition(".")[0] in _NO_EFFECTS else effect

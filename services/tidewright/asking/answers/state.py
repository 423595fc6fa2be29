"""What was known of an object."""

from __future__ import annotations

from typing import Any

import msgspec

from tidewright.asking.answers.explain import OtherHands
from tidewright.asking.answers.form import Answer


class LastFact(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The last fact about an object."""

    sequence: int
    at: str
    event: Any


class ObjectState(Answer, frozen=True, kw_only=True):
    """Answer to `state`.

    Attributes:
        fact: the last one about the object; null where there is none.
        state: service to what it held of the object.
        hands: service to who folded and who decided, where these are two.
    """

    kind: str
    namespace: str
    name: str
    fact: LastFact | None
    state: dict[str, dict[str, Any]]
    hands: dict[str, OtherHands] = {}

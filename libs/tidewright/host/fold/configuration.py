"""The part of the configuration that a decider reads: what in it is no setting, and who is told. Pure.

A key that nobody knows, or a value that cannot be read, keeps its default: a typing error stops nobody. So that it
does not go unseen it is an object event on the ConfigMap that the part came from, decided as everything else is. A part
whose own name is misspelt is told of by whose it may have been. The configuration is put to all slots; the first one
says it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import msgspec

from tidewright.events.acting import Held, recorded
from tidewright.events.base import Decision, JsonObject, ObjectRef
from tidewright.events.config import PARTS, ConfigSet
from tidewright.events.decisions import RecordObjectEvent
from tidewright.kube.nearest import closest
from tidewright.log.subjects import ALL, Slot

State = TypeVar("State")

FIRST = (Slot("0"), ALL)
"""The slots whose decider tells of what concerns all of them."""
CONFIGURATION_IGNORED = "ConfigurationIgnored"
"""Reason of the object event about settings."""
CONFIGURATION_UNKNOWN = "ConfigurationUnknown"
"""Reason of the object event about a part that nobody reads."""
MAX_MESSAGE = 1024
"""Characters of an object event's message, as the API bounds it."""


class ConfigPart(msgspec.Struct, Generic[State], frozen=True, kw_only=True):
    """What a decider reads of the configuration.

    Attributes:
        name: of the part, as `ConfigSet.name` has it: one of `events.config.PARTS`.
        problems: what in a part is not used, a text each that names the key and what would be valid.
        component: who tells of it.
        held: whether the service acts; where it does not, nothing is written to the cluster.
        tells: what is wrong with its settings is told of here, and not by the decider itself.
    """

    name: str
    problems: Callable[[JsonObject], Sequence[str]]
    component: str
    held: Callable[[State], Held]
    tells: bool = True

    def told(self, state: State, event: ConfigSet) -> Sequence[Decision]:
        """The object event about a part that is not wholly used; nothing where all of it is.

        Nothing either of a part that does not say which ConfigMap it came from: those that were recorded before
        parts did.
        """
        if not event.source or not event.data:
            return ()
        if event.name == self.name:
            problems = self.problems(event.data) if self.tells else ()
            reason, message = CONFIGURATION_IGNORED, f"{self.name}: {'; '.join(problems)}" if problems else ""
        else:
            reason, message = CONFIGURATION_UNKNOWN, self._misspelt(event.name)
        if not message:
            return ()
        namespace, _, name = event.source.rpartition("/")
        told = RecordObjectEvent(
            at=event.at,
            target=ObjectRef(api_version="v1", kind="ConfigMap", namespace=namespace, name=name),
            event_type="Warning",
            reason=reason,
            message=message[:MAX_MESSAGE],
            component=self.component,
        )
        kept = recorded(told, self.held(state))
        return () if kept is None else (kept,)

    def _misspelt(self, name: str) -> str:
        """What to say of a part that nobody reads, where this one may be meant."""
        if name in PARTS or closest(name, PARTS) != self.name:
            return ""
        return f"key {name!r} configures nobody; did you mean {self.name}?"

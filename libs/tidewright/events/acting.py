"""Whether a service acts on an object: the one place that answers it, for deciders, endpoints and the actuator. Pure.

Each of them keeps an `Acting`, folded from `ModesSet`, and asks it. The answer is the most careful of what
holds for the service, for the object's namespace, and for the object itself: an annotation makes its object
more careful than its service, never less, because whoever may edit one object must not be able to set loose
what the operator of the cluster holds back (decision record 0030).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import blake2b

import msgspec

from tidewright.events.base import Decision, Event, ObjectRef
from tidewright.events.config import Mode, ModesSet

MODE = "tidewright.dev/mode"
"""Annotation of an object that its service decides about: `shadow`, `dry-run` or `enforce`."""
MODES = "modes"
"""The part of the configuration that a `ModesSet` is, in its subject."""
RANKS: dict[str, int] = {"enforce": 0, "dry-run": 1, "shadow": 2}
SAID = 20_000
"""Decisions kept by `Acting.said`; beyond, the oldest are forgotten, and may be said once more."""
_PASSING = frozenset({"at", "id", "prev", "because", "type", "plan", "attempt", "retry_at"})
"""Fields that differ between two decisions which say the same."""


class Held(msgspec.Struct, frozen=True):
    """What holds for one object.

    Attributes:
        mode: `enforce` acts.
        why: what holds it back, for people; empty while nothing does.
        reports: whether its status and its object events are written: in `enforce`, and where the object
            itself asks for a dry run.
    """

    mode: Mode = "enforce"
    why: str = ""
    reports: bool = True

    @property
    def acts(self) -> bool:
        """Whether effects are carried out."""
        return self.mode == "enforce"


ENFORCED = Held()


def of_annotation(annotations: Mapping[str, str]) -> Held:
    """What an object asks for itself. A value that is no mode holds it back as far as possible, and says so."""
    asked = annotations.get(MODE)
    if asked is None or asked == "enforce":
        return ENFORCED
    if asked == "dry-run":
        return Held("dry-run", f"its annotation {MODE} says dry-run")
    if asked == "shadow":
        return Held("shadow", f"its annotation {MODE} says shadow", reports=False)
    return Held(
        "shadow", f"its annotation {MODE} says {asked[:40]!r}: valid are {', '.join(RANKS)}", reports=False
    )


def careful(*found: Held) -> Held:
    """The most careful of several; of equals the first, which the operator has said."""
    return max(found, key=lambda held: (RANKS[held.mode], not held.reports), default=ENFORCED)


class Acting(msgspec.Struct, omit_defaults=True):
    """What is known about the right to act; part of the state of who decides.

    Attributes:
        modes: the last `ModesSet`; None before any, which means that everything acts.
        said: what was decided and not done, by what it is about, so that it is said once.
    """

    modes: ModesSet | None = None
    said: dict[str, str] = {}

    def heard(self, event: Event) -> bool:
        """Fold an event; True when it may have changed an answer."""
        if not isinstance(event, ModesSet) or event.refresh or not _differ(self.modes, event):
            return False
        self.modes = event
        self.said.clear()  # whoever looks again says where things stand
        return True

    def of_service(self, service: str) -> Held:
        """What holds for what is in no namespace, and for a service that is asked about as a whole."""
        modes = self.modes
        if modes is None:
            return ENFORCED
        mode = modes.services.get(service, modes.mode)
        if mode == "enforce":
            return ENFORCED
        return Held(mode, f"{service} is in {mode}", reports=False)

    def held(self, service: str, namespace: str = "", annotations: Mapping[str, str] | None = None) -> Held:
        """What holds for an object of `namespace` (empty: of none) with `annotations`, when `service` decides about it."""
        found = self.of_service(service)
        modes = self.modes
        if modes is not None and modes.selector and namespace and namespace not in modes.namespaces:
            out = Held(
                "shadow", f"namespace {namespace} is not among those of {modes.selector}", reports=False
            )
            found = careful(found, out)
        if annotations and MODE in annotations:
            found = careful(found, of_annotation(annotations))
        return found

    def unsaid(self, decision: Decision) -> bool:
        """Whether what would be done is other than what was last said about the same thing."""
        return self.said.get(about(decision)) != digest(decision)

    def say(self, decision: Decision) -> None:
        """Remember what was said and not done; folded from the decision itself."""
        key = about(decision)
        self.said.pop(key, None)
        self.said[key] = digest(decision)
        while len(self.said) > SAID:
            del self.said[next(iter(self.said))]

    def forget(self, prefixes: Iterable[str]) -> None:
        """What was said about objects that are gone, or begin anew; each as `about` writes it without the type."""
        gone = tuple(prefixes)
        for key in [key for key in self.said if key.partition(" ")[2] in gone]:
            del self.said[key]


def _differ(before: ModesSet | None, after: ModesSet) -> bool:
    return (before is None and after != ModesSet(at=after.at)) or (
        before is not None and msgspec.structs.replace(before, at=after.at, refresh=after.refresh) != after
    )


def about(decision: Decision) -> str:
    """What a decision is about: its type and object."""
    target = getattr(decision, "target", None)
    if isinstance(target, ObjectRef):
        place = f"{target.kind}/{target.namespace}/{target.name}"
    else:
        place = str(getattr(decision, "request", ""))
    return f"{type(decision).__name__} {place}"


def digest(decision: Decision) -> str:
    """What a decision says, without when and for the how manieth time."""
    said = {k: v for k, v in msgspec.to_builtins(decision).items() if k not in _PASSING}
    return blake2b(msgspec.json.encode(said, order="deterministic"), digest_size=12).hexdigest()

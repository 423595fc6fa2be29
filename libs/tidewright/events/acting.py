"""Whether a service acts on an object: the one place that answers it, for deciders, endpoints and the actuator. Pure.

Each of them keeps an `Acting`, folded from `ModesSet` and `IncumbentObserved`, and asks it. The answer is the most
careful of what holds for the service, for the object's namespace, and for the object itself; and while another
controller is seen at the same work, it is a dry run at least, unless the operator says regardless. An annotation makes its object
more careful than its service, never less, because whoever may edit one object must not be able to set loose
what the operator of the cluster holds back (decision record 0030).
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import msgspec

from tidewright.events.base import Because, Decision, Event, Scalar, target_of
from tidewright.events.config import Mode, ModesSet
from tidewright.events.decisions import CancelTimer, Effect, RecordObjectEvent, SetStatus, SetTimer
from tidewright.events.incumbents import IncumbentObserved
from tidewright.events.provisioning import ReportClusterStatus

MODE = "tidewright.dev/mode"
"""Annotation of an object that its service decides about: `shadow`, `dry-run` or `enforce`."""
MODES = "modes"
"""The part of the configuration that a `ModesSet` is, in its subject."""
HELD_BACK = "HeldBack"
"""The rule that ends the reasons of what is not done."""
INCUMBENT = "incumbent"
"""The kind of the facts about incumbents, in their subjects: whoever keeps an `Acting` reads them."""
SETTING: tuple[type[ModesSet], type[IncumbentObserved]] = (ModesSet, IncumbentObserved)
"""Types of events that an `Acting` hears of."""
ENDPOINTS: dict[str, str] = {"spread-admission": "spread", "shard-labels": "shard-manager"}
"""The decider of each endpoint; a test holds it to the table of services."""
RANKS: dict[str, int] = {"enforce": 0, "dry-run": 1, "shadow": 2}
_PASSING = frozenset({"id", "prev", "because", "type", "plan", "attempt", "retry_at"})
"""Fields of decisions that differ between two of them which say the same."""
_COUNTED = frozenset({"at", "revision"})
"""Likewise, and of what lies within them."""
_REPORTS = (SetStatus, RecordObjectEvent, ReportClusterStatus)
_ALWAYS = (SetTimer, CancelTimer)
NOT_DONE = frozenset(("DryRun", "Shadow"))
"""Reasons of outcomes that say that the outside was left as it was."""


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


def careful(*candidates: Held) -> Held:
    """The most careful of several; of equals the first, which the operator has said."""
    most = ENFORCED
    for held in candidates:
        if held is not ENFORCED and _care(held) > _care(most):
            most = held
    return most


def _care(held: Held) -> tuple[int, bool]:
    return RANKS[held.mode], not held.reports


def is_urgent(decision: Decision, now: float) -> bool:
    """Whether a decision changes something that somebody waits for, `now` by the log: reports, and what is not done, are none.

    A timer that is due as it is set stands for what follows it. It is by what was said last, not by the event
    that is answered: a timer fires with the time at which it was due, and others may have spoken since.
    """
    if isinstance(decision, SetTimer):
        return decision.due <= max(decision.at, now)
    return isinstance(decision, Effect) and not decision.shadow and not isinstance(decision, _REPORTS)


class Acting(msgspec.Struct, omit_defaults=True):
    """What is known about the right to act; part of the state of who decides.

    Attributes:
        modes: the last `ModesSet`; None before any, which means that everything acts.
        incumbents: by service, the last word on the incumbent that is at its work; those that are gone are not kept.
    """

    modes: ModesSet | None = None
    incumbents: dict[str, IncumbentObserved] = {}

    def copied(self) -> Acting:
        """What is known now, to compare with after an event was heard."""
        return Acting(self.modes, dict(self.incumbents))

    def heard(self, event: Event) -> bool:
        """Fold an event; True when it may have changed an answer.

        One that only says again what was said counts, too: it is all that is left once the log forgot the first.
        """
        if isinstance(event, IncumbentObserved):
            return self._met(event)
        if not isinstance(event, ModesSet) or not _differ(self.modes, event):
            return False
        self.modes = event
        return True

    def _met(self, event: IncumbentObserved) -> bool:
        """Keep the last word on an incumbent; whether it is there or gone now, or elsewhere than before."""
        before = self.incumbents.pop(event.service, None)
        if event.present:
            self.incumbents[event.service] = event
        if before is None or not event.present:
            return event.present or before is not None
        return (before.everywhere, before.namespaces) != (event.everywhere, event.namespaces)

    def beside(self, service: str, namespace: str = "") -> IncumbentObserved | None:
        """The incumbent at the work of a service on objects of a namespace (empty: of none); None when it acts regardless."""
        service = decider_of(service)
        incumbent = self.incumbents.get(service)
        if incumbent is None or not incumbent.covers(namespace):
            return None
        return None if self.modes is not None and service in self.modes.regardless else incumbent

    def of_service(self, service: str) -> Held:
        """What holds for what is in no namespace, and for a service that is asked about as a whole."""
        return careful(self._of_modes(service), self._of_incumbent(service, ""))

    def _of_incumbent(self, service: str, namespace: str) -> Held:
        incumbent = self.beside(service, namespace)
        if incumbent is None:
            return ENFORCED
        why = f"{incumbent.rival} is at work on the same objects (stop it, or say --regardless {incumbent.service})"
        return Held("dry-run", why, reports=False)

    def _of_modes(self, service: str) -> Held:
        modes = self.modes
        if modes is None:
            return ENFORCED
        mode = modes.services.get(service, modes.mode)
        if mode == "enforce":
            return ENFORCED
        return Held(mode, f"{service} is in {mode}", reports=False)

    def held(self, service: str, namespace: str = "", annotations: Mapping[str, str] | None = None) -> Held:
        """What holds for an object of `namespace` (empty: of none) with `annotations`, when `service` decides about it."""
        held = self._of_modes(service)
        modes = self.modes
        if modes is not None and modes.selector and namespace and namespace not in modes.namespaces:
            out = Held(
                "shadow", f"namespace {namespace} is not among those of {modes.selector}", reports=False
            )
            held = careful(held, out)
        if annotations and MODE in annotations:
            held = careful(held, of_annotation(annotations))
        return careful(held, self._of_incumbent(service, namespace))


def decider_of(service: str) -> str:
    """The decider whose work a service does: an endpoint that of its decider, every other one its own."""
    return ENDPOINTS.get(service, service)


def _differ(before: ModesSet | None, after: ModesSet) -> bool:
    return (before is None and after != ModesSet(at=after.at)) or (
        before is not None and msgspec.structs.replace(before, at=after.at, refresh=after.refresh) != after
    )


def recorded(decision: Decision, held: Held, always: tuple[type[Decision], ...] = ()) -> Decision | None:
    """A decision as it is recorded while `held` holds for its object; None for one that is not.

    `always` are types that nothing comes of outside the service's own state, and that it needs there: they
    are as they are, like timers. A status, or an object event, is no decision
    of its own: it tells of others, which are on the log.
    """
    if held.acts or isinstance(decision, (*_ALWAYS, *always)):
        return decision
    if isinstance(decision, _REPORTS):
        return decision if held.reports else None
    why = Because(rule=HELD_BACK, values={"mode": held.mode, "why": held.why})
    more = {"dry_run": True} if held.mode == "dry-run" and isinstance(decision, Effect) else {}
    return msgspec.structs.replace(decision, shadow=True, because=(*decision.because, why), **more)


def held_back(values: Mapping[str, Scalar]) -> str:
    """The rule `HeldBack`, for people."""
    mode = str(values.get("mode", "")).replace("-", " ")
    return f"Nothing of it is done ({mode}): {values.get('why', '')}."


def about(decision: Decision) -> str:
    """What a decision is about: its type and object."""
    if (target := target_of(decision)) is not None:
        return f"{type(decision).__name__} {target.kind}/{target.namespace}/{target.name}"
    fields = (str(getattr(decision, name, "")) for name in ("namespace", "name", "request"))
    return f"{type(decision).__name__} {'/'.join(fields)}"


def digest(decision: Decision, before: str = "") -> str:
    """What a decision says, and what those `before` it said, without when and for the how manieth time."""
    whole = msgspec.to_builtins(decision)
    lasting = _lasting({k: v for k, v in whole.items() if k not in _PASSING})
    said = msgspec.json.encode(lasting, order="deterministic")
    return blake2b(before.encode() + said, digest_size=12).hexdigest()


def _lasting(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _lasting(v) for k, v in value.items() if k not in _COUNTED}
    return [_lasting(item) for item in value] if isinstance(value, list | tuple) else value

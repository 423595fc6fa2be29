"""One decision against the table. Pure.

Who decided is what the subject says: the bus lets a service publish under its own name alone. What the body says of
itself (its id, its target) must agree with that, so that no outcome is sent into another's slot, and what is read
as about one object cannot be done to another.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from tidewright.actuator.allowed import pods
from tidewright.actuator.allowed.bounds import Bounds, Refusal
from tidewright.actuator.allowed.table import GRANTS, POD, Grant, kind_of
from tidewright.actuator.newer import NEWER, NewerEffect
from tidewright.events.decisions import CreateObject, Effect
from tidewright.log.subjects import ALL, Parsed, Slot, escape

SlotOf = Callable[[str], Slot]
Judging = Callable[[Parsed, Effect, Bounds, SlotOf], Grant | Refusal]
_ID = re.compile(r"[A-Za-z0-9._-]{1,200}")


def is_id(text: str) -> bool:
    """Whether a text has the form of a decision's id; one that has not does not go into headers."""
    return _ID.fullmatch(text) is not None


def judge(parsed: Parsed, effect: Effect, bounds: Bounds, slot_of: SlotOf) -> Grant | Refusal:
    """The line of the table by which an effect is allowed, or why it is not.

    What the line is grounded on, and the marks of its object, are still to be looked at.
    """
    service = parsed.rest[0] if parsed.rest else ""
    if wrong := _disagreement(parsed, service, effect):
        return wrong
    if isinstance(effect, NewerEffect):
        return Refusal(
            NEWER,
            f"{effect.named} is of a newer version: upgrade the actuator, then what is still wanted is decided again",
        )
    kind, name = kind_of(effect), type(effect).__name__
    lines = [grant for grant in GRANTS if grant.service == service and grant.covers(effect, kind)]
    if not lines:
        return Refusal(
            "EffectOfService", f"{service} may not ask for {name} of {kind[1]} ({kind[0] or 'core'})"
        )
    refusals: list[Refusal] = []
    for grant in lines:
        refusal = _refusal(grant, parsed, effect, bounds, slot_of)
        if refusal is None:
            return grant
        refusals.append(refusal)
    return refusals[0]


def _disagreement(parsed: Parsed, service: str, effect: Effect) -> Refusal | None:
    """Where subject and body do not speak of the same."""
    target = effect.target
    target_tokens = (target.kind.lower(), escape(target.namespace), escape(target.name))
    if parsed.rest[1:] != target_tokens:
        return Refusal(
            "SubjectOfTarget",
            f"the subject is about {' '.join(parsed.rest[1:]) or 'nothing'}, and the target is {' '.join(target_tokens)}",
        )
    if not is_id(effect.id) or not effect.id.startswith(f"{service}.{parsed.slot}."):
        return Refusal(
            "IdOfDecider",
            f"id {effect.id!r} does not begin with {service}.{parsed.slot}., as its subject says",
        )
    return None


def _refusal(grant: Grant, parsed: Parsed, effect: Effect, bounds: Bounds, slot_of: SlotOf) -> Refusal | None:
    target = effect.target
    if grant.feature not in bounds.features:
        return Refusal("FeatureOff", f"{grant.feature} is off: the actuator was started without it")
    deciding_slot = ALL if grant.slot == "all" else slot_of(target.namespace)
    if grant.slot != "any" and parsed.slot != deciding_slot:
        return Refusal(
            "SlotOfTarget",
            f"it was decided in slot {parsed.slot}: {grant.service} decides it in slot {deciding_slot}",
        )
    if (outside := bounds.outside(grant.service, target.namespace)) is not None and target.namespace:
        return outside
    if target.namespace in bounds.closed and not (grant.harmless or grant.where or grant.anywhere):
        return Refusal(
            "NamespaceClosed",
            f"nothing is changed in namespace {target.namespace} unless the actuator is started with --system-namespaces",
        )
    if said := grant.check(effect) or grant.bounded(effect, bounds):
        return Refusal(f"{type(effect).__name__}Fields", said)
    pod_spec = isinstance(effect, CreateObject) and kind_of(effect) == POD and effect.manifest.get("spec")
    if pod_spec and not bounds.privileged and (said := pods.shares(pod_spec)):
        return Refusal("PodSecurity", f"{said}: no such pod is created without --privileged-pods")
    return None

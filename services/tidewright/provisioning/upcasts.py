"""States as earlier versions of the decider stored them, made into those of the next version. Pure.

4    whether an evaluation was due, and what an event touched, lay in the state; patterns of nodes were kept
     only if good enough; that an order came too late was said by a time of zero
"""

from __future__ import annotations

from collections.abc import Mapping

from tidewright.events.base import JsonObject
from tidewright.host.fold.decider import Upcast
from tidewright.provisioning.cluster.groups import READY_LONG_ENOUGH_S

_JUDGED = frozenset({"evaluating", "evaluated_at", "touched", "first_wake"})


def _judging_is_left_to_decide(stored: JsonObject) -> JsonObject:
    state = {name: value for name, value in stored.items() if name not in _JUDGED}
    state["burst_at"] = stored.get("first_wake")
    state["groups"] = {
        name: _with_patterns(group) for name, group in stored.get("groups", JsonObject()).items()
    }
    for request in stored.get("requests", JsonObject()).values():
        request["seen_late"] = request.get("last_try") == 0.0
    return state


def _with_patterns(group: JsonObject) -> JsonObject:
    template = group.pop("remembered", None)
    patterns = [] if template is None else [{"template": template, "ready_s": READY_LONG_ENOUGH_S}]
    return {**group, "patterns": patterns}


UPCASTS: Mapping[int, Upcast] = {4: _judging_is_left_to_decide}
"""By the version that a state has: how it becomes one of the next."""

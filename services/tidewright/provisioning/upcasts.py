"""States as earlier versions of the decider stored them, made into those of the next version. Pure.

4    whether an evaluation was due, and what an event touched, lay in the state; patterns of nodes were kept
     only if good enough; that an order came too late was said by a time of zero

Without a version of its own came what is read as its default, although a log of before may say more:

`lately_of_gone`  when nodes last went, or failed to, of groups that are gone by now. A state of before has forgotten that, as its decider had. While one of
     the delays after it still runs (`scale-down-delay-after-delete`, `scale-down-delay-after-failure`), nodes may begin to go that much sooner, once; what
     keeps a node is asked all the same. No upcast can tell it: the time is nowhere else in the state. `verify`, which folds the log, names such a decision.
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

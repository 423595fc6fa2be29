"""Where WorkloadSpreads put the pods that a workload is about to get, subset by subset, as their admission chooses.

What a subset holds is counted by the annotations of the pods that are there, which is what the spread's ledger comes to;
what it may hold is worked out of the replicas that are wanted by then, which no ledger knows before somebody has
carried the decision out.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import count, islice
from typing import NamedTuple

from tidewright.events.acting import MODE
from tidewright.events.facts import PodObserved
from tidewright.kube.customworkloads import BUILT_IN, BadApiVersion, GroupKind, group_version
from tidewright.kube.keys import ObjectKey, PodKey, parts
from tidewright.kube.selectors import SelectorError
from tidewright.kube.workloadspreads import limits
from tidewright.kube.workloadspreads.choose import Choice, Slot, by_ordinal, by_slots
from tidewright.kube.workloadspreads.placements import placement_of
from tidewright.kube.workloadspreads.sharing import selected
from tidewright.kube.workloadspreads.spec import MATCHED_ANNOTATION, BadSpread, Spread, Subset, parse_spec
from tidewright.provisioning.foresight.kept import Spreading, Workload
from tidewright.provisioning.state import State, owner_key

SERVICE = "spread"


class Part(NamedTuple):
    """Pods of a workload that go the same way.

    Attributes:
        subset: that they are put into; None: they go in untouched.
        name: of it, and of its spread before it, as `State.subsets` has it; empty for none.
    """

    pods: int
    subset: Subset | None = None
    name: str = ""


class Taking(NamedTuple):
    """A spread that takes pods.

    Attributes:
        closed: its subsets that take none by now.
        beside: by how much what percentages are of is more than the workload's own replicas: paths say what that is.
    """

    spread: Spread
    closed: frozenset[str]
    beside: int = 0


class Spreads:
    """WorkloadSpreads by the workload that they name as their target, read; kept along with the index."""

    def __init__(self, spreads: Mapping[ObjectKey, Spreading]) -> None:
        self._known: dict[ObjectKey, Spread] = {}
        self._targets: dict[str, dict[ObjectKey, None]] = {}
        for key, spreading in spreads.items():
            self.came(key, spreading)

    def came(self, key: ObjectKey, spreading: Spreading) -> str:
        """One is there, or another than before; gives the workload that it names, by `owner_key`. What cannot be read takes no pods."""
        self.went(key)
        namespace, name = parts(key)
        try:
            spread = parse_spec(spreading.spec, namespace=namespace, name=name)
        except BadSpread:
            return ""
        if spread.target is None:
            return ""
        target = owner_key(spread.target.kind, namespace, spread.target.name)
        self._known[key] = spread
        self._targets.setdefault(target, {})[key] = None
        return target

    def went(self, key: ObjectKey) -> None:
        """It is not there any more."""
        spread = self._known.pop(key, None)
        if spread is None or spread.target is None:
            return
        target = owner_key(spread.target.kind, spread.namespace, spread.target.name)
        del self._targets[target][key]
        if not self._targets[target]:
            del self._targets[target]

    def of(self, state: State, key: str) -> Taking | None:
        """The one that takes the pods of a workload: of several the oldest that selects them."""
        workload = state.workloads[key]
        found = sorted((state.spreads[spread].created_at, spread) for spread in self._targets.get(key, ()))
        for _, spread in found:
            if _takes(self._known[spread], workload) and _acts(state, spread):
                closed = frozenset(state.spreads[spread].closed)
                return Taking(
                    self._known[spread], closed, _beside(self._known[spread], workload, state.spreads[spread])
                )
        return None


def _takes(spread: Spread, workload: Workload) -> bool:
    try:
        target = spread.target.api_version if spread.target is not None else ""
        same = group_version(target)[0] == group_version(workload.api_version)[0]
        return same and selected(spread.target_filter, workload.labels)
    except (BadApiVersion, SelectorError):
        return False


def _beside(spread: Spread, workload: Workload, spreading: Spreading) -> int:
    """Paths are those of the spread itself, or of the whitelist, which goes before for kinds of somebody else alone."""
    if spreading.at_paths is None or spread.target is None:
        return 0
    own = spread.target_filter is not None and bool(spread.target_filter.replicas_path_list)
    kind = GroupKind(group_version(spread.target.api_version)[0], spread.target.kind)
    return spreading.at_paths - workload.replicas if own or kind not in BUILT_IN else 0


def _acts(state: State, key: ObjectKey) -> bool:
    """Whether somebody puts pods into the subsets of a spread: we do, or whoever is at that work instead of us."""
    namespace, mode = parts(key)[0], state.spreads[key].mode
    if state.acting.beside(SERVICE, namespace) is not None:
        return True
    return state.acting.held(SERVICE, namespace, {MODE: mode} if mode else None).acts


def place_of(event: PodObserved) -> str:
    """The spread and the subset that a pod was put into; empty for none."""
    text = event.annotations.get(MATCHED_ANNOTATION)
    placement = placement_of(text) if text else None
    return sys.intern(named(placement.name, placement.subset)) if placement is not None else ""


def named(spread: str, subset: str) -> str:
    """A subset as `State.subsets` has it."""
    return f"{spread}/{subset}"


def split(taking: Taking, workload: Workload, pods: int, there: Mapping[PodKey, str]) -> list[Part]:
    """What a spread makes of new pods of a workload.

    Args:
        taking: the spread.
        workload: as it is wanted by then.
        pods: how many.
        there: pods that count, by what `place_of` says of them: those that stay, of the revision that is wanted where
            there are such; of a StatefulSet all that have their names.
    """
    spread, found = taking.spread, list[Part]()
    if spread.target is not None and spread.target.kind == "StatefulSet" and not spread.trivial:
        chosen = Counter(
            _place(by_ordinal(spread.subsets, name, taking.closed)) for name in _free_names(pods, there)
        )
        return [_part(spread, many, place) for place, many in chosen.items()]
    held = Counter(there.values())
    while pods > 0:
        slots = [_slot(taking, subset, workload, held) for subset in spread.subsets]
        place = _place(by_slots(slots))
        free = slots[place].missing if place < len(slots) else -1
        many = pods if free < 0 else min(pods, free)
        found.append(_part(spread, many, place))
        held[found[-1].name] += many
        pods -= many
    return found


def _place(choice: Choice) -> int:
    """Where the chosen subset stands, behind all for none: several may have one name, or none, and only some of them be full."""
    return len(choice.refused)


def _part(spread: Spread, pods: int, place: int) -> Part:
    if place == len(spread.subsets):
        return Part(pods)
    subset = spread.subsets[place]
    return Part(pods, subset, named(spread.name, subset.name))


def _slot(taking: Taking, subset: Subset, workload: Workload, held: Mapping[str, int]) -> Slot:
    closed = subset.name in taking.closed
    if subset.limit is None:
        return Slot(subset.name, -1, closed)
    try:
        limit = limits.strict(subset.limit, max(0, workload.replicas + taking.beside))
    except limits.NotALimit:
        limit = 0
    return Slot(subset.name, max(0, limit - held.get(named(taking.spread.name, subset.name), 0)), closed)


def _free_names(pods: int, there: Iterable[PodKey]) -> Iterator[str]:
    """Names that new pods of a StatefulSet have: the first numbers that are free."""
    taken = {key.rpartition("-")[2] for key in there}
    free = (number for number in count() if str(number) not in taken)
    return (f"pod-{number}" for number in islice(free, pods))

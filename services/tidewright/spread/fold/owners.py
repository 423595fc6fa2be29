"""Whose pod is it: rows taken out of one place and put into another as owners and filters become known.

named                   the target that a spread asks for
by_owner, by_selector   the spreads of a controller's target; those of a target whose scale selects a pod
spread_of               the spread that has a pod
pods_of_target          all pods of a spread's workload, whoever has them
take, enter, leave      a row out of where it is, into the counts and out of them
imply, unimply          controllers that are known from their pods alone
collect, scatter        strays that belong to a spread now; pods that do so no more
selecting, reselect     which spreads find pods by a selector, and which pods those are now
latest_revision         revision of a target's current template (specification, 3.7)
"""

from __future__ import annotations

from functools import lru_cache

from tidewright.events.facts import PodObserved
from tidewright.kube.customworkloads import BadApiVersion, GroupKind, group_version
from tidewright.kube.digits import whole_number
from tidewright.kube.selectors import LabelSelector, SelectorError
from tidewright.kube.workloadspreads.sharing import identity, selected
from tidewright.spread.match.pods import VERSION_IGNORED, short_hash
from tidewright.spread.state import (
    HELD,
    Row,
    SpreadState,
    State,
    Workload,
    owner_of,
    spread_key,
    target_key,
)


def key_of(spread: SpreadState) -> str:
    """The key of a spread in the state."""
    return spread_key(spread.namespace, spread.name)


def named(spread: SpreadState) -> str:
    """Key of the target that a spread asks for; "" for none, and while it is being deleted."""
    parsed = spread.spread
    if parsed is None or parsed.deleting or (target := identity(parsed.target)) is None:
        return ""
    return target_key(spread.namespace, *target)


def take(state: State, namespace: str, name: str, owner: str) -> tuple[SpreadState | None, Row | None]:
    """Take a pod's row out of where it is, and out of the counts."""
    strays = state.strays.get(namespace)
    if strays is not None and (row := strays.pop(name, None)) is not None:
        return None, row
    for likely in by_owner(state, namespace, owner) if owner else ():
        if (row := likely.pods.pop(name, None)) is not None:
            leave(likely, row)
            return likely, row
    home, row = state.find(namespace, name)
    if home is not None and row is not None:
        del home.pods[name]
        leave(home, row)
    return home, row


def enter(spread: SpreadState, row: Row, now: float) -> None:
    """Count a row that has come to a spread."""
    if row.active:
        spread.count(row, 1)
    if row.waiting:
        spread.waiting[row.name] = now if row.created_at is None else min(row.created_at, now)


def leave(spread: SpreadState, row: Row) -> None:
    """Count a row that has left a spread."""
    if row.active:
        spread.count(row, -1)
    spread.waiting.pop(row.name, None)


def by_owner(state: State, namespace: str, owner: str) -> list[SpreadState]:
    """The spreads whose target is the first one among the controllers from `owner` upwards."""
    for workload in state.chain(owner):
        target = target_key(namespace, workload.kind, workload.name)
        if target in state.targets:
            return state.having(target)
    return []


def by_selector(state: State, namespace: str, row: Row) -> list[SpreadState]:
    """The spreads of a custom workload that owns no pod itself, and whose scale selects this one (3.2)."""
    for key in state.selecting.get(namespace, ()):
        target = state.workloads.get(state.spreads[key].target_uid)
        if target is not None and not target.pods and _selector(target.selector).matches(row.labels):
            return state.having(target_key(namespace, target.kind, target.name))
    return []


@lru_cache(maxsize=1000)
def _selector(text: str) -> LabelSelector:
    """A scale's selector; one that cannot be read selects nothing."""
    try:
        return LabelSelector.parse(text)
    except SelectorError:
        return LabelSelector(nothing=True)


def spread_of(state: State, namespace: str, row: Row) -> SpreadState | None:
    """The spread that a pod belongs to: of those of its controllers' target the one whose filter takes the pod.

    A pod that no owners lead anywhere is of the target whose scale selects it. The filters of the spreads that
    have one target exclude each other.
    """
    for spread in _of_target(state, namespace, row):
        if spread.spread is None:
            continue
        try:
            if selected(spread.spread.target_filter, row.labels):
                return spread
        except SelectorError:
            continue
    return None


def _of_target(state: State, namespace: str, row: Row) -> list[SpreadState]:
    """The spreads of the target that a pod belongs to."""
    return by_owner(state, namespace, row.owner) or by_selector(state, namespace, row)


def pods_of_target(state: State, spread: SpreadState) -> list[Row]:
    """All pods of a spread's workload: its own, those of other spreads of the target, and those that none selects."""
    if not filtered(spread):
        return list(spread.pods.values())
    rows = [row for other in state.having(named(spread)) for row in other.pods.values()]
    strays = state.strays.get(spread.namespace, {})
    return rows + [
        row
        for row in strays.values()
        if any(other is spread for other in _of_target(state, spread.namespace, row))
    ]


def filtered(spread: SpreadState) -> bool:
    """Whether only some of its target's pods may belong to a spread."""
    target_filter = None if spread.spread is None else spread.spread.target_filter
    return target_filter is not None and target_filter.selector is not None


def imply(state: State, fact: PodObserved) -> list[str]:
    """Count a pod of an owner, and remember the owner where its pods are all that is known of it.

    Gives the spreads that find their pods by other means from now on.
    """
    above = owner_of(fact)
    if above is None or not above.uid:
        return []
    workload = state.workloads.get(above.uid)
    if workload is None:
        try:
            group, _ = group_version(above.api_version)
        except BadApiVersion:
            return []
        workload = Workload(
            GroupKind(group, above.kind), above.name, above.uid, fact.namespace, replicas=-1, seen=False
        )
        state.workloads[above.uid] = workload
    workload.pods += 1
    return reselect(state, workload) if workload.selector and workload.pods == 1 else []


def unimply(state: State, owner: str) -> list[str]:
    """One pod of an owner less; the last one takes along what only pods told of. Gives what `imply` does."""
    workload = state.workloads.get(owner)
    if workload is None or not workload.pods:
        return []
    workload.pods -= 1
    if workload.pods:
        return []
    if not workload.seen:
        del state.workloads[owner]
    return reselect(state, workload) if workload.selector else []


def selecting(state: State, spread: SpreadState) -> None:
    """Note whether the spread may find pods by its target's selector."""
    key, keys = key_of(spread), state.selecting.get(spread.namespace, [])
    target = state.workloads.get(spread.target_uid)
    selects = target is not None and bool(target.selector)
    if selects == (key in keys):
        return
    keys = sorted({*keys, key} if selects else {*keys} - {key})
    state.selecting[spread.namespace] = keys
    if not keys:
        del state.selecting[spread.namespace]


def reselect(state: State, target: Workload) -> list[str]:
    """Whether the target owns pods itself has changed: pods that its selector finds come or go."""
    having = state.having(target_key(target.namespace, target.kind, target.name))
    spreads = [spread for spread in having if spread.target_uid == target.uid]
    for spread in spreads:
        scatter(state, spread, all_of_them=False)
        collect(state, spread)
        spread.recount = True
    return [key_of(spread) for spread in spreads]


def collect(state: State, spread: SpreadState) -> None:
    """Take in the strays that belong to the spread now."""
    strays = state.strays.get(spread.namespace, {})
    for name in [n for n, row in strays.items() if spread_of(state, spread.namespace, row) is spread]:
        row = strays.pop(name)
        spread.pods[name] = row
        enter(spread, row, state.now)


def scatter(state: State, spread: SpreadState, *, all_of_them: bool) -> None:
    """Put pods that do not belong to the spread any more among the strays; their places are given back."""
    leaving = [
        name
        for name, row in spread.pods.items()
        if all_of_them or spread_of(state, spread.namespace, row) is not spread
    ]
    strays = state.strays.setdefault(spread.namespace, {})
    for name in leaving:
        row = spread.pods.pop(name)
        leave(spread, row)
        row.flags &= ~HELD
        strays[name] = row
    spread.recount = spread.recount or bool(leaving)


def latest_revision(state: State, spread: SpreadState) -> str:
    """Revision of the target's current template (3.7), as far as recorded facts tell."""
    target = state.workloads.get(spread.target_uid)
    if target is None:
        return VERSION_IGNORED
    match target.kind.kind:
        case "Deployment":
            owned = [state.workloads[u] for u in state.children.get(target.uid, ()) if u in state.workloads]
            sets = [w for w in owned if w.kind.kind == "ReplicaSet" and not w.deleting]
            current = [w for w in sets if w.revision == target.revision] or sets
            newest = max(current, key=lambda w: (whole_number(w.revision) or 0, w.name), default=None)
            return newest.template_hash if newest is not None else VERSION_IGNORED
        case "ReplicaSet":
            return target.template_hash or VERSION_IGNORED
    return short_hash(target.revision) or VERSION_IGNORED

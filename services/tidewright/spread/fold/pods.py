"""Folding facts about pods."""

from __future__ import annotations

from tidewright.events.facts import PodGone, PodObserved
from tidewright.kube.workloadspreads.placements import Placement, placement_of
from tidewright.kube.workloadspreads.spec import MATCHED_ANNOTATION
from tidewright.spread.fold.owners import enter, imply, key_of, spread_of, take, unimply
from tidewright.spread.fold.touched import Touched
from tidewright.spread.state import ADOPTING, CALLED, HELD, Row, SpreadState, State, row_of


def pod_observed(state: State, fact: PodObserved, touched: Touched) -> None:
    """A pod as it is now: its row goes where it belongs."""
    namespace, name = fact.namespace, fact.name
    placement = placement_of(fact.annotations.get(MATCHED_ANNOTATION))
    new = row_of(fact, state.shared_labels(fact.labels), placement)
    home, old = take(state, namespace, name, new.owner)
    reselected: list[str] = []
    if old is None or old.owner != new.owner:
        if old is not None:
            reselected = unimply(state, old.owner)
        reselected = imply(state, fact) or reselected
    same = old is not None and old.uid == new.uid
    where = home if home is not None and same else None
    if where is None or old is None or (old.labels is not new.labels) or old.owner != new.owner:
        where = spread_of(state, namespace, new)
    if old is not None and same:
        new.name = old.name
        if home is None or where is home:
            _remembered(old, new)
    if where is None:
        state.strays.setdefault(namespace, {})[new.name] = new
    else:
        where.pods[new.name] = new
        enter(where, new, state.now)
    _touch(touched, fact, home, where=where, old=old, new=new, placement=placement)
    touched.spreads.extend(key for key in reselected if key not in touched.spreads)


def _remembered(old: Row, new: Row) -> None:
    """What was decided about a pod holds on, for as long as it is in the same place: the spread that it leaves
    gives back what it held there, and what was asked for there is asked for anew.
    """
    new.flags |= old.flags & (HELD | CALLED)
    new.asked = old.asked if new.cost == old.cost else ""
    if not new.placed_by and old.flags & ADOPTING:
        new.placed_by, new.subset = old.placed_by, old.subset
        new.flags |= ADOPTING


def _touch(
    touched: Touched,
    fact: PodObserved,
    home: SpreadState | None,
    *,
    where: SpreadState | None,
    old: Row | None,
    new: Row,
    placement: Placement | None,
) -> None:
    """Note what a pod's fact has changed: it went from `home` to `where`."""
    touched.pod = fact.name
    if (where or home) is not None:
        touched.key = placement.uid if placement is not None and placement.uid else fact.name
    if home is not None and where is not home:
        # It left one spread and may have entered another: both are looked at as a whole.
        touched.home, touched.before = key_of(home), old
        if where is not None:
            touched.spreads.append(key_of(where))
        return
    owner = where if where is not None else home
    touched.home = "" if owner is None else key_of(owner)
    touched.before = old if home is not None else None
    touched.after = new


def pod_gone(state: State, fact: PodGone, touched: Touched) -> None:
    """A pod is gone."""
    home, old = take(state, fact.namespace, fact.name, "")
    touched.pod, touched.key, touched.before = fact.name, fact.name, old
    touched.home = "" if home is None else key_of(home)
    if old is not None:
        touched.spreads.extend(unimply(state, old.owner))

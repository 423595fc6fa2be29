"""Look-ups of one namespace, derived from the state: who is concerned by a fact, in constant time.

A pod's labels decide which selectors find it, and labels repeat: matching is done once per pair of
label set and selector. A selector is filed under one of its equalities (`app=web`), so that a new
label set is tried against the selectors filed under its own labels and not against all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from tidewright.autoscaler.api.conditions import Change, Setting
from tidewright.events.base import JsonObject
from tidewright.kube.readiness import Pod, ReadyCount
from tidewright.kube.selectors import LabelSelector, SelectorError

Names: TypeAlias = tuple[str, ...] | set[str]
"""Names filed under one key; a set of one costs four times a tuple of one, and most are of one."""
FEW = 8
ANYTHING = ""  # where selectors without an equality are filed


class View:
    """What need not be derived again for one object while nothing changes.

    Attributes:
        pods: its target's, and `count` of them.
        settings: conditions of the last pass, as long as `change` is what they would change of what is kept.
        verdict: why its spec cannot be used, of the spec that it was asked about; None while it can.
    """

    __slots__ = ("change", "count", "pods", "settings", "verdict")

    def __init__(self) -> None:
        self.pods: list[Pod] | None = None
        self.count: ReadyCount | None = None
        self.settings: list[Setting] | None = None
        self.change = Change.NONE
        self.verdict: tuple[str | JsonObject, str] | None = None

    def forget(self) -> None:
        """The pods have changed."""
        self.pods = None
        self.count = None


class Selection:
    """A selector in use, the label sets that it finds, and the objects that use it.

    Most selectors are found by few label sets and used by one object, and there are many of them:
    hence tuples in place of sets, and no parsed selector where the one equality says it all.
    """

    __slots__ = ("anchor", "error", "groups", "selector", "users")

    def __init__(self, text: str) -> None:
        self.error = ""
        self.groups: Names = ()
        self.users: Names = ()
        self.selector: LabelSelector | None
        try:
            self.selector = LabelSelector.parse(text)
        except SelectorError as error:
            self.selector, self.error = LabelSelector(nothing=True), str(error)
        equalities = [
            f"{r.key}={next(iter(r.values))}"
            for r in self.selector.requirements
            if r.operator == "In" and len(r.values) == 1
        ]
        self.anchor = equalities[0] if equalities else ANYTHING
        if equalities and len(self.selector.requirements) == 1:
            self.selector = None

    def finds(self, labels: Mapping[str, str]) -> bool:
        """Whether a label set that carries the anchor is selected."""
        return self.selector is None or self.selector.matches(labels)


class Bound(tuple[str, tuple[str, ...], str | None]):
    """What an object is filed under: target, queries, selector."""

    __slots__ = ()


class NamespaceIndex:
    """Who asks for what in one namespace."""

    def __init__(self) -> None:
        self.group_of: dict[str, str] = {}
        self.by_query: dict[str, Names] = {}
        self.by_target: dict[str, Names] = {}
        self.views: dict[str, View] = {}
        self._bound: dict[str, Bound] = {}
        self._selections: dict[str, Selection] = {}
        self._anchored: dict[str, Names] = {}
        self._labelled: dict[str, Names] = {}
        self._labels: dict[str, Mapping[str, str]] = {}
        self._watchers: dict[str, tuple[str, ...]] = {}

    def add_group(self, key: str, labels: Mapping[str, str]) -> None:
        """A label set that pods carry."""
        self._labels[key] = labels
        for text in self._filed(labels):
            selection = self._selections[text]
            if selection.finds(labels):
                selection.groups = with_name(selection.groups, key)
        for equality in _equalities(labels):
            file(self._labelled, equality, key)
        self._watchers.pop(key, None)

    def drop_group(self, key: str) -> None:
        """No pod carries this label set any more."""
        labels = self._labels.pop(key)
        for text in self._filed(labels):
            selection = self._selections[text]
            selection.groups = without_name(selection.groups, key)
        for equality in _equalities(labels):
            unfile(self._labelled, equality, key)
        self._watchers.pop(key, None)

    def _filed(self, labels: Mapping[str, str]) -> list[str]:
        selectors: list[str] = list(self._anchored.get(ANYTHING, ()))
        for equality in _equalities(labels):
            selectors.extend(self._anchored.get(equality, ()))
        return selectors

    def watchers(self, key: str) -> tuple[str, ...]:
        """Names of the objects whose targets select this label set, in order."""
        known = self._watchers.get(key)
        if known is None:
            users: set[str] = set()
            for text in self._filed(self._labels[key]):
                selection = self._selections[text]
                if key in selection.groups:
                    users.update(selection.users)
            known = self._watchers[key] = tuple(sorted(users))
        return known

    def bind(self, name: str, *, target: str, queries: tuple[str, ...], selector: str | None) -> None:
        """File an object under its target, its queries and its target's selector."""
        bound = Bound((target, queries, selector))
        before, view = self.views.get(name), View()
        if self._bound.get(name) != bound:
            self.unbind(name)
            self._bound[name] = bound
            file(self.by_target, target, name)
            for query in queries:
                file(self.by_query, query, name)
            if selector is not None:
                self._use(selector, name)
        if before is not None:
            view.verdict = before.verdict  # which names the spec that it is of
        self.views[name] = view

    def forget_settings(self, name: str) -> None:
        """What is kept of an object has changed. That its spec can be used is recorded with that: the spec is let go."""
        view = self.views.get(name)
        if view is not None:
            view.settings = None
            if view.verdict is not None and not view.verdict[1]:
                view.verdict = None

    def unbind(self, name: str) -> None:
        """The object asks for nothing any more."""
        bound = self._bound.pop(name, None)
        self.views.pop(name, None)
        if bound is None:
            return
        target, queries, selector = bound
        unfile(self.by_target, target, name)
        for query in queries:
            unfile(self.by_query, query, name)
        if selector is not None:
            self._release(selector, name)

    def _use(self, text: str, name: str) -> None:
        selection = self._selections.get(text)
        if selection is None:
            selection = self._selections[text] = Selection(text)
            file(self._anchored, selection.anchor, text)
            candidates: Iterable[str] = (
                self._labels if selection.anchor == ANYTHING else self._labelled.get(selection.anchor, ())
            )
            for key in candidates:
                if selection.finds(self._labels[key]):
                    selection.groups = with_name(selection.groups, key)
        selection.users = with_name(selection.users, name)
        self._forget_watchers(selection)

    def _release(self, text: str, name: str) -> None:
        selection = self._selections[text]
        selection.users = without_name(selection.users, name)
        self._forget_watchers(selection)
        if not selection.users:
            del self._selections[text]
            unfile(self._anchored, selection.anchor, text)

    def _forget_watchers(self, selection: Selection) -> None:
        for key in selection.groups:
            self._watchers.pop(key, None)

    def selected(self, name: str) -> tuple[Sequence[str], str]:
        """The label sets that an object's target selects, in order, and why it selects none."""
        bound = self._bound.get(name)
        if bound is None or bound[2] is None:
            return (), ""
        selection = self._selections[bound[2]]
        return in_order(selection.groups), selection.error


def _equalities(labels: Mapping[str, str]) -> list[str]:
    return [f"{key}={value}" for key, value in labels.items()]


def file(filed: dict[str, Names], key: str, name: str) -> None:
    """Add a name under a key: a tuple while there are few, a set when there are many."""
    filed[key] = with_name(filed.get(key, ()), name)


def with_name(names: Names, name: str) -> Names:
    """The names with one more."""
    if name in names:
        return names
    if isinstance(names, set):
        names.add(name)
        return names
    return (*names, name) if len(names) < FEW else {*names, name}


def without_name(names: Names, name: str) -> Names:
    """The names with one less."""
    if isinstance(names, set):
        names.discard(name)
        return names
    return tuple([other for other in names if other != name])


def unfile(filed: dict[str, Names], key: str, name: str) -> None:
    """Take a name away from under a key, and the key when it was the last."""
    filed[key] = without_name(filed[key], name)
    if not filed[key]:
        del filed[key]


def in_order(names: Names) -> Sequence[str]:
    """The names in the one order that does not depend on how they came."""
    return sorted(names) if len(names) > 1 else tuple(names)

"""Look-ups of one namespace, derived from the state: who is concerned by a fact, in constant time.

A pod's labels decide which selectors find it, and labels repeat: matching is done once per pair of
label set and selector. A selector is filed under one of its equalities (`app=web`), so that a new
label set is tried against the selectors filed under its own labels and not against all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tidewright.autoscaler.readiness import Pod, ReadyCount
from tidewright.kube.selectors import LabelSelector, SelectorError

ANYTHING = ""  # where selectors without an equality are filed


class View:
    """The pods of one object, as last counted."""

    __slots__ = ("count", "pods")

    def __init__(self) -> None:
        self.pods: list[Pod] | None = None
        self.count: ReadyCount | None = None

    def forget(self) -> None:
        """The pods have changed."""
        self.pods = None
        self.count = None


class Selection:
    """A selector in use, the label sets that it finds, and the objects that use it."""

    __slots__ = ("anchor", "error", "groups", "selector", "users")

    def __init__(self, text: str) -> None:
        self.error = ""
        self.groups: set[str] = set()
        self.users: set[str] = set()
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


class Bound(tuple[str, tuple[str, ...], str | None]):
    """What an object is filed under: target, queries, selector."""

    __slots__ = ()


class NamespaceIndex:
    """Who asks for what in one namespace."""

    def __init__(self) -> None:
        self.group_of: dict[str, str] = {}
        self.by_query: dict[str, tuple[str, ...]] = {}
        self.by_target: dict[str, tuple[str, ...]] = {}
        self.views: dict[str, View] = {}
        self._bound: dict[str, Bound] = {}
        self._selections: dict[str, Selection] = {}
        self._anchored: dict[str, set[str]] = {}
        self._labelled: dict[str, set[str]] = {}
        self._labels: dict[str, Mapping[str, str]] = {}
        self._watchers: dict[str, tuple[str, ...]] = {}

    def add_group(self, key: str, labels: Mapping[str, str]) -> None:
        """A label set that pods carry."""
        self._labels[key] = labels
        for text in self._filed(labels):
            selection = self._selections[text]
            if selection.selector.matches(labels):
                selection.groups.add(key)
        for equality in _equalities(labels):
            self._labelled.setdefault(equality, set()).add(key)
        self._watchers.pop(key, None)

    def drop_group(self, key: str) -> None:
        """No pod carries this label set any more."""
        labels = self._labels.pop(key)
        for text in self._filed(labels):
            self._selections[text].groups.discard(key)
        for equality in _equalities(labels):
            keys = self._labelled[equality]
            keys.discard(key)
            if not keys:
                del self._labelled[equality]
        self._watchers.pop(key, None)

    def _filed(self, labels: Mapping[str, str]) -> list[str]:
        found = list(self._anchored.get(ANYTHING, ()))
        for equality in _equalities(labels):
            found.extend(self._anchored.get(equality, ()))
        return found

    def watchers(self, key: str) -> tuple[str, ...]:
        """Names of the objects whose targets select this label set, in order."""
        known = self._watchers.get(key)
        if known is None:
            users: set[str] = set()
            for text in self._filed(self._labels[key]):
                selection = self._selections[text]
                if key in selection.groups:
                    users |= selection.users
            known = self._watchers[key] = tuple(sorted(users))
        return known

    def bind(self, name: str, *, target: str, queries: tuple[str, ...], selector: str | None) -> None:
        """File an object under its target, its queries and its target's selector."""
        bound = Bound((target, queries, selector))
        if self._bound.get(name) != bound:
            self.unbind(name)
            self._bound[name] = bound
            self.by_target[target] = _with(self.by_target.get(target, ()), name)
            for query in queries:
                self.by_query[query] = _with(self.by_query.get(query, ()), name)
            if selector is not None:
                self._use(selector, name)
        self.views[name] = View()

    def unbind(self, name: str) -> None:
        """The object asks for nothing any more."""
        bound = self._bound.pop(name, None)
        self.views.pop(name, None)
        if bound is None:
            return
        target, queries, selector = bound
        _take(self.by_target, target, name)
        for query in queries:
            _take(self.by_query, query, name)
        if selector is not None:
            self._release(selector, name)

    def _use(self, text: str, name: str) -> None:
        selection = self._selections.get(text)
        if selection is None:
            selection = self._selections[text] = Selection(text)
            self._anchored.setdefault(selection.anchor, set()).add(text)
            candidates: Iterable[str] = (
                self._labels if selection.anchor == ANYTHING else self._labelled.get(selection.anchor, ())
            )
            for key in candidates:
                if selection.selector.matches(self._labels[key]):
                    selection.groups.add(key)
        selection.users.add(name)
        self._forget_watchers(selection)

    def _release(self, text: str, name: str) -> None:
        selection = self._selections[text]
        selection.users.discard(name)
        self._forget_watchers(selection)
        if not selection.users:
            del self._selections[text]
            filed = self._anchored[selection.anchor]
            filed.discard(text)
            if not filed:
                del self._anchored[selection.anchor]

    def _forget_watchers(self, selection: Selection) -> None:
        for key in selection.groups:
            self._watchers.pop(key, None)

    def selected(self, name: str) -> tuple[list[str], str]:
        """The label sets that an object's target selects, in order, and why it selects none."""
        bound = self._bound.get(name)
        if bound is None or bound[2] is None:
            return [], ""
        selection = self._selections[bound[2]]
        return sorted(selection.groups), selection.error


def _equalities(labels: Mapping[str, str]) -> list[str]:
    return [f"{key}={value}" for key, value in labels.items()]


def _with(names: tuple[str, ...], name: str) -> tuple[str, ...]:
    return names if name in names else tuple(sorted((*names, name)))


def _take(filed: dict[str, tuple[str, ...]], key: str, name: str) -> None:
    left = tuple(other for other in filed[key] if other != name)
    if left:
        filed[key] = left
    else:
        del filed[key]

"""Pods per node by what selects them, kept current for affinity terms and spread constraints.

A `Counter` counts the placed pods that a selector matches; a `Holders` counter counts the placed
pods that *have* a required anti-affinity term. Both are made when first asked for, by one pass over
the placed pods, and then changed with each placement.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import numpy as np

from tidewright.kube.selectors import LabelSelector
from tidewright.sim.controllers.objects import Pod
from tidewright.sim.scheduler.table import NodeTable, Numbers


class Term(msgspec.Struct, frozen=True):
    """One inter-pod affinity term, or the selecting half of a spread constraint.

    Attributes:
        namespaces: in which pods count; None for all.
    """

    topology_key: str
    selector: LabelSelector
    namespaces: frozenset[str] | None

    def selects(self, namespace: str, labels: Mapping[str, str]) -> bool:
        return (self.namespaces is None or namespace in self.namespaces) and self.selector.matches(labels)


def term_of(pod: Pod, given: Mapping[str, Any]) -> Term:
    """Read a pod affinity term; without namespaces it means the pod's own.

    A namespace selector that is empty means all namespaces; one with requirements is taken for all
    as well, since namespaces' labels are not followed here.
    """
    namespaces: frozenset[str] | None = frozenset(given.get("namespaces") or ())
    if given.get("namespaceSelector") is not None:
        namespaces = None
    elif not namespaces:
        namespaces = frozenset((pod.metadata.namespace,))
    selector = dict(given.get("labelSelector") or {}) if given.get("labelSelector") is not None else None
    if selector is not None:
        selector = with_label_keys(pod, selector, given.get("matchLabelKeys") or ())
    return Term(given.get("topologyKey", ""), LabelSelector.of(selector), namespaces)


def with_label_keys(pod: Pod, selector: Mapping[str, Any], keys: Iterable[str]) -> dict[str, Any]:
    """A selector that also wants the pod's own values of these labels."""
    labels = {key: pod.metadata.labels[key] for key in keys if key in pod.metadata.labels}
    return {**selector, "matchLabels": {**(selector.get("matchLabels") or {}), **labels}}


def affinity_terms(pod: Pod, kind: str, strength: str) -> list[Mapping[str, Any]]:
    """The terms under `podAffinity` or `podAntiAffinity`, `required...` or `preferred...`."""
    terms = ((pod.spec.affinity or {}).get(kind) or {}).get(
        f"{strength}DuringSchedulingIgnoredDuringExecution"
    )
    return list(terms or ())


class PodCounts:
    """The placed pods, and counters over them."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._placed: dict[str, tuple[Pod, int]] = {}
        self._counters: dict[tuple[str, frozenset[str] | None], tuple[Term, Numbers]] = {}
        self._holders: dict[Term, Numbers] = {}

    def add(self, pod: Pod, row: int) -> None:
        self._placed[pod.metadata.uid] = (pod, row)
        self._count(pod, row, 1)

    def remove(self, uid: str) -> None:
        placed = self._placed.pop(uid, None)
        if placed is not None:
            self._count(*placed, -1)

    def _count(self, pod: Pod, row: int, by: int) -> None:
        self._grow()
        for term, numbers in self._counters.values():
            if term.selects(pod.metadata.namespace, pod.metadata.labels):
                numbers[row] += by
        if pod.spec.affinity:
            for given in affinity_terms(pod, "podAntiAffinity", "required"):
                term = term_of(pod, given)
                if term not in self._holders:
                    self._holders[term] = np.zeros(len(self._table.nodes), dtype=np.int64)
                self._holders[term][row] += by

    def _grow(self) -> None:
        size = len(self._table.nodes)
        for key, (term, numbers) in self._counters.items():
            if len(numbers) < size:
                self._counters[key] = (term, np.pad(numbers, (0, size - len(numbers))))
        for term, numbers in self._holders.items():
            if len(numbers) < size:
                self._holders[term] = np.pad(numbers, (0, size - len(numbers)))

    def matching(self, term: Term) -> Numbers:
        """Placed pods per node that the term selects."""
        self._grow()
        key = (str(term.selector) + ("\0" if term.selector.nothing else ""), term.namespaces)
        counter = self._counters.get(key)
        if counter is None:
            numbers = np.zeros(len(self._table.nodes), dtype=np.int64)
            for pod, row in self._placed.values():
                if term.selects(pod.metadata.namespace, pod.metadata.labels):
                    numbers[row] += 1
            counter = self._counters[key] = (term, numbers)
        return counter[1]

    def holders(self, pod: Pod) -> Iterable[tuple[str, Numbers]]:
        """Topology key and pods per node of each required anti-affinity term that selects `pod`."""
        self._grow()
        for term, numbers in self._holders.items():
            if term.selects(pod.metadata.namespace, pod.metadata.labels) and numbers.any():
                yield term.topology_key, numbers

    def per_domain(self, label: str, numbers: Numbers) -> tuple[Numbers, Numbers]:
        """Counts per node summed over its domain, and the domains; 0 for nodes without the label."""
        domains = self._table.domains(label)
        inside = domains >= 0
        if not inside.any():
            return np.zeros_like(domains), domains
        sums = np.bincount(domains[inside], weights=numbers[inside]).astype(np.int64)
        return np.where(inside, sums[np.maximum(domains, 0)], 0), domains

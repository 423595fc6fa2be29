"""One pod's place: filters in the real scheduler's order with its reasons, then its scores.

Deterministic: among nodes of the best score the one in the lowest row wins, and rows follow the
order in which nodes came.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec
import numpy as np

from tidewright.kube.selectors import LabelSelector
from tidewright.sim.controllers.objects import Node, Pod, Port
from tidewright.sim.scheduler.counts import PodCounts, Term, affinity_terms, term_of, with_label_keys
from tidewright.sim.scheduler.matching import HARD, first_untolerated, matches_affinity, preferred_weight
from tidewright.sim.scheduler.ranking import Rankings
from tidewright.sim.scheduler.requests import pod_requests, scored_requests
from tidewright.sim.scheduler.table import Floats, Mask, NodeTable, Numbers

UNSCHEDULABLE: Final = "node(s) were unschedulable"
TAINT: Final = "node(s) had untolerated taint(s)"
AFFINITY: Final = "node(s) didn't match Pod's node affinity/selector"
PORTS: Final = "node(s) didn't have free ports for the requested pod ports"
SPREAD: Final = "node(s) didn't match pod topology spread constraints"
SPREAD_LABEL: Final = f"{SPREAD} (missing required label)"
POD_AFFINITY: Final = "node(s) didn't match pod affinity rules"
POD_ANTI_AFFINITY: Final = "node(s) didn't match pod anti-affinity rules"
EXISTING_ANTI_AFFINITY: Final = "node(s) didn't satisfy existing pods anti-affinity rules"
TOO_MANY_PODS: Final = "Too many pods"

_PREFER: Final = frozenset({"PreferNoSchedule"})
_CORDON: Final = "node.kubernetes.io/unschedulable"


class Shape(msgspec.Struct):
    """What scheduling looks at, worked out once for pods that are alike.

    Attributes:
        key: equal for pods that every filter treats alike.
        static: names the masks that depend on the node alone.
        lonely: nothing in it depends on other pods: a failure stays one until the cluster changes.
        plain: lonely, and no node is preferred: its scores change only where something is placed.
    """

    key: bytes
    static: str
    requests: dict[str, int]
    scored: tuple[int, int]
    ports: tuple[Port, ...] = ()
    lonely: bool = True
    plain: bool = True


class Refusal(msgspec.Struct, frozen=True):
    """No node took the pod: how many nodes gave each reason, and what preemption could not change."""

    nodes: int
    reasons: dict[str, int]
    hopeless: int

    def message(self, *, preempts: bool = True, made: bool = False) -> str:
        """The condition's message, in the real scheduler's form; `made`: room is being made, nothing is said of that."""
        if self.nodes == 0:
            return "no nodes available to schedule pods"
        reasons = ", ".join(sorted(f"{count} {reason}" for reason, count in self.reasons.items()))
        if made:
            return f"0/{self.nodes} nodes are available: {reasons}."
        tail = "not eligible due to preemptionPolicy=Never."
        if preempts:
            rest = {
                "No preemption victims found for incoming pod": self.nodes - self.hopeless,
                "Preemption is not helpful for scheduling": self.hopeless,
            }
            said = ", ".join(sorted(f"{count} {reason}" for reason, count in rest.items() if count))
            tail = f"0/{self.nodes} nodes are available: {said}."
        return (
            f"0/{self.nodes} nodes are available: {reasons}. no new claims to deallocate, preemption: {tail}"
        )


_shape_part = msgspec.json.Encoder(order="deterministic")


def shape_of(pod: Pod) -> Shape:
    """The pod's shape.

    Raises:
        tidewright.kube.quantities.NotAQuantity: a request is none.
    """
    spec = pod.spec
    requests = pod_requests(spec)
    ports = tuple(port for container in spec.containers for port in container.ports if port.host_port > 0)
    affinity = spec.affinity or {}
    lonely = not (
        ports
        or spec.topology_spread_constraints
        or affinity.get("podAffinity")
        or affinity.get("podAntiAffinity")
    )
    preferred = (affinity.get("nodeAffinity") or {}).get("preferredDuringSchedulingIgnoredDuringExecution")
    static = _shape_part.encode((spec.node_selector, affinity.get("nodeAffinity"), spec.tolerations))
    # Existing pods' anti-affinity looks at the pod's namespace and labels.
    rest = (
        pod.metadata.namespace,
        pod.metadata.labels,
        requests,
        affinity,
        spec.topology_spread_constraints,
        ports,
    )
    return Shape(
        key=static + _shape_part.encode(rest),
        static=static.decode(),
        requests=requests,
        scored=scored_requests(spec),
        ports=ports,
        lonely=lonely,
        plain=lonely and not preferred,
    )


class Placer:
    """Filters and scores over one table of nodes and the pods placed on them."""

    def __init__(self) -> None:
        self.table = NodeTable()
        self.counts = PodCounts(self.table)
        self._ports: dict[int, list[Port]] = {}
        self._ranks = Rankings(self.table)

    # --- what is placed -----------------------------------------------------------------------

    def place(self, pod: Pod, shape: Shape, row: int) -> None:
        """Take the pod's requests from a node."""
        self._use(shape, row, 1)
        self._ports.setdefault(row, []).extend(shape.ports)
        self.counts.add(pod, row)

    def unplace(self, pod: Pod, shape: Shape, row: int) -> None:
        """Give them back."""
        self._use(shape, row, -1)
        for port in shape.ports:
            self._ports[row].remove(port)
        self.counts.remove(pod.metadata.uid)

    def _use(self, shape: Shape, row: int, by: int) -> None:
        for name, value in shape.requests.items():
            column = self.table.column(name)
            self.table.used[row, column] += by * value
        self.table.scored[row] += np.multiply(by, shape.scored)
        self.table.changed(row)

    # --- one pod ------------------------------------------------------------------------------

    def choose(self, pod: Pod, shape: Shape) -> int | Refusal:
        """The row of the best node, or why there is none."""
        quick = self._quick(pod, shape)
        if quick is not None:
            return quick
        tally = _Tally(int(self.table.present.sum()))
        matches = self._matches_affinity(pod, shape)
        feasible = self._feasible(pod, shape, matches, tally)
        rows = np.flatnonzero(feasible)
        if len(rows) == 0:
            return tally.refusal()
        if len(rows) == 1:
            return int(rows[0])
        return int(rows[np.argmax(self._score(pod, shape, rows, matches))])

    def hopeful(self, pod: Pod, shape: Shape) -> Mask:
        """Nodes on which the pod could run if others went."""
        table = self.table
        fine = table.present & self._tolerated(pod, shape) & self._matches_affinity(pod, shape)
        return fine if _ignores_cordons(pod) else fine & ~table.cordoned

    def fits(self, pod: Pod, shape: Shape, row: int) -> bool:
        """Whether the pod could run in a row as things are."""
        for name, value in shape.requests.items():
            column = self.table.column(name)
            if value and self.table.allocatable[row, column] - self.table.used[row, column] < value:
                return False
        if shape.lonely and not any(self.counts.holders(pod)):
            return True
        matches = self._matches_affinity(pod, shape)
        return bool(self._feasible(pod, shape, matches, _Tally(0))[row])

    def _feasible(self, pod: Pod, shape: Shape, matches: Mask, tally: _Tally) -> Mask:
        """The nodes that pass every filter, in the real scheduler's order."""
        table = self.table
        feasible = table.present.copy()
        if not feasible.any():
            return feasible
        if not _ignores_cordons(pod):
            feasible = tally.keep(feasible, ~table.cordoned, UNSCHEDULABLE, hopeless=True)
        feasible = tally.keep(feasible, self._tolerated(pod, shape), TAINT, hopeless=True)
        feasible = tally.keep(feasible, matches, AFFINITY, hopeless=True)
        if shape.ports:
            feasible = tally.keep(feasible, self._free_ports(shape), PORTS)
        feasible = self._fits(shape, feasible, tally)
        if not shape.lonely and feasible.any():
            feasible = self._spreads(pod, matches, feasible, tally)
            feasible = self._befriends(pod, feasible, tally)
        if feasible.any():
            for label, numbers in self.counts.holders(pod):
                crowded, _ = self.counts.per_domain(label, numbers)
                feasible = tally.keep(feasible, crowded == 0, EXISTING_ANTI_AFFINITY)
        return feasible

    def _quick(self, pod: Pod, shape: Shape) -> int | None:
        """The best row by the shape's own ranking; None where only the long way can tell."""
        if not shape.plain or self.table.values("prefer" + shape.static, self._disliked(pod)).any():
            return None
        for _ in self.counts.holders(pod):
            return None

        def rate(rows: Numbers) -> Floats:
            table = self.table
            fine = table.present[rows] & self._tolerated(pod, shape)[rows]
            fine &= self._matches_affinity(pod, shape)[rows]
            if not _ignores_cordons(pod):
                fine &= ~table.cordoned[rows]
            for name, value in shape.requests.items():
                if value:
                    column = table.column(name)
                    fine &= table.allocatable[rows, column] - table.used[rows, column] >= value
            return np.where(fine, self._balance(shape, rows), -1.0)

        return self._ranks.best(shape.key, rate)

    def _tolerated(self, pod: Pod, shape: Shape) -> Mask:
        tolerations = pod.spec.tolerations

        def free(node: Node) -> int:
            # The cordon has a filter of its own, with a reason of its own.
            taints = [taint for taint in node.spec.taints if taint.key != _CORDON]
            return first_untolerated(taints, tolerations, HARD) is None

        return self.table.values("taints" + shape.static, free) > 0

    def _matches_affinity(self, pod: Pod, shape: Shape) -> Mask:
        spec = pod.spec

        def matches(node: Node) -> int:
            return matches_affinity(spec, node.metadata.labels, node.metadata.name)

        return self.table.values("affinity" + shape.static, matches) > 0

    def _free_ports(self, shape: Shape) -> Mask:
        free = np.ones(len(self.table.nodes), dtype=np.bool_)
        for row, ports in self._ports.items():
            free[row] = not any(_clash(port, other) for port in shape.ports for other in ports)
        return free

    def _fits(self, shape: Shape, feasible: Mask, tally: _Tally) -> Mask:
        table = self.table
        fits = feasible.copy()
        hopeless = np.zeros_like(feasible)
        short: list[tuple[str, Mask]] = []
        for name, value in shape.requests.items():
            column = table.column(name)
            if value == 0:
                continue
            enough = table.allocatable[:, column] - table.used[:, column] >= value
            missing = feasible & ~enough
            if missing.any():
                short.append((TOO_MANY_PODS if name == "pods" else f"Insufficient {name}", missing))
                fits &= enough
                hopeless |= missing & (table.allocatable[:, column] < value)
        for reason, missing in short:
            tally.count(reason, int(missing.sum()))
        tally.hopeless += int(hopeless.sum())
        return fits

    def _spreads(self, pod: Pod, matches: Mask, feasible: Mask, tally: _Tally) -> Mask:
        hard = [
            constraint
            for constraint in pod.spec.topology_spread_constraints
            if constraint.get("whenUnsatisfiable") == "DoNotSchedule"
        ]
        if not hard:
            return feasible
        labelled = np.ones_like(feasible)
        for constraint in hard:
            labelled &= self.table.domains(constraint["topologyKey"]) >= 0
        fine = np.ones_like(feasible)
        for constraint in hard:
            eligible = self.table.present & labelled
            if constraint.get("nodeAffinityPolicy", "Honor") == "Honor":
                eligible &= matches
            sums, domains, mine = self._spread_counts(pod, constraint, eligible)
            eligible_domains = np.unique(domains[eligible])
            least = 0
            if len(eligible_domains) and len(eligible_domains) >= int(constraint.get("minDomains") or 1):
                least = int(sums[eligible].min())
            fine &= sums + mine - least <= int(constraint.get("maxSkew", 1))
        feasible = tally.keep(feasible, labelled, SPREAD_LABEL, hopeless=True)
        return tally.keep(feasible, fine, SPREAD)

    def _spread_counts(
        self, pod: Pod, constraint: dict[str, Any], eligible: Mask
    ) -> tuple[Numbers, Numbers, int]:
        """Matching pods per node's domain (eligible nodes only), the domains, and whether `pod` matches."""
        given = with_label_keys(
            pod, constraint.get("labelSelector") or {}, constraint.get("matchLabelKeys") or ()
        )
        selector = LabelSelector.of(given if constraint.get("labelSelector") is not None else None)
        term = Term(constraint["topologyKey"], selector, frozenset((pod.metadata.namespace,)))
        # A selector that selects all pods counts none.
        numbers = np.where(eligible & (not selector.everything), self.counts.matching(term), 0)
        sums, domains = self.counts.per_domain(term.topology_key, numbers)
        return sums, domains, int(selector.matches(pod.metadata.labels))

    def _befriends(self, pod: Pod, feasible: Mask, tally: _Tally) -> Mask:
        required = [term_of(pod, given) for given in affinity_terms(pod, "podAffinity", "required")]
        if required:
            fine = np.ones_like(feasible)
            anywhere = False
            own = all(term.selects(pod.metadata.namespace, pod.metadata.labels) for term in required)
            for term in required:
                sums, domains = self.counts.per_domain(term.topology_key, self.counts.matching(term))
                anywhere = anywhere or bool(sums.any())
                fine &= (sums > 0) & (domains >= 0)
            if not anywhere and own:
                # The first of a group that wants its own company may go anywhere that has the labels.
                fine = np.ones_like(feasible)
                for term in required:
                    fine &= self.table.domains(term.topology_key) >= 0
            feasible = tally.keep(feasible, fine, POD_AFFINITY, hopeless=True)
        for given in affinity_terms(pod, "podAntiAffinity", "required"):
            term = term_of(pod, given)
            sums, _ = self.counts.per_domain(term.topology_key, self.counts.matching(term))
            feasible = tally.keep(feasible, sums == 0, POD_ANTI_AFFINITY)
        return feasible

    # --- scores -------------------------------------------------------------------------------

    def _score(self, pod: Pod, shape: Shape, rows: Numbers, matches: Mask) -> Floats:
        """Sums of the default plugins' weighted scores, 0 to 100 each."""
        score = self._balance(shape, rows)
        spec = pod.spec
        disliked = self._node_values("prefer" + shape.static, self._disliked(pod), rows)
        score += 3 * (100 - _normal(disliked))
        if (spec.affinity or {}).get("nodeAffinity"):
            liked = self._node_values("like" + shape.static, self._liked(pod), rows)
            score += 2 * _normal(liked)
        if not shape.lonely:
            score += self._company(pod, rows, matches)
        return score

    def _balance(self, shape: Shape, rows: Numbers) -> Floats:
        """Least allocated and balanced allocation, by CPU and memory with the pod on the node."""
        capacity = np.maximum(self.table.allocatable[rows, :2], 1).astype(np.float64)
        fractions = np.minimum((self.table.scored[rows] + shape.scored) / capacity, 1.0)
        cpu, memory = fractions[:, 0], fractions[:, 1]
        score: Floats = np.floor(100 - (cpu + memory) * 50) + np.floor(100 - np.abs(cpu - memory) * 50)
        return score

    def _node_values(self, key: str, compute: Callable[[Node], int], rows: Numbers) -> Floats:
        values: Floats = self.table.values(key, compute)[rows].astype(np.float64)
        return values

    def _disliked(self, pod: Pod) -> Callable[[Node], int]:
        tolerations = [
            toleration for toleration in pod.spec.tolerations if toleration.effect in ("", "PreferNoSchedule")
        ]

        def count(node: Node) -> int:
            return sum(
                first_untolerated((taint,), tolerations, _PREFER) is not None for taint in node.spec.taints
            )

        return count

    def _liked(self, pod: Pod) -> Callable[[Node], int]:
        spec = pod.spec

        def weigh(node: Node) -> int:
            return preferred_weight(spec, node.metadata.labels, node.metadata.name)

        return weigh

    def _company(self, pod: Pod, rows: Numbers, matches: Mask) -> Floats:
        """Preferred pod (anti-)affinity and soft spreading, weight 2 each."""
        score: Floats = np.zeros(len(rows))
        friends: Floats = np.zeros(len(rows))
        for kind, sign in (("podAffinity", 1), ("podAntiAffinity", -1)):
            for given in affinity_terms(pod, kind, "preferred"):
                term = term_of(pod, given.get("podAffinityTerm") or {})
                sums, _ = self.counts.per_domain(term.topology_key, self.counts.matching(term))
                friends += sign * int(given.get("weight", 0)) * sums[rows]
        if friends.any():
            spread = friends.max() - friends.min()
            score += 2 * (100 * (friends - friends.min()) / spread if spread else 0.0)
        crowd: Floats = np.zeros(len(rows))
        for constraint in pod.spec.topology_spread_constraints:
            if constraint.get("whenUnsatisfiable") != "ScheduleAnyway":
                continue
            sums, domains, _ = self._spread_counts(pod, constraint, self.table.present & matches)
            weight = np.log(len(np.unique(domains[rows])) + 2)
            crowd += np.where(domains[rows] >= 0, sums[rows] * weight, sums.max() * weight + 1)
        if crowd.any():
            score += 2 * 100 * (crowd.max() + crowd.min() - crowd) / crowd.max()
        return score


class _Tally:
    """Reasons and how many nodes gave each."""

    def __init__(self, nodes: int) -> None:
        self.nodes = nodes
        self.reasons: dict[str, int] = {}
        self.hopeless = 0

    def count(self, reason: str, nodes: int) -> None:
        if nodes:
            self.reasons[reason] = self.reasons.get(reason, 0) + nodes

    def keep(self, feasible: Mask, fine: Mask, reason: str, *, hopeless: bool = False) -> Mask:
        """The nodes that are feasible and fine; the others are counted under the reason."""
        lost = int((feasible & ~fine).sum())
        if not lost:
            return feasible
        self.count(reason, lost)
        self.hopeless += lost if hopeless else 0
        return feasible & fine

    def refusal(self) -> Refusal:
        return Refusal(self.nodes, self.reasons, self.hopeless)


def _ignores_cordons(pod: Pod) -> bool:
    return any(
        toleration.key in ("", _CORDON) and toleration.operator == "Exists"
        for toleration in pod.spec.tolerations
    )


def _clash(port: Port, other: Port) -> bool:
    if port.host_port != other.host_port or port.protocol != other.protocol:
        return False
    everywhere = ("", "0.0.0.0", "::")  # noqa: S104 - compared with, not listened on
    return port.host_ip == other.host_ip or port.host_ip in everywhere or other.host_ip in everywhere


def _normal(values: Floats) -> Floats:
    highest = values.max()
    return values * 100 / highest if highest > 0 else np.zeros_like(values)

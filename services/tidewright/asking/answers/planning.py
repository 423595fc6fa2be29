"""What would be decided: for requests and buffers, about nodes that go, by a WorkloadSpread."""

from __future__ import annotations

import msgspec

from tidewright.asking.answers.form import Answer


class PlannedIncrease(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An order for a node group.

    Attributes:
        from_nodes, to_nodes, max_nodes: its size before and after, and the largest that it may have.
    """

    group: str
    from_nodes: int
    to_nodes: int
    max_nodes: int


class JudgedGroup(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What was made of a node group.

    Attributes:
        reason: why it was no option; empty when it was one.
        nodes, pods: nodes that it would take, and pods that they would hold.
        waste_permille: share of cpu and memory that would stay unused, 0 to 2000.
        cost_per_hour_micro: price of those nodes, in millionths of the currency; null where it is not known.
    """

    group: str
    reason: str
    chosen: bool
    nodes: int
    pods: int
    waste_permille: int
    cost_per_hour_micro: int | None


class StatedCondition(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A condition as the status would say it."""

    type: str
    status: str
    reason: str
    message: str


class PlannedRequest(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What would be done about a ProvisioningRequest or a CapacityBuffer.

    Attributes:
        result: of the attempt: `Successful`, `NotNeeded`, `NoOptionsAvailable`, `Error`, `Failed` where there would be none,
            `NotOurs` where nobody here decides.
        sentences: why.
        messages: what users would be told beside the conditions.
        cost_per_hour_micro: price of the ordered nodes, in millionths of the currency; null where it is not known.
        ready_in_seconds: when nodes of these groups were there last time; null where that is not known.
        clouds: what each cloud last said.
        chunks: of a buffer: how many are wanted, ready, upcoming and missing.
    """

    kind: str
    namespace: str
    name: str
    result: str
    increases: tuple[PlannedIncrease, ...]
    groups: tuple[JudgedGroup, ...]
    sentences: tuple[str, ...]
    conditions: tuple[StatedCondition, ...]
    messages: tuple[str, ...]
    cost_per_hour_micro: int | None
    ready_in_seconds: float | None
    clouds: tuple[str, ...]
    chunks: dict[str, int]


class ProvisioningPlan(Answer, frozen=True, kw_only=True):
    """Answer to `plan provisioning`: each object tried alone, on the same state."""

    items: tuple[PlannedRequest, ...]


class LeavingNode(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A node that would go.

    Attributes:
        way: `drain` or `empty`.
        places: where its pods would go, and how many.
        saves_per_hour_micro: its price, in millionths of the currency; null where it is not known.
        rule: `scale-down`, or `consolidation` of a node that is used.
    """

    node: str
    group: str
    way: str
    pods: int
    places: dict[str, int]
    saves_per_hour_micro: int | None
    rule: str = "scale-down"


class ReplacedNodes(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Nodes that others which cost less would replace once later rounds agree, or do replace.

    Attributes:
        groups: what is ordered for it: group to nodes.
        pods: how many would move; 0 of what is under way.
        before_per_hour_micro: what the nodes cost, in millionths of the currency.
        after_per_hour_micro: what those cost that replace them.
        saves_per_hour_micro: the difference.
        overlap_micro: what it costs that both run while pods move; 0 of what is under way.
        under_way: the others are ordered.
        rule: what decides it: `replace`.
    """

    nodes: tuple[str, ...]
    groups: dict[str, int]
    pods: int
    before_per_hour_micro: int
    after_per_hour_micro: int
    saves_per_hour_micro: int
    overlap_micro: int
    under_way: bool
    rule: str


class ScaleDownPlan(Answer, frozen=True, kw_only=True):
    """Answer to `plan scale-down`.

    Attributes:
        going: nodes that would go now, in their order.
        replacing: what others that cost less would replace, or do; at most one at a time.
        later: nodes that nobody needs and that wait, and why.
        staying: reason to the nodes that stay for it.
        saves_per_hour_micro: price of what goes now or later, as far as prices are known.
        cooling: nothing goes now, since nodes have just come or gone.
        healthy: not too many nodes are unready.
    """

    going: tuple[LeavingNode, ...]
    replacing: tuple[ReplacedNodes, ...] = ()
    later: dict[str, str]
    staying: dict[str, tuple[str, ...]]
    saves_per_hour_micro: int | None
    cooling: bool
    healthy: bool


class PlannedSubset(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A subset of a WorkloadSpread; the name "" stands for pods in none.

    Attributes:
        limit_pods: null for unlimited.
        now_pods, then_pods: active ones that are there, and once the workload has reached its replicas.
    """

    subset: str
    limit_pods: int | None
    now_pods: int
    then_pods: int


class SpreadPlan(Answer, frozen=True, kw_only=True):
    """Answer to `plan ws`; without a log that was asked, `log` is empty and `sequence` 0.

    Attributes:
        leaving: pods that would be scaled in, first one first, as `name (subset)`.
        changed_costs: pods whose deletion cost would change.
        surplus_pods: subset to the pods over its limit.
    """

    namespace: str
    name: str
    replicas: int
    subsets: tuple[PlannedSubset, ...]
    leaving: tuple[str, ...]
    changed_costs: int
    surplus_pods: dict[str, int]

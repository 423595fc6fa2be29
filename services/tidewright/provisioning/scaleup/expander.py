"""Which of several options is taken: a chain of filters, then a pick. Spec 3.7, "Expanders".

Each filter keeps some options; as soon as one is left it wins; after the last filter the pick is
random, drawn from a seed that comes with the deciding event, so that the same log chooses the same.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import msgspec

from tidewright.kube.expressions import compiled
from tidewright.provisioning.group_ids import NO_GROUP, NodeGroupId
from tidewright.provisioning.settings import LEAST_COST

GIB = 1024**3
MIB = 1024**2


class Option(msgspec.Struct, frozen=True, kw_only=True):
    """One way to grow: nodes of one group.

    Attributes:
        nodes: how many.
        pods: how many pods they hold.
        capacity: of one node; cpu in milli-cores, memory in bytes.
        allocatable: what of that pods can have; the same when empty.
        cpu, memory: the pods' requests, summed.
        node_price: of one node for an hour; None: unknown.
        pod_price: of the pods for an hour; None: unknown.
    """

    group: NodeGroupId
    nodes: int = 0
    pods: int = 0
    capacity: dict[str, int] = {}
    allocatable: dict[str, int] = {}
    cpu: int = 0
    memory: int = 0
    gpu: int = 0
    node_price: float | None = None
    pod_price: float | None = None
    exists: bool = True
    has_gpu: bool = False

    @property
    def usable(self) -> dict[str, int]:
        """Of one node, what pods can have. [B9]: what the node keeps for itself is no pod's waste."""
        return self.allocatable or self.capacity


Filter: TypeAlias = Callable[[Sequence[Option]], list[Option]]
Names: TypeAlias = Mapping[str, Sequence[str]]


class PriorityNote(msgspec.Struct, frozen=True):
    """Something to say about the priority configuration: the reason of an object event, and the group."""

    reason: str
    group: NodeGroupId = NO_GROUP

    @property
    def sentence(self) -> str:
        """For the message of the event."""
        match self.reason:
            case "PriorityConfigMapInvalid":
                return "the priorities of groups are missing or cannot be read: all groups are kept"
            case "PriorityConfigMapNoGroupMatched":
                return "no expression of the priorities matches any group: all groups are kept"
        return f"no expression of the priorities matches group {self.group}: it is left out"


def waste(option: Option) -> float:
    """Unused share of cpu plus unused share of memory, of what pods can have. Spec 3.7, [B9]"""
    unused = 0.0
    for name, used in (("cpu", option.cpu), ("memory", option.memory)):
        total = option.usable.get(name, 0) * option.nodes
        if total > 0:
            unused += (total - used) / total
    return unused


def least_waste(options: Sequence[Option]) -> list[Option]:
    return _smallest(options, waste)


def least_gpu_waste(options: Sequence[Option]) -> list[Option]:
    """[B9]: unused GPUs first, then cpu and memory."""

    def unused(option: Option) -> tuple[int, float]:
        gpus = sum(n for name, n in option.usable.items() if name.endswith("/gpu"))
        return gpus * option.nodes - option.gpu, waste(option)

    best = min((unused(o) for o in options), default=None)
    return [o for o in options if unused(o) == best]


def least_cost(options: Sequence[Option]) -> list[Option]:
    """Least price for what the pods are worth; where a price is not known, least waste."""
    if any(option.node_price is None for option in options):
        return least_waste(options)
    return _smallest(
        options, lambda option: (option.node_price or 0.0) * option.nodes / max(option.pod_price or 0.0, 1e-9)
    )


def most_pods(options: Sequence[Option]) -> list[Option]:
    return _smallest(options, lambda option: -option.pods)


def least_nodes(options: Sequence[Option]) -> list[Option]:
    return _smallest([o for o in options if o.nodes > 0], lambda option: option.nodes)


def _smallest(options: Sequence[Option], score: Callable[[Option], float]) -> list[Option]:
    best = min((score(o) for o in options), default=None)
    return [o for o in options if score(o) == best]


def preferred_node(cluster_size: int) -> tuple[int, int]:
    """Milli-cores and bytes of the node that the price expander likes for a cluster of this size."""
    for size, cores in ((2, 1), (6, 2), (20, 4), (60, 8), (200, 16)):
        if cluster_size <= size:
            return cores * 1000, cores * 3750 * MIB
    return 32_000, 120_000 * MIB


def price_score(option: Option, preferred_cpu_millis: int, stabilizer: float) -> float:
    """Spec 3.7, *price*: price of the nodes for the pods, with a liking for nodes of the right size."""
    price = (option.node_price or 0.0) * option.nodes
    ratio = (price + stabilizer) / ((option.pod_price or 0.0) + stabilizer)
    cpu = option.capacity.get("cpu", 0)
    if option.has_gpu:
        suppressed = 1000.0
    else:
        unfitness = max(preferred_cpu_millis / cpu, cpu / preferred_cpu_millis) if cpu else 1000.0
        suppressed = (unfitness - 1.0) * (1.0 - math.tanh((option.nodes - 1) / 15.0)) + 1.0
    return ratio * suppressed * (1.0 if option.exists else 2.0)


def by_price(options: Sequence[Option], preferred_cpu_millis: int, stabilizer: float) -> list[Option]:
    """The cheapest; options without a price are dropped."""
    priced = [o for o in options if o.node_price is not None]
    return _smallest(priced, lambda option: price_score(option, preferred_cpu_millis, stabilizer))


def pod_price(cpu_millis: int, memory_bytes: int, gpus: int = 0) -> float:
    """Price of a pod for an hour where the cloud gives none: its cpu, memory and devices at list rates.

    Only ratios matter to the choice, so the rates are those of a common general machine.
    """
    return cpu_millis / 1000 * 0.033 + memory_bytes / GIB * 0.0045 + gpus * 0.7


def by_priority(options: Sequence[Option], config: Names | None) -> tuple[list[Option], list[PriorityNote]]:
    """Options of the highest matching priority, and what there is to say about the configuration.

    Expressions are of RE2's syntax, as the reference's are, unanchored and looked for in the group's id. Whatever makes the configuration
    unusable keeps all options.
    """
    try:
        levels = sorted(
            ((int(level), [compiled(text) for text in texts]) for level, texts in (config or {}).items()),
            key=lambda entry: entry[0],
        )
    except (ValueError, TypeError):
        levels = []
    if not levels:
        return list(options), [PriorityNote("PriorityConfigMapInvalid")]
    level_of: dict[str, int] = {}
    for option in options:
        matching = [level for level, texts in levels if any(text.search(option.group) for text in texts)]
        if matching:
            level_of[option.group] = max(matching)
    if not level_of:
        return list(options), [PriorityNote("PriorityConfigMapNoGroupMatched")]
    notes = [
        PriorityNote("PriorityConfigMapNotMatchedGroup", o.group) for o in options if o.group not in level_of
    ]
    highest = max(level_of.values())
    return [o for o in options if level_of.get(o.group) == highest], notes


def pick(options: Sequence[Option], seed: str) -> Option | None:
    """One of the options, drawn evenly by the seed."""
    return min(
        options,
        key=lambda o: (hashlib.blake2b(f"{seed}/{o.group}".encode(), digest_size=8).digest(), o.group),
        default=None,
    )


def choose(
    options: Sequence[Option],
    filters: Sequence[Filter],
    fallback: Callable[[Sequence[Option]], Option | None],
) -> Option | None:
    """The chain: each filter in turn, the first to leave one option decides, else the fallback."""
    remaining = list(options)
    for keep in filters:
        remaining = keep(remaining)
        if len(remaining) == 1:
            return remaining[0]
        if not remaining:
            return None
    return fallback(remaining)


def filters_of(
    names: Sequence[str], priorities: Names | None, cluster_size: int, notes: list[PriorityNote]
) -> list[Filter]:
    """The filters of the setting `expander`; `random` is the fallback itself, an unknown name none."""
    cpu, _ = preferred_node(cluster_size)

    def priority(options: Sequence[Option]) -> list[Option]:
        kept, said = by_priority(options, priorities)
        notes.extend(said)
        return kept

    known: dict[str, Filter] = {
        "least-waste": least_waste,
        "least-gpu-waste": least_gpu_waste,
        "most-pods": most_pods,
        "least-nodes": least_nodes,
        "price": lambda options: by_price(options, cpu, pod_price(500, 500 * MIB)),
        "priority": priority,
        LEAST_COST: least_cost,
    }
    return [known[name] for name in names if name in known]

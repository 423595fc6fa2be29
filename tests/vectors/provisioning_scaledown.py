"""Kinds of cases about scale-down that ask one function each: rules of a drain, eligibility, budgets, order, timers.

Each is run in the reference's way (`as-reference`) against what the reference does, and again in ours. See `provisioning_scaledown_ours`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from tests.vectors.provisioning_world import GPU, NOW, Entry, Found
from tests.vectors.reference.scaledown import Batch
from tests.vectors.suite import Case, differences
from tidewright.kube.keys import ObjectKey, PodKey, name_of, pod_key
from tidewright.kube.podshape import NodeView, PodShape
from tidewright.kube.selectors import LabelSelector
from tidewright.kube.taints import DELETION_CANDIDATE, TO_BE_DELETED, UNNEEDED
from tidewright.provisioning.differences import DIFFERENCES
from tidewright.provisioning.group_ids import NO_GROUP, NodeGroupId
from tidewright.provisioning.pack.grid import Grid
from tidewright.provisioning.scaledown import passes, unregistered
from tidewright.provisioning.scaledown.drain import evictions
from tidewright.provisioning.scaledown.drain.budgets import Allowance
from tidewright.provisioning.scaledown.drain.rules import sort_pods
from tidewright.provisioning.scaledown.going import cooldown
from tidewright.provisioning.scaledown.going.parallel import Parallelism, cropped
from tidewright.provisioning.scaledown.going.timers import Floors, too_early
from tidewright.provisioning.scaledown.going.whole import Leaver
from tidewright.provisioning.scaledown.removal.soft import soft_marks
from tidewright.provisioning.scaledown.scene import (
    GroupTraits,
    Owner,
    Owners,
    Refusal,
    Resident,
    SceneBudget,
    SceneNode,
)
from tidewright.provisioning.scaledown.simulation.placing import Destinations
from tidewright.provisioning.scaledown.simulation.removal import Simulation
from tidewright.provisioning.settings import DrainPriority, Settings
from tidewright.provisioning.state import Node, State

Ways = tuple[str, ...]
"""Numbers of the differences in which the reference's way is taken."""

_OPTIONS = {
    "min_replica_count": "min_replicas",
    "skip_system_pods": "skip_system",
    "skip_local_storage": "skip_local",
    "skip_custom_controllers": "skip_custom",
    "system_pod_timeout": "system_timeout_s",
    "threshold": "utilization_threshold",
    "gpu_threshold": "gpu_utilization_threshold",
    "ignore_daemonsets": "ignore_daemonsets",
    "ignore_mirror": "ignore_mirror",
    "scale_down_unready": "scale_down_unready",
    "unneeded_time": "unneeded_s",
    "unready_time": "unready_s",
    "max_parallelism": "max_parallelism",
    "max_drain": "max_drains",
    "after_add": "scale_down_delay_after_add_s",
    "after_delete": "scale_down_delay_after_delete_s",
    "after_failure": "scale_down_delay_after_failure_s",
    "local": "delay_local",
    "max_graceful": "max_graceful_s",
}


def settings_of(case: Case, ways: Ways) -> Settings:
    options = case.get("options", {})
    given = {_OPTIONS[key]: value for key, value in options.items() if key in _OPTIONS}
    return Settings(**given, as_reference=ways)


def resident(entry: Entry) -> Resident:
    """A pod of the cases, whose labels and amounts make its shape."""
    namespace, labels = entry.get("namespace", "default"), entry.get("labels", {})
    amounts = {n: entry[n] for n in ("cpu", "memory") if entry.get(n)} | (
        {GPU: entry["gpu"]} if entry.get("gpu") else {}
    )
    shape = PodShape(
        digest=f"{namespace} {sorted(labels.items())} {sorted(amounts.items())} {entry.get('priority', 0)}",
        namespace=namespace,
        labels=labels,
        requests={**amounts, "pods": 1},
        priority=entry.get("priority", 0),
    )
    owner = entry.get("owner")
    local = tuple(volume["name"] for volume in entry.get("volumes", ()) if _stays(volume))
    terminating, grace = entry.get("terminating_for"), entry.get("grace", 30)
    return Resident(
        key=pod_key(namespace, entry["name"]),
        shape=shape,
        owner=_owner(owner) if owner and owner.get("controller", True) else None,
        annotations=entry.get("annotations", {}),
        phase=entry.get("phase", "Running"),
        restart_policy=entry.get("restart_policy", "Always"),
        created_at=NOW - entry["age"] if entry.get("age") is not None else None,
        deleting_at=NOW - terminating if terminating is not None else None,
        grace_s=grace,
        local=local,
    )


def _stays(volume: Entry) -> bool:
    return "hostPath" in volume or (
        "emptyDir" in volume and (volume["emptyDir"] or {}).get("medium") != "Memory"
    )


GROUPS = {"StatefulSet": "apps", "DaemonSet": "apps", "ReplicaSet": "apps", "Job": "batch"}


def _owner(entry: Entry) -> Owner:
    kind = entry["kind"]
    group = entry["api_version"].rpartition("/")[0] if "api_version" in entry else GROUPS.get(kind, "")
    return Owner(kind, entry["name"], group)


def owners_of(entries: Sequence[Entry] | None) -> Owners:
    if entries is None:
        return Owners(None)
    return Owners(
        {(e["kind"], e.get("namespace", "default"), e["name"]): e.get("replicas", 1) for e in entries}
    )


def budgets_of(entries: Sequence[Entry]) -> list[SceneBudget]:
    return [
        SceneBudget(
            namespace=entry.get("namespace", "default"),
            name=entry.get("name", f"b{number}"),
            selector=_selector(entry.get("selector", {})),
            allowed=entry["disruptions_allowed"],
        )
        for number, entry in enumerate(entries)
    ]


def _selector(selector: Mapping[str, Any]) -> LabelSelector:
    plain = not {"matchLabels", "matchExpressions"} & set(selector)
    return LabelSelector.of({"matchLabels": selector} if plain else selector)


def names(keys: Sequence[PodKey]) -> list[str]:
    return [name_of(key) for key in keys]


# --- Kinds ---


def drain(case: Case, ways: Ways) -> dict[str, Any]:
    pods = [resident(entry) for entry in case["pods"]]
    found = sort_pods(
        pods,
        settings_of(case, ways),
        owners_of(case.get("controllers")),
        Allowance(budgets_of(case.get("pdbs", ()))),
        NOW,
    )
    blocked = found.blocked
    return {
        "move": names([pod.key for pod in found.movers]),
        "daemonset": names(found.daemons),
        "on_completion": names(found.waits),
        **(
            {"blocking": {"pod": name_of(PodKey(ObjectKey(blocked.pod))), "reason": blocked.pod_reason}}
            if blocked is not None
            else {}
        ),
    }


def node_of(entry: Entry, *, gpu: bool = True) -> SceneNode:
    amounts = {"cpu": entry.get("cpu", 0), "memory": entry.get("memory", 0)}
    if entry.get("gpu") and entry.get("gpu_ready", True):
        amounts[GPU] = entry["gpu"]
    doomed = next(
        (t["age"] for t in entry.get("taints", ()) if t["key"] == "ToBeDeletedByClusterAutoscaler"), None
    )
    return SceneNode(
        name=entry["name"],
        group=NodeGroupId(entry.get("group") or NO_GROUP),
        allocatable=amounts,
        capacity=amounts,
        annotations=entry.get("annotations", {}),
        ready=entry.get("ready", True),
        gpu=GPU if gpu and entry.get("gpu") else "",
        doomed_at=NOW - doomed if doomed is not None else None,
        deleting=entry.get("being_deleted", False),
    )


def eligibility(case: Case, ways: Ways) -> dict[str, Any]:
    settings = settings_of(case, ways)
    nodes = [node_of(entry) for entry in case["nodes"]]
    pods: dict[str, list[Resident]] = {}
    for entry in case["pods"]:
        pods.setdefault(entry["node"], []).append(resident(entry))
    groups = {n.group: GroupTraits(id=n.group, target=9) for n in nodes if n.group}
    scene = passes.Scene(nodes=nodes, residents=pods, groups=groups, grid=Grid())
    unneeded: list[str] = []
    unremovable: dict[str, str] = {}
    for node, entry in zip(nodes, case["nodes"], strict=True):
        paused = entry.get("recently_unremovable", False)
        reason, _ = passes.judge(scene, node, settings, NOW, paused=paused)
        if reason:
            unremovable[node.name] = reason
        else:
            unneeded.append(node.name)
    return {"unneeded": unneeded, "unremovable": unremovable}


def limit(case: Case, ways: Ways) -> dict[str, Any]:
    """A pass over so many empty nodes of one group."""
    options, total = case["options"], case["nodes_total"]
    name = NodeGroupId("g")
    group = GroupTraits(
        id=name, target=total, registered=total, zero_or_max=options.get("zero_or_max", False)
    )
    nodes = [
        SceneNode(name=f"n{i:04}", group=name, allocatable={"cpu": 1, "memory": 1}) for i in range(total)
    ]
    grid = Grid()
    grid.add_nodes(NodeView(name=node.name, allocatable={"cpu": 1, "memory": 1}) for node in nodes)
    scene = passes.Scene(nodes=nodes, residents={}, groups={name: group}, grid=grid)
    before = [node.name for node in nodes[: case["previously_unneeded"]]]
    memory = passes.Memory(unneeded=dict.fromkeys(before, NOW - 1.0), interval_s=options["loop_interval"])
    settings = settings_of(case, ways)
    return {"unneeded": len(passes.evaluate(scene, memory, settings, NOW).unneeded)}


def groups_of(entries: Sequence[Entry], registered: Mapping[str, int]) -> dict[NodeGroupId, GroupTraits]:
    return {
        NodeGroupId(e["id"]): GroupTraits(
            id=NodeGroupId(e["id"]),
            min=e.get("min", 1) if not e.get("zero_or_max") else e.get("min", 0),
            target=e["target"],
            registered=registered.get(e["id"], e["target"]),
            leaving=e.get("deletions_in_progress", 0),
            zero_or_max=e.get("zero_or_max", False),
            unneeded_s=e.get("unneeded_time"),
            unready_s=e.get("unready_time"),
        )
        for e in entries
    }


def timer(case: Case, ways: Ways) -> dict[str, Any]:
    settings = settings_of(case, ways)
    groups = groups_of(case["node_groups"], {})
    nodes = [node_of(entry) for entry in case["nodes"]]
    floors = Floors(nodes, groups, settings)
    removable: list[str] = []
    unremovable: dict[str, str] = {}
    for node, entry in zip(nodes, case["nodes"], strict=True):
        since = NOW - entry["unneeded_for"]
        reason = too_early(node, groups.get(node.group), settings, since, NOW) or floors.refusal(node)
        if reason:
            unremovable[node.name] = reason
        else:
            floors.take(node)
            removable.append(node.name)
    return {"removable": removable, "unremovable": unremovable}


def smallest(case: Case, ways: Ways) -> dict[str, Any]:
    group = GroupTraits(
        id=NodeGroupId("g"),
        min=case["group"]["min"],
        target=case["group"]["target"],
        leaving=case["deletions_in_progress"],
    )
    nodes = [SceneNode(name=f"n{i}", group=group.id) for i in range(case["empty"] + case["drain"])]
    floors = Floors(nodes, {group.id: group}, settings_of(case, ways))
    kept = []
    for node in nodes:
        if not floors.refusal(node):
            floors.take(node)
            kept.append(node)
    empty = len([node for node in kept if node in nodes[: case["empty"]]])
    return {"empty": empty, "drain": len(kept) - empty}


def last_of(entry: Entry) -> cooldown.Last:
    return cooldown.Last(
        **{
            field: NOW + entry[key]
            for field, key in (("add", "after_add"), ("delete", "after_delete"), ("failure", "after_failure"))
            if key in entry
        }
    )


def cooling(case: Case, ways: Ways) -> dict[str, Any]:
    settings, last = settings_of(case, ways), case.get("last", {})
    if settings.delay_local:
        own = {NodeGroupId(group): last_of(entry) for group, entry in last.items()}
        return {
            "in_cooldown": cooldown.in_cooldown(cooldown.Last(), settings, NOW),
            "candidates": cooldown.cool_groups(map(NodeGroupId, case["node_groups"]), own, settings, NOW),
        }
    very_new = case.get("very_new_pods", False)
    return {"in_cooldown": cooldown.in_cooldown(last_of(last), settings, NOW, very_new_pods=very_new)}


def several_pods(case: Case, ways: Ways) -> dict[str, Any]:
    allowance = Allowance(budgets_of(case["pdbs"]), once="B16" not in ways)
    pods = [resident(entry) for entry in case["pods"]]
    spent, over = allowance.blocked_by(pods), allowance.exceeded_by(pods)
    blocking = spent or over
    allowance.charge(pods)
    return {
        "can_remove": spent is None,
        "in_parallel": over is None,
        **({"blocking_pod": name_of(blocking)} if blocking is not None else {}),
        "remaining": {key.partition("/")[2]: left for key, left in allowance.counts().items()},
    }


def simulation(case: Case, ways: Ways) -> dict[str, Any]:
    """By cpu alone, first fit in the order of the nodes: the rows are named by it, and each search begins at the first."""
    rank = {entry["name"]: f"{i:03}-{entry['name']}" for i, entry in enumerate(case["nodes"])}
    grid = Grid()
    for entry in case["nodes"]:
        grid.add_node(NodeView(name=rank[entry["name"]], allocatable={"cpu": entry["cpu"], "pods": 100}))
    pods: dict[str, list[Resident]] = {}
    for entry in case["pods"]:
        pod = resident(entry)
        pods.setdefault(rank[entry["node"]], []).append(pod)
        grid.put(pod.shape, grid.rows[rank[entry["node"]]])
    settings = settings_of(case, ways)
    allowance = Allowance(budgets_of(case.get("pdbs", ())), once="B16" not in ways)
    gone = [rank[entry["name"]] for entry in case["nodes"] if entry.get("being_deleted")]
    scene = passes.Scene(nodes=(), residents=pods, groups={}, grid=grid)
    world = Simulation(_FirstFit(grid, gone), scene, allowance, settings, now=NOW)
    removable: list[str] = []
    risky: list[str] = []
    unremovable: dict[str, dict[str, str]] = {}
    for name in case["candidates"]:
        found = world.attempt(rank[name])
        if isinstance(found, Refusal):
            unremovable[name] = refusal_of(found)
        else:
            removable.append(name)
            risky += [name] if found.risky else []
    return {
        "removable": removable,
        "risky": risky,
        "unremovable": unremovable,
        "remaining": {key.partition("/")[2]: left for key, left in allowance.counts().items()},
    }


class _FirstFit(Destinations):
    """Each search begins at the first row."""

    def search(self, shape: PodShape, avoid: int, first: Any = None) -> int | None:
        self.last = -1
        return super().search(shape, avoid, first)


def refusal_of(found: Refusal, *, full: bool = False) -> dict[str, str]:
    pod = {
        "pod": found.pod if full else name_of(PodKey(ObjectKey(found.pod))),
        "pod_reason": found.pod_reason,
    }
    return {"reason": found.reason, **(pod if found.pod else {})}


def ordering(case: Case, ways: Ways) -> dict[str, Any]:
    settings = settings_of(case, ways)
    groups = groups_of(case["node_groups"], {})
    nodes = [node_of(entry) for entry in case["nodes"]]
    residents = {entry["name"]: [resident(pod) for pod in entry["pods"]] for entry in case["nodes"]}
    scene = passes.Scene(nodes=nodes, residents=residents, groups=groups, grid=Grid())
    memory = passes.Memory(unneeded=dict.fromkeys(case.get("previously_unneeded", ()), NOW - 1.0))
    return {"order": [node.name for node in passes.candidates_of(scene, memory, settings, NOW)]}


def selection(case: Case, ways: Ways) -> dict[str, Any]:
    options = case.get("options", {})
    least = options.get("min_limits", {})
    floors = {"min_cores": least.get("cpu", 0), "min_memory_bytes": least.get("memory", 0)}
    settings = msgspec.structs.replace(
        settings_of(case, ways), **floors, gpu_floors={"nodes": least["nodes"]} if least else {}
    )
    registered: dict[str, int] = {}
    for entry in case["nodes"]:
        registered[entry["group"]] = registered.get(entry["group"], 0) + 1
    groups = groups_of(case.get("node_groups", ()), registered)
    for name in registered:
        groups.setdefault(NodeGroupId(name), GroupTraits(id=NodeGroupId(name), target=99, registered=99))
    nodes = [
        node_of({**options.get("node", {}), "name": entry["name"], "group": entry["group"]})
        for entry in case["nodes"]
    ]
    ready = [
        Leaver(
            name=entry["name"],
            group=NodeGroupId(entry["group"]),
            drains=entry["pods_to_move"] > 0,
            waits=entry["on_completion_pods"] > 0,
            risky=entry.get("risky", False),
        )
        for entry in case["nodes"]
        if entry["removable"]
    ]
    scene = passes.Scene(nodes=nodes, residents={}, groups=groups, grid=Grid())
    kept, unremovable = passes.kept_of(ready, scene, settings)
    return {
        "empty": [leaver.name for leaver in kept if not leaver.drains],
        "drain": [leaver.name for leaver in kept if leaver.drains],
        "unremovable": unremovable,
    }


def parallelism(case: Case, ways: Ways) -> dict[str, Any]:
    options, going = case["options"], case["in_progress"]
    groups: dict[NodeGroupId, GroupTraits] = {}
    leavers: list[Leaver] = []
    for drains, counts in ((False, case["empty"]), (True, case["drain"])):
        for name, nodes in counts.items():
            atomic = name.startswith("atomic-")
            target = int(name.partition("-")[2]) if atomic else 99
            there = sum(case[kind].get(name, 0) for kind in ("empty", "drain"))
            groups[NodeGroupId(name)] = GroupTraits(
                id=NodeGroupId(name),
                target=target,
                registered=case.get("registered", {}).get(name, there),
                zero_or_max=atomic,
            )
            leavers += [
                Leaver(name=f"{name}-{i}", group=NodeGroupId(name), drains=drains) for i in range(nodes)
            ]
    room = Parallelism(
        options["max_parallelism"] - going["empty"] - going["drain"], options["max_drain"] - going["drain"]
    )
    found = cropped(leavers, groups, room, as_reference="B18" in ways)
    counted: dict[str, dict[str, int]] = {"empty": {}, "drain": {}}
    for leaver in found:
        of_kind = counted["drain" if leaver.drains else "empty"]
        of_kind[leaver.group] = of_kind.get(leaver.group, 0) + 1
    return counted


def batches(case: Case, ways: Ways) -> dict[str, Any]:
    batch = Batch(size=case["batch_size"], whole=case["zero_or_max"])
    deleted: list[str] = []
    given_back: list[str] = []
    for step in case["steps"]:
        take = batch.prepared if step["outcome"] == "prepared" else batch.lost
        gone, back = take(step["node"])
        deleted += gone
        given_back += back
    return {"deleted": deleted, "rolled_back": given_back}


def eviction_order(case: Case, ways: Ways) -> dict[str, Any]:
    config = [DrainPriority(entry["priority"], entry["grace"]) for entry in case["config"]]
    found = evictions.eviction_groups([resident(entry) for entry in case["pods"]], config)
    return {"groups": [{"priority": g.priority, "grace": g.grace_s, "pods": names(g.pods)} for g in found]}


def grace(case: Case, ways: Ways) -> dict[str, Any]:
    most = evictions.grace_most_s(settings_of(case, ways), 0)
    return {
        "eviction_grace": evictions.eviction_grace_s(case["pod"]["grace"], most),
        "wait_at_most": evictions.wait_at_most_s(case["pod"]["grace"], most),
    }


def soft(case: Case, ways: Ways) -> dict[str, Any]:
    state = State()
    for entry in case["nodes"]:
        ours, doomed = entry.get("soft_taint", False), entry.get("to_be_deleted", False)
        keys = [key for key, there in ((DELETION_CANDIDATE, ours), (TO_BE_DELETED, doomed)) if there]
        state.nodes[entry["name"]] = Node(
            labels={},
            allocatable={},
            uid=entry["name"],
            taints=tuple({"key": key} for key in keys),
            annotations={UNNEEDED: "0"} if ours else {},
        )
    most = case.get("options", {}).get("max_count", Settings().soft_taints)
    marks = soft_marks(state, dict.fromkeys(case["unneeded"], NOW), most, NOW).marks
    return {
        "untainted": [mark.target.name for mark in marks if not mark.present],
        "tainted": [mark.target.name for mark in marks if mark.present],
    }


def never_registered(case: Case, ways: Ways) -> dict[str, Any]:
    deleted: dict[str, list[str]] = {}
    for group in case["node_groups"]:
        name, wait = group["id"], group.get("max_provision_time", 900)
        there = [f"{name}-node-{i}" for i in range(group.get("registered", 0))]
        own = [entry for entry in case["instances"] if entry["group"] == name]
        long = [entry["name"] for entry in own if entry["unregistered_for"] > wait]
        found = unregistered.to_delete(
            long,
            [*(entry["name"] for entry in own), *there],
            target=group["target"],
            minimum=group.get("min", 1),
            zero_or_max=group.get("zero_or_max", False),
            allow_non_atomic=group.get("allow_non_atomic", False),
            force=case.get("options", {}).get("force", False),
        )
        if found:
            deleted[name] = found
    return {"deleted": deleted}


_ANY_ORDER = {"scale-down-drain", "scale-down-eligible", "scale-down-timer", "unregistered"}
FOUND: dict[str, Callable[[Case, Ways], dict[str, Any]]] = {
    "scale-down-drain": drain,
    "scale-down-eligible": eligibility,
    "scale-down-limit": limit,
    "scale-down-removable": smallest,
    "scale-down-timer": timer,
    "scale-down-cooldown": cooling,
    "scale-down-pdb": several_pods,
    "scale-down-simulate": simulation,
    "scale-down-order": ordering,
    "scale-down-select": selection,
    "scale-down-budget": parallelism,
    "scale-down-group-delete": batches,
    "scale-down-evict-groups": eviction_order,
    "scale-down-grace": grace,
    "scale-down-soft-taint": soft,
    "unregistered": never_registered,
}
_COMPLETE = ("unremovable", "deleted", "empty", "drain", "unneeded")
"""Members of which a case gives all, so that more than it says is too much."""


def compared(case: Case, expected: Mapping[str, Any], ways: Ways) -> Found:
    actual = FOUND[case["kind"]](case, ways)
    if case["kind"] in _ANY_ORDER:
        expected, actual = _sorted(expected), _sorted(actual)
    found = differences(expected, actual)
    for member in _COMPLETE:
        more = set(actual[member]) - set(expected[member]) if _both(member, expected, actual) else set()
        found += [f"$.{member}: {name} is too much" for name in sorted(more)]
    if case["kind"] == "scale-down-drain" and "blocking" not in expected and "blocking" in actual:
        found.append(f"$.blocking: expected nothing, found {actual['blocking']}")
    return found


def _both(member: str, *sides: Mapping[str, Any]) -> bool:
    """Whether a member is told on both sides."""
    return all(isinstance(side.get(member), dict) for side in sides)


def _sorted(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _sorted(inner) for key, inner in value.items()}
    return sorted(value) if isinstance(value, list) else value


def as_reference(case: Case) -> Found:
    return compared(case, case["expected"], tuple(DIFFERENCES))


KINDS: dict[str, Callable[[Case], Found]] = dict.fromkeys(FOUND, as_reference)

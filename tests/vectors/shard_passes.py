"""Groups about passes of a manager: scans, owner references, elections."""

from __future__ import annotations

import re

from tests.unit.shardmanager.cluster import Cluster
from tests.vectors.reference import propeller_config
from tests.vectors.reference import propeller_pass as original
from tests.vectors.reference import propeller_repair as repair
from tests.vectors.reference.switches import smallest
from tests.vectors.shard_configs import Answer, Group, defaults, manager_of
from tests.vectors.suite import Case, differences
from tidewright.events.decisions import CreateObject, DeleteObject
from tidewright.events.shards import RecordPass
from tidewright.kube.durations import format_duration
from tidewright.shardmanager.propeller import config, election, pods, scan, strategy
from tidewright.shardmanager.propeller.fleet import KnownPod


def _scan(given: Case, _: Answer, case: Case) -> Answer:
    """A pass: the decider's own, with an API that answers as the case says."""
    if case["native"]:
        return {"native": _repairs(manager_of(case, given["shard"]), given, given.get("injected") or {})}
    manager, injected = manager_of(case, given["shard"]), given.get("injected") or {}
    cluster = Cluster(defaults(case).pod_template_namespace)
    refusals = {
        DeleteObject: injected.get("delete_err", {}),
        CreateObject: injected.get("create_err", {}),
    }
    cluster.refuse = lambda effect: refusals.get(type(effect), {}).get(effect.target.name, "")
    for pod in given["pods"]:
        there = cluster.add_pod(
            pod["name"],
            pod.get("phase", "Pending"),
            labels={"app": manager.pod_application},
            annotations=pod.get("annotations") or {},
        )
        if pod.get("deleting"):
            there.deleting_at = cluster.now
            cluster.submit(cluster.fact(there.name))
    if "tpl_err" not in injected:
        cluster.template(given["template_resource_version"])
    cluster.configure({"namespace": cluster.namespace, "config": {"manager": {"shard": given["shard"]}}})
    if "tpl_err" in injected:
        cluster.template_gone()
    gone = [d.target.name for d in cluster.decided if isinstance(d, DeleteObject)]
    for name in gone:
        if name not in refusals[DeleteObject]:
            cluster.vanish(name)  # at once, as in the case
    passes = [d for d in cluster.decided if isinstance(d, RecordPass)]
    error = passes[-1].error.removeprefix("failed to create pod(s) [").removesuffix("]")
    namespace = cluster.namespace
    told = {s.name.rpartition(":")[2]: s.value for s in cluster.tally.series(cluster.state)}
    asked = [
        ["delete" if isinstance(d, DeleteObject) else "create", "pods", namespace, d.target.name]
        for d in cluster.decided
        if isinstance(d, DeleteObject | CreateObject)
    ]
    return {
        "calls": [
            ["get", "podtemplates", namespace, manager.pod_template_name],
            *([] if "tpl_err" in injected else [["list", "pods", namespace, manager.list_selector]]),
            # What is asked for once more is so by a pass after the case's.
            *(call for n, call in enumerate(asked) if call not in asked[:n]),
        ],
        "counters": {
            "pods_created": told["pods_created_count"],
            "pods_deleted": told["pods_deleted_count"],
        },
        "pods_running_gauge": passes[0].running,
        "error": error or None,
    }


def _seen(given: Case) -> list[original.SeenPod]:
    return [
        original.SeenPod(
            name=p["name"],
            phase=p.get("phase", "Pending"),
            annotations=p.get("annotations") or {},
            deleting=bool(p.get("deleting")),
        )
        for p in given["pods"]
    ]


def intended(case: Case, expected: Answer, ours: Answer) -> tuple[str, ...]:
    """By which differences the original's pass becomes ours; none where they do not explain it, or the case is not the original's."""
    given = case["given"]
    if differences(expected, _original_scan(given, case)):
        return ()

    def explains(ways: frozenset[str]) -> bool:
        return not differences(_original_scan(given, case, ways), ours)

    return smallest(original.DIFFERENT, explains)


def _original_scan(given: Case, case: Case, ways: frozenset[str] = frozenset()) -> Answer:
    manager = manager_of(case, given["shard"])
    injected = given.get("injected") or {}
    calls = []
    made = original.Pass(ways=ways)
    while not made.done:
        for call in made.calls(manager, defaults(case).pod_template_namespace):
            calls.append([call.verb, call.resource, call.namespace, call.name])
            _answer(made, manager, call, given, injected)
    return {
        "calls": calls,
        "counters": {"pods_created": made.created, "pods_deleted": made.deleted},
        "pods_running_gauge": made.running,
        "error": made.outcome or None,
    }


def _answer(
    made: original.Pass, manager: config.ManagerConfig, call: original.Call, given: Case, injected: Case
) -> None:
    """What the API answers to one call of a pass."""
    match call.verb:
        case "get" if "tpl_err" in injected:
            made.template_missing(manager, injected["tpl_err"])
        case "get":
            made.template_read(given["template_resource_version"])
        case "list" if "list_err" in injected and original.LIST_FAILS not in made.ways:
            made.list_failed(injected["list_err"])
        case "list":
            made.listed(manager, _seen(given))
        case "delete":
            made.deletion_answered(manager, injected.get("delete_err", {}).get(call.name, ""))
        case "create":
            made.creation_answered(manager, call.index, injected.get("create_err", {}).get(call.name, ""))


def _repairs(manager: config.ManagerConfig, given: Case, injected: Case) -> Answer:
    if "tpl_err" in injected:
        actions = repair.without_template()
    elif "list_err" in injected:
        actions = repair.without_pods()
    else:
        actions = repair.repairs(manager, given["template_resource_version"], _seen(given))
        # A creation waits for its name, so only one of a name that is free can fail at once.
        created = {a.index for a in actions if a.do is repair.Do.CREATE}
        rolled = {a.index for a in actions if a.do is repair.Do.ROLL}
        failed = repair.failures(manager, injected.get("create_err", {})) & created
        failed |= repair.failures(manager, injected.get("delete_err", {})) & rolled
        actions = repair.settled(actions, failed) if failed else actions
    pods = [
        KnownPod(name=p.name, phase=p.phase, annotations=p.annotations, deleting=p.deleting)
        for p in _seen(given)
    ]
    judged = scan.judge(manager, given["template_resource_version"], pods)
    return {"actions": [str(a) for a in actions], "adopted": len(judged.existing) == len(manager.pod_names)}


def _ownerrefs(given: Case, expected: Answer, case: Case) -> Answer:
    name, namespace = pods.manager_pod(given["env"], defaults(case).pod_template_namespace)
    if name and "get_error" in given:
        return {"fatal": pods.manager_pod_error(name, namespace, given["get_error"])}
    owners = given.get("manager_pod_owners", []) if name else []
    answer: Answer = {"owner_references": pods.owner_references(owners), "pod_namespace": namespace}
    # The original dereferences both optional flags.
    crash = any("controller" not in o or "blockOwnerDeletion" not in o for o in owners)
    return answer | {"native": answer, "crash": crash}


def _leader(given: Case, expected: Answer, case: Case) -> Answer:
    if "managers" in given:
        return _two_managers(given, case)
    answer: Answer = {}
    if "leader_election" in given:
        section = given["leader_election"]
        lock = section.get("lock_config_map", {})
        one = election.Election(
            enabled=section["enabled"], namespace=lock.get("namespace", ""), name=lock.get("name", "")
        )
        answer |= {
            "manager_lease": one.manager_lease,
            "kind": election.LOCK_KIND,
            "worker_leases": one.worker_leases(defaults(case).shard.pod_count),
            "lease_duration": format_duration(one.lease_duration_s),
            "renew_deadline": format_duration(one.renew_deadline_s),
            "retry_period": format_duration(one.retry_period_s),
            "release_on_cancel": propeller_config.RELEASE_ON_CANCEL,
        }
    if "env" in given:
        identity = propeller_config.identity(given["env"], given.get("hostname", ""), bytes(range(40, 50)))
        answer |= {
            "identity": identity,
            "native": {"identity": election.native_identity(identity, "<pod uid>")},
        }
        pattern = expected.get("identity_regex", "")
        answer["identity_regex"] = pattern if re.match(pattern, identity) else identity
    if "applications" in given:
        index, names = given["index"], given["applications"]
        answer["lock_names"] = [strategy.lock_name(index) for _ in names]
        answer["native"] = {"lock_names": [strategy.native_lock_name(name, index) for name in names]}
    elif "index" in given:
        answer["last_arg"] = strategy.shard_args(defaults(case).shard, given["index"])[-1]
    return answer


def _two_managers(given: Case, case: Case) -> Answer:
    """Passes of managers that know nothing of each other, with an API that deletes at once."""
    managers = [manager_of(case, shard) for shard in given["managers"]]
    fleet: dict[str, original.SeenPod] = {}
    after, deletes = [], []
    for letter in given["passes"]:
        manager = managers[ord(letter) - ord("A")]
        made = original.Pass()
        made.template_read("1")
        made.listed(manager, [fleet[name] for name in sorted(fleet)])
        while not made.done:
            for call in made.calls(manager, ""):
                if call.verb == "delete":
                    del fleet[call.name]
                    made.deletion_answered(manager)
                else:
                    wanted = scan.annotations_wanted(manager, "1")
                    fleet[call.name] = original.SeenPod(name=call.name, phase="Running", annotations=wanted)
                    made.creation_answered(manager, call.index)
        after.append(sorted(fleet))
        deletes.append(made.deleted)
    idle = next(m for letter, m in zip("AB", managers, strict=True) if letter != given["passes"][-1])
    refused = original.other_generation(idle, list(fleet.values()), "1")
    return {"pods_after_each_pass": after, "deletes_per_pass": deletes, "native": {"refused": refused}}


GROUPS: dict[str, Group] = {
    "scan": _scan,
    "ownerrefs": _ownerrefs,
    "leader": _leader,
}

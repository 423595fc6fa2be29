"""Groups about passes of a manager: scans, owner references, elections."""

from __future__ import annotations

import re

from tests.vectors.shard_configs import Answer, Group, defaults, manager_of
from tests.vectors.suite import Case
from tidewright.sharding import durations
from tidewright.shardmanager import (
    config,
    election,
    pods,
    repair,
    scan,
    strategy,
)


def _seen(given: Case) -> list[scan.SeenPod]:
    return [
        scan.SeenPod(
            name=p["name"],
            phase=p.get("phase", "Pending"),
            annotations=p.get("annotations") or {},
            deleting=bool(p.get("deleting")),
        )
        for p in given["pods"]
    ]


def _scan(given: Case, _: Answer, case: Case) -> Answer:
    manager = manager_of(case, given["shard"])
    injected = given.get("injected") or {}
    calls = []
    one = scan.Pass()
    while not one.done:
        for call in one.calls(manager, defaults(case).pod_template_namespace):
            calls.append([call.verb, call.resource, call.namespace, call.name])
            _answer(one, manager, call, given, injected)
    return {
        "calls": calls,
        "counters": {"pods_created": one.created, "pods_deleted": one.deleted},
        "pods_running_gauge": one.running,
        "error": one.outcome or None,
        "native": _repairs(manager, given, injected),
    }


def _answer(
    one: scan.Pass, manager: config.ManagerConfig, call: scan.Call, given: Case, injected: Case
) -> None:
    """What the API answers to one call of a pass."""
    match call.verb:
        case "get" if "tpl_err" in injected:
            one.template_missing(manager, injected["tpl_err"])
        case "get":
            one.template_read(given["template_resource_version"])
        case "list" if "list_err" in injected:
            one.list_failed(injected["list_err"])
        case "list":
            one.listed(manager, _seen(given), scan.Fidelity.REFERENCE)
        case "delete":
            one.deletion_answered(manager, injected.get("delete_err", {}).get(call.name, ""))
        case "create":
            one.creation_answered(manager, call.index, injected.get("create_err", {}).get(call.name, ""))


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
    judged = scan.judge(manager, given["template_resource_version"], _seen(given))
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
            "lease_duration": durations.format_duration(one.lease_duration_s),
            "renew_deadline": durations.format_duration(one.renew_deadline_s),
            "retry_period": durations.format_duration(one.retry_period_s),
            "release_on_cancel": election.RELEASE_ON_CANCEL,
        }
    if "env" in given:
        identity = election.identity(given["env"], given.get("hostname", ""), bytes(range(40, 50)))
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
    fleet: dict[str, scan.SeenPod] = {}
    after, deletes = [], []
    for letter in given["passes"]:
        manager = managers[ord(letter) - ord("A")]
        one = scan.Pass()
        one.template_read("1")
        one.listed(manager, [fleet[name] for name in sorted(fleet)], scan.Fidelity.REFERENCE)
        while not one.done:
            for call in one.calls(manager, ""):
                if call.verb == "delete":
                    del fleet[call.name]
                    one.deletion_answered(manager)
                else:
                    wanted = scan.annotations_wanted(manager, "1")
                    fleet[call.name] = scan.SeenPod(name=call.name, phase="Running", annotations=wanted)
                    one.creation_answered(manager, call.index)
        after.append(sorted(fleet))
        deletes.append(one.deleted)
    idle = next(m for letter, m in zip("AB", managers, strict=True) if letter != given["passes"][-1])
    refused = scan.other_generation(idle, list(fleet.values()), "1")
    return {"pods_after_each_pass": after, "deletes_per_pass": deletes, "native": {"refused": refused}}


GROUPS: dict[str, Group] = {
    "scan": _scan,
    "ownerrefs": _ownerrefs,
    "leader": _leader,
}

"""Adapter of `shard-manager-vectors/1`: the cases of the shard manager's specification, section 6.

One function per group; the hand-over traces are played by `tests.vectors.handover_traces`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from fractions import Fraction
from typing import Any

import msgspec
import yaml

from tests.vectors.handover_traces import play
from tests.vectors.suite import Case, Result, Suite, Verdict, differences
from tidewright.sharding import durations, keyspace, lease
from tidewright.shardmanager import (
    assign,
    autosize,
    balance,
    config,
    confighash,
    configread,
    election,
    inject,
    labels,
    metricnames,
    pods,
    repair,
    resize,
    rollout,
    scan,
    strategy,
    validation,
    worker,
)

SCHEMA = "shard-manager-vectors/"
TEMPLATE_VERSION = "4711"  # the version that the podmerge cases take for granted
Answer = dict[str, Any]
_base = config.defaults(config.KOZMO)


def _cases(content: Any) -> Sequence[Case] | None:
    if not isinstance(content, Mapping) or not str(content.get("schema", "")).startswith(SCHEMA):
        return None
    product = content.get("defaults", {}).get("product_defaults")
    return [{**case, "product_defaults": product} for case in content["cases"]]


def _run(case: Case) -> Result:
    group = GROUPS.get(case["group"])
    if group is None:
        return Result(case["id"], case["group"], Verdict.NOT_COVERED)
    expected = dict(case["expect"])
    try:
        found = group(case["given"], expected, case)
    except Exception as error:  # noqa: BLE001 - a case that breaks the code is a failed case
        return Result(case["id"], case["group"], Verdict.FAILED, (f"{type(error).__name__}: {error}",))
    expected.pop("invariant", None)
    wrong = tuple(differences(expected, found))
    return Result(
        f"{case['id']} {case['title']}", case["group"], Verdict.FAILED if wrong else Verdict.PASSED, wrong
    )


def _defaults(case: Case) -> config.ManagerConfig:
    product = case.get("product_defaults")
    return configread.read_reference({"manager": {**product, "shard": None}}, _base) if product else _base


def _manager(case: Case, shard: Mapping[str, Any] | None, application: str = "") -> config.ManagerConfig:
    base = _defaults(case)
    changes: dict[str, Any] = {}
    if shard is not None:
        changes["shard"] = configread.reference_shard(shard, base.shard)
    if application:
        changes["pod_application"] = application
    return msgspec.structs.replace(base, **changes)


def _range(given: Case, _: Answer, __: Case) -> Answer:
    ranges = keyspace.shard_ranges(given["keyspace"], given["shard_count"])
    return {"ranges": [[r.start, r.stop] for r in ranges]}


def _workers(manager: config.ManagerConfig) -> list[worker.Worker]:
    return [
        worker.parse_args(strategy.shard_args(manager.shard, index))
        for index in range(manager.shard.pod_count)
    ]


def _strategy(given: Case, expected: Answer, case: Case) -> Answer:
    manager = _manager(case, given["shard"], given["pod_application"])
    workers = _workers(manager)
    found: list[Answer] = []
    for index, one in enumerate(workers):
        pod: Answer = {
            "index": index,
            "name": manager.pod_name(index),
            "appended_args": strategy.shard_args(manager.shard, index),
            "requirements": [
                {"key": r.key, "operator": r.operator, "values": list(r.values)} for r in one.requirements
            ],
            "informer_selector": one.selector,
            "leader_lock_name": one.lock_name,
        }
        if manager.shard.type is config.ShardType.HASH:
            part = strategy.slots(manager.shard, index)
            pod["slots"] = [part.start, part.stop]
        found.append(pod)
    bases = {"ids_from_64": confighash.CURRENT_BASE, "ids_from_65": confighash.LEGACY_BASE}
    return {
        "pod_count": manager.shard.pod_count,
        "pods": found,
        "list_selector": manager.list_selector,
        "shard_config_hash": {k: confighash.config_hash(manager.shard, b) for k, b in bases.items()},
        "hash_preimage_hex": {k: confighash.preimage(manager.shard, b).hex() for k, b in bases.items()},
        "owners": [
            {"labels": probe["labels"], "owner_indexes": worker.owners(workers, probe["labels"])}
            for probe in expected.get("owners", ())
        ],
    }


def _native(findings: Sequence[validation.Finding]) -> Answer:
    refused = [f for f in findings if f.refused(native=True)]
    answer: Answer = {"ok": not refused}
    if refused:
        answer |= {"code": refused[0].code.value, "path": refused[0].path}
    for finding in findings:
        if not finding.refused(native=True):
            answer.setdefault("warning", finding.code.value)
    return answer


def _validation(given: Case, _: Answer, case: Case) -> Answer:
    base = _defaults(case).shard
    shard = configread.reference_shard(given["shard"], base)
    error = validation.reference_error(shard)
    answer: Answer = {"ok": error is None, "native": _native(configread.read_shard(given["shard"], base)[1])}
    if error is None:
        return answer | {"pod_count": shard.pod_count}
    return answer | {"error": error, "fatal_log": validation.fatal_log(error)}


def _config(given: Case, expected: Answer, case: Case) -> Answer:
    environment = expected.get("env") or given.get("env") or {}
    tree = configread.with_environment(yaml.safe_load(given["yaml"]) or {}, environment)
    reading = configread.read(tree, _defaults(case))
    shard = reading.config.shard
    answer: Answer = {
        "native": _native(reading.findings)
        | {"shard_type": shard.type.value, "shard_count": shard.shard_count},
        "env": environment,
        "flags": config.flags(),
        "no_flag_for": f"{config.SECTION}.{config.SHARD_KEY}.{config.MAPPING_KEY}",
    }
    try:
        read = configread.read_reference(tree, _defaults(case))
    except configread.CannotRead as error:
        part = expected.get("error_contains", "")
        return answer | {"error": True, "error_contains": part if part in str(error) else str(error)}
    mappings = [{"ids": list(m.ids)} for m in read.shard.per_shard_mapping]
    return answer | {
        "shard_type": read.shard.type.value,
        "shard_count": read.shard.shard_count,
        "pod_count": read.shard.pod_count,
        "scan_interval_seconds": read.scan_interval_s,
        "manager": {
            "pod-application": read.pod_application,
            "pod-template-container-name": read.pod_template_container_name,
            "pod-template-name": read.pod_template_name,
            "pod-template-namespace": read.pod_template_namespace,
            "scan-interval": durations.format_duration(read.scan_interval_s),
            "shard": {
                "type": read.shard.type.value,
                "shard-count": read.shard.shard_count,
                "per-shard-mapping": mappings or None,
            },
        },
    }


def _shardkey(given: Case, expected: Answer, _: Case) -> Answer:
    if "labels" in given:
        keys = [str(keyspace.slot_of(label, 32, "fnv1a32")) for label in given["labels"]]
        return {
            "same_shard_key": len(set(keys)) == 1,
            "shard_keys": keys,
            "slots_256": [keyspace.slot_of(label, 256, "fnv1a32") for label in given["labels"]],
        }
    label = given["label"]
    number = keyspace.fnv1a32(bytes.fromhex(given["utf8_hex"]))
    return {
        "fnv1a32": number,
        "fnv1a32_hex": f"{number:08x}",
        "shard_key": str(keyspace.slot_of(label, 32, "fnv1a32")),
        "slots": {s: keyspace.slot_of(label, int(s), "fnv1a32") for s in expected.get("slots", ())},
    }


def _slothash(given: Case, expected: Answer, _: Case) -> Answer:
    if "labels" in given:
        rows = [
            {"label": label}
            | {f"s{size}": keyspace.slot_of(label, size, "fnv1a32") for size in (32, 64, 128)}
            for label in given["labels"]
        ]
        assert all(r["s64"] % 32 == r["s32"] and r["s128"] % 64 == r["s64"] for r in rows)
        return {"rows": rows}
    return {
        "digest_hex": f"{keyspace.blake2b64(given['key'].encode()):016x}",
        "slots": {s: keyspace.slot_of(given["key"], int(s), given["hash"]) for s in expected["slots"]},
    }


def _labels(given: Case, _: Answer, case: Case) -> Answer:
    if "retention_hours" in given:
        manager = _manager(case, given["shard"])
        one = _workers(manager)[given["index"]]
        now = datetime.fromisoformat(given["now"])
        return {"delete_collection_selector": one.collects(given["retention_hours"], now)}
    if "parent_labels" in given:
        return {"child_request_labels": labels.child_labels(given["parent_labels"])}
    if "system_labels" in given:
        merged = labels.prepared_labels(given["system_labels"], given["user_labels"])
        answer: Answer = {"labels": merged}
        for count in range(1, 33):
            workers = _workers(_manager(case, {"type": "Hash", "shard-count": count}))
            answer[f"owner_indexes_with_hash_{count}"] = worker.owners(workers, merged)
        return answer
    try:
        made = labels.workflow_labels(
            *(
                labels.Identity(**i) if i is not None else None
                for i in (given["workflow_id"], given["execution_id"])
            )
        )
    except labels.NoIdentity as error:
        return {"error": str(error)}
    return {"name": made.name, "generateName": made.generate_name, "labels": made.labels}


def _podmerge(given: Case, _: Answer, case: Case) -> Answer:
    manager = _manager(case, given["shard"])
    template = {
        "metadata": given["template"].get("metadata"),
        "spec": {"containers": given["template"]["containers"]},
    }
    try:
        pod = pods.pod_manifest(
            manager,
            template,
            given.get("template_resource_version", TEMPLATE_VERSION),
            given["index"],
            namespace=given["pod_namespace"],
            owner_references=given["owner_references"],
        )
    except (pods.ContainerMissing, strategy.IndexOutOfRange) as error:
        return {"error": pods.update_error(manager, given["index"], error), "created": False}
    metadata = {"ownerReferences": [], "finalizers": []} | pod["metadata"]
    return {"metadata": metadata, "containers": pod["spec"]["containers"], "created": True}


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
    manager = _manager(case, given["shard"])
    injected = given.get("injected") or {}
    calls = []
    one = scan.Pass()
    while not one.done:
        for call in one.calls(manager, _defaults(case).pod_template_namespace):
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
    name, namespace = pods.manager_pod(given["env"], _defaults(case).pod_template_namespace)
    if name and "get_error" in given:
        return {"fatal": pods.manager_pod_error(name, namespace, given["get_error"])}
    owners = given.get("manager_pod_owners", []) if name else []
    answer: Answer = {"owner_references": pods.owner_references(owners), "pod_namespace": namespace}
    # The original dereferences both optional flags.
    crash = any("controller" not in o or "blockOwnerDeletion" not in o for o in owners)
    return answer | {"native": answer, "crash": crash}


def _metrics(given: Case, _: Answer, __: Case) -> Answer:
    metrics = metricnames.metrics(given["metrics_prefix"])
    rows = [
        {"name": m.name, "type": m.kind} | ({"quantiles": m.quantiles} if m.quantiles else {})
        for m in metrics
    ]
    return {"metrics": rows, "first_name": metrics[0].name, "labels": []}


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
            "worker_leases": one.worker_leases(_defaults(case).shard.pod_count),
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
        answer["last_arg"] = strategy.shard_args(_defaults(case).shard, given["index"])[-1]
    return answer


def _two_managers(given: Case, case: Case) -> Answer:
    """Passes of managers that know nothing of each other, with an API that deletes at once."""
    managers = [_manager(case, shard) for shard in given["managers"]]
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


def _resize(given: Case, _: Answer, case: Case) -> Answer:
    slots = given["keyspace"]
    effects = resize.effects(slots, given["before"], given["after"])
    manager = _defaults(case)
    return {
        "keys_changing_index": list(effects.changing),
        "count": len(effects.changing),
        "fraction": round(len(effects.changing) / slots, 4),
        "pods_deleted_in_first_pass": effects.deleted_in_first_pass,
        "names_free_at_once": [manager.pod_name(index) for index in effects.new_indexes],
        "keys_with_two_live_owners_while_old_pods_terminate": list(effects.doubly_owned),
        "minimal_moves_possible": effects.minimal_moves,
    }


def _assign(given: Case, _: Answer, __: Case) -> Answer:
    pins = {int(slot): member for slot, member in given["pins"].items()}
    made = assign.assign(given["slots"], given["previous"], given["weights"], pins)
    return {
        "quota": made.quota,
        "table": list(made.table),
        "moved": list(made.moved),
        "filled": list(made.filled),
    }


def _hotshard(given: Case, _: Answer, __: Case) -> Answer:
    made = balance.rebalance(
        given["table"],
        given["cost"],
        given["weights"],
        theta=Fraction(str(given["theta_percent"])) / 100,
        max_moves=given["max_moves"],
        cooling=given["frozen"],
    )
    moves = [[m.slot, m.source, m.target] for m in made.moves]
    return {"moves": moves, "table": list(made.table), "load": made.load}


def _gate(given: Case, _: Answer, __: Case) -> Answer:
    found = resize.gates(given["keyspace"], given["before"], given["after"])
    return {
        "gates": [
            {"new_index": g.new_index, "slots": list(g.slots), "opens_after_old": list(g.opens_after_old)}
            for g in found
        ],
        "old": [
            {"old_index": old, "feeds_new": list(fed)}
            for old, fed in enumerate(resize.feeds(found, given["before"]))
        ],
        "steps": [
            {"stop_old": s.stop_old, "then_open_new": list(s.then_open_new)}
            for s in resize.steps(found, given["before"])
        ],
    }


def _autosize(given: Case, _: Answer, __: Case) -> Answer:
    if "cur" not in given:
        slots = given["keyspace"]
        return {
            "useful_counts": keyspace.useful_counts(slots),
            "largest_range": {
                str(n): max(map(len, keyspace.shard_ranges(slots, n))) for n in range(1, slots + 1)
            },
        }
    exact = autosize.exact
    latency = exact(given["lat"]) / exact(given["slo"]) if given.get("lat") is not None else None
    demand = autosize.Demand(
        loads=autosize.known_loads(given["loads"]),
        capacity=exact(given["cap"]),
        utilisation=exact(given["util"]),
        missing=given.get("missing", 0),
        latency_ratio=latency,
    )
    limits = autosize.Limits(
        minimum=given["mn"], maximum=given["mx"], useful=tuple(given.get("useful") or ())
    )
    return {"desired": autosize.recommend(given["cur"], demand, limits)}


def _rolling(given: Case, _: Answer, __: Case) -> Answer:
    shards = tuple(
        rollout.ShardStatus(
            index=p["index"], generation=p["generation"], state=rollout.ShardState(p["state"])
        )
        for p in given["pods"]
    )
    step = rollout.next_step(
        rollout.Rollout(
            desired=given["desired_generation"],
            shards=shards,
            max_unavailable=given["max_unavailable"],
            paused=given.get("paused", False),
            last_good=given.get("last_good_generation"),
            since_progress_s=given.get("seconds_since_progress", 0.0),
            progress_deadline_s=given.get("progress_deadline_seconds", rollout.PROGRESS_DEADLINE_S),
            canary=given.get("canary", 0),
            approved=given.get("approved", False),
        )
    )
    return {"action": step.action, "index": step.index, "generation": step.generation, "reason": step.reason}


def _inject(given: Case, _: Answer, __: Case) -> Answer:
    match inject.Injector(given["profile"]):
        case inject.Injector.PROPELLER:
            index, first_and_last = given["index"], given["slots"]
            slots: Sequence[int] = keyspace.shard_range(keyspace.COMPAT_SLOTS, given["shards"], index)
            if [slots[0], slots[-1]] != first_and_last:
                slots = first_and_last
            made = inject.propeller(slots, index)
        case inject.Injector.SELECTOR_FLAG:
            excluded = "exclude_slots" in given
            slots = given["exclude_slots" if excluded else "slots"]
            made = inject.selector_flag(given["label"], slots, excluded=excluded, flag=given["flag"])
        case inject.Injector.ORDINAL_FLAGS:
            made = inject.ordinal_flags(given["index"], given["shards"])
        case inject.Injector.ORDINAL_ENV:
            made = inject.ordinal_env(given["index"], given["shards"], given["names"])
        case inject.Injector.SLOTS_ENV:
            made = inject.slots_env(given["slots"])
        case inject.Injector.DYNAMIC:
            made = inject.Injected()
    return {"args": list(made.args), "env": made.env}


def _lease(given: Case, _: Answer, __: Case) -> Answer:
    times = lease.LeaseTimes(
        duration_s=given["lease_duration"],
        safety_margin_s=given["safety_margin"],
        skew_margin_s=given["skew_margin"],
    )
    answer: Answer = {}
    if "renew_sent_at" in given:
        sent_at, acked_at = given["renew_sent_at"], given["renew_acked_at"]
        answer["act_until"] = times.act_until(sent_at)
        if not times.renewed_in_time(sent_at, acked_at):
            answer["action"] = "rejoin with new incarnation"
    if "now" in given:
        # A restarted manager has observed nothing before its start.
        observed = given.get("observed_change_at", given.get("manager_started_at", given["now"]))
        state = times.state(observed_change_at=observed, now=given["now"], released=given.get("holder") == "")
        answer["state"] = state.value
        if state is lease.LeaseState.EXPIRED:
            answer["action"] = "take lease by compare-and-swap"
        elif state is lease.LeaseState.RELEASED:
            answer["action"] = "grant at once"
    if "activation" in given:
        answer["max_gap"] = times.worst_gap(activation_s=given["activation"], poll_s=given["poll"])
    return answer


def _handover(given: Case, expected: Answer, _: Case) -> Answer:
    played = play(given["events"])
    if expected.get("forbidden"):
        # The trace shows what would happen without the rule; here a step of it must be refused.
        refused = bool(played.refused) and not played.dual_owner
        return {"dual_owner": refused or played.dual_owner, "forbidden": refused}
    return played.answer()


GROUPS: dict[str, Callable[[Case, Answer, Case], Answer]] = {
    "range": _range,
    "strategy": _strategy,
    "validation": _validation,
    "config": _config,
    "shardkey": _shardkey,
    "labels": _labels,
    "podmerge": _podmerge,
    "scan": _scan,
    "ownerrefs": _ownerrefs,
    "metrics": _metrics,
    "leader": _leader,
    "resize": _resize,
    "assign": _assign,
    "hotshard": _hotshard,
    "slothash": _slothash,
    "lease": _lease,
    "handover": _handover,
    "gate": _gate,
    "autosize": _autosize,
    "rolling": _rolling,
    "inject": _inject,
}

SUITE = Suite(name="shard manager", cases=_cases, run=_run)

"""Groups about what a configuration means: ranges, arguments, hashes, labels, pods."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec
import yaml

from tests.vectors import workflow_labels
from tests.vectors.reference import propeller_config
from tests.vectors.shard_configs import Answer, Group, defaults, manager_of, workers_of
from tests.vectors.suite import Case
from tidewright.kube.durations import format_duration
from tidewright.sharding import keyspace
from tidewright.shardmanager.propeller import (
    config,
    config_hash,
    config_read,
    pods,
    resize,
    strategy,
    validation,
    worker,
)
from tidewright.shardmanager.tell import metric_names

TEMPLATE_VERSION = "4711"  # the version that the podmerge cases take for granted


def _strategy(given: Case, expected: Answer, case: Case) -> Answer:
    manager = manager_of(case, given["shard"], given["pod_application"])
    workers = workers_of(manager)
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
    bases = {"ids_from_64": config_hash.CURRENT_BASE, "ids_from_65": config_hash.LEGACY_BASE}
    return {
        "pod_count": manager.shard.pod_count,
        "pods": found,
        "list_selector": manager.list_selector,
        "shard_config_hash": {k: config_hash.config_hash(manager.shard, b) for k, b in bases.items()},
        "hash_preimage_hex": {k: config_hash.preimage(manager.shard, b).hex() for k, b in bases.items()},
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
    base = defaults(case).shard
    shard = propeller_config.reference_shard(given["shard"], base)
    error = propeller_config.reference_error(shard)
    reading = config_read.read({config.SECTION: {config.SHARD_KEY: given["shard"]}}, defaults(case))
    found = [
        msgspec.structs.replace(f, path=f.path.removeprefix(f"{config.SECTION}.")) for f in reading.findings
    ]
    answer: Answer = {"ok": error is None, "native": _native(found)}
    if error is None:
        return answer | {"pod_count": shard.pod_count}
    return answer | {"error": error, "fatal_log": propeller_config.fatal_log(error)}


def _config(given: Case, expected: Answer, case: Case) -> Answer:
    environment = expected.get("env") or given.get("env") or {}
    tree = config_read.with_environment(yaml.safe_load(given["yaml"]) or {}, environment)
    reading = config_read.read(tree, defaults(case))
    shard = reading.config.shard
    answer: Answer = {
        "native": _native(reading.findings)
        | {"shard_type": shard.type.value, "shard_count": shard.shard_count},
        "env": environment,
        "flags": propeller_config.flags(),
        "no_flag_for": f"{config.SECTION}.{config.SHARD_KEY}.{config.MAPPING_KEY}",
    }
    try:
        read = propeller_config.read_reference(tree, defaults(case))
    except propeller_config.CannotRead as error:
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
            "scan-interval": format_duration(read.scan_interval_s),
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


def _labels(given: Case, _: Answer, case: Case) -> Answer:
    if "retention_hours" in given:
        manager = manager_of(case, given["shard"])
        one = workers_of(manager)[given["index"]]
        now = datetime.fromisoformat(given["now"])
        return {"delete_collection_selector": propeller_config.collects(one, given["retention_hours"], now)}
    if "parent_labels" in given:
        return {"child_request_labels": workflow_labels.child_labels(given["parent_labels"])}
    if "system_labels" in given:
        merged = workflow_labels.prepared_labels(given["system_labels"], given["user_labels"])
        answer: Answer = {"labels": merged}
        for count in range(1, 33):
            workers = workers_of(manager_of(case, {"type": "Hash", "shard-count": count}))
            answer[f"owner_indexes_with_hash_{count}"] = worker.owners(workers, merged)
        return answer
    try:
        made = workflow_labels.workflow_labels(
            *(
                workflow_labels.Identity(**i) if i is not None else None
                for i in (given["workflow_id"], given["execution_id"])
            )
        )
    except workflow_labels.NoIdentity as error:
        return {"error": str(error)}
    return {"name": made.name, "generateName": made.generate_name, "labels": made.labels}


def _podmerge(given: Case, _: Answer, case: Case) -> Answer:
    manager = manager_of(case, given["shard"])
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


def _metrics(given: Case, _: Answer, __: Case) -> Answer:
    metrics = metric_names.metrics(given["metrics_prefix"])
    rows = [
        {"name": m.name, "type": m.kind} | ({"quantiles": m.quantiles} if m.quantiles else {})
        for m in metrics
    ]
    return {"metrics": rows, "first_name": metrics[0].name, "labels": []}


def _resize(given: Case, _: Answer, case: Case) -> Answer:
    slots = given["keyspace"]
    effects = resize.effects(slots, given["before"], given["after"])
    manager = defaults(case)
    return {
        "keys_changing_index": list(effects.changing),
        "count": len(effects.changing),
        "fraction": round(len(effects.changing) / slots, 4),
        "pods_deleted_in_first_pass": effects.deleted_in_first_pass,
        "names_free_at_once": [manager.pod_name(index) for index in effects.new_indexes],
        "keys_with_two_live_owners_while_old_pods_terminate": list(effects.doubly_owned),
        "minimal_moves_possible": effects.minimal_moves,
    }


def _range(given: Case, _: Answer, __: Case) -> Answer:
    ranges = keyspace.shard_ranges(given["keyspace"], given["shard_count"])
    return {"ranges": [[r.start, r.stop] for r in ranges]}


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


GROUPS: dict[str, Group] = {
    "range": _range,
    "strategy": _strategy,
    "validation": _validation,
    "config": _config,
    "shardkey": _shardkey,
    "labels": _labels,
    "podmerge": _podmerge,
    "metrics": _metrics,
    "resize": _resize,
    "slothash": _slothash,
}

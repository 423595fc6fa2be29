"""Fleets of the propeller manager: what taking one over would do, and doing it (section 3.14).

Taking over is an entry in our configuration; the pods stay as they are. The way back is to take the
entry out again: the original finds pods with its own names, labels and hash.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import yaml

from tidewright.asking.errors import BadInput, CommandError
from tidewright.asking.manifests import one_document
from tidewright.cli.shards.changing import MERGE_PATCH, agree
from tidewright.cli.shards.reading import get, listed
from tidewright.kube.client import Kube
from tidewright.kube.errors import KubeError
from tidewright.kube.times import seconds
from tidewright.kube.yamltext import BadYaml, one
from tidewright.shardmanager.propeller.config import KEYSPACE, WILDCARD, ManagerConfig, ShardType
from tidewright.shardmanager.propeller.config_read import merged
from tidewright.shardmanager.propeller.election import HOLDER
from tidewright.shardmanager.propeller.election_read import read_election
from tidewright.shardmanager.propeller.fleet import KnownPod
from tidewright.shardmanager.propeller.fleet_config import parsed
from tidewright.shardmanager.propeller.fleet_verdict import verdict
from tidewright.shardmanager.propeller.scan import judge
from tidewright.shardmanager.propeller.strategy import shard_args
from tidewright.shardmanager.propeller.worker import names_shard_flag, parse_args

KEY = "shardmanager.yaml"


class Fleet(msgspec.Struct, frozen=True, kw_only=True):
    """A fleet to take over: its configuration, and the entry for ours."""

    namespace: str
    config: ManagerConfig
    entry: dict[str, Any]


def read_configuration(files: Sequence[Path], namespace: str, brand: str) -> Fleet:
    """Read the files that the original runs with.

    Raises:
        BadInput: a file cannot be read, or ours would refuse what stands there.
    """
    trees = []
    for file in files:
        tree = one_document(file, str(file), "a mapping with a section manager") or {}
        if not isinstance(tree, Mapping):
            raise BadInput(f"{file}: expected a YAML mapping with a section manager")
        trees.append(tree)
    tree = merged(trees)
    config = {name: tree[name] for name in ("manager", "propeller") if name in tree}
    entry: dict[str, Any] = {"namespace": namespace, "brand": brand, "config": config}
    judged, fleet = verdict(entry), parsed(entry)
    if judged.refused:
        raise BadInput(f"{', '.join(map(str, files))}: {judged.refused}")
    for warning in judged.warnings:
        print(f"warning: {warning}")
    return Fleet(namespace=fleet.namespace, config=fleet.config, entry=entry)


async def take_over(kube: Kube, fleet: Fleet, config_map: tuple[str, str], *, yes: bool) -> int:
    """Show what happens to each pod, ask, and enter the fleet into our configuration."""
    config, namespace = fleet.config, fleet.namespace
    await _refuse_rival(kube, fleet)
    path = f"/api/v1/namespaces/{config.pod_template_namespace}/podtemplates/{config.pod_template_name}"
    try:
        template = await get(kube, path)
    except KubeError as error:
        if error.status != 404:
            raise
        where = f"{config.pod_template_namespace}/{config.pod_template_name}"
        raise BadInput(f"podtemplate {where} not found: the fleet cannot be kept without it") from error
    query = {"labelSelector": config.list_selector}
    pods = [p async for p in listed(kube, f"/api/v1/namespaces/{namespace}/pods", query)]
    print(_plan(fleet, template, pods))
    entries = [e for e in await _entries(kube, config_map) if not _same(e, fleet)]
    if not yes:
        agree()
    await _store(kube, config_map, [*entries, fleet.entry])
    name = f"{config_map[0]}/{config_map[1]}"
    print(
        f"fleet {namespace}/{config.pod_application} is in configmap {name}; "
        f"the watcher reads it when it runs with --config-map {name}"
    )
    return 0


async def give_back(kube: Kube, namespace: str, brand: str, config_map: tuple[str, str], *, yes: bool) -> int:
    """Take a fleet out of our configuration; its pods stay."""
    entries = await _entries(kube, config_map)
    mine = [e for e in entries if e.get("namespace") == namespace and (e.get("brand") or brand) == brand]
    if not mine:
        raise BadInput(
            f"configmap {config_map[0]}/{config_map[1]} has no {brand} fleet in namespace {namespace}"
        )
    print(
        f"Give back the fleet in namespace {namespace}.\n  moves     0\n  restarts  0\n"
        "  gap       none: the pods stay as they are; nobody repairs them until the original runs again"
    )
    if not yes:
        agree()
    await _store(kube, config_map, [e for e in entries if e not in mine])
    return 0


def _plan(fleet: Fleet, template: Mapping[str, Any], pods: Sequence[Mapping[str, Any]]) -> str:
    config, version = fleet.config, template["metadata"]["resourceVersion"]
    seen = [
        KnownPod(
            name=p["metadata"]["name"],
            phase=(p.get("status") or {}).get("phase", "Pending"),
            annotations=p["metadata"].get("annotations") or {},
            deleting="deletionTimestamp" in p["metadata"],
        )
        for p in pods
    ]
    judged = judge(config, version, seen)
    names = config.pod_names
    kept = [n for n in names if n in judged.existing and n not in judged.foreign]
    drifted = [n for n in kept if not _as_told(config, names.index(n), _pod(pods, n))]
    missing = [n for n in names if n not in judged.existing and n not in judged.stale]
    grace = max((p["spec"].get("terminationGracePeriodSeconds", 30) for p in pods), default=30)
    what = f"{config.shard.type.value}, {config.shard.pod_count} shards"
    lines = [
        f"Plan for the fleet {fleet.namespace}/{config.pod_application} ({what}):",
        f"  moves     {_moves(config, pods, judged.stale)}",
        f"  adopted   {_counted(kept)}, without a restart",
        f"  restarts  {_counted(judged.stale)}",
        f"  starts    {_counted(missing)}",
        f"  left      {_counted(judged.foreign)}, which no manager made",
    ]
    if drifted:
        lines.append(
            f"  ArgsDrift {_counted(drifted)}: told other slots than this configuration says; replaced one at a time"
        )
    if twice := _twice(config, pods, judged.stale, missing):
        lines.append(
            f"  overlap   {', '.join(twice)}: their new pods start while the old ones still end, as with the original; "
            "a ShardSet (native mode) does not do that"
        )
    lines.append(
        f"  gap       from the stop of the old pod (grace {grace} s at most) until the new one has started"
        if judged.stale
        else "  gap       none: nothing that runs is touched"
    )
    return "\n".join(lines)


def _probes(config: ManagerConfig) -> dict[str, dict[str, str]]:
    """Labels of an object for each part of the keyspace, by what the part is called."""
    if config.shard.type is ShardType.HASH:
        return {f"shard-key {key}": {"shard-key": str(key)} for key in range(KEYSPACE)}
    label = config.shard.type.value.lower()
    ids = [value for mapping in config.shard.per_shard_mapping for value in mapping.ids if value != WILDCARD]
    return {**{f"{label} {value}": {label: value} for value in ids}, "all others": {}}


def _holders(args_by_pod: Mapping[str, Sequence[str]], labels: Mapping[str, str]) -> list[str]:
    return [name for name, args in args_by_pod.items() if parse_args(args).owns(labels)]


def _present(config: ManagerConfig, pods: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Arguments by name of the pods that a manager made."""
    args_by_pod = {}
    for pod in pods:
        for container in pod["spec"]["containers"]:
            if container["name"] == config.pod_template_container_name and names_shard_flag(
                container.get("args") or ()
            ):
                args_by_pod[pod["metadata"]["name"]] = list(container["args"])
    return args_by_pod


def _changes(config: ManagerConfig, pods: Sequence[Mapping[str, Any]]) -> dict[str, tuple[str, str]]:
    """The parts of the keyspace that another pod is to have, each with the pod it had and the one it gets."""
    before = _present(config, pods)
    after = {name: shard_args(config.shard, index) for index, name in enumerate(config.pod_names)}
    changes = {}
    for part, labels in _probes(config).items():
        had, gets = _holders(before, labels), _holders(after, labels)
        if had and gets and had[0] != gets[0]:
            changes[part] = (had[0], gets[0])
    return changes


def _moves(config: ManagerConfig, pods: Sequence[Mapping[str, Any]], stale: Sequence[str]) -> str:
    moved = _changes(config, pods) if stale else {}
    parts = len(_probes(config))
    if not moved:
        return "0: every shard keeps its part of the keyspace"
    return f"{len(moved)} of {parts} parts of the keyspace change their pod"


def _twice(
    config: ManagerConfig, pods: Sequence[Mapping[str, Any]], stale: Sequence[str], missing: Sequence[str]
) -> list[str]:
    """The parts whose new pod starts while the old one may still run them."""
    return [p for p, (had, gets) in _changes(config, pods).items() if had in stale and gets in missing]


def _as_told(config: ManagerConfig, index: int, pod: Mapping[str, Any]) -> bool:
    """Whether the container's arguments end with exactly those of its shard."""
    desired = shard_args(config.shard, index)
    for container in pod["spec"]["containers"]:
        if container["name"] == config.pod_template_container_name:
            return bool((container.get("args") or [])[-len(desired) :] == desired)
    return False


def _pod(pods: Sequence[Mapping[str, Any]], name: str) -> Mapping[str, Any]:
    return next(p for p in pods if p["metadata"]["name"] == name)


def _counted(names: Sequence[str]) -> str:
    return f"{len(names)}: {', '.join(names)}" if names else "0"


async def _refuse_rival(kube: Kube, fleet: Fleet) -> None:
    """Stay away while another manager holds the lock under which this configuration elects.

    Raises:
        CommandError: somebody renews it.
    """
    election = read_election(fleet.entry["config"], fleet.namespace).election
    if not election.enabled or not election.name:
        return
    path = f"/apis/coordination.k8s.io/v1/namespaces/{election.namespace}/leases/{election.name}"
    try:
        lease = await get(kube, path)
    except KubeError as error:
        if error.status == 404:
            return
        raise
    spec = lease.get("spec") or {}
    if not spec.get("holderIdentity") or not spec.get("renewTime"):
        return
    if spec["holderIdentity"].startswith(f"{HOLDER}_"):
        return  # ours: the fleet is taken over already, and its configuration is being changed
    age_s = time.time() - seconds(spec["renewTime"])
    if age_s < float(spec.get("leaseDurationSeconds") or 15):
        raise CommandError(
            f"nothing was changed: {spec['holderIdentity']} holds the manager's lock {election.manager_lease} and "
            f"renewed it {age_s:.0f} s ago; stop that manager first (its pods keep running), and wait for the lock to end"
        )


async def _entries(kube: Kube, config_map: tuple[str, str]) -> list[dict[str, Any]]:
    """The managers in our configuration; an empty list when it is not there."""
    try:
        current = await get(kube, f"/api/v1/namespaces/{config_map[0]}/configmaps/{config_map[1]}")
    except KubeError as error:
        if error.status == 404:
            return []
        raise
    text = (current.get("data") or {}).get(KEY) or "{}"
    where = f"key {KEY} of ConfigMap {config_map[0]}/{config_map[1]}"
    valid = "a mapping with a list managers"
    try:
        tree = one(text, where, valid) or {}
    except BadYaml as error:
        raise BadInput(str(error)) from error
    managers = tree.get("managers") if isinstance(tree, Mapping) else tree
    if not isinstance(managers or [], list) or not all(isinstance(e, Mapping) for e in managers or ()):
        raise BadInput(f"{where}: valid is {valid}")
    return [dict(e) for e in managers or ()]


async def _store(kube: Kube, config_map: tuple[str, str], entries: Sequence[Mapping[str, Any]]) -> None:
    namespace, name = config_map
    data = {KEY: yaml.safe_dump({"managers": list(entries)}, sort_keys=False)}
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    try:
        body = msgspec.json.encode({"data": data})
        await kube.request("PATCH", f"{path}/{name}", body=body, content_type=MERGE_PATCH)
    except KubeError as error:
        if error.status != 404:
            raise
        manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}
        await kube.request("POST", path, body=msgspec.json.encode(manifest))


def _same(entry: dict[str, Any], fleet: Fleet) -> bool:
    read = parsed(entry)
    return (read.namespace, read.config.pod_application) == (fleet.namespace, fleet.config.pod_application)

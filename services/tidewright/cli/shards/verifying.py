"""The live cluster against the assignment: one owner per slot, nothing claimed twice, nothing silently orphaned."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator
from typing import Any

import msgspec

from tidewright.asking.answers.form import builtins
from tidewright.asking.errors import CommandError
from tidewright.asking.opening import opened
from tidewright.asking.options import LogOptions, Output, emit
from tidewright.asking.tables import plain
from tidewright.cli.shards import history, showing
from tidewright.cli.shards.answers import ShardCheck, ShardChecks
from tidewright.cli.shards.reading import ReadSet, listed
from tidewright.cli.shards.showing import columns, condition
from tidewright.kube.client import Kube
from tidewright.kube.discovery import Discovery
from tidewright.sharding.document import SlotState
from tidewright.sharding.keyspace import parse_runs, runs
from tidewright.sharding.source import identity, legal_slot, slot_label_value, source_of
from tidewright.shardmanager.propeller.strategy import native_lock_name
from tidewright.shardmanager.propeller.worker import names_shard_flag, parse_args
from tidewright.shardmanager.shardset.mapping import included
from tidewright.shardmanager.shardset.pods.inject import mapped
from tidewright.shardmanager.shardset.spec import SetSpec, read_spec


async def verify(
    kube: Kube, shard_set: ReadSet, log: LogOptions | None, output: Output, *, objects: bool
) -> int:
    """Look at everything; exit code 1 when something is not as it should be."""
    spec, _problems = read_spec(shard_set.spec)
    if not shard_set.document.slots:
        raise CommandError(f"shardset {shard_set.namespace}/{shard_set.name} has no assignment yet")
    checks = [
        *_document(shard_set),
        *_claims(shard_set),
        *_told(shard_set, spec),
        await _ledger(shard_set, log),
    ]
    if objects:
        checks += [check async for check in _objects(kube, shard_set, spec)]
    words = {True: "ok", False: "FAILED", None: "not checked"}
    failed = any(c.good is False for c in checks)
    rows = [(c.check, words[c.good], c.message) for c in checks]
    emit(
        builtins(ShardChecks(verified=not failed, items=tuple(checks))),
        output,
        lambda: plain(columns(("CHECK", "RESULT", "MESSAGE"), rows)),
        names=lambda: [showing.named(shard_set)],
    )
    return 1 if failed else 0


def _check(name: str, good: bool | None, message: str) -> ShardCheck:
    return ShardCheck(check=name, good=good, message=message)


def _document(shard_set: ReadSet) -> Iterator[ShardCheck]:
    document = shard_set.document
    free = document.unowned()
    yield _check("every slot has one owner", not free, f"without owner: {runs(free)}" if free else "")
    said = condition(shard_set, "Orphaned").get("status") == "True"
    yield _check(
        "no silent orphan",
        said or not free,
        "slots have no owner, and no condition says so" if free and not said else "",
    )
    strangers = sorted({r.owner for r in document.slots if r.owner and r.owner not in document.members})
    yield _check("owners are members", not strangers, ", ".join(strangers))


def _claims(shard_set: ReadSet) -> Iterator[ShardCheck]:
    claims: Counter[int] = Counter()
    records = set()
    for member in shard_set.members:
        name = f"{member['spec']['member']}#{member['spec']['incarnation']}"
        status = member.get("status") or {}
        if not member["spec"].get("taken") and not status.get("released"):
            records.add(name)
            claims.update(parse_runs(status.get("acting") or ""))
    twice = sorted(slot for slot, count in claims.items() if count > 1)
    yield _check("no slot is claimed twice", not twice, f"claimed twice: {runs(twice)}" if twice else "")
    if shard_set.members:
        lost = sorted({r.owner for r in shard_set.document.slots if r.owner} - records)
        yield _check("owners hold a lease", not lost, f"no record of {', '.join(lost)}" if lost else "")
        idle = [
            s for s, r in enumerate(shard_set.document.slots) if r.state is SlotState.OWNED and not claims[s]
        ]
        yield _check("owners act", not idle, f"nobody reports to act on {runs(idle)}" if idle else "")


def _told(shard_set: ReadSet, spec: SetSpec) -> Iterator[ShardCheck]:
    if spec.dynamic or not shard_set.told:
        return
    count = Counter(slot for slots in shard_set.told.values() for slot in slots)
    twice = sorted(s for s, n in count.items() if n > 1)
    missing = sorted(set(range(spec.slots)) - set(count))
    message = "; ".join(
        f"{word} {runs(slots)}"
        for word, slots in (("told twice:", twice), ("told to nobody:", missing))
        if slots
    )
    yield _check("pods are told every slot once", not message, message)
    if spec.injector.value == "propeller" or spec.mapped:
        wrong = [pod["metadata"]["name"] for pod in shard_set.pods if not _as_told(shard_set, spec, pod)]
        yield _check("arguments say what pods were told", not wrong, ", ".join(wrong))


def _as_told(shard_set: ReadSet, spec: SetSpec, pod: dict[str, Any]) -> bool:
    """Whether the container's own arguments are those of its slots, or of its values of the label."""
    index = int(pod["metadata"]["name"].rpartition("-")[2])
    args = next((c.get("args") or [] for c in pod["spec"]["containers"] if c["name"] == spec.container), [])
    if spec.mapped:
        if index >= len(spec.per_shard):
            return False
        values, rest = included(spec.per_shard, index)
        lock = native_lock_name(shard_set.name, index)
        desired = mapped(spec.injector, spec.label, values, rest=rest, lock=lock, flag=spec.flag).args
        return bool(args[len(args) - len(desired) :] == list(desired))
    argument_slots = {int(v) for r in parse_args(args).requirements for v in r.values if v.isdecimal()}
    return bool(names_shard_flag(args)) and argument_slots == set(shard_set.told.get(index, ()))


async def _ledger(shard_set: ReadSet, log: LogOptions | None) -> ShardCheck:
    name = "the ledger gives this assignment"
    try:
        async with opened(log, None) as source:
            ledger = await history.ledger(source, shard_set.namespace, shard_set.name)
    except CommandError as error:
        return _check(name, None, str(error))
    if ledger.refused:
        return _check(name, False, f"an entry was refused: {ledger.refused[0]}")
    if ledger.document.revision < shard_set.document.revision:
        return _check(name, False, f"it ends at revision {ledger.document.revision}, the status is further")
    if ledger.document.revision > shard_set.document.revision:
        return _check(name, None, "the status is on its way: run the command again")
    wrong = [
        slot
        for slot, (a, b) in enumerate(zip(ledger.document.slots, shard_set.document.slots, strict=True))
        if msgspec.structs.replace(a, since=0.0) != msgspec.structs.replace(b, since=0.0)
    ]
    return _check(name, not wrong, f"slots {runs(wrong)} differ" if wrong else "")


async def _objects(kube: Kube, shard_set: ReadSet, spec: SetSpec) -> AsyncIterator[ShardCheck]:
    """The labels of all objects of the source, where workers go by them."""
    source = source_of(shard_set.spec)
    if not source.kind or not spec.labels_objects:
        return
    places = await Discovery(kube).resources(source.group, source.kind)
    if not places:
        yield _check(
            "objects carry their slot",
            None,
            f"the cluster has no kind {source.kind} in group {source.group!r}",
        )
        return
    missing = illegal = own = total = 0
    path = places[0].collection("" if source.all_namespaces else shard_set.namespace)
    async for item in listed(kube, path, {"labelSelector": source.selector} if source.selector else {}):
        total += 1
        value = (item["metadata"].get("labels") or {}).get(spec.slot_label)
        key_slot = slot_label_value(source, identity(item["metadata"], source.kind), spec.slots, spec.hash)
        missing += value is None
        illegal += value is not None and not legal_slot(value, spec.slots)
        own += value is not None and legal_slot(value, spec.slots) and value != key_slot
    label = spec.slot_label
    yield _check(
        f"objects carry {label}", not missing, f"{missing} of {total} do not" if missing else f"{total} do"
    )
    yield _check(f"{label} is a slot", not illegal, f"{illegal} of {total} name none" if illegal else "")
    if own:
        yield _check(
            f"{label} is that of the key", True, f"{own} of {total} carry another slot, which is respected"
        )

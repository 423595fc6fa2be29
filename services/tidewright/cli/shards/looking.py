"""Looking: who owns what and why, whether the cluster agrees, and what a change would do."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from tidewright.asking.answers.form import builtins
from tidewright.asking.errors import BadInput, translated
from tidewright.asking.manifests import known_fields, one_document
from tidewright.asking.namespaces import meant
from tidewright.asking.options import AskedLogOptions, LogOptions, Output, emit
from tidewright.asking.tables import plain
from tidewright.cli.options import ClusterOptions
from tidewright.cli.shards import changing, ours, showing
from tidewright.cli.shards.answers import OwnServices, ServiceSizing, ShardSetStandings
from tidewright.cli.shards.reading import ReadSet, connected, sets, the_set
from tidewright.cli.shards.sizing import doubled, resized
from tidewright.cli.shards.where import (
    CHANGE,
    WHICH,
    Namespace,
    SetOptions,
    name_of,
    namespace_of,
)
from tidewright.kube.mergepatch import merged


def get_(
    name: Annotated[
        str | None, Parameter(help="A ShardSet, service/NAME, or services; all by default.")
    ] = None,
    *,
    namespace: Namespace = "",
    all_namespaces: Annotated[
        bool, Parameter(name=["--all-namespaces", "-A"], help="Of all namespaces.", negative="", group=WHICH)
    ] = False,
    at: ClusterOptions | None = None,
    log: AskedLogOptions | None = None,
    output: Output = "table",
) -> int:
    """Who owns which slots."""

    async def services() -> int:
        with translated():
            async with ours.opened(log) as connection:
                known = [
                    f"{ours.PREFIX}{n}" for n in ("autoscaler", "provisioning", "spread", "shard-manager")
                ]
                asked = known if name == "services" else [name or ""]
                standings = [await ours.standing(connection, ours.service(service)) for service in asked]
        emit(
            builtins(OwnServices(items=tuple(map(ours.told, standings)))),
            output,
            lambda: plain("\n\n".join(map(ours.details, standings))),
            names=lambda: [f"{ours.PREFIX}{standing.service.name}" for standing in standings],
        )
        return 0

    async def run() -> int:
        on = at or ClusterOptions()
        space = meant(namespace, on.kubeconfig, on.context)
        async with connected(at) as kube:
            if name is not None:
                shard_set = await the_set(kube, space, name)
                emit(
                    builtins(showing.standing(shard_set)), output, lambda: plain(showing.details(shard_set)),
                    names=lambda: [showing.named(shard_set)],
                )  # fmt: skip
                return 0
            shard_sets = await sets(kube, None if all_namespaces else space)
        place = "the cluster" if all_namespaces else f"namespace {space}"
        emit(
            builtins(ShardSetStandings(items=tuple(map(showing.standing, shard_sets)))),
            output,
            lambda: plain(showing.overview(shard_sets)) if shard_sets else f"{place} has no ShardSets",
            names=lambda: map(showing.named, shard_sets),
        )
        return 0

    return asyncio.run(services() if name == "services" or ours.is_ours(name) else run())


def explain(
    key: Annotated[str, Parameter(help="The text that is hashed, such as shop/order-1; with --slot a slot.")],
    *,
    slot: Annotated[bool, Parameter(help="KEY is the number of a slot.", negative="")] = False,
    where: SetOptions | None = None,
    log: AskedLogOptions | None = None,
    output: Output = "table",
) -> int:
    """Which slot a key has, who owns it under which epoch, since when, and why."""
    from tidewright.cli.shards import explaining

    if ours.is_ours(name_of(where)):
        return asyncio.run(explaining.ours(name_of(where) or "", key, log, output, is_slot=slot))

    async def run() -> int:
        async with connected(where) as kube:
            shard_set = await the_set(kube, namespace_of(where), name_of(where))
        return await explaining.explain(shard_set, key, log, output, is_slot=slot)

    return asyncio.run(run())


def verify(
    *,
    where: SetOptions | None = None,
    log: AskedLogOptions | None = None,
    objects: Annotated[bool, Parameter(help="Also look at the labels of all objects of the source.")] = True,
    output: Output = "table",
) -> int:
    """Hold the live cluster against the assignment; exit code 1 when something is not as it should be."""
    from tidewright.cli.shards import verifying

    async def run() -> int:
        async with connected(where) as kube:
            shard_set = await the_set(kube, namespace_of(where), name_of(where))
            return await verifying.verify(kube, shard_set, log, output, objects=objects)

    return asyncio.run(run())


def plan(
    *,
    where: SetOptions | None = None,
    resize_to: Annotated[
        int | None, Parameter(name="--resize", help="Another number of shards.", group=CHANGE)
    ] = None,
    move: Annotated[tuple[str, ...], Parameter(help="SLOT=MEMBER, moved once.", group=CHANGE)] = (),
    pin: Annotated[tuple[str, ...], Parameter(help="SLOT=MEMBER, kept there.", group=CHANGE)] = (),
    drain_: Annotated[
        tuple[str, ...], Parameter(name="--drain", help="A member that gives up all.", group=CHANGE)
    ] = (),
    double_: Annotated[
        bool, Parameter(name="--double", help="Twice the slots.", negative="", group=CHANGE)
    ] = False,
    file: Annotated[
        Path | None,
        Parameter(name=["--filename", "-f"], help="The whole ShardSet as it is to be.", group=CHANGE),
    ] = None,
    log: AskedLogOptions | None = None,
    output: Output = "table",
) -> int:
    """What a change would do, or without one what is in motion: moves, restarts, the bound of the gap."""
    if ours.is_ours(name_of(where)):
        return asyncio.run(_plan_ours(name_of(where) or "", log, output))

    async def run() -> int:
        async with connected(where) as kube:
            shard_set = await the_set(kube, namespace_of(where), name_of(where))
        patch: dict[str, Any] = _from_file(file, shard_set) if file is not None else {}
        if resize_to is not None:
            patch = merged(patch, resized(shard_set, resize_to)[1])
        for text, key in ((move, "moves"), (pin, "pins")):
            for pair in text:
                number, member = _slot_and_member(pair)
                patch = merged(patch, {"assignment": {key: {number: member}}})
        if drain_:
            for member in drain_:
                shard_set.check_member(member)
            already = shard_set.section("workers").get("drain") or []
            patch = merged(patch, {"workers": {"drain": sorted({*already, *drain_})}})
        if double_:
            patch = merged(patch, doubled(shard_set)[1])
        changing.emit_plan(shard_set, changing.planned(shard_set, patch), output)
        return 0

    return asyncio.run(run())


async def _plan_ours(name: str, log: LogOptions | None, output: Output) -> int:
    which = ours.service(name)
    with translated():
        async with ours.opened(log) as connection:
            sizing = await ours.sizing(connection, which)
    answer = ServiceSizing(
        service=which.name,
        events_per_second=round(sizing.facts_per_s, 3),
        replicas=sizing.current,
        recommended_replicas=sizing.recommended,
        note=ours.REFUSAL,
    )
    own = f"{ours.PREFIX}{which.name}"
    emit(
        builtins(answer), output, lambda: f"{own}: {sizing}\nnote: {ours.REFUSAL}", names=lambda: [own]
    )  # fmt: skip
    return 0


def _from_file(file: Path, shard_set: ReadSet) -> dict[str, Any]:
    """A patch that makes the spec that of a manifest."""
    manifest = one_document(file, f"--filename {file}", "one manifest of kind ShardSet")
    if not isinstance(manifest, Mapping) or manifest.get("kind") != "ShardSet":
        raise BadInput(f"--filename {file}: expected one manifest of kind ShardSet")
    known_fields(dict(manifest), f"--filename {file}")
    return _difference(shard_set.spec, manifest.get("spec") or {})


def _difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    patch: dict[str, Any] = {key: None for key in before if key not in after}
    for key, value in after.items():
        if isinstance(value, Mapping) and isinstance(before.get(key), Mapping):
            patch[key] = _difference(before[key], value)
        else:
            patch[key] = value
    return patch


def _slot_and_member(text: str) -> tuple[str, str]:
    slot, equals, member = text.partition("=")
    if not equals or not slot.isdecimal() or not member:
        raise BadInput(f"{text!r}: expected SLOT=MEMBER, such as 17=worker-1")
    return slot, member

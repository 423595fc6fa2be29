"""The commands of `tidewright shards`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from cyclopts import App, Group, Parameter

from tidewright.cli.commands import BY_NAME as COMMANDS
from tidewright.cli.errors import BadInput, translated
from tidewright.cli.options import ClusterOptions, LogOptions, Output, emit
from tidewright.cli.shards import changing, ours, showing
from tidewright.cli.shards.changing import change
from tidewright.cli.shards.reading import ReadSet, connected, sets, the_set
from tidewright.kube.mergepatch import merged

app = App(name="shards", help_format="plaintext", help_epilogue=COMMANDS["shards"].epilogue)
rollout = App(name="rollout", help="A rolling update of the pods of a set.", help_format="plaintext")
app.command(rollout)

WHICH = Group("Set", sort_key=0)
CHANGE = Group("Change", sort_key=1)

Namespace = Annotated[str, Parameter(name=["--namespace", "-n"], help="Of the ShardSet.", group=WHICH)]
SetName = Annotated[
    str | None,
    Parameter(name="--set", help="The ShardSet, or service/NAME; the only one by default.", group=WHICH),
]
Yes = Annotated[bool, Parameter(name=["--yes", "-y"], help="Do not ask.", negative="", group=CHANGE)]


Build: TypeAlias = Callable[[ReadSet], tuple[str, dict[str, Any]]]
"""Says in words what is done to a set, and gives the patch of its spec."""


def _run(work: Coroutine[Any, Any, int]) -> int:
    return asyncio.run(work)


async def _patch(
    at: ClusterOptions | None,
    namespace: str,
    name: str | None,
    build: Build,
    *,
    yes: bool,
    ask: bool = True,
) -> int:
    """Read a set, build `(what it is in words, patch of the spec)` from it, and change it."""
    if ours.is_ours(name):
        ours.service(name or "")
        raise BadInput(f"{name}: {ours.REFUSAL}")
    async with connected(at) as kube:
        found = await the_set(kube, namespace, name)
        doing, patch = build(found)
        return await change(kube, found, patch, doing=doing, yes=yes, ask=ask)


# Looking.


@app.command(name="get")
def get_(
    name: Annotated[
        str | None, Parameter(help="A ShardSet, service/NAME, or services; all by default.")
    ] = None,
    *,
    namespace: Namespace = "default",
    all_namespaces: Annotated[
        bool, Parameter(name=["--all-namespaces", "-A"], help="Of all namespaces.", negative="", group=WHICH)
    ] = False,
    at: ClusterOptions | None = None,
    log: LogOptions | None = None,
    output: Output = "table",
) -> int:
    """Who owns which slots."""

    async def services() -> int:
        with translated():
            connection = await ours.opened(log)
            async with connection:
                known = [
                    f"{ours.PREFIX}{n}" for n in ("autoscaler", "provisioning", "spread", "shard-manager")
                ]
                asked = known if name == "services" else [name or ""]
                found = [await ours.standing(connection, ours.service(one)) for one in asked]
        emit([ours.as_json(f) for f in found], output, lambda: "\n\n".join(map(ours.details, found)))
        return 0

    async def run() -> int:
        async with connected(at) as kube:
            if name is not None:
                one = await the_set(kube, namespace, name)
                emit(showing.as_json(one), output, lambda: showing.details(one))
                return 0
            found = await sets(kube, None if all_namespaces else namespace)
        where = "the cluster" if all_namespaces else f"namespace {namespace}"
        emit(
            [showing.as_json(one) for one in found],
            output,
            lambda: showing.overview(found) if found else f"{where} has no ShardSets",
        )
        return 0

    return _run(services() if name == "services" or ours.is_ours(name) else run())


@app.command
def explain(
    key: Annotated[str, Parameter(help="The text that is hashed, such as shop/order-1; with --slot a slot.")],
    *,
    slot: Annotated[bool, Parameter(help="KEY is the number of a slot.", negative="")] = False,
    namespace: Namespace = "default",
    set_: SetName = None,
    at: ClusterOptions | None = None,
    log: LogOptions | None = None,
    output: Output = "table",
) -> int:
    """Which slot a key has, who owns it under which epoch, since when, and why."""
    from tidewright.cli.shards import explaining

    if ours.is_ours(set_):
        return _run(explaining.ours(set_ or "", key, log, output, is_slot=slot))

    async def run() -> int:
        async with connected(at) as kube:
            found = await the_set(kube, namespace, set_)
        return await explaining.explain(found, key, log, output, is_slot=slot)

    return _run(run())


@app.command
def verify(
    *,
    namespace: Namespace = "default",
    set_: SetName = None,
    at: ClusterOptions | None = None,
    log: LogOptions | None = None,
    objects: Annotated[bool, Parameter(help="Also look at the labels of all objects of the source.")] = True,
    output: Output = "table",
) -> int:
    """Hold the live cluster against the assignment; exit code 1 when something is not as it should be."""
    from tidewright.cli.shards import verifying

    async def run() -> int:
        async with connected(at) as kube:
            found = await the_set(kube, namespace, set_)
            return await verifying.verify(kube, found, log, output, objects=objects)

    return _run(run())


@app.command
def plan(
    *,
    namespace: Namespace = "default",
    set_: SetName = None,
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
        Path | None, Parameter(name=["--file", "-f"], help="The whole ShardSet as it is to be.", group=CHANGE)
    ] = None,
    at: ClusterOptions | None = None,
    log: LogOptions | None = None,
    output: Output = "table",
) -> int:
    """What a change would do, or without one what is in motion: moves, restarts, the bound of the gap."""
    if ours.is_ours(set_):
        return _run(_plan_ours(set_ or "", log))

    async def run() -> int:
        async with connected(at) as kube:
            found = await the_set(kube, namespace, set_)
        patch: dict[str, Any] = _from_file(file, found) if file is not None else {}
        if resize_to is not None:
            patch = merged(patch, resized(found, resize_to)[1])
        for text, key in ((move, "moves"), (pin, "pins")):
            for one in text:
                number, member = _slot_and_member(one)
                patch = merged(patch, {"assignment": {key: {number: member}}})
        if drain_:
            for member in drain_:
                found.check_member(member)
            already = found.section("workers").get("drain") or []
            patch = merged(patch, {"workers": {"drain": sorted({*already, *drain_})}})
        if double_:
            patch = merged(patch, doubled(found)[1])
        changing.emit_plan(found, changing.planned(found, patch), output)
        return 0

    return _run(run())


async def _plan_ours(name: str, log: LogOptions | None) -> int:
    which = ours.service(name)
    with translated():
        connection = await ours.opened(log)
        async with connection:
            print(f"service/{which.name}: {await ours.sizing(connection, which)}")
    print(f"note: {ours.REFUSAL}")
    return 0


def _from_file(file: Path, found: ReadSet) -> dict[str, Any]:
    """A patch that makes the spec that of a manifest."""
    import yaml

    try:
        manifest = yaml.safe_load(file.read_text())
    except (OSError, yaml.YAMLError) as error:
        raise BadInput(f"--file {file}: cannot be read: {error}") from error
    if not isinstance(manifest, Mapping) or manifest.get("kind") != "ShardSet":
        raise BadInput(f"--file {file}: expected one manifest of kind ShardSet")
    return _difference(found.spec, manifest.get("spec") or {})


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


# Changing who owns what.


def _dynamic(found: ReadSet, doing: str) -> None:
    injector = found.section("workers").get("injector", "dynamic")
    if injector != "dynamic":
        raise BadInput(
            f"shardset {found.namespace}/{found.name} cannot {doing}: its workers are told their slots as they start "
            f"(injector {injector}); change the number of shards, or make them follow the assignment (injector dynamic)"
        )


@app.command
def move(
    slot: int,
    member: str,
    *,
    namespace: Namespace = "default",
    set_: SetName = None,
    at: ClusterOptions | None = None,
    yes: Yes = False,
) -> int:
    """Hand one slot over to a member, once; later it is treated like any other."""

    def build(found: ReadSet) -> tuple[str, dict[str, Any]]:
        _dynamic(found, "move a slot")
        found.check_slot(slot)
        found.check_member(member)
        if found.document.frozen:
            raise BadInput(f"shardset {found.namespace}/{found.name} is frozen: unfreeze it first")
        owner = found.document.slots[slot].owner.partition("#")[0]
        if owner == member:
            raise BadInput(f"slot {slot} belongs to {member} already")
        if pinned := (found.section("assignment").get("pins") or {}).get(str(slot)):
            raise BadInput(f"slot {slot} is pinned to {pinned}: unpin it first, or pin it to {member}")
        moves = {str(slot): member}
        # Moves that were made are not kept: the list would only grow.
        made = {
            s: None
            for s, m in (found.section("assignment").get("moves") or {}).items()
            if s != str(slot) and int(s) < len(found.document.slots)
            and found.document.slots[int(s)].owner.partition("#")[0] == m
        }  # fmt: skip
        return f"Move slot {slot} to {member}.", {"assignment": {"moves": {**made, **moves}}}

    return _run(_patch(at, namespace, set_, build, yes=yes))


@app.command
def pin(
    slot: int,
    member: str,
    *,
    namespace: Namespace = "default",
    set_: SetName = None,
    at: ClusterOptions | None = None,
    yes: Yes = False,
) -> int:
    """Keep a slot at a member for as long as that is there."""

    def build(found: ReadSet) -> tuple[str, dict[str, Any]]:
        _dynamic(found, "pin a slot")
        found.check_slot(slot)
        found.check_member(member)
        moves = found.section("assignment").get("moves") or {}
        forgotten = {"moves": {str(slot): None}} if str(slot) in moves else {}
        return f"Pin slot {slot} to {member}.", {"assignment": {"pins": {str(slot): member}, **forgotten}}

    return _run(_patch(at, namespace, set_, build, yes=yes))


@app.command
def unpin(
    slot: int,
    *,
    namespace: Namespace = "default",
    set_: SetName = None,
    at: ClusterOptions | None = None,
    yes: Yes = False,
) -> int:
    """Treat a pinned slot like any other again."""

    def build(found: ReadSet) -> tuple[str, dict[str, Any]]:
        pins = found.section("assignment").get("pins") or {}
        if str(slot) not in pins:
            pinned = ", ".join(sorted(pins, key=int)) or "none"
            raise BadInput(f"slot {slot} is not pinned; pinned are: {pinned}")
        return f"Unpin slot {slot} from {pins[str(slot)]}.", {"assignment": {"pins": {str(slot): None}}}

    return _run(_patch(at, namespace, set_, build, yes=yes))


@app.command
def drain(
    member: str,
    *,
    undo: Annotated[bool, Parameter(help="Let it own slots again.", negative="", group=CHANGE)] = False,
    namespace: Namespace = "default",
    set_: SetName = None,
    at: ClusterOptions | None = None,
    yes: Yes = False,
) -> int:
    """Make a member hand over all its slots, and give it none."""

    def build(found: ReadSet) -> tuple[str, dict[str, Any]]:
        _dynamic(found, "drain a member")
        drained = set(found.section("workers").get("drain") or ())
        if undo:
            if member not in drained:
                raise BadInput(
                    f"{member} is not drained; drained are: {', '.join(sorted(drained)) or 'none'}"
                )
            return f"Let {member} own slots again.", {
                "workers": {"drain": sorted(drained - {member}) or None}
            }
        found.check_member(member)
        if not set(found.member_names()) - drained - {member}:
            raise BadInput(f"{member} is the only member that can own slots: nobody could take them over")
        return f"Drain {member}.", {"workers": {"drain": sorted(drained | {member})}}

    return _run(_patch(at, namespace, set_, build, yes=yes))


@app.command
def freeze(
    *, namespace: Namespace = "default", set_: SetName = None, at: ClusterOptions | None = None
) -> int:
    """Begin no move; the slots of members that are lost are given to others all the same."""
    patch = {"assignment": {"frozen": True}}
    return _run(_patch(at, namespace, set_, lambda _found: ("Freeze.", patch), yes=True, ask=False))


@app.command
def unfreeze(
    *,
    namespace: Namespace = "default",
    set_: SetName = None,
    at: ClusterOptions | None = None,
    yes: Yes = False,
) -> int:
    """Begin moves again."""
    patch = {"assignment": {"frozen": None}}
    return _run(_patch(at, namespace, set_, lambda _found: ("Unfreeze.", patch), yes=yes))


# Changing how many.


def resized(found: ReadSet, count: int) -> tuple[str, dict[str, Any]]:
    """Another number of shards, as a change.

    Raises:
        BadInput: this set's number is not the spec's to say.
    """
    workers, autosize = found.section("workers"), found.section("autosize")
    who = f"shardset {found.namespace}/{found.name}"
    if count < 0:
        raise BadInput(f"{count} shards: expected a number of at least 0")
    if workers.get("driver", "external") == "external":
        raise BadInput(f"{who} has external workers: somebody else starts them, so start or stop some there")
    if autosize:
        bounds = f"{autosize.get('min', 1)} to {autosize.get('max', 16)}"
        raise BadInput(f"{who} is sized by its load, from {bounds}: change autosize.min or autosize.max")
    if found.mapped:
        raise BadInput(
            f"{who} has a shard for each of assignment.perShard: change that list, with `shards plan -f` first"
        )
    before = workers.get("replicas", 1)
    return f"Resize from {before} to {count} shards.", {"workers": {"replicas": count}}


def doubled(found: ReadSet) -> tuple[str, dict[str, Any]]:
    """Twice the slots, as a change."""
    slots = len(found.document.slots)
    if found.mapped:
        raise BadInput(
            f"shardset {found.namespace}/{found.name} has values of a label (strategy mapping) and no keyspace to double"
        )
    return f"Double the keyspace from {slots} to {2 * slots} slots.", {"keyspace": {"slots": 2 * slots}}


@app.command
def resize(
    count: int,
    *,
    namespace: Namespace = "default",
    set_: SetName = None,
    at: ClusterOptions | None = None,
    yes: Yes = False,
) -> int:
    """Change the number of shards."""
    return _run(_patch(at, namespace, set_, lambda found: resized(found, count), yes=yes))


@app.command
def double(
    *,
    namespace: Namespace = "default",
    set_: SetName = None,
    at: ClusterOptions | None = None,
    yes: Yes = False,
) -> int:
    """Double the keyspace; no key changes its owner."""
    return _run(_patch(at, namespace, set_, doubled, yes=yes))


# Rollouts.


@rollout.command
def status(
    *,
    namespace: Namespace = "default",
    set_: SetName = None,
    at: ClusterOptions | None = None,
    output: Output = "table",
) -> int:
    """How far a rolling update is."""
    from tidewright.cli.shards import rolling

    async def run() -> int:
        async with connected(at) as kube:
            found = await the_set(kube, namespace, set_)
        made = rolling.progress(found)
        emit(made, output, lambda: rolling.text(found, made))
        return 0

    return _run(run())


def _rollout(doing: str, change_: dict[str, Any]) -> Build:
    def build(found: ReadSet) -> tuple[str, dict[str, Any]]:
        if found.section("workers").get("driver") != "pods":
            raise BadInput(
                f"shardset {found.namespace}/{found.name} has workers that somebody else starts: "
                "only sets with the driver pods roll out"
            )
        return doing, {"rollout": change_}

    return build


@rollout.command
def pause(*, namespace: Namespace = "default", set_: SetName = None, at: ClusterOptions | None = None) -> int:
    """Replace no further pod; what fails is made again from the last good template."""
    return _run(
        _patch(at, namespace, set_, _rollout("Pause the rollout.", {"paused": True}), yes=True, ask=False)
    )


@rollout.command
def resume(
    *,
    namespace: Namespace = "default",
    set_: SetName = None,
    at: ClusterOptions | None = None,
    yes: Yes = False,
) -> int:
    """Go on, also past a canary, with the template as it is now."""

    def build(found: ReadSet) -> tuple[str, dict[str, Any]]:
        section = found.section("rollout")
        approved = {"approved": True} if section.get("canary") else {}
        resumes = int(section.get("resumes") or 0) + 1
        wanted = {"paused": None, "undo": None, "resumes": resumes, **approved}
        return _rollout("Resume the rollout.", wanted)(found)

    return _run(_patch(at, namespace, set_, build, yes=yes))


@rollout.command
def undo(
    *,
    namespace: Namespace = "default",
    set_: SetName = None,
    at: ClusterOptions | None = None,
    yes: Yes = False,
) -> int:
    """Go back to the last template that was rolled out completely."""
    build = _rollout("Undo the rollout.", {"undo": True, "paused": None})
    return _run(_patch(at, namespace, set_, build, yes=yes))


# The propeller manager's fleets.


@app.command
def adopt(
    config: Annotated[
        tuple[Path, ...], Parameter(help="Configuration files of the manager, later ones win.")
    ] = (),
    *,
    namespace: Annotated[str, Parameter(name=["--namespace", "-n"], help="Of the pods.", group=WHICH)],
    brand: Annotated[Literal["flyte", "kozmo"], Parameter(help="Whose defaults.", group=WHICH)] = "flyte",
    config_map: Annotated[
        str, Parameter(help="NAMESPACE/NAME of our configuration.", group=CHANGE)
    ] = "tidewright/tidewright",
    undo: Annotated[bool, Parameter(help="Give the fleet back.", negative="", group=CHANGE)] = False,
    at: ClusterOptions | None = None,
    yes: Yes = False,
) -> int:
    """Take over a running fleet of the propeller manager, or give it back."""
    from tidewright.cli.shards import adopting

    if not config and not undo:
        raise BadInput("adopt: name the configuration files that the manager runs with")
    target_namespace, slash, target = config_map.partition("/")
    if not slash or not target_namespace or not target:
        raise BadInput(f"--config-map {config_map!r}: expected NAMESPACE/NAME")

    async def run() -> int:
        async with connected(at) as kube:
            if undo:
                return await adopting.give_back(kube, namespace, brand, (target_namespace, target), yes=yes)
            fleet = adopting.read_configuration(config, namespace, brand)
            return await adopting.take_over(kube, fleet, (target_namespace, target), yes=yes)

    return _run(run())

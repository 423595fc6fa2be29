"""The options of `tidewright shards` that say which set is meant, and the change of one that most commands are."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from cyclopts import Group, Parameter

from tidewright.asking.environment import read
from tidewright.asking.errors import BadInput
from tidewright.asking.namespaces import meant
from tidewright.cli.options import THE_CLUSTER, ClusterOptions
from tidewright.cli.shards import ours
from tidewright.cli.shards.changing import change
from tidewright.cli.shards.reading import ReadSet, connected, the_set

WHICH = Group("Set", sort_key=0)
CHANGE = Group("Change", sort_key=1)

Namespace = Annotated[
    str,
    Parameter(name=["--namespace", "-n"], help="Of the ShardSet; the kubeconfig's by default.", group=WHICH),
]
SetName = Annotated[
    str | None,
    Parameter(name="--set", help="The ShardSet, or service/NAME; the only one by default.", group=WHICH),
]
Yes = Annotated[bool, Parameter(name=["--yes", "-y"], help="Do not ask.", negative="", group=CHANGE)]

Build: TypeAlias = Callable[[ReadSet], tuple[str, dict[str, Any]]]
"""Says in words what is done to a set, and gives the patch of its spec."""


@Parameter(name="*", group=THE_CLUSTER)
@dataclass(frozen=True, kw_only=True)
class SetOptions(ClusterOptions):
    """Which ShardSet, and where it is.

    Attributes:
        kubeconfig: Kubeconfig file.
        context: Context in it, instead of the current one.
        in_cluster: Use the ServiceAccount of the pod that this runs in.
    """

    # Said again, because cyclopts reads inherited annotations with the names of this module.
    kubeconfig: Annotated[Path | None, read("--kubeconfig")] = None
    namespace: Namespace = ""
    set_: SetName = None


def namespace_of(where: SetOptions | None) -> str:
    """The namespace that is meant."""
    on = where or SetOptions()
    return meant(on.namespace, on.kubeconfig, on.context)


def name_of(where: SetOptions | None) -> str | None:
    """The set that is named; None for the only one."""
    return where.set_ if where is not None else None


def changed(where: SetOptions | None, build: Build, *, yes: bool, ask: bool = True) -> int:
    """Read a set, build a change from it, show its plan, ask, and make it; the exit code."""
    name = name_of(where)
    if ours.is_ours(name):
        ours.service(name or "")
        raise BadInput(f"{name}: {ours.REFUSAL}")

    async def run() -> int:
        async with connected(where) as kube:
            shard_set = await the_set(kube, namespace_of(where), name)
            doing, patch = build(shard_set)
            return await change(kube, shard_set, patch, doing=doing, yes=yes, ask=ask)

    return asyncio.run(run())

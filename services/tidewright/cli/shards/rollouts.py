"""Rolling updates of the pods of a set: looked at, paused, resumed, undone."""

from __future__ import annotations

import asyncio
from typing import Any

from tidewright.asking.answers.form import builtins
from tidewright.asking.errors import BadInput
from tidewright.asking.options import Output, emit
from tidewright.asking.tables import plain
from tidewright.cli.shards.reading import ReadSet, connected, the_set
from tidewright.cli.shards.where import (
    Build,
    SetOptions,
    Yes,
    changed,
    name_of,
    namespace_of,
)


def status(
    *,
    where: SetOptions | None = None,
    output: Output = "table",
) -> int:
    """How far a rolling update is."""
    from tidewright.cli.shards import rolling, showing

    async def run() -> int:
        async with connected(where) as kube:
            shard_set = await the_set(kube, namespace_of(where), name_of(where))
        progress = rolling.progress(shard_set)
        emit(
            builtins(progress), output, lambda: plain(rolling.text(shard_set, progress)),
            names=lambda: [showing.named(shard_set)],
        )  # fmt: skip
        return 0

    return asyncio.run(run())


def _rollout(doing: str, change_: dict[str, Any]) -> Build:
    def build(shard_set: ReadSet) -> tuple[str, dict[str, Any]]:
        if shard_set.section("workers").get("driver") != "pods":
            raise BadInput(
                f"shardset {shard_set.namespace}/{shard_set.name} has workers that somebody else starts: "
                "only sets with the driver pods roll out"
            )
        return doing, {"rollout": change_}

    return build


def pause(*, where: SetOptions | None = None) -> int:
    """Replace no further pod; what fails is made again from the last good template."""
    return changed(where, _rollout("Pause the rollout.", {"paused": True}), yes=True, ask=False)


def resume(
    *,
    where: SetOptions | None = None,
    yes: Yes = False,
) -> int:
    """Go on, also past a canary, with the template as it is now."""

    def build(shard_set: ReadSet) -> tuple[str, dict[str, Any]]:
        section = shard_set.section("rollout")
        approved = {"approved": True} if section.get("canary") else {}
        resumes = int(section.get("resumes") or 0) + 1
        patch = {"paused": None, "undo": None, "resumes": resumes, **approved}
        return _rollout("Resume the rollout.", patch)(shard_set)

    return changed(where, build, yes=yes)


def undo(
    *,
    where: SetOptions | None = None,
    yes: Yes = False,
) -> int:
    """Go back to the last template that was rolled out completely."""
    build = _rollout("Undo the rollout.", {"undo": True, "paused": None})
    return changed(where, build, yes=yes)

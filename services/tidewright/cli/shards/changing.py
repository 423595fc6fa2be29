"""A change of a ShardSet's spec: its plan is shown, it is agreed to, and it is written under what was read."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import msgspec

from tidewright.asking.answers.form import builtins
from tidewright.asking.errors import BadInput, CommandError
from tidewright.asking.options import Output, emit
from tidewright.asking.tables import plain
from tidewright.cli.shards import showing
from tidewright.cli.shards.reading import ReadSet
from tidewright.kube.client import Kube
from tidewright.kube.errors import KubeError
from tidewright.kube.mergepatch import merged
from tidewright.shardmanager.tell.preview import Preview, preview

MERGE_PATCH = "application/merge-patch+json"


def planned(shard_set: ReadSet, patch: Mapping[str, Any]) -> Preview:
    """What a merge patch of the spec would do.

    Raises:
        BadInput: the spec would be refused; the message names each field.
    """
    after = merged(shard_set.spec, patch)
    plan = preview(
        shard_set.name,
        shard_set.document,
        shard_set.spec,
        after,
        pod_slots=shard_set.told,
        grace_s=shard_set.grace_s,
    )
    if plan.problems:
        said = "; ".join(map(str, plan.problems))
        raise BadInput(f"shardset {shard_set.namespace}/{shard_set.name} would be refused: {said}")
    return plan


async def change(
    kube: Kube, shard_set: ReadSet, patch: Mapping[str, Any], *, doing: str, yes: bool, ask: bool = True
) -> int:
    """Show the plan, ask unless `yes`, and write.

    Args:
        kube: client of the cluster.
        shard_set: the set as it was read; the write is refused when it has changed meanwhile.
        patch: merge patch of the spec.
        doing: what is done, in words, for the question.
        yes: do not ask.
        ask: whether the change is one to ask about.
    """
    if merged(shard_set.spec, patch) == shard_set.spec:
        print(
            f"{shard_set.namespace}/{shard_set.name}: nothing to change: {doing} is what the spec says already"
        )
        return 0
    plan = planned(shard_set, patch)
    print(plain(f"{doing}\n{showing.plan(shard_set, plan)}"))
    if ask and not yes:
        agree()
    body: dict[str, Any] = {
        "metadata": {"resourceVersion": shard_set.raw["metadata"]["resourceVersion"]},
        "spec": patch,
    }
    await write(kube, shard_set, body)
    print(
        f"shardset {shard_set.namespace}/{shard_set.name} changed; `tidewright shards get {shard_set.name} "
        f"-n {shard_set.namespace}` shows how far it is"
    )
    return 0


def agree() -> None:
    """Ask on the terminal.

    Raises:
        BadInput: there is nobody to ask.
        CommandError: the answer is not yes.
    """
    if not sys.stdin.isatty():
        raise BadInput("nothing was changed: nobody can be asked here, say --yes to go on")
    answer = input("Go on? [y/N] ")
    if answer.strip().lower() not in ("y", "yes"):
        raise CommandError("nothing was changed")


async def write(kube: Kube, shard_set: ReadSet, body: Mapping[str, Any], tries: int = 5) -> None:
    """Patch the set, if its spec is still the one that the plan was made for.

    The status changes all the time and with it the resourceVersion: a lost race is run again as long
    as the generation stands.

    Raises:
        CommandError: somebody else has changed the spec meanwhile.
    """
    generation = shard_set.raw["metadata"].get("generation")
    for attempt in range(tries):
        try:
            await kube.request(
                "PATCH", shard_set.path, body=msgspec.json.encode(body), content_type=MERGE_PATCH
            )
            return
        except KubeError as error:
            if error.status != 409 or attempt == tries - 1:
                raise
        now = msgspec.json.decode((await kube.request("GET", shard_set.path)).body)
        if now["metadata"].get("generation") != generation:
            raise CommandError(
                f"nothing was changed: somebody else has changed shardset {shard_set.namespace}/{shard_set.name} "
                "meanwhile; run the command again to see the plan for it as it is now"
            )
        body = {**body, "metadata": {"resourceVersion": now["metadata"]["resourceVersion"]}}


def emit_plan(shard_set: ReadSet, plan: Preview, output: Output) -> None:
    """Print a plan alone."""
    emit(
        builtins(showing.planned(shard_set, plan)), output, lambda: plain(showing.plan(shard_set, plan)),
        names=lambda: [showing.named(shard_set)],
    )  # fmt: skip

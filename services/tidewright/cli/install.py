"""`tidewright install`: what the log consists of on its NATS server, made once and by nobody else."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Group, Parameter

from tidewright.asking.environment import read
from tidewright.asking.errors import BadInput, translated
from tidewright.asking.options import LogOptions
from tidewright.asking.services import DECIDERS
from tidewright.cli.keys.folder import KeyFolder
from tidewright.cli.options import COPIES, NOT_NEGATIVE, SLOTS, ClusterOptions
from tidewright.kube.client import Kube
from tidewright.kube.clusterid import cluster_id as uid_of
from tidewright.log.archive import install_archive, user_beside
from tidewright.log.connection import Log
from tidewright.log.identity import without_user
from tidewright.log.install import Plan, install_log
from tidewright.log.keyrecord import install_keys
from tidewright.log.subjects import CLUSTER_ID

THE_STREAM = Group("The stream", sort_key=0)
UNBOUND = "none"
PATIENCE_S = 30.0
"""For servers that are only starting, and have no leader yet."""


def install(
    *,
    log: LogOptions | None = None,
    at: ClusterOptions | None = None,
    keys: Annotated[
        Path | None,
        Parameter(
            help="Folder of `tidewright keys new`: say on the log whose signature counts.", group=THE_STREAM
        ),
    ] = None,
    cluster_id: Annotated[
        str,
        Parameter(
            help="The uid of the cluster's namespace kube-system, where it is not asked; none: of no cluster.",
            group=THE_STREAM,
        ),
    ] = "",
    slots: Annotated[
        int | None,
        Parameter(
            help="Partitions of the log, fixed for its life; 32 by default.",
            group=THE_STREAM,
            validator=SLOTS,
        ),
    ] = None,
    replicas: Annotated[
        int | None,
        Parameter(help="Servers that keep a copy; as it is, or 1.", group=THE_STREAM, validator=COPIES),
    ] = None,
    archive_nats: Annotated[
        str,
        Parameter(
            help="The same server as the archive's own user sees it (in TIDEWRIGHT_ARCHIVE_NATS, with its password): keep a mirror "
            "there that nothing can be deleted from.",
            group=THE_STREAM,
        ),
        read("--archive-nats"),
    ] = "",
    archive_password_file: Annotated[
        Path | None,
        Parameter(
            help="Or a file with the password of its user `archive` (`east-archive` beside `east-installer`).",
            group=THE_STREAM,
        ),
        read("--archive-password-file"),
    ] = None,
    max_age: Annotated[
        float | None,
        Parameter(
            help="How long the log keeps a message, seconds; 0: for ever; as it is, or 0.",
            group=THE_STREAM,
            validator=NOT_NEGATIVE,
        ),
    ] = None,
    mode: Annotated[
        Literal["shadow", "enforce"] | None,
        Parameter(help="Of every service on a new log, until the watcher says others.", group=THE_STREAM),
    ] = None,
) -> int:
    """Make the stream and the buckets of a log on its NATS server, or bring them up to date. Safe to repeat."""
    on, where = log or LogOptions(), at or ClusterOptions()

    async def run() -> list[str]:
        known = cluster_id or await _asked(where)
        async with await Log.connect(
            on.nats,
            on.cluster,
            credentials=on.identity(),
            name="install",
            timeout_s=5.0,
            patience_s=PATIENCE_S,
        ) as it:
            current = await it.settings(it.stream)
            if not known and not ((current or {}).get("metadata") or {}).get(CLUSTER_ID):
                raise BadInput(
                    f"which cluster is the log {on.cluster!r} of? Say --kubeconfig FILE, --in-cluster or --cluster-id UID "
                    "(`kubectl get namespace kube-system -o jsonpath={.metadata.uid}`); --cluster-id none leaves it open"
                )
            plan = Plan(
                slots=slots, replicas=replicas, max_age_s=max_age, deciders=DECIDERS,
                cluster_id="" if known == UNBOUND else known, mode=mode,
            )  # fmt: skip
            said = await install_log(it, plan)
            if keys is not None:
                folder = KeyFolder(keys)
                said.append(f"key record: {await install_keys(it, folder.root(), folder.services())}")
            if archive_nats or archive_password_file:
                url, who = archive_nats or without_user(on.nats), on.identity()
                if archive_password_file:
                    who = replace(
                        who,
                        credentials=None,
                        user=user_beside(on.nats_user),
                        password_file=archive_password_file,
                    )
                async with await Log.connect(
                    url, on.cluster, credentials=who, name="install", timeout_s=5.0, patience_s=PATIENCE_S
                ) as archive:
                    said.append(await install_archive(it, archive))
            return said

    with translated():
        said = asyncio.run(run())
    print("\n".join(said))
    return 0


async def _asked(where: ClusterOptions) -> str:
    """The uid of the cluster that the options name; empty when they name none, or it may not be read."""
    if where == ClusterOptions():
        return ""
    async with await Kube.connect(where.kubeconfig, where.in_cluster, where.context) as kube:
        return await uid_of(kube)

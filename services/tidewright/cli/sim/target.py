"""Which cluster a command means: a kubeconfig's, or the one at a URL."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cyclopts import Group, Parameter

from tidewright.asking.errors import BadInput, translated

TARGET = Group("Cluster", sort_key=0)


@Parameter(name="*", group=TARGET)
@dataclass(frozen=True, kw_only=True)
class TargetFlags:
    """The simulated cluster.

    Attributes:
        kubeconfig: Kubeconfig of its API server; $KUBECONFIG by default.
        server: Its URL instead; for nodes beside another API server, the URL of the server beside it.
    """

    kubeconfig: Path | None = None
    server: str | None = None


@asynccontextmanager
async def connected(target: TargetFlags) -> AsyncIterator[Any]:
    """A client of the cluster.

    Raises:
        BadInput: no cluster is named, or two are.
        CommandError: it does not answer.
    """
    from tidewright.kube.client import Kube

    if target.server and target.kubeconfig:
        raise BadInput("--server and --kubeconfig name two clusters: give one of them")
    given = target.kubeconfig or (Path(os.environ["KUBECONFIG"]) if os.environ.get("KUBECONFIG") else None)
    with translated():
        if target.server:
            if not target.server.startswith(("http://", "https://")):
                raise BadInput(f"--server {target.server!r}: a URL, for example http://127.0.0.1:8001")
            kube = Kube.at(target.server.rstrip("/"))
        elif given is not None:
            kube = await Kube.connect(given)
        else:
            raise BadInput(
                "no cluster is named: give --kubeconfig FILE (sim up --write-kubeconfig FILE writes one), --server URL, "
                "or set KUBECONFIG"
            )
        async with kube:
            yield kube

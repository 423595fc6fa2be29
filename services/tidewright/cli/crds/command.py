"""The command `tidewright crds`."""

from __future__ import annotations

import asyncio
from typing import Annotated

from cyclopts import Parameter

from tidewright.asking.errors import FAILED, translated
from tidewright.cli.crds.choosing import POLICY_HELP, Policy
from tidewright.cli.crds.installing import definition, install, manifests
from tidewright.cli.crds.overwritten import finding
from tidewright.cli.options import ClusterOptions
from tidewright.kube.client import Kube


def crds(
    *,
    cluster: ClusterOptions | None = None,
    crds: Annotated[Policy, Parameter(help=POLICY_HELP)] = "ours",
    report: Annotated[
        bool,
        Parameter(
            negative="", help="Write nothing: name those that an earlier version of Tidewright overwrote."
        ),
    ] = False,
) -> int:
    """Install the CustomResourceDefinitions in a cluster. Safe to repeat; those of others are left."""
    at = cluster or ClusterOptions()

    async def main() -> int:
        async with await Kube.connect(at.kubeconfig, at.in_cluster, at.context) as kube:
            if report:
                return await _report(kube)
            for outcome in await install(kube, crds):
                print(outcome.line())
            return 0

    with translated():
        return asyncio.run(main())


async def _report(kube: Kube) -> int:
    overwritten = 0
    for manifest in manifests():
        name = str(manifest["metadata"]["name"])
        current = await definition(kube, name)
        said = finding(current) if current is not None else None
        if said is None:
            print(f"{'absent' if current is None else 'no trace':<11} {name}")
            continue
        overwritten += said.verdict == "overwritten"
        print(f"{said.verdict:<11} {name}: {said.lines[0]}")
        for line in said.lines[1:]:
            print(f"{'':<11} {line}")
    return FAILED if overwritten else 0

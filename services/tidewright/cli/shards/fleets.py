"""The propeller manager's fleets: taken over, given back."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from tidewright.asking.errors import BadInput
from tidewright.cli.options import ClusterOptions
from tidewright.cli.shards.reading import connected
from tidewright.cli.shards.where import (
    CHANGE,
    WHICH,
    Yes,
)


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

    return asyncio.run(run())

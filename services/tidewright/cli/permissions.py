"""`tidewright permissions`: who may say what on the bus, for nats-server: of one cluster, of several that share it, or of a leaf."""

from __future__ import annotations

import re
from typing import Annotated

from cyclopts import Parameter

from tidewright.asking.errors import BadInput
from tidewright.cli.contract import permissions as contract

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def permissions(
    *clusters: Annotated[str, Parameter(help="Names of the clusters, as `--cluster` has them.")],
    shared: Annotated[
        bool,
        Parameter(help="Name accounts and users CLUSTER-USER, also of one: more will come.", negative=""),
    ] = False,
    leaf: Annotated[
        bool,
        Parameter(
            help="Of the nats-server in the cluster itself, which has no store and passes on to the shared ones.",
            negative="",
        ),
    ] = False,
) -> int:
    """Print the accounts of nats-server for the logs of clusters, to be included in its configuration."""
    if not clusters:
        raise BadInput("name the clusters, as in `tidewright permissions east west`")
    for name in clusters:
        if not _NAME.fullmatch(name):
            raise BadInput(
                f"cluster {name!r}: lower case letters, digits and dashes between them, at most 63, as they become part of accounts' names"
            )
    if doubled := next((name for name in clusters if clusters.count(name) > 1), ""):
        raise BadInput(f"cluster {doubled} is named twice")
    if leaf and (shared or len(clusters) > 1):
        raise BadInput("--leaf is of one cluster: make it for each of them, without --shared")
    if leaf:
        print(contract.leaf(clusters[0]), end="")
    elif shared or len(clusters) > 1:
        print(contract.of_several(clusters), end="")
    else:
        print(contract.configuration(clusters[0]), end="")
    return 0

"""`tidewright run spread-admission` and `shard-labels`: the endpoints that the API server calls."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Group, Parameter

from tidewright.cli.errors import BadInput
from tidewright.cli.options import LogOptions, ProcessFlags

THE_ENDPOINT = Group("Endpoint", sort_key=0)


def spread_admission(
    *,
    log: LogOptions | None = None,
    process: ProcessFlags | None = None,
    host: Annotated[str, Parameter(help="Address to listen on.", group=THE_ENDPOINT)] = "127.0.0.1",
    port: Annotated[int, Parameter(help="Port to listen on; 0 takes a free one.", group=THE_ENDPOINT)] = 0,
    url: Annotated[
        str,
        Parameter(
            help="https:// URL under which the API server reaches it; 127.0.0.1 by default.",
            group=THE_ENDPOINT,
        ),
    ] = "",
    service: Annotated[
        str, Parameter(help="NAMESPACE/NAME:PORT of the service before it, instead.", group=THE_ENDPOINT)
    ] = "",
    failure_policy: Annotated[
        Literal["Fail", "Ignore"],
        Parameter(help="What becomes of a pod when no replica answers.", group=THE_ENDPOINT),
    ] = "Fail",
    drain: Annotated[
        float, Parameter(help="Seconds to go on serving when told to stop.", group=THE_ENDPOINT)
    ] = 5.0,
    enabled: Annotated[
        bool, Parameter(help="The feature gate: off, pods go in untouched.", group=THE_ENDPOINT)
    ] = True,
) -> int:
    """Place pods of WorkloadSpreads as they are created, and check WorkloadSpreads."""
    from tidewright.cli.run import execute
    from tidewright.spread.admission import ENDPOINT, Options, run

    on = log or LogOptions()
    options = Options(
        nats_url=on.nats, cluster=on.cluster, nats_credentials=on.nats_credentials,
        host=host, port=port, url=url, service=service,
        failure_policy=failure_policy, drain_s=drain, enabled=enabled,
    )  # fmt: skip
    try:
        options.address(port or 1)
    except ValueError as error:
        raise BadInput(f"--url or --service: {error}") from error
    return execute(ENDPOINT, process or ProcessFlags(), lambda it: run(options, it))


def shard_labels(
    *,
    log: LogOptions | None = None,
    process: ProcessFlags | None = None,
    host: Annotated[str, Parameter(help="Address to listen on.", group=THE_ENDPOINT)] = "127.0.0.1",
    port: Annotated[int, Parameter(help="Port to listen on; 0 takes a free one.", group=THE_ENDPOINT)] = 0,
    url: Annotated[
        str,
        Parameter(
            help="https:// URL under which the API server reaches it; 127.0.0.1 by default.",
            group=THE_ENDPOINT,
        ),
    ] = "",
    service: Annotated[
        str, Parameter(help="NAMESPACE/NAME:PORT of the service before it, instead.", group=THE_ENDPOINT)
    ] = "",
) -> int:
    """Label objects of ShardSets with their slot as they are created."""
    from tidewright.cli.run import execute
    from tidewright.shardmanager.labelling import ENDPOINT, Options, run

    on = log or LogOptions()
    options = Options(
        nats_url=on.nats, cluster=on.cluster, nats_credentials=on.nats_credentials,
        host=host, port=port, url=url, service=service,
    )  # fmt: skip
    try:
        options.address(port or 1)
    except ValueError as error:
        raise BadInput(f"--url or --service: {error}") from error
    return execute(ENDPOINT, process or ProcessFlags(), lambda it: run(options, it))

"""`tidewright run spread-admission` and `shard-labels`: the endpoints that the API server calls."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol, TypeVar

from cyclopts import Group, Parameter

from tidewright.asking.errors import BadInput
from tidewright.asking.options import LogOptions
from tidewright.cli.options import ANY_PORT, NOT_NEGATIVE, ProcessFlags

THE_ENDPOINT = Group("Endpoint", sort_key=0)


@Parameter(name="*", group=THE_ENDPOINT)
@dataclass(frozen=True, kw_only=True)
class EndpointFlags:
    """Where the endpoint listens, and how the API server reaches it.

    Attributes:
        host: Address to listen on; `::` is every one, of IPv4 as well.
        port: Port to listen on; 0 takes a free one.
        url: https:// URL under which the API server reaches it; 127.0.0.1 by default.
        service: NAMESPACE/NAME:PORT of the service before it, instead.
        token_file: Tokens that callers bring, one a line: in the path, where the actuator has it written
            (--endpoint-token), or as Authorization.
        client_ca: Certificates that sign those of callers, PEM. Without either whoever reaches it is answered.
    """

    host: str = "127.0.0.1"
    port: Annotated[int, Parameter(validator=ANY_PORT)] = 0
    url: str = ""
    service: str = ""
    token_file: Path | None = None
    client_ca: Path | None = None


class Addressed(Protocol):
    """Options of an endpoint, which say under which address the API server finds it."""

    def address(self, port: int) -> object: ...


OptionsOf = TypeVar("OptionsOf", bound=Addressed)


def spread_admission(
    *,
    log: LogOptions | None = None,
    process: ProcessFlags | None = None,
    at: EndpointFlags | None = None,
    failure_policy: Annotated[
        Literal["Fail", "Ignore"],
        Parameter(
            help="What becomes of a pod when no replica answers; Fail: it is refused, in every namespace but ours and kube-*.",
            group=THE_ENDPOINT,
        ),
    ] = "Ignore",
    drain: Annotated[
        float,
        Parameter(
            help="Seconds to go on serving when told to stop.", group=THE_ENDPOINT, validator=NOT_NEGATIVE
        ),
    ] = 5.0,
    enabled: Annotated[
        bool, Parameter(help="The feature gate: off, pods go in untouched.", group=THE_ENDPOINT)
    ] = True,
) -> int:
    """Place pods of WorkloadSpreads as they are created, and check WorkloadSpreads."""
    from tidewright.cli.run import execute
    from tidewright.spread.admission.endpoint import ENDPOINT, Options, run

    options = _checked(
        Options(**_given(log, at), failure_policy=failure_policy, drain_s=drain, enabled=enabled)
    )
    return execute(ENDPOINT, process or ProcessFlags(), lambda it: run(options, it))


def shard_labels(
    *,
    log: LogOptions | None = None,
    process: ProcessFlags | None = None,
    at: EndpointFlags | None = None,
) -> int:
    """Label objects of ShardSets with their slot as they are created."""
    from tidewright.cli.run import execute
    from tidewright.host.webhook.server import EndpointOptions
    from tidewright.shardmanager.labels.endpoint import ENDPOINT, run

    options = _checked(EndpointOptions(**_given(log, at)))
    return execute(ENDPOINT, process or ProcessFlags(), lambda it: run(options, it))


def _given(log: LogOptions | None, at: EndpointFlags | None) -> dict[str, Any]:
    """What every endpoint takes, as its options name it."""
    where = at or EndpointFlags()
    return {
        **(log or LogOptions()).of_a_service(),
        "host": where.host,
        "port": where.port,
        "url": where.url,
        "service": where.service,
        "token_file": where.token_file,
        "client_ca": where.client_ca,
    }


def _checked(options: OptionsOf) -> OptionsOf:
    """The options, when the API server can be told an address.

    Raises:
        BadInput: the URL or service is none.
    """
    try:
        options.address(1)
    except ValueError as error:
        raise BadInput(f"--url or --service: {error}") from error
    return options

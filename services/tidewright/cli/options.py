"""Options that several commands share, as dataclasses, and the one `-o` of all of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from cyclopts import Group, Parameter, validators

if TYPE_CHECKING:
    from tidewright.log.identity import Identity

THE_LOG = Group("Log", sort_key=10)
THE_CLUSTER = Group("Cluster", sort_key=20)
PROCESS = Group("Process", sort_key=30)

PORT = validators.Number(gte=1, lte=65_535)
ANY_PORT = validators.Number(gte=0, lte=65_535)
"""A port, where 0 is any that is free."""
POSITIVE = validators.Number(gt=0)
NOT_NEGATIVE = validators.Number(gte=0)
SLOTS = validators.Number(gte=1, lte=1024)
"""As many as the log can be made with."""
COPIES = validators.Number(gte=1, lte=5)
"""Servers of a JetStream cluster that keep one stream."""

LogFormat: TypeAlias = Literal["auto", "json", "console"]
Level: TypeAlias = Literal["debug", "info", "warning", "error"]

Output: TypeAlias = Annotated[
    Literal["table", "json", "yaml"], Parameter(name=["--output", "-o"], help="How to print the result.")
]


@Parameter(name="*", group=THE_LOG)
@dataclass(frozen=True, kw_only=True)
class IdentityOptions:
    """Who we are to the NATS servers.

    Attributes:
        nats_credentials: Credentials file of an account's user, as `nsc` makes it.
        nats_user: User of the NATS server.
        nats_password_file: File with the user's password, read at every connection.
        nats_ca: PEM file with the CA of the NATS servers' certificates; with it, nothing is said in the clear.
        nats_cert: PEM file with our own certificate, where they ask for one; read at every connection.
        nats_key: PEM file with its key.
    """

    nats_credentials: Path | None = None
    nats_user: str = ""
    nats_password_file: Path | None = None
    nats_ca: Path | None = None
    nats_cert: Path | None = None
    nats_key: Path | None = None

    def identity(self) -> Identity:
        """As the log is connected with."""
        from tidewright.log.identity import Identity  # the help does without the client library

        return Identity(
            credentials=self.nats_credentials, user=self.nats_user, password_file=self.nats_password_file,
            ca=self.nats_ca, cert=self.nats_cert, key=self.nats_key,
        )  # fmt: skip


@Parameter(name="*", group=THE_LOG)
@dataclass(frozen=True, kw_only=True)
class LogOptions(IdentityOptions):
    """Where the log is.

    Attributes:
        nats: URL of the NATS server, or of several with commas between them; in TIDEWRIGHT_NATS a user and password may be part of it.
        cluster: Name of the cluster: each has a stream of its own.
    """

    nats: str = "nats://127.0.0.1:4222"
    cluster: str = "local"

    def of_a_service(self) -> dict[str, Any]:
        """As the options of a service name them."""
        return {"nats_url": self.nats, "cluster": self.cluster, "nats_credentials": self.identity()}


@Parameter(name="*", group=THE_LOG)
@dataclass(frozen=True, kw_only=True)
class AskedLogOptions(LogOptions):
    """Where the log is that is asked.

    Attributes:
        data: Data folder of `tidewright up` or `demo`: the log that is kept there, whether they run or not.
        trust: Root keys (root.pub) that vouch for everybody's: nothing else on the log is believed.
    """

    data: Path | None = None
    trust: Path | None = None


@Parameter(name="*", group=THE_CLUSTER)
@dataclass(frozen=True, kw_only=True)
class ClusterOptions:
    """Which Kubernetes API to talk to.

    Attributes:
        kubeconfig: Kubeconfig file.
        context: Context in it, instead of the current one.
        in_cluster: Use the ServiceAccount of the pod that this runs in.
    """

    kubeconfig: Path | None = None
    context: str | None = None
    in_cluster: bool = False

    def of_a_service(self) -> dict[str, Any]:
        """As the options of a service, and of a stack, name them."""
        return {"kubeconfig": self.kubeconfig, "context": self.context, "in_cluster": self.in_cluster}


@Parameter(name="*", group=PROCESS)
@dataclass(frozen=True, kw_only=True)
class ProcessFlags:
    """How the process runs.

    Attributes:
        log_level: Least severe level that is logged.
        log_format: Lines for people or JSON; auto: for people on a terminal.
        health_host: Address on which probes and metrics are served.
        health_port: Their port; 0 takes a free one, and the log says which.
        metrics_token_file: Tokens that callers of /metrics bring, one a line; without it only this machine is answered.
        signing_key: Key that the service signs what it writes with, as `tidewright keys new` makes it.
        trust: Root keys (root.pub) that vouch for everybody's: nothing else on the log is believed.
    """

    log_level: Level = "info"
    log_format: LogFormat = "auto"
    health_host: str = "127.0.0.1"
    health_port: Annotated[int, Parameter(validator=ANY_PORT)] = 0
    metrics_token_file: Path | None = None
    signing_key: Path | None = None
    trust: Path | None = None


def named_object(type_: object, text: str | None) -> None:
    """Refuse what is not NAMESPACE/NAME; for `Parameter(validator=)`.

    Raises:
        ValueError: it is not.
    """
    del type_
    namespace, slash, name = (text or "").partition("/")
    if text and not (slash and namespace and name and "/" not in name):
        raise ValueError(f"{text!r} is not NAMESPACE/NAME, as in kube-system/tidewright.")


def emit(value: Any, output: Output, table: Callable[[], str]) -> None:
    """Print a result on stdout in the wanted form; `table` is asked only for the form for people."""
    match output:
        case "table":
            print(table())
        case "json":
            print(json.dumps(value, indent=2))
        case "yaml":
            import yaml

            print(yaml.safe_dump(value, sort_keys=False, allow_unicode=True), end="")

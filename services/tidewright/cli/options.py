"""Options that several commands share, as dataclasses; where the log is and `-o`: `tidewright.asking.options`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from cyclopts import Group, Parameter, validators

from tidewright.asking.environment import read

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


@Parameter(name="*", group=THE_CLUSTER)
@dataclass(frozen=True, kw_only=True)
class ClusterOptions:
    """Which Kubernetes API to talk to.

    Attributes:
        kubeconfig: Kubeconfig file.
        context: Context in it, instead of the current one.
        in_cluster: Use the ServiceAccount of the pod that this runs in.
    """

    kubeconfig: Annotated[Path | None, read("--kubeconfig")] = None
    context: Annotated[str | None, read("--context")] = None
    in_cluster: Annotated[bool, read("--in-cluster")] = False

    def of_a_service(self) -> dict[str, Any]:
        """As the options of a service, and of a stack, name them."""
        return {"kubeconfig": self.kubeconfig, "context": self.context, "in_cluster": self.in_cluster}


@Parameter(name="*", group=PROCESS)
@dataclass(frozen=True, kw_only=True)
class UnsignedFlags:
    """How a process runs that writes to no log.

    Attributes:
        log_level: Least severe level that is logged.
        log_format: Lines for people or JSON; auto: for people on a terminal.
        health_host: Address on which probes and metrics are served; `::` is every one, of IPv4 as well.
        health_port: Their port; 0 takes a free one, and the log says which.
        metrics_token_file: Tokens that callers of /metrics bring, one a line; without it only this machine is answered.
    """

    log_level: Level = "info"
    log_format: LogFormat = "auto"
    health_host: str = "127.0.0.1"
    health_port: Annotated[int, Parameter(validator=ANY_PORT)] = 0
    metrics_token_file: Path | None = None


@Parameter(name="*", group=PROCESS)
@dataclass(frozen=True, kw_only=True)
class ProcessFlags(UnsignedFlags):
    """How the process of a service runs.

    Attributes:
        signing_key: Key that the service signs what it writes with, as `tidewright keys new` makes it.
        trust: Root keys (root.pub) that vouch for everybody's: nothing else on the log is believed.
    """

    signing_key: Annotated[Path | None, read("--signing-key")] = None
    trust: Annotated[Path | None, read("--trust")] = None


def named_object(type_: object, text: str | None) -> None:
    """Refuse what is not NAMESPACE/NAME; for `Parameter(validator=)`.

    Raises:
        ValueError: it is not.
    """
    del type_
    namespace, slash, name = (text or "").partition("/")
    if text and not (slash and namespace and name and "/" not in name):
        raise ValueError(f"{text!r} is not NAMESPACE/NAME, as in kube-system/tidewright.")

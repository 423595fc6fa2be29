"""Which clouds there are: what `--cloud NAME=KIND[:CONFIG]` means.

A new kind is one folder beside `simulated/`, and one line in `KINDS`. What a kind needs beyond the base
installation is an extra, and imported when such a cloud is made.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from tidewright.cloud.calls import PER_S, TIMEOUT_S, Calls
from tidewright.cloud.provider import Provider

NONE: Final = "none"
"""In place of a cloud's name where none is configured."""
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """What a cloud may need of the process that talks to it.

    Attributes:
        kubeconfig, context, in_cluster: the cluster that the process works for.
        discovery: `--node-group-auto-discovery` as Cluster Autoscaler takes it: of AWS and of Cluster API.
        nodes: `--nodes` as it takes it, of AWS: `MIN:MAX:NAME`.
        config: `--cloud-config` as it takes it: what a cloud without a CONFIG of its own has.
        per_s: calls per second to each cloud, on average.
        timeout_s: wall seconds that a call may take.
    """

    kubeconfig: Path | None = None
    context: str | None = None
    in_cluster: bool = False
    discovery: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    config: str = ""
    per_s: float = PER_S
    timeout_s: float = TIMEOUT_S


@dataclass(frozen=True)
class Kind:
    """One kind of cloud.

    Attributes:
        module: has `provider(config, calls, around)`, which makes the provider and opens nothing.
        config: what CONFIG is, in words.
        example: of a CONFIG; empty where none is needed.
        extra: of the distribution, that brings what it needs; empty: the base installation has it.
        needs: the module by which the extra is known to be there.
        elsewhere: CONFIG may be left out, since other flags can say it.
    """

    module: str
    config: str
    example: str = ""
    extra: str = ""
    needs: str = ""
    elsewhere: bool = False

    @property
    def is_installed(self) -> bool:
        """Whether this installation has what it needs."""
        return not self.needs or find_spec(self.needs) is not None


KINDS: Final[dict[str, Kind]] = {
    "aws": Kind(
        "tidewright.cloud.aws.client",
        "asg:tag=KEY[=VALUE],... or a file (region, discovery, nodes, reserved, prices, endpoint)",
        "asg:tag=k8s.io/cluster-autoscaler/enabled",
        extra="aws",
        needs="aiobotocore",
        elsewhere=True,
    ),
    "clusterapi": Kind(
        "tidewright.cloud.clusterapi.client",
        "management=KUBECONFIG,namespace=NS,clusterName=NAME,LABEL=VALUE (each part or none), a kubeconfig, or a file",
    ),
    "externalgrpc": Kind(
        "tidewright.cloud.externalgrpc.client",
        "a file (address, cert, key, cacert, grpc_timeout), or HOST:PORT without encryption",
        "/etc/cloud/config.yaml",
        extra="grpc",
        needs="grpc",
        elsewhere=True,
    ),
    "kwok": Kind(
        "tidewright.cloud.kwok.client", "[NAMESPACE/]NAME of its ConfigMap; kwok-provider-config by default"
    ),
    "simulated": Kind(
        "tidewright.cloud.simulated.client", "the URL of a simulated cloud", "http://127.0.0.1:8080"
    ),
}
"""Kind to what makes it."""


@dataclass(frozen=True)
class CloudSpec:
    """One `--cloud`.

    Attributes:
        name: short and unique in the installation; groups, facts and messages say it.
        kind: one of `KINDS`.
        config: what the kind makes of it.
    """

    name: str
    kind: str
    config: str = ""

    @property
    def text(self) -> str:
        """As on the command line."""
        return f"{self.name}={self.kind}" + (f":{self.config}" if self.config else "")

    def provider(self, around: Surroundings) -> Provider:
        """The provider; nothing is opened by that.

        Raises:
            ValueError: the configuration cannot be used.
        """
        kind = KINDS[self.kind]
        make: Callable[[str, Calls, Surroundings], Provider] = import_module(kind.module).provider
        try:
            return make(self.config, Calls(self.name, per_s=around.per_s, timeout_s=around.timeout_s), around)
        except ValueError as error:
            raise ValueError(f"cloud {self.text!r}: {error}") from error


def spec_of(text: str) -> CloudSpec:
    """The cloud in `NAME=KIND[:CONFIG]`, for instance `east=simulated:http://127.0.0.1:8080`.

    `NAME=http://...`, as it was written when there was one kind, is a simulated one.

    Raises:
        ValueError: it is none, or needs what is not installed; the message says what would be valid.
    """
    name, given, rest = text.partition("=")
    kind, _, config = rest.partition(":")
    if kind in ("http", "https"):
        kind, config = "simulated", rest
    known = ", ".join(sorted(KINDS))
    if not given or kind not in KINDS:
        raise ValueError(
            f"cloud {text!r}: write NAME=KIND[:CONFIG], KIND one of {known}, as in east=simulated:http://127.0.0.1:8080"
        )
    if not _NAME.fullmatch(name) or name == NONE:
        raise ValueError(
            f"cloud {text!r}: NAME {name!r}: letters a-z, digits and dashes, at most 63, and not {NONE!r}"
        )
    chosen = KINDS[kind]
    if chosen.example and not config and not chosen.elsewhere:
        raise ValueError(
            f"cloud {text!r}: {kind} needs {chosen.config}, as in {name}={kind}:{chosen.example}"
        )
    if not chosen.is_installed:
        raise ValueError(
            f"cloud {text!r}: {kind} is not part of this installation: pip install 'tidewright[{chosen.extra}]'"
        )
    return CloudSpec(name, kind, config)


def specs_of(texts: Sequence[str]) -> tuple[CloudSpec, ...]:
    """All `--cloud`, each under a name of its own.

    Raises:
        ValueError: one is none, or two have the same name.
    """
    specs = tuple(map(spec_of, texts))
    names = [spec.name for spec in specs]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(
                f"cloud {name!r}: configured {names.count(name)} times; each needs a NAME of its own"
            )
    return specs

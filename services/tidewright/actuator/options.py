"""What the actuator takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tidewright.actuator.allowed.bounds import Bounds
from tidewright.cloud.calls import PER_S, TIMEOUT_S
from tidewright.log.identity import Identity

SERVICE = "actuator"
Mode = Literal["enforce", "shadow"]


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the actuator takes.

    Attributes:
        cluster: names the log.
        kubeconfig: None for `KUBECONFIG` or `~/.kube/config`; not used when `in_cluster`.
        mode: `enforce`: what the modes on the log let it; or `shadow`: nothing is written whatever they say, every
            outcome is `Applied` with reason `Shadow`.
        qps: requests to the API server per second, on average.
        burst: requests that may be made at once; 0 for twice `qps`.
        retry_for_s: how long an effect is tried again, in wall seconds.
        clouds: `NAME=KIND[:CONFIG]` of the clouds that node groups are in; empty for none.
        cloud_config, cloud_discovery, cloud_nodes: what Cluster Autoscaler's flags say about them.
        cloud_qps: calls per second to each of them, on average.
        cloud_timeout_s: wall seconds that a call to one may take.
        bounds: what is allowed, of all that the services may ask for.
        endpoint_tokens: endpoint to the file with the token by which it knows the API server.
    """

    nats_url: str
    cluster: str
    nats_credentials: Identity | None = None
    kubeconfig: Path | None = None
    context: str | None = None
    in_cluster: bool = False
    mode: Mode = "enforce"
    qps: float = 50.0
    burst: int = 0
    retry_for_s: float = 60.0
    clouds: tuple[str, ...] = ()
    cloud_config: str = ""
    cloud_discovery: tuple[str, ...] = ()
    cloud_nodes: tuple[str, ...] = ()
    cloud_qps: float = PER_S
    cloud_timeout_s: float = TIMEOUT_S
    bounds: Bounds = field(default_factory=Bounds)
    endpoint_tokens: Mapping[str, Path] = field(default_factory=dict)

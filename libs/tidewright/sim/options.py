"""What a simulated cluster is made of: one frozen tree, filled by the command line or a test.

All durations are log seconds (they shrink with the clock's speed) unless the name says `wall`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

NODE_LABEL = "sim.tidewright.dev/node"
"""Every node that sim makes carries it with the value `true`; sim touches no other node."""


@dataclass(frozen=True, kw_only=True)
class Delay:
    """A distribution of delays in log seconds, drawn from a seed: same seed and object, same delay.

    Attributes:
        kind: `fixed` (always `a_s`), `uniform` (between `a_s` and `b_s`), `lognormal` (median `a_s`,
            95th percentile `b_s`), `exponential` (mean `a_s`).
        a_s: >= 0.
        b_s: >= `a_s` where it is used.
    """

    kind: str = "fixed"
    a_s: float = 0.0
    b_s: float = 0.0

    def __post_init__(self) -> None:
        if self.kind not in ("fixed", "uniform", "lognormal", "exponential"):
            raise ValueError(f"delay {self.kind!r}: valid are fixed, uniform, lognormal, exponential")
        if not (math.isfinite(self.a_s) and math.isfinite(self.b_s)):
            raise ValueError(
                f"delay {self.kind} {self.a_s:g}..{self.b_s:g} s: need finite numbers of seconds"
            )
        if self.a_s < 0 or (self.kind in ("uniform", "lognormal") and self.b_s < self.a_s):
            raise ValueError(f"delay {self.kind} {self.a_s:g}..{self.b_s:g} s: need 0 <= a <= b")

    @classmethod
    def parse(cls, text: str | float) -> Delay:
        """Read `2` (fixed; also as a number), `uniform:1:5`, `lognormal:2:8`, `exponential:3`; all in seconds.

        Raises:
            ValueError: anything else; the message quotes it.
        """
        kind, _, rest = str(text).partition(":")
        parts = [kind] if not rest else rest.split(":")
        try:
            numbers = [float(part) for part in parts]
            if not rest:
                return cls(a_s=numbers[0])
            return cls(kind=kind, a_s=numbers[0], b_s=numbers[1] if len(numbers) > 1 else 0.0)
        except ValueError as error:
            raise ValueError(
                f"delay {text!r}: write a number of seconds, uniform:1:5, lognormal:2:8 or exponential:3"
                f" ({error})"
            ) from error


@dataclass(frozen=True, kw_only=True)
class NodePool:
    """Nodes that are there from the start.

    Attributes:
        count: how many, >= 0.
        prefix: names are `<prefix>-<4 digits>`.
        capacity: resource name to quantity text.
        reserved: what is missing from capacity in allocatable, by resource name.
        zones: nodes take them in turn.
        taints: `{key, value, effect}`.
    """

    count: int
    prefix: str = "sim"
    capacity: dict[str, str] = field(
        default_factory=lambda: {
            "cpu": "8",
            "memory": "32Gi",
            "ephemeral-storage": "100Gi",
            "pods": "110",
        }
    )
    reserved: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    zones: tuple[str, ...] = ("zone-a", "zone-b", "zone-c")
    taints: tuple[dict[str, str], ...] = ()


@dataclass(frozen=True, kw_only=True)
class KubeletOptions:
    """How pods behave on our nodes.

    Attributes:
        start: from the binding to running containers.
        readiness: from running to ready (a pod's readiness probe `initialDelaySeconds` is added).
        stop: from the deletion mark to the end of the containers; never beyond the pod's own grace.
        job_run: how long pods of Jobs run, unless an annotation says otherwise.
        register: from the appearance of a Node of ours that is not ready until it is.
        lease_s: renewal interval of the nodes' leases; None for no leases at all.
        lease_floor_wall_s: no lease runs out sooner, whatever the speed: a busy machine is no lost node.
        heartbeats_per_s: wall rate that all renewals together never exceed; the interval stretches.
        seed: of all draws.
    """

    start: Delay = Delay(a_s=1.0)
    readiness: Delay = Delay()
    stop: Delay = Delay(a_s=1.0)
    job_run: Delay = Delay(a_s=10.0)
    register: Delay = Delay()
    lease_s: float | None = 10.0
    lease_floor_wall_s: float = 20.0
    heartbeats_per_s: float = 100.0
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class ControllerOptions:
    """The simulated controller manager.

    Attributes:
        node_grace_s: a node whose lease was not renewed for so long is `Unknown`.
    """

    node_grace_s: float = 50.0


class Source(StrEnum):
    """Where a metric's value comes from."""

    TRACE = "trace"
    PUSHED = "pushed"
    CONSTANT = "constant"


@dataclass(frozen=True, kw_only=True)
class MetricOptions:
    """One metric that the simulated metrics APIs serve.

    Attributes:
        name: the external metric's name; or `cpu` / `memory` (cores / bytes) with `resource` set.
        resource: served by `metrics.k8s.io`, its total shared by the ready pods of `selector`.
        namespace: empty for all namespaces.
        labels: of the external series.
        selector: text label selector of the pods that carry the load; empty with `shared` unset.
        shared: an external value is divided by the number of ready pods that `selector` matches.
        source: see `Source`.
        trace: CSV with the columns `timestamp,value`, for `Source.TRACE`.
        anchor: log time at which the trace begins; None leaves its stamps as they are.
        value: for `Source.CONSTANT`, and before the first push.
        factor: multiplies every value.
        repeat: the trace starts again when it ends; otherwise its last value stays.
    """

    name: str
    resource: bool = False
    namespace: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    selector: str = ""
    shared: bool = False
    source: Source = Source.CONSTANT
    trace: Path | None = None
    anchor: float | None = None
    value: float | None = None
    factor: float = 1.0
    repeat: bool = False


@dataclass(frozen=True, kw_only=True)
class SimOptions:
    """One simulated cluster, or the nodes and metrics beside a real one.

    Attributes:
        kubeconfig: attach mode: the API server to run beside; None starts an embedded one.
        host: where the servers listen.
        port: of the embedded API server; 0 takes a free one.
        data: folder in which the embedded server keeps its objects; None keeps them in memory only.
        side_port: of the server beside the API server: metrics APIs, pushes, the cloud, faults of
            nodes; 0 takes a free one.
        write_kubeconfig: where to write a kubeconfig of the embedded server.
        request_log: file to which every request to the embedded server is added, a line of JSON each.
        pools: nodes from the start.
        cloud: YAML file of the simulated cloud's node groups; None for no cloud.
        controllers: run the workload controllers (embedded only).
        scheduler: run the scheduler (embedded only).
        kubelets: None for nodes without kubelets: pods stay as they are.
        speed: log seconds per wall second, > 0.
        log_start: log time at the start; None for the wall clock's.
        cleanup: delete our nodes when stopping (always in attach mode).
    """

    kubeconfig: Path | None = None
    host: str = "127.0.0.1"
    port: int = 0
    data: Path | None = None
    side_port: int = 0
    write_kubeconfig: Path | None = None
    request_log: Path | None = None
    pools: tuple[NodePool, ...] = ()
    cloud: Path | None = None
    metrics: tuple[MetricOptions, ...] = ()
    controllers: bool = True
    scheduler: bool = True
    kubelets: KubeletOptions | None = KubeletOptions()
    controller_manager: ControllerOptions = ControllerOptions()
    speed: float = 1.0
    log_start: float | None = None
    cleanup: bool = False

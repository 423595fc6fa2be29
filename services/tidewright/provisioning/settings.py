"""Settings, with the defaults of the reference (spec appendix A) and ours.

`flags` makes them of the configuration part `provisioning`.
"""

from __future__ import annotations

import msgspec

from tidewright.provisioning.consolidation import budgets, modes
from tidewright.provisioning.group_ids import NodeGroupId

GIB = 1024**3
OFF, WORKLOADS, DECISIONS = FORESIGHT = ("off", "workloads", "decisions")
"""By what pods are expected that are not there yet: nothing, what workloads want, decisions to scale them too."""
LEAST_COST = "least-cost"
"""The expander that plans all pods and groups as one."""


class MachineType(msgspec.Struct, frozen=True, kw_only=True):
    """A machine shape that groups may be made of.

    Attributes:
        resources: allocatable, as `PodShape.requests` with `pods`.
        price_micro: one node hour in millionths.
        zones: a group is made per zone; empty: one group without a zone label.
    """

    name: str
    resources: dict[str, int]
    labels: dict[str, str] = {}
    taints: tuple[dict[str, str], ...] = ()
    price_micro: int | None = None
    zones: tuple[str, ...] = ()
    max_size: int = 1000


class Quota(msgspec.Struct, frozen=True, kw_only=True):
    """A limit over some groups' nodes: `cpu` in whole cores, `memory` in bytes, `nodes`, others as counts.

    Attributes:
        groups: ids; None for every node of the cluster.
        node_selector: labels; only nodes that carry them all count.
    """

    id: str
    limits: dict[str, int]
    groups: tuple[NodeGroupId, ...] | None = None
    node_selector: dict[str, str] = {}


class DrainPriority(msgspec.Struct, frozen=True):
    """Pods of at least this priority are evicted after those of lower ones, and waited for so long."""

    priority: int
    grace_s: float


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """All durations in seconds.

    Attributes:
        profile: `compat` or `hold` (spec, introduction).
        dry_run: as the mode of that name: decided and recorded, and nothing ordered.
        batch, batch_size: of check requests, at most so many are tried in one evaluation; without `batch`, and
            of other requests, all that are due within the time box.
        quiet_s: how long no new pending pod must come before a burst is decided.
        burst_s: the longest that a burst is waited for, while pods come or the scheduler has not tried all.
        booking_s: how long room is kept for a request after it was provisioned.
        request_expiry_s: how long a request is tried.
        request_ttl_s: how long an ended one stays.
        delete_controlled: ended requests that have a controller are deleted, too.
        allowed_classes: classes of requests that are decided here; none: all.
        quotas: limits over nodes by group and label: id, limits, groups, node_selector.
        machine_types: of which groups may be made: name, resources, labels, taints, price_micro, zones, max_size.
        priorities: of the expander `priority`, level to expressions, in place of the ConfigMap of Cluster Autoscaler's users.
        template_grace_s: how long a missing template is waited for.
        learnt_half_life_s: how fast the memory of a cloud's refusal for quota fades.
        consumer_orphan_s: after this long a consumer of a missing request is an ordinary pod; 0: never.
        placeholders: in the profile `hold`, pods that do nothing hold booked room against other pods.
        placeholder_image, placeholder_priority_class: what they run, and as which class.
        placeholder_limit: at most so many of them per request.
        foresight: by what pods are expected that are not there yet; `decisions` where the profile is `hold`.
        proactive: the reference's way to say `workloads`.
        foresight_limit: at most so many pods are expected.
        buffers: room is kept for CapacityBuffers.
        buffer_controller: their status is worked out here, and not by somebody else.
        buffer_dry_run: admission is asked what their pods are like.
        buffer_max_chunks: at most so many chunks per buffer.
        buffer_priority_class: of placeholders of chunks, in the profile `hold`: all others displace them.
        requests_use_buffers: requests find room that buffers keep, which are then filled again.
        force_failed, force_unregistered: instances that failed, or never became a node, are deleted
            below the minimum of their group too.
        fair_share: requests of one priority take turns by namespace.
        starvation_s: a request that has waited for so long comes before those of any priority.
        startup_taints, ignore_taints, status_taints: keys of taints that pass, and are in no template;
            a node with one of the first two has not started.
        head_deadline_s: for so long after its creation the first request that found no room keeps
            later ones from passing it; 0: they pass at once.
        min_cores, max_cores and so on: cluster-wide limits, in cores, bytes and devices; nodes that nobody needs
            do not go below the lower ones.
        as_reference: numbers of the differences in which the reference's way is taken (see
            `differences`).
        scan_interval_s: how often unneeded nodes are looked for, while there are candidates.
        track_latency: it is recorded how much longer than their unneeded time nodes stay, and what keeps them:
            `cluster_autoscaler_node_removal_latency_seconds`.
        track_skipped: it is recorded which candidates passes do not get to, since enough unneeded nodes were found:
            `cluster_autoscaler_max_node_skip_eval_duration_seconds`.
        delay_local: the delays after additions, deletions and failures hold for each group by itself.
        recheck_s: how long a node is not looked at after its pods found no room elsewhere.
        max_parallelism, max_drains: nodes in deletion at a time, and those of them with pods.
        skip_system, skip_local, skip_custom: pods of kube-system, with data on the node, or of controllers that
            are not known keep their node.
        system_timeout_s: how old a pod of kube-system without a disruption budget must be to be moved.
        min_replicas: a pod whose controller has fewer keeps its node.
        ds_eviction_empty, ds_eviction_occupied: DaemonSet pods are evicted from nodes without, and with, others.
        max_graceful_s: the longest grace period that an eviction asks for; 0: the pod's own.
        soft_taints: so many nodes get or lose the soft taint in one pass; 0: none.
        eviction_s: for how long an eviction that is refused is asked for again.
        after_taint_s: how long a node is left alone between its deletion taint and the first eviction.
        delay_deletion_s: how long annotations that delay its deletion are waited for; 0: not at all.
        batch_s: for how long deletions of one group are gathered for one call; 0: as long as the call before it is under way.
        cordon: a node is cordoned when it is drained.
        drain_priorities: pods are evicted by groups of priority; excludes `max_graceful_s`.
        consolidation: group, or `*` for the others, to how far nodes that are used go, too: `off`, `empty`, `underutilised`,
            `replace`.
        consolidation_budgets: group, or `*` for the others, to how many of its nodes may go so at a time, and when.
        consolidate_after_s: no pod has come to a node, or left it, for so long before it goes so; infinite: none does.
        min_saving: part of their price that must be saved at least before nodes are replaced.
        spot_types_min: machine types of spot nodes that must be cheaper before a spot node is replaced by one.
    """

    profile: str = "compat"
    enabled: bool = True
    initial_backoff_s: float = 60.0
    max_backoff_s: float = 600.0
    batch: bool = False
    batch_size: int = 10
    batch_timebox_s: float = 10.0
    processor_instance: str = ""
    expander: tuple[str, ...] = ("least-waste",)
    priorities: dict[str, list[str]] | None = None
    max_nodes_per_scaleup: int = 1000
    balance: bool = False
    parallel: bool = False
    memory_ratio: float = 0.015
    free_ratio: float = 0.05
    allocatable_ratio: float = 0.05
    ignored_labels: tuple[str, ...] = ()
    balancing_labels: tuple[str, ...] = ()
    max_nodes_total: int = 0
    min_cores: int = 0
    max_cores: int = 320_000
    min_memory_bytes: int = 0
    max_memory_bytes: int = 6_400_000 * GIB
    gpu_floors: dict[str, int] = {}
    gpu_limits: dict[str, int] = {}
    quotas: tuple[Quota, ...] = ()
    max_node_provision_s: float = 900.0
    max_node_startup_s: float = 900.0
    initial_group_backoff_s: float = 300.0
    max_group_backoff_s: float = 1800.0
    group_backoff_reset_s: float = 10_800.0
    unready_percent: float = 45.0
    ok_unready: int = 3
    new_pod_delay_s: float = 0.0
    expendable_cutoff: int = -10
    scale_from_zero: bool = True
    enforce_min: bool = False
    scale_down: bool = True
    unneeded_s: float = 600.0
    scale_down_delay_after_add_s: float = 600.0
    as_reference: tuple[str, ...] = ()
    scan_interval_s: float = 10.0
    scale_down_unready: bool = True
    unready_s: float = 1200.0
    utilization_threshold: float = 0.5
    gpu_utilization_threshold: float = 0.5
    scale_down_delay_after_delete_s: float = 0.0
    scale_down_delay_after_failure_s: float = 180.0
    track_latency: bool = False
    track_skipped: bool = False
    delay_local: bool = False
    recheck_s: float = 300.0
    max_parallelism: int = 10
    max_drains: int = 1
    skip_system: bool = True
    skip_local: bool = True
    skip_custom: bool = True
    system_timeout_s: float = 3600.0
    min_replicas: int = 0
    ignore_daemonsets: bool = False
    ignore_mirror: bool = False
    ds_eviction_empty: bool = False
    ds_eviction_occupied: bool = True
    max_graceful_s: float = 600.0
    soft_taints: int = 10
    eviction_s: float = 120.0
    after_taint_s: float = 5.0
    delay_deletion_s: float = 120.0
    batch_s: float = 0.0
    cordon: bool = True
    drain_priorities: tuple[DrainPriority, ...] = ()
    consolidation: dict[str, str] = {}
    consolidation_budgets: dict[str, tuple[budgets.Disruptions, ...]] = {}
    consolidate_after_s: float = 0.0
    min_saving: float = 0.05
    spot_types_min: int = 15
    machine_types: tuple[MachineType, ...] = ()
    booking_s: float = 600.0
    request_expiry_s: float = 7 * 86_400.0
    request_ttl_s: float = 7 * 86_400.0
    template_grace_s: float = 2.0
    consumer_orphan_s: float = 0.0
    delete_controlled: bool = False
    allowed_classes: tuple[str, ...] = ()
    learnt_half_life_s: float = 3600.0
    force_failed: bool = False
    force_unregistered: bool = False
    fair_share: bool = False
    starvation_s: float = 86_400.0
    head_deadline_s: float = 0.0
    startup_taints: tuple[str, ...] = ()
    ignore_taints: tuple[str, ...] = ()
    status_taints: tuple[str, ...] = ()
    placeholders: bool = True
    placeholder_image: str = "registry.k8s.io/pause:3.10"
    placeholder_priority_class: str = ""
    placeholder_limit: int = 1000
    foresight: str = OFF
    proactive: bool = False
    foresight_limit: int = 5000
    buffers: bool = True
    buffer_controller: bool = True
    buffer_dry_run: bool = True
    buffer_max_chunks: int = 50_000
    buffer_priority_class: str = "tidewright-buffer"
    requests_use_buffers: bool = True
    write_status: bool = True
    status_namespace: str = "kube-system"
    status_name: str = "cluster-autoscaler-status"
    quiet_s: float = 0.05
    burst_s: float = 2.0
    dry_run: bool = False

    @property
    def hold(self) -> bool:
        return self.profile == "hold"

    @property
    def replaces(self) -> bool:
        """Whether nodes may be replaced by cheaper ones, of any group."""
        return modes.REPLACE in self.consolidation.values()

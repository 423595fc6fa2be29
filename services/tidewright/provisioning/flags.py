"""Settings as people write them: the names of flags, what their values may be, and what is said of those that are wrong.

The configuration part `provisioning` (an object; keys with dashes, values as flags have them or as
JSON) becomes `Settings`. What cannot be read keeps its default and is reported as a warning, and so are
flags that mean nothing here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from tidewright.kube.durations import LONGEST_S, parse_duration
from tidewright.kube.nearest import nearest
from tidewright.provisioning.consolidation import budgets, modes
from tidewright.provisioning.differences import DIFFERENCES, OF_BUFFERS
from tidewright.provisioning.settings import (
    DECISIONS,
    FORESIGHT,
    GIB,
    LEAST_COST,
    OFF,
    WORKLOADS,
    DrainPriority,
    MachineType,
    Quota,
    Settings,
)

_NAMES: dict[str, str] = {
    "provisioning-request-initial-backoff-time": "initial_backoff_s",
    "provisioning-request-max-backoff-time": "max_backoff_s",
    "enable-provisioning-requests": "enabled",
    "check-capacity-batch-processing": "batch",
    "check-capacity-provisioning-request-max-batch-size": "batch_size",
    "check-capacity-provisioning-request-batch-timebox": "batch_timebox_s",
    "check-capacity-processor-instance": "processor_instance",
    "max-nodes-per-scaleup": "max_nodes_per_scaleup",
    "balance-similar-node-groups": "balance",
    "parallel-scale-up": "parallel",
    "memory-difference-ratio": "memory_ratio",
    "max-free-difference-ratio": "free_ratio",
    "max-allocatable-difference-ratio": "allocatable_ratio",
    "max-nodes-total": "max_nodes_total",
    "max-node-provision-time": "max_node_provision_s",
    "max-node-startup-time": "max_node_startup_s",
    "initial-node-group-backoff-duration": "initial_group_backoff_s",
    "max-node-group-backoff-duration": "max_group_backoff_s",
    "node-group-backoff-reset-timeout": "group_backoff_reset_s",
    "max-total-unready-percentage": "unready_percent",
    "ok-total-unready-count": "ok_unready",
    "new-pod-scale-up-delay": "new_pod_delay_s",
    "expendable-pods-priority-cutoff": "expendable_cutoff",
    "scale-up-from-zero": "scale_from_zero",
    "enforce-node-group-min-size": "enforce_min",
    "scale-down-enabled": "scale_down",
    "scale-down-unneeded-time": "unneeded_s",
    "scale-down-delay-after-add": "scale_down_delay_after_add_s",
    "scan-interval": "scan_interval_s",
    "scale-down-unready-enabled": "scale_down_unready",
    "scale-down-unready-time": "unready_s",
    "scale-down-utilization-threshold": "utilization_threshold",
    "scale-down-gpu-utilization-threshold": "gpu_utilization_threshold",
    "scale-down-delay-after-delete": "scale_down_delay_after_delete_s",
    "scale-down-delay-after-failure": "scale_down_delay_after_failure_s",
    "scale-down-delay-type-local": "delay_local",
    "node-removal-latency-tracking-enabled": "track_latency",
    "max-node-skip-eval-time-tracker-enabled": "track_skipped",
    "unremovable-node-recheck-timeout": "recheck_s",
    "max-scale-down-parallelism": "max_parallelism",
    "max-drain-parallelism": "max_drains",
    "skip-nodes-with-system-pods": "skip_system",
    "skip-nodes-with-local-storage": "skip_local",
    "skip-nodes-with-custom-controller-pods": "skip_custom",
    "blocking-system-pod-distruption-timeout": "system_timeout_s",
    "min-replica-count": "min_replicas",
    "ignore-daemonsets-utilization": "ignore_daemonsets",
    "ignore-mirror-pods-utilization": "ignore_mirror",
    "daemonset-eviction-for-empty-nodes": "ds_eviction_empty",
    "daemonset-eviction-for-occupied-nodes": "ds_eviction_occupied",
    "max-graceful-termination-sec": "max_graceful_s",
    "max-bulk-soft-taint-count": "soft_taints",
    "max-pod-eviction-time": "eviction_s",
    "node-delete-delay-after-taint": "after_taint_s",
    "node-deletion-delay-timeout": "delay_deletion_s",
    "node-deletion-batcher-interval": "batch_s",
    "cordon-node-before-terminating": "cordon",
    "spot-types-min": "spot_types_min",
    "profile": "profile",
    "booking-duration": "booking_s",
    "request-expiry": "request_expiry_s",
    "request-ttl": "request_ttl_s",
    "template-grace": "template_grace_s",
    "consumer-orphan-timeout": "consumer_orphan_s",
    "force-delete-failed-nodes": "force_failed",
    "force-delete-unregistered-nodes": "force_unregistered",
    "fair-share": "fair_share",
    "starvation-age": "starvation_s",
    "head-deadline": "head_deadline_s",
    "placeholders": "placeholders",
    "placeholder-image": "placeholder_image",
    "placeholder-priority-class": "placeholder_priority_class",
    "placeholder-limit": "placeholder_limit",
    "enable-proactive-scaleup": "proactive",
    "pod-injection-limit": "foresight_limit",
    "capacity-buffer-pod-injection-enabled": "buffers",
    "capacity-buffer-controller-enabled": "buffer_controller",
    "capacity-buffer-pod-dry-run-enabled": "buffer_dry_run",
    "buffer-max-chunks": "buffer_max_chunks",
    "buffer-priority-class": "buffer_priority_class",
    "requests-use-buffers": "requests_use_buffers",
    "write-status-configmap": "write_status",
    "status-config-map-name": "status_name",
    "namespace": "status_namespace",
    "learnt-quota-half-life": "learnt_half_life_s",
    "delete-controlled-requests": "delete_controlled",
    "quiet-window": "quiet_s",
    "burst-window": "burst_s",
    "dry-run": "dry_run",
}
_KINDS: dict[str, Any] = {field.name: field.type for field in msgspec.structs.fields(Settings)}
_SHARES = frozenset({"utilization_threshold", "gpu_utilization_threshold"})
_NOT_NEGATIVE = frozenset(
    {
        "max_parallelism", "max_drains", "min_replicas", "soft_taints", "foresight_limit", "spot_types_min",
        "ok_unready", "unready_percent",
    }
)  # fmt: skip
"""Beside all times."""
_AT_MOST = {
    "max-drain-parallelism": "max-scale-down-parallelism",
    "initial-node-group-backoff-duration": "max-node-group-backoff-duration",
}
"""Settings that are at most another one, which holds where they contradict it."""
WITHOUT_MEANING: dict[str, tuple[str, ...]] = {
    "here it is decided by events, exactly, and the host of services sees to the rest": (
        "frequent-loops-enabled", "estimator", "fastpath-binpacking-enabled",
        "max-nodegroup-binpacking-duration", "max-binpacking-time", "salvo-scale-up", "salvo-scale-up-budget",
        "scaleup-simulation-for-skipped-node-groups-enabled", "predicate-parallelism",
        "provisioning-request-max-backoff-cache-size", "enable-graceful-degradation",
        "pending-pods-batching-timeout", "max-inactivity", "max-failing-time", "max-startup-time",
        "capacity-quotas-enabled",
    ),
    "the reference does not look at it any more either": (
        "scale-down-non-empty-candidates-count", "scale-down-candidates-pool-ratio",
        "scale-down-candidates-pool-min-count",
    ),
    "a pass is bounded by what it tries, and goes on by timer": ("scale-down-simulation-timeout",),
    "writes are bounded by the actuator's requests per second": ("max-bulk-soft-taint-time",),
    "the log remembers since when nodes are unneeded": ("node-deletion-candidate-ttl",),
    "a node's own fact says when its taint is there": ("dynamic-node-delete-delay-after-taint-enabled",),
}  # fmt: skip
"""Why flags of the reference, which a configuration may carry over, change nothing here; and which."""
_IDLE_FLAGS = frozenset(flag for flags in WITHOUT_MEANING.values() for flag in flags)
EXPANDERS = (
    "random", "least-waste", "least-gpu-waste", "most-pods", "least-nodes", "price", "priority", LEAST_COST,
)  # fmt: skip
_LISTS = {
    "expander": "expander",
    "balancing-ignore-label": "ignored_labels",
    "balancing-label": "balancing_labels",
    "allowed-classes": "allowed_classes",
    "startup-taint": "startup_taints",
    "ignore-taint": "ignore_taints",
    "status-taint": "status_taints",
}
_OBJECTS: dict[str, tuple[str, Any]] = {
    "priorities": ("priorities", dict[str, list[str]]),
    "quotas": ("quotas", tuple[Quota, ...]),
    "machine-types": ("machine_types", tuple[MachineType, ...]),
}


def _listed(value: Any) -> tuple[str, ...]:
    """Names, as a list or as text with commas; nothing is none."""
    parts = value.split(",") if isinstance(value, str) else [] if value is None else value
    if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
        raise ValueError("expected names, as a list or with commas")
    return tuple(part.strip() for part in parts if part.strip())


_KNOWN = {**DIFFERENCES, **OF_BUFFERS}


def _ways(value: Any) -> tuple[str, ...]:
    """Numbers of differences; all with true, none with false."""
    if value in (True, "true"):
        return tuple(_KNOWN)
    numbers = () if value in (False, "false", "") else _listed(value)
    unknown = [number for number in numbers if number not in _KNOWN]
    if unknown:
        raise ValueError(f"expected true, false or some of {', '.join(_KNOWN)}, not {', '.join(unknown)}")
    return numbers


def _foresight(value: Any) -> str:
    if value is False:
        return OFF  # YAML 1.1 reads a bare `off` so
    if value not in FORESIGHT:
        raise ValueError(f"expected one of {', '.join(FORESIGHT)}")
    return str(value)


def _priorities(value: Any) -> tuple[DrainPriority, ...]:
    """Text `priority:seconds,...`."""
    levels = [part.split(":") for part in _listed(value)]
    if not all(len(level) == 2 for level in levels):
        raise ValueError("expected priority:seconds, several with commas")
    found = tuple(DrainPriority(int(priority), float(grace)) for priority, grace in levels)
    if not all(0 <= level.grace_s <= LONGEST_S for level in found):
        raise ValueError("expected seconds of 0 or more, 292 years at most")
    if len({level.priority for level in found}) < len(found):
        raise ValueError("a priority may stand there once")
    return found


def _after(value: Any) -> float:
    """A duration, or `Never`."""
    if value == "Never":
        return math.inf
    try:
        seconds = float(_scalar("consolidate_after_s", float, value))
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds <= LONGEST_S:
        raise ValueError("expected a duration, as 90s or 10m, or Never")
    return seconds


def _percentage(value: Any) -> float:
    """A part, as a number of percent with or without its sign."""
    try:
        part = float(str(value).removesuffix("%")) / 100
    except ValueError:
        part = math.nan
    if not 0 <= part <= 1:
        raise ValueError("expected a percentage from 0% to 100%")
    return part


_TEXTS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "foresight": ("foresight", _foresight),
    "as-reference": ("as_reference", _ways),
    "drain-priority-config": ("drain_priorities", _priorities),
    "consolidation": ("consolidation", modes.read_modes),
    "consolidation-budgets": ("consolidation_budgets", budgets.read_by_group),
    "consolidate-after": ("consolidate_after_s", _after),
    "min-saving": ("min_saving", _percentage),
}
"""Settings of a form of their own: the field, and what reads it."""
_GUARDING: dict[str, tuple[str, Any, str]] = {
    "consolidation-budgets": ("consolidation_budgets", budgets.NOTHING, "consolidation lets no node go until it can be read"),
}  # fmt: skip
"""Settings that keep something from happening, which a default might not: the field, what holds while they cannot be read, and how that is said."""
_TOTALS: dict[str, tuple[str, ...]] = {
    "cores-total": ("min_cores", "max_cores"),
    "memory-total": ("min_memory_bytes", "max_memory_bytes"),
    "gpu-total": ("gpu_floors", "gpu_limits"),
}
KEYS: dict[str, tuple[str, ...]] = {
    **{key: (name,) for key, name in (*_NAMES.items(), *_LISTS.items())},
    **{key: (name,) for key, (name, _) in (*_OBJECTS.items(), *_TEXTS.items())},
    **_TOTALS,
}
"""Every key that is read, to the fields of `Settings` that it sets."""


def read(data: Mapping[str, Any]) -> tuple[Settings, tuple[str, ...]]:
    """The settings in a configuration object, and what in it could not be read."""
    values: dict[str, Any] = {}
    warnings: list[str] = []
    for key in sorted(data):
        try:
            if key in KEYS:
                values.update(zip(KEYS[key], _fields(key, data[key]), strict=True))
            elif key not in _IDLE_FLAGS:
                warnings.append(
                    f"{key}: not a setting of provisioning; {nearest(key, (*KEYS, *_IDLE_FLAGS))}"
                )
        except (ValueError, TypeError, IndexError, KeyError) as error:
            instead = "the default stays"
            if key in _GUARDING:
                name, guard, instead = _GUARDING[key]
                values[name] = guard
            warnings.append(f"{key}={data[key]!r}: {error}; {instead}")
    if "expander" in values and (wrong := _wrong_expanders(values["expander"])):
        del values["expander"]
        warnings.append(f"expander={data['expander']!r}: {wrong}; the default stays")
    if values.get("profile", "compat") not in ("compat", "hold"):
        warnings.append(f"profile={values.pop('profile')!r}: valid are compat and hold; the default stays")
    if values.get("drain_priorities") and "max_graceful_s" in values:
        del values["max_graceful_s"]
        warnings.append(
            f"max-graceful-termination-sec={data['max-graceful-termination-sec']!r}: "
            "drain-priority-config says how long pods are waited for; it holds"
        )
    if values.get("profile") == "hold":
        values.setdefault("template_grace_s", 30.0)
        values.setdefault("expander", (LEAST_COST,))
        values.setdefault("foresight", DECISIONS)
    if values.get("proactive"):
        values.setdefault("foresight", WORKLOADS)
    found = Settings(**values)
    return found, (*warnings, *_contradictions(found, data), *_idle(data))


def _contradictions(settings: Settings, data: Mapping[str, Any]) -> Iterator[str]:
    """What is said of settings that go beyond one that bounds them."""
    for key, bound in _AT_MOST.items():
        value, most = getattr(settings, _NAMES[key]), getattr(settings, _NAMES[bound])
        if key in data and value > most:
            yield f"{key}={data[key]!r}: expected {bound} ({most:g}) or less; {bound} holds"
    if not settings.scale_down and set(settings.consolidation.values()) - {modes.OFF}:
        yield f"consolidation={data['consolidation']!r}: with scale-down-enabled=false no node goes; expected off, or scale-down-enabled=true"


def problems(data: Mapping[str, Any]) -> tuple[str, ...]:
    """What in a configuration object is not used, and what would be."""
    return read(data)[1]


def _fields(key: str, value: Any) -> tuple[Any, ...]:
    """What a key says, for the fields that it sets."""
    if key in _NAMES:
        return (_bounded(_NAMES[key], _scalar(_NAMES[key], _KINDS[_NAMES[key]], value)),)
    if key in _LISTS:
        return (_listed(value),)
    if key in _OBJECTS:
        return (msgspec.convert(value, _OBJECTS[key][1]),)
    if key in _TEXTS:
        return (_TEXTS[key][1](value),)
    if key == "gpu-total":
        return _devices(value)
    low, high = _range(value)
    return (low, high) if key == "cores-total" else (low * GIB, high * GIB)


def _bounded(name: str, value: Any) -> Any:
    """A value of scale-down within what it may be."""
    if name in _SHARES and not 0 <= value <= 1:
        raise ValueError("expected a part of what is allocatable, from 0 to 1")
    if (name in _NOT_NEGATIVE or name.endswith("_s")) and not value >= 0:
        raise ValueError("expected 0 or more")
    if name.endswith("_s") and value > LONGEST_S:
        raise ValueError("expected 292 years at most")
    if name == "max_node_provision_s" and not value > 0:
        raise ValueError("expected more than 0: every node would be given up before it is there")
    return value


def _idle(data: Mapping[str, Any]) -> list[str]:
    """What is said of flags that change nothing: a sentence for each reason."""
    return [
        f"{', '.join(given)}: without meaning here, {why}"
        for why, flags in WITHOUT_MEANING.items()
        if (given := sorted(set(flags) & set(data)))
    ]


def _wrong_expanders(names: tuple[str, ...]) -> str:
    """What is wrong with a chain of expanders; empty when it can be used."""
    unknown = [name for name in names if name not in EXPANDERS]
    if unknown or not names:
        return f"{', '.join(map(repr, unknown)) or 'nothing'} is none; valid are {', '.join(EXPANDERS)}"
    if len(set(names)) < len(names):
        return "a name may stand there once"
    if LEAST_COST in names and len(names) > 1:
        return f"{LEAST_COST} plans all groups as one and stands alone"
    return ""


def _scalar(name: str, kind: Any, value: Any) -> Any:
    if name.endswith("_s"):
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
        try:
            return parse_duration(str(value))
        except ValueError:
            try:
                return float(str(value))
            except ValueError:
                raise ValueError("expected a duration, as 90s or 10m") from None
    if kind is bool:
        if isinstance(value, bool):
            return value
        if str(value) not in ("true", "false"):
            raise ValueError("expected true or false")
        return str(value) == "true"
    if kind in (int, float):
        wrong = ValueError(f"expected a {'whole ' if kind is int else ''}number")
        if isinstance(value, bool) or (kind is int and isinstance(value, float) and not value.is_integer()):
            raise wrong
        try:
            return kind(value)
        except (ValueError, TypeError):
            raise wrong from None
    return str(value)


def _range(value: Any) -> tuple[int, int]:
    low, high = str(value).split(":")
    if not 0 <= int(low) <= int(high):
        raise ValueError("expected MIN:MAX with 0 <= MIN <= MAX")
    return int(low), int(high)


def _devices(value: Any) -> tuple[dict[str, int], dict[str, int]]:
    """Lower and upper bounds by resource, of entries TYPE:MIN:MAX."""
    floors, limits = {}, {}
    for text in value if isinstance(value, list) else str(value).split(","):
        name, _, bounds = str(text).strip().partition(":")
        wrong = ValueError(f"{text!r}: expected TYPE:MIN:MAX with 0 <= MIN <= MAX")
        if not name:
            raise wrong
        try:
            floors[name], limits[name] = _range(bounds)
        except ValueError as error:
            raise wrong from error
    return floors, limits

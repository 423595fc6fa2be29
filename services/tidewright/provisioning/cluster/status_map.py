"""The status ConfigMap: what `kubectl -n kube-system get configmap cluster-autoscaler-status` shows. Spec 3.10.

Written when something in it but the times has changed, at most every ten seconds; `time` and
`lastProbeTime` are those of the writing. `lastTransitionTime` is remembered per status.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any

import msgspec

from tidewright.events.base import ObjectRef
from tidewright.events.provisioning import ReportClusterStatus
from tidewright.kube.conditions import transition
from tidewright.kube.times import rfc3339
from tidewright.provisioning.cluster.cluster_state import Counts, scaling_up
from tidewright.provisioning.cluster.status_parts import HEALTH, SCALE_DOWN, SCALE_UP, StatusPart
from tidewright.provisioning.cluster.view import GroupView, View
from tidewright.provisioning.group_ids import NodeGroupId
from tidewright.provisioning.settings import Settings
from tidewright.provisioning.state import State

EVERY_S = 10.0
PROBED, CHANGED = "lastProbeTime", "lastTransitionTime"


def target(settings: Settings) -> ObjectRef:
    """The ConfigMap; object events about groups are about it."""
    return ObjectRef(
        api_version="v1",
        kind="ConfigMap",
        namespace=settings.status_namespace,
        name=settings.status_name,
    )


def report(
    state: State, view: View, settings: Settings, now: float
) -> tuple[ReportClusterStatus | None, float | None]:
    """What is written now, or when it will be looked at again; both None when nothing has changed."""
    if not settings.write_status or not state.groups:
        return None, None
    document = contents(state, view)
    body = blake2b(msgspec.json.encode(document), digest_size=12).hexdigest()
    if body == state.reported.digest:
        return None, None
    due = state.reported.at + EVERY_S
    if state.reported.at and due > now:
        return None, due
    statuses = dict(_statuses(document))
    since = {key: transition(state.reported.since.get(key), status, now) for key, status in statuses.items()}
    _stamp(document, since, now)
    return (
        ReportClusterStatus(
            at=now, target=target(settings), text=yaml(document), digest=body, statuses=statuses
        ),
        None,
    )


def contents(state: State, view: View) -> dict[str, Any]:
    """All of it but the times."""
    groups = {name: group for name, group in sorted(view.groups.items()) if name in state.groups}
    idle = {
        name: sum(m in state.idle or m in state.unneeded for m in group.members)
        for name, group in groups.items()
    }
    total = _total([group.counts for group in groups.values()])
    grows = any(scaling_up(group.counts) for group in groups.values())
    return {
        "autoscalerStatus": "Running",
        "clusterWide": {
            HEALTH: {"status": _healthy(view.healthy), "nodeCounts": _counts(total)},
            SCALE_UP: {
                "status": "Unhealthy" if not view.healthy else "InProgress" if grows else "NoActivity"
            },
            SCALE_DOWN: _scale_down(sum(idle.values())),
        },
        "nodeGroups": [
            {
                "name": name,
                HEALTH: {
                    "status": _healthy(group.group.healthy),
                    "nodeCounts": _counts(group.counts),
                    "cloudProviderTarget": group.group.target,
                    "minSize": group.group.min,
                    "maxSize": group.group.max,
                },
                SCALE_UP: _scale_up(state, name, group),
                SCALE_DOWN: _scale_down(idle[name]),
            }
            for name, group in groups.items()
        ],
    }


def _total(counts: Sequence[Counts]) -> Counts:
    names = ("ready", "unready", "not_started", "suspended", "unregistered", "long_unregistered", "deleting")
    return Counts(**{name: sum(getattr(group_counts, name) for group_counts in counts) for name in names})


def _healthy(healthy: bool) -> str:
    return "Healthy" if healthy else "Unhealthy"


def _counts(counts: Counts) -> dict[str, Any]:
    return {
        "registered": {
            "total": counts.registered,
            "ready": counts.ready,
            "notStarted": counts.not_started,
            "suspended": counts.suspended,
            "beingDeleted": counts.deleting,
            "unready": {"total": counts.unready, "resourceUnready": 0},
        },
        "longUnregistered": counts.long_unregistered,
        "unregistered": counts.unregistered,
    }


def _scale_up(state: State, name: NodeGroupId, group: GroupView) -> dict[str, Any]:
    if group.counts.backed_off:
        entry = state.backoff[name]
        return {
            "status": "Backoff",
            "backoffInfo": {"errorCode": entry.code, "errorMessage": entry.message},
        }
    if not group.group.healthy:
        return {"status": "Unhealthy"}
    return {"status": "InProgress" if scaling_up(group.counts) else "NoActivity"}


def _scale_down(candidates: int) -> dict[str, Any]:
    if not candidates:
        return {"status": "NoCandidates"}
    return {"status": "CandidatesPresent", "candidates": candidates}


def _parts(document: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every part that has a status, with its key."""
    for name, where in (("", document["clusterWide"]), *((g["name"], g) for g in document["nodeGroups"])):
        for kind in (HEALTH, SCALE_UP, SCALE_DOWN):
            yield StatusPart(kind, name).key, where[kind]


def _statuses(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key, part in _parts(document):
        yield key, part["status"]


def _stamp(document: dict[str, Any], since: Mapping[str, float], now: float) -> None:
    for key, part in _parts(document):
        part[PROBED] = rfc3339(now)
        part[CHANGED] = rfc3339(since[key])
    document["time"] = rfc3339(now)


def yaml(content: Mapping[str, Any], indent: str = "") -> str:
    """Objects, lists of objects and scalars as YAML. Strings are quoted unless they are plain words."""
    lines: list[str] = []
    for key, value in content.items():
        if isinstance(value, str):  # as most are, and the next question is a slow one
            lines.append(f"{indent}{key}: {_text(value)}\n")
        elif isinstance(value, Mapping):
            lines.append(f"{indent}{key}:\n{yaml(value, indent + '  ')}")
        elif isinstance(value, list):
            lines.append(f"{indent}{key}:" + ("\n" if value else " []\n"))
            for item in value:
                text = yaml(item, indent + "  ")
                lines.append(f"{indent}- {text[len(indent) + 2 :]}")
        else:
            lines.append(f"{indent}{key}: {msgspec.json.encode(value).decode()}\n")
    return "".join(lines)


_OTHERWISE = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})


def _text(text: str) -> str:
    """A string: a plain word as it is, anything else in double quotes."""
    if text.isascii() and text.isalpha() and text.lower() not in _OTHERWISE:
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    if not escaped.isprintable():
        escaped = "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in escaped)
    return f'"{escaped}"'

"""The names of the original's metrics (section 1.12); dashboards and alerts depend on them."""

from __future__ import annotations

import re
from typing import Literal

import msgspec

SCOPE = "propeller_manager"
_ILLEGAL = re.compile(r"[^a-zA-Z0-9_:]")


class Metric(msgspec.Struct, frozen=True, kw_only=True):
    """One metric of the original. It carries no labels."""

    name: str
    kind: Literal["summary", "counter", "gauge"]
    help: str
    quantiles: dict[str, float] = {}


def scope(prefix: str) -> str:
    """The scope of a metrics prefix: dashes become underscores, other illegal characters go."""
    text = _ILLEGAL.sub("", prefix.replace("-", "_"))
    return f"{text if text.endswith(':') else text + ':'}{SCOPE}:"


def metrics(prefix: str) -> list[Metric]:
    """The original's four metrics under a prefix."""
    start = scope(prefix)
    return [
        Metric(
            name=f"{start}round_time_ms",
            kind="summary",
            help="Duration of a pass in milliseconds, failed passes included.",
            quantiles={"0.5": 0.05, "0.9": 0.01, "0.99": 0.001},
        ),
        Metric(name=f"{start}pods_created_count", kind="counter", help="Pods created."),
        Metric(
            name=f"{start}pods_deleted_count",
            kind="counter",
            help="Successful deletions of pods, repeated ones included.",
        ),
        Metric(
            name=f"{start}pods_running_count",
            kind="gauge",
            help="Expected pods in phase Running at the end of a pass's judging step.",
        ),
    ]

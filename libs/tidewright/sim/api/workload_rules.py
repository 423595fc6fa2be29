"""What the API server checks of pods, workloads and their neighbours, by table name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidewright.sim.api.errors import Cause

Object = dict[str, Any]

RULES_CREATE: dict[str, Callable[[Object], list[Cause]]] = {}
RULES_UPDATE: dict[str, Callable[[Object, Object], list[Cause]]] = {}

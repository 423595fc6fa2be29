"""What the cases of `shard-manager-vectors/1` have in common: configurations, and the workers of one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import msgspec

from tests.vectors.reference import propeller_config
from tests.vectors.suite import Case
from tidewright.shardmanager.propeller import config, strategy, worker

Answer: TypeAlias = dict[str, Any]
Group: TypeAlias = Callable[[Case, Answer, Case], Answer]
_base = config.defaults(config.KOZMO)


def defaults(case: Case) -> config.ManagerConfig:
    product = case.get("product_defaults")
    return (
        propeller_config.read_reference({"manager": {**product, "shard": None}}, _base) if product else _base
    )


def manager_of(case: Case, shard: Mapping[str, Any] | None, application: str = "") -> config.ManagerConfig:
    base = defaults(case)
    changes: dict[str, Any] = {}
    if shard is not None:
        changes["shard"] = propeller_config.reference_shard(shard, base.shard)
    if application:
        changes["pod_application"] = application
    return msgspec.structs.replace(base, **changes)


def workers_of(manager: config.ManagerConfig) -> list[worker.PropellerWorker]:
    return [
        worker.parse_args(strategy.shard_args(manager.shard, index))
        for index in range(manager.shard.pod_count)
    ]

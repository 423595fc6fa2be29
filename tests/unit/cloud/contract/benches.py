"""The benches that there are."""

from __future__ import annotations

from typing import Final

from tests.unit.cloud.contract.bench import Bench
from tests.unit.cloud.contract.of_aws import AwsBench
from tests.unit.cloud.contract.of_clusterapi import ClusterApiBench
from tests.unit.cloud.contract.of_externalgrpc import ExternalGrpcBench
from tests.unit.cloud.contract.of_kwok import KwokBench
from tests.unit.cloud.contract.of_simulated import SimulatedBench

BENCHES: Final[tuple[type[Bench], ...]] = (
    SimulatedBench,
    AwsBench,
    ClusterApiBench,
    ExternalGrpcBench,
    KwokBench,
)

"""Which clouds there are, as flags of watcher and actuator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from cyclopts import Group, Parameter

from tidewright.asking.environment import read
from tidewright.asking.errors import BadInput
from tidewright.cli.options import POSITIVE
from tidewright.cloud.calls import PER_S, TIMEOUT_S

CLOUDS = Group("Clouds", sort_key=1)
DISCOVERERS = ("asg:tag=", "clusterapi:")
"""What a discovery flag begins with."""


def known_clouds(type_: object, values: tuple[str, ...] | None) -> None:
    """Refuse what is no cloud; for `Parameter(validator=)`.

    Raises:
        ValueError: one cannot be talked to, or two have the same name.
    """
    del type_
    from tidewright.cloud.providers import specs_of

    specs_of(values or ())


CloudTexts = Annotated[tuple[str, ...], Parameter(validator=known_clouds), read("--cloud")]


@Parameter(name="*", group=CLOUDS)
@dataclass(frozen=True, kw_only=True)
class CloudFlags:
    """Clouds, and how they are talked to.

    Attributes:
        cloud: NAME=KIND[:CONFIG] of a cloud with node groups, as in east=simulated:http://127.0.0.1:8080. Repeatable.
        cloud_provider: KIND of one cloud that is named like its kind, as Cluster Autoscaler takes it.
        cloud_config: What clouds without a CONFIG of their own have, as Cluster Autoscaler takes it.
        node_group_auto_discovery: Which groups, as Cluster Autoscaler takes it: asg:tag=KEY[=VALUE],... or
            clusterapi:namespace=NS,...; each one an alternative. Repeatable.
        nodes: MIN:MAX:NAME of an Auto Scaling group, as Cluster Autoscaler takes it. Repeatable.
        cloud_qps: Calls per second to each cloud, on average.
        cloud_timeout: How long a call to a cloud may take, seconds.
    """

    cloud: CloudTexts = ()
    cloud_provider: str = ""
    cloud_config: str = ""
    node_group_auto_discovery: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    cloud_qps: Annotated[float, Parameter(validator=POSITIVE)] = PER_S
    cloud_timeout: Annotated[float, Parameter(validator=POSITIVE)] = TIMEOUT_S

    def options(self) -> dict[str, Any]:
        """As watcher and actuator take them. Raises BadInput."""
        from tidewright.cloud.providers import Surroundings, specs_of

        own = (f"{self.cloud_provider}={self.cloud_provider}",) if self.cloud_provider else ()
        wrong = [text for text in self.node_group_auto_discovery if not text.startswith(DISCOVERERS)]
        if wrong:
            valid = " or ".join(f"{name}..." for name in DISCOVERERS)
            raise BadInput(f"--node-group-auto-discovery {wrong[0]!r}: write {valid}")
        try:
            specs = specs_of((*self.cloud, *own))
            around = Surroundings(
                discovery=self.node_group_auto_discovery, nodes=self.nodes, config=self.cloud_config
            )
            for spec in specs:
                spec.provider(around)  # opens nothing
        except ValueError as error:
            raise BadInput(str(error)) from error
        return {
            "clouds": tuple(spec.text for spec in specs),
            "cloud_config": self.cloud_config,
            "cloud_discovery": self.node_group_auto_discovery,
            "cloud_nodes": self.nodes,
            "cloud_qps": self.cloud_qps,
            "cloud_timeout_s": self.cloud_timeout,
        }

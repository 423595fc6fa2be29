"""Which clouds there are, as flags of watcher and actuator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from cyclopts import Group, Parameter

from tidewright.cli.options import POSITIVE
from tidewright.cloud.calls import PER_S, TIMEOUT_S

CLOUDS = Group("Clouds", sort_key=1)


def known_clouds(type_: object, values: tuple[str, ...] | None) -> None:
    """Refuse what is no cloud; for `Parameter(validator=)`.

    Raises:
        ValueError: one cannot be talked to, or two have the same name.
    """
    del type_
    from tidewright.cloud.providers import specs_of

    specs_of(values or ())


CloudTexts = Annotated[tuple[str, ...], Parameter(validator=known_clouds)]


@Parameter(name="*", group=CLOUDS)
@dataclass(frozen=True, kw_only=True)
class CloudFlags:
    """Clouds, and how they are talked to.

    Attributes:
        cloud: NAME=KIND[:CONFIG] of a cloud with node groups, as in east=simulated:http://127.0.0.1:8080. Repeatable.
        cloud_qps: Calls per second to each cloud, on average.
        cloud_timeout: How long a call to a cloud may take, seconds.
    """

    cloud: CloudTexts = ()
    cloud_qps: Annotated[float, Parameter(validator=POSITIVE)] = PER_S
    cloud_timeout: Annotated[float, Parameter(validator=POSITIVE)] = TIMEOUT_S

    def options(self) -> dict[str, Any]:
        """As watcher and actuator take them."""
        return {"clouds": self.cloud, "cloud_qps": self.cloud_qps, "cloud_timeout_s": self.cloud_timeout}

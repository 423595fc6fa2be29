"""What the actuator is allowed to do, as flags: which features, where, and at which addresses endpoints are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Group, Parameter

from tidewright.asking.errors import BadInput

if TYPE_CHECKING:
    from tidewright.actuator.allowed.bounds import Bounds

ENDPOINTS = ("spread-admission", "shard-labels")
ALLOWED = Group("What is allowed", sort_key=2)


@Parameter(name="*", group=ALLOWED)
@dataclass(frozen=True, kw_only=True)
class BoundFlags:
    """What is allowed, of all that services may ask for.

    Attributes:
        features: Only these features, with spaces or commas; all by default. What is off is refused.
        namespaces: SERVICE=NAMESPACE,...: the only namespaces in which that service's effects may be. Repeatable.
        own_namespace: The namespace that Tidewright runs in: like the cluster's own, nothing is changed in it.
        system_namespaces: Open kube-system, kube-public, kube-node-lease and our own like any other namespace.
        privileged_pods: Create pods of shards that share something with their node, where their PodTemplate says so.
        endpoint: ENDPOINT=https://HOST:PORT: where the API server may be told to call an endpoint, besides loopback
            and its own Service. Repeatable.
        endpoint_token: ENDPOINT=FILE: the first token of the file is written into the path under which the API server
            calls the endpoint, which has the same file as its --token-file. Repeatable.
    """

    features: Annotated[tuple[str, ...], Parameter(consume_multiple=True)] = ()
    namespaces: tuple[str, ...] = ()
    own_namespace: str = "tidewright"
    system_namespaces: Annotated[bool, Parameter(negative="")] = False
    privileged_pods: Annotated[bool, Parameter(negative="")] = False
    endpoint: tuple[str, ...] = ()
    endpoint_token: tuple[str, ...] = ()

    def bounds(self) -> Bounds:
        """As the actuator takes them. Raises BadInput."""
        from tidewright.actuator.allowed.bounds import Bounds, Feature
        from tidewright.actuator.allowed.table import SERVICES

        names = _names(self.features)
        if unknown := [name for name in names if name not in set(Feature)]:
            raise BadInput(f"--features {unknown[0]!r}: no such feature: valid are {', '.join(Feature)}")
        given = _pairs("--namespaces", self.namespaces, SERVICES)
        endpoints = _pairs("--endpoint", self.endpoint, ENDPOINTS)
        return Bounds(
            features=frozenset(map(Feature, names)) or frozenset(Feature),
            own_namespace=self.own_namespace,
            given=given,
            system=self.system_namespaces,
            privileged=self.privileged_pods,
            endpoints=endpoints,
        )

    def tokens(self) -> dict[str, Path]:
        """Endpoint to its file of tokens. Raises BadInput."""
        files: dict[str, Path] = {}
        for text in self.endpoint_token:
            name, sign, file = text.partition("=")
            if not sign or not file or name not in ENDPOINTS:
                raise BadInput(
                    f"--endpoint-token {text!r}: expected NAME=FILE, NAME one of {', '.join(ENDPOINTS)}"
                )
            files[name] = Path(file)
        return files


def _names(given: Iterable[str]) -> list[str]:
    return [name for text in given for name in text.replace(",", " ").split()]


def _pairs(flag: str, given: Iterable[str], known: Iterable[str]) -> dict[str, frozenset[str]]:
    by_name: dict[str, frozenset[str]] = {}
    for text in given:
        name, sign, rest = text.partition("=")
        values = _names([rest])
        if not sign or not values:
            raise BadInput(f"{flag} {text!r}: expected NAME=VALUE,...")
        if name not in known:
            raise BadInput(f"{flag} {name!r}: no such service: valid are {', '.join(sorted(known))}")
        by_name[name] = by_name.get(name, frozenset()) | frozenset(values)
    return by_name

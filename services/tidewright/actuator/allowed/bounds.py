"""Where, and with how much, the actuator was told to act: its own options, which nobody on the log can change. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from tidewright.kube.webhooks import OWN_NAMESPACE, SYSTEM


class Feature(StrEnum):
    """What can be left out of an installation: the actuator then refuses it, and gets no role for it."""

    AUTOSCALING = "autoscaling"
    PROVISIONING = "provisioning"
    PLACEHOLDERS = "placeholders"
    BUFFERS = "buffers"
    SCALE_DOWN = "scale-down"
    SPREAD = "spread"
    ADMISSION = "admission"
    SHARDS = "shards"
    SHARD_LABELS = "shard-labels"
    OWN_SERVICES = "own-services"
    EVENTS = "events"


class Refusal(str):
    """Why an effect is not allowed, for people; `rule` is the rule that refuses it, in CamelCase."""

    rule: str

    def __new__(cls, rule: str, message: str) -> Refusal:
        """A refusal by a rule."""
        refusal = super().__new__(cls, f"{message} ({rule})")
        refusal.rule = rule
        return refusal

    @classmethod
    def of(cls, text: str) -> Refusal:
        """A refusal from its text."""
        message, _, rule = text.removesuffix(")").rpartition(" (")
        return cls(rule, message)


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """What the actuator was started with.

    Attributes:
        features: those that are on.
        own_namespace: the one that Tidewright runs in.
        given: service to the only namespaces that its effects may be in; a service that is not named: all.
        system: whether namespaces of the cluster itself and our own are open like any other.
        privileged: whether pods may be created that share something with their node.
        endpoints: endpoint to the URLs, besides those on loopback, under which it may be called.
    """

    features: frozenset[Feature] = frozenset(Feature)
    own_namespace: str = OWN_NAMESPACE
    given: Mapping[str, frozenset[str]] = field(default_factory=dict)
    system: bool = False
    privileged: bool = False
    endpoints: Mapping[str, frozenset[str]] = field(default_factory=dict)

    @property
    def closed(self) -> frozenset[str]:
        """Namespaces in which nothing is changed."""
        return frozenset() if self.system else frozenset((*SYSTEM, self.own_namespace))

    def outside(self, service: str, namespace: str) -> Refusal | None:
        """Why a namespace is none in which a service's effects may be; None when it is."""
        given = self.given.get(service)
        if given is not None and namespace not in given:
            return Refusal(
                "NamespaceNotGiven",
                f"namespace {namespace} is not given to {service}: given are {', '.join(sorted(given)) or 'none'}",
            )
        return None

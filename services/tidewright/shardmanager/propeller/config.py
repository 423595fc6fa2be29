"""The manager's configuration: its values, brands, flags and environment (section 1.2).

Values only. `config_read` turns a YAML tree into them, `validation` judges them.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from tidewright.sharding.keyspace import COMPAT_SLOTS

WILDCARD = "*"


class ShardType(StrEnum):
    """The shard strategies, as the original spells them."""

    HASH = "Hash"
    PROJECT = "Project"
    DOMAIN = "Domain"


class ShardMapping(msgspec.Struct, frozen=True):
    """The ids that one shard is responsible for; `*` for all that no other shard names."""

    ids: tuple[str, ...] = ()


class ShardConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How the keyspace is divided.

    Attributes:
        shard_count: used by Hash only.
        per_shard_mapping: used by Project and Domain only, one entry a shard.
        unknown_type: the text of a strategy that does not exist; `type` means nothing then.
    """

    type: ShardType = ShardType.HASH
    shard_count: int = 3
    per_shard_mapping: tuple[ShardMapping, ...] = ()
    unknown_type: str = ""

    @property
    def pod_count(self) -> int:
        """The number of shards, hence of pods."""
        return self.shard_count if self.type is ShardType.HASH else len(self.per_shard_mapping)


class Brand(msgspec.Struct, frozen=True, kw_only=True):
    """What differs between the names under which the propeller manager is known: defaults only."""

    application: str
    namespace: str

    @property
    def template(self) -> str:
        return f"{self.application}-template"

    @property
    def manager(self) -> str:
        """The manager's process, also the source of its object events."""
        return f"{self.application}-manager"

    @property
    def metrics_prefix(self) -> str:
        return self.namespace


FLYTE = Brand(application="flytepropeller", namespace="flyte")
KOZMO = Brand(application="kozmopropeller", namespace="kozmo")
BRANDS = (FLYTE, KOZMO)


class ManagerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The `manager` section, and the namespace of the pods, which has no key.

    Attributes:
        scan_interval_s: pause between two passes, seconds.
    """

    pod_application: str
    pod_template_container_name: str
    pod_template_name: str
    pod_template_namespace: str
    scan_interval_s: float = 10.0
    shard: ShardConfig = ShardConfig()

    def pod_name(self, index: int) -> str:
        return f"{self.pod_application}-{index}"

    @property
    def pod_names(self) -> list[str]:
        """The names of all pods, by index."""
        return [self.pod_name(index) for index in range(self.shard.pod_count)]

    @property
    def list_selector(self) -> str:
        """Which pods the manager looks at."""
        return f"app={self.pod_application}"


def defaults(brand: Brand) -> ManagerConfig:
    """The configuration of an empty file."""
    return ManagerConfig(
        pod_application=brand.application,
        pod_template_container_name=brand.application,
        pod_template_name=brand.template,
        pod_template_namespace=brand.namespace,
    )


TEXT_KEYS = (
    "pod-application",
    "pod-template-container-name",
    "pod-template-name",
    "pod-template-namespace",
)
INTERVAL_KEY = "scan-interval"
SHARD_KEY = "shard"
SHARD_KEYS = ("type", "shard-count")
MAPPING_KEY = "per-shard-mapping"
SECTION = "manager"

KEYSPACE = COMPAT_SLOTS


def environment_name(path: str) -> str:
    """The environment variable of a key path: upper case, dashes as underscores, dots kept."""
    return path.upper().replace("-", "_")

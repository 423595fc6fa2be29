"""Kinds: what is served under which group, version and name, and how it behaves.

A `Kind` describes one resource over all its versions; built-in ones are in `builtin.py`, custom ones are
made from CustomResourceDefinitions in `crd.py`. The `Registry` is what requests are resolved against and
what discovery lists.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from tidewright.sim.api.errors import qualified

if TYPE_CHECKING:
    from tidewright.sim.api.crd.custom import CustomVersion

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
CREATE_ONLY = ("create",)


class ScalePaths(msgspec.Struct, frozen=True):
    """Where a kind keeps what its scale subresource shows: paths of keys."""

    spec: tuple[str, ...]
    status: tuple[str, ...]
    selector: tuple[str, ...] | None = None  # a label selector as text, or as an object


class Subresource(msgspec.Struct, frozen=True):
    """A subresource beyond status and scale, as discovery shows it."""

    name: str
    kind: str
    verbs: tuple[str, ...]
    group: str | None = None  # of its kind, where it is not the resource's own
    version: str | None = None


class Kind(msgspec.Struct, frozen=True):
    """One resource. `versions` are the served ones, best first; objects are stored as `storage`.

    Attributes:
        generation: metadata.generation counts the changes of the spec.
        status: has a status subresource, so that status is not written through the object itself.
        upsert: an update of a name that does not exist creates it.
        custom: per version the schema and columns of a custom resource; empty for built-in kinds.
    """

    group: str
    versions: tuple[str, ...]
    kind: str
    plural: str
    singular: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    status: bool = False
    scale: ScalePaths | None = None
    subresources: tuple[Subresource, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    generation: bool = False
    upsert: bool = False
    storage: str = ""
    list_kind: str = ""
    table: str = ""
    custom: Mapping[str, CustomVersion] = {}
    selectable_fields: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """`deployments.apps`."""
        return qualified(self.group, self.plural)

    @property
    def storage_version(self) -> str:
        return self.storage or self.versions[0]

    @property
    def table_name(self) -> str:
        return self.table or f"{self.group}/{self.plural}"

    @property
    def converts(self) -> bool:
        """A built-in kind that is served in another form than it is stored in."""
        return bool(self.table) or (len(self.versions) > 1 and not self.custom)

    @property
    def list_name(self) -> str:
        return self.list_kind or f"{self.kind}List"

    def api_version(self, version: str) -> str:
        return f"{self.group}/{version}" if self.group else version

    @property
    def stored_api_version(self) -> str:
        return self.api_version(self.storage_version)


class Registry:
    """The kinds that are served, by group, version and plural name."""

    def __init__(self) -> None:
        self._kinds: dict[str, Kind] = {}  # by "plural.group"
        self._served: dict[tuple[str, str, str], Kind] = {}
        self._by_kind: dict[tuple[str, str], Kind] = {}
        self.generation = 0  # grows with every change: caches of discovery and OpenAPI are keyed by it

    def add(self, kind: Kind) -> None:
        """Serve a kind, or serve it anew after its definition changed."""
        self.remove(kind.name)
        self._kinds[kind.name] = kind
        self._by_kind[kind.group, kind.kind] = kind
        for version in kind.versions:
            self._served[kind.group, version, kind.plural] = kind
        self.generation += 1

    def remove(self, name: str) -> None:
        old = self._kinds.pop(name, None)
        if old is None:
            return
        for version in old.versions:
            self._served.pop((old.group, version, old.plural), None)
        if self._by_kind.get((old.group, old.kind)) is old:
            del self._by_kind[old.group, old.kind]
        self.generation += 1

    def resolve(self, group: str, version: str, plural: str) -> Kind | None:
        return self._served.get((group, version, plural))

    def built_in(self, group: str) -> bool:
        """Whether the group is the API server's own."""
        return any(not kind.custom and kind.group == group for kind in self._kinds.values())

    def of_kind(self, group: str, kind: str) -> Kind | None:
        return self._by_kind.get((group, kind))

    def named(self, name: str) -> Kind | None:
        """The kind called `plural.group`."""
        return self._kinds.get(name)

    def __iter__(self) -> Iterator[Kind]:
        return iter(list(self._kinds.values()))

    def groups(self) -> dict[str, list[str]]:
        """Served versions by group, best first."""
        by_group: dict[str, set[str]] = {}
        for kind in self._kinds.values():
            by_group.setdefault(kind.group, set()).update(kind.versions)
        return {group: sorted(versions, key=version_order) for group, versions in by_group.items()}


def version_order(version: str) -> tuple[int, int, int, str]:
    """Sort key of Kubernetes version names: v2, v1, v1beta2, v1beta1, v1alpha1, then the rest by name."""
    digits, _, rest = version.removeprefix("v").partition("beta")
    if version.startswith("v") and digits.isdigit():
        if not rest and "beta" not in version:
            return (0, -int(digits), 0, "")
        if rest.isdigit():
            return (1, -int(digits), -int(rest), "")
    digits, _, rest = version.removeprefix("v").partition("alpha")
    if version.startswith("v") and digits.isdigit() and rest.isdigit():
        return (2, -int(digits), -int(rest), "")
    return (3, 0, 0, version)


def spec_of(obj: dict[str, Any]) -> dict[str, Any]:
    """The spec of an object; empty when it has none."""
    spec = obj.get("spec")
    return spec if isinstance(spec, dict) else {}

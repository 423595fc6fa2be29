"""How values merge: which lists are keyed, which are sets, which maps are replaced as a whole.

A `Typing` is walked along with a value. For custom resources it is the schema (`x-kubernetes-list-type` and
its kin); for built-in kinds it is the names of the fields, since those are used alike wherever they occur.
"""

from __future__ import annotations

from typing import Any, Protocol

Object = dict[str, Any]


class Typing(Protocol):
    """The merge rules of one place in an object."""

    @property
    def atomic(self) -> bool:
        """A map that is owned and replaced as a whole."""
        ...

    @property
    def map_keys(self) -> tuple[str, ...] | None:
        """The keys that tell the elements of a list apart."""
        ...

    @property
    def associative(self) -> bool:
        """A list whose elements are owned one by one: keyed, or a set."""
        ...

    def key_default(self, key: str) -> Any:
        """What a key of an element is when the element does not say."""
        ...

    def declares(self, name: str) -> bool:
        """Whether the name is a field of the type, and no key of a free map."""
        ...

    def field(self, name: str) -> Typing: ...

    def element(self) -> Typing: ...


_LIST_KEYS: dict[str, tuple[str, ...]] = {
    "claims": ("name",),
    "conditions": ("type",),
    "containers": ("name",),
    "drivers": ("name",),
    "env": ("name",),
    "ephemeralContainers": ("name",),
    "hostAliases": ("ip",),
    "imagePullSecrets": ("name",),
    "initContainers": ("name",),
    "matchConditions": ("name",),
    "ownerReferences": ("uid",),
    "podIPs": ("ip",),
    "resourceClaims": ("name",),
    "schedulingGates": ("name",),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
    "volumeDevices": ("devicePath",),
    "volumeMounts": ("mountPath",),
    "volumes": ("name",),
    "webhooks": ("name",),
}
# lists that are keyed, or not, in one kind only
_IN_KIND: dict[tuple[str, str], tuple[str, ...] | None] = {
    ("addresses", "Node"): ("type",),
    ("conditions", "Job"): None,
    ("imagePullSecrets", "ServiceAccount"): None,
    ("ports", "Endpoints"): None,
    ("ports", "EndpointSlice"): None,
    ("ports", "Ingress"): None,
    ("ports", "NetworkPolicy"): None,
    ("ports", "Service"): ("port", "protocol"),
    ("secrets", "ServiceAccount"): ("name",),
}
_SETS = frozenset({"finalizers", "podCIDRs", "volumeLifecycleModes"})
_ELEMENT = "[]"  # between the name of a list and those of its elements' fields
_ATOMIC_MAPS = frozenset(
    {
        "claimRef",
        "configMapKeyRef",
        "dataSource",
        "fieldRef",
        "fileKeyRef",
        "involvedObject",
        "labelSelector",
        "namespaceSelector",
        "nodeSelector",
        "nodeTopology",
        "objectSelector",
        f"ownerReferences{_ELEMENT}",
        "podSelector",
        "preference",
        "regarding",
        "related",
        "required",
        "resourceFieldRef",
        "roleRef",
        "scopeSelector",
        "secretKeyRef",
        "selector",
        "targetRef",
    }
)


class FieldTyping:
    """The merge rules of a built-in kind, by the name of the field; one instance per name and kind."""

    __slots__ = ("_kind", "_name", "associative", "atomic", "map_keys")
    _made: dict[tuple[str, str], FieldTyping] = {}

    def __init__(self, name: str, kind: str) -> None:
        self._name = name
        self._kind = kind
        self.atomic = name in _ATOMIC_MAPS
        keys = ("containerPort", "protocol") if name == "ports" else _LIST_KEYS.get(name)
        if (name, kind) in _IN_KIND:
            keys = _IN_KIND[name, kind]
        self.map_keys = keys
        self.associative = keys is not None or name in _SETS

    @classmethod
    def of(cls, name: str, kind: str) -> FieldTyping:
        field_typing = cls._made.get((name, kind))
        if field_typing is None:
            field_typing = cls._made[name, kind] = cls(name, kind)
        return field_typing

    def key_default(self, key: str) -> Any:
        return "TCP" if key == "protocol" else None

    def declares(self, name: str) -> bool:
        return True  # the free maps of built-in kinds hold nothing that is nested

    def field(self, name: str) -> FieldTyping:
        return FieldTyping.of(name, self._kind)

    def element(self) -> FieldTyping:
        return FieldTyping.of(f"{self._name}{_ELEMENT}", self._kind)


class SchemaTyping:
    """The merge rules of a custom resource, by its schema."""

    __slots__ = ("_schema",)

    def __init__(self, schema: Object) -> None:
        self._schema = schema

    @property
    def atomic(self) -> bool:
        return self._schema.get("x-kubernetes-map-type") == "atomic"

    @property
    def map_keys(self) -> tuple[str, ...] | None:
        if self._schema.get("x-kubernetes-list-type") != "map":
            return None
        return tuple(self._schema.get("x-kubernetes-list-map-keys") or ())

    @property
    def associative(self) -> bool:
        return self._schema.get("x-kubernetes-list-type") in {"map", "set"}

    def key_default(self, key: str) -> Any:
        items = self._schema.get("items") or {}
        return ((items.get("properties") or {}).get(key) or {}).get("default")

    def declares(self, name: str) -> bool:
        return name in (self._schema.get("properties") or {}) or name == "metadata"

    def field(self, name: str) -> Typing:
        properties = self._schema.get("properties") or {}
        if name in properties:
            return SchemaTyping(properties[name])
        if name == "metadata":
            return FieldTyping.of(name, "")
        below = self._schema.get("additionalProperties")
        return SchemaTyping(below if isinstance(below, dict) else {})

    def element(self) -> Typing:
        return SchemaTyping(self._schema.get("items") or {})

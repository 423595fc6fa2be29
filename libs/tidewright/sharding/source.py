"""Which objects a ShardSet is about, and what of an object is hashed (section 3.3). Pure.

    source:
      customResource:
        group: shop.io           # empty or missing: the core group
        kind: Order
        key: "{namespace}/{name}"   # also {uid}; the default is this one
        selector: app=shop       # only objects with these labels; all by default
        resource: orders         # its name in paths; that of the kind in the plural by default
        allNamespaces: false     # objects of the set's own namespace alone by default

An object that is controlled by another one of the same kind takes that one's key, so that parent and
child are always on one shard. An object whose name the API server is still to generate has no key
that uses the name: it is labelled after its creation.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tidewright.kube.digits import whole_number
from tidewright.sharding.keyspace import HashName, slot_of

DEFAULT_KEY = "{namespace}/{name}"
FIELDS = ("namespace", "name", "uid")
_FIELD = re.compile(r"\{([^{}]*)\}")


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """The objects of one ShardSet. `kind` empty: they are not custom resources, nothing is labelled."""

    group: str = ""
    kind: str = ""
    resource: str = ""
    key: str = DEFAULT_KEY
    selector: str = ""
    all_namespaces: bool = False


class Identity(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What of an object's metadata a key is made of.

    Attributes:
        name: empty while the API server is still to generate it.
        parent: name of the controller when that is of the same kind, parent_uid its uid.
    """

    namespace: str = ""
    name: str = ""
    uid: str = ""
    parent: str = ""
    parent_uid: str = ""


def source_of(spec: Mapping[str, Any]) -> Source:
    """The source that a ShardSet's spec states; what is not text is taken for missing."""
    section = spec.get("source")
    custom_resource = section.get("customResource") if isinstance(section, Mapping) else None
    if not isinstance(custom_resource, Mapping):
        return Source()

    def text(name: str, default: str = "") -> str:
        value = custom_resource.get(name)
        return value if isinstance(value, str) else default

    return Source(
        group=text("group"),
        kind=text("kind"),
        resource=text("resource") or plural(text("kind")),
        key=text("key", DEFAULT_KEY) or DEFAULT_KEY,
        selector=text("selector"),
        all_namespaces=custom_resource.get("allNamespaces") is True,
    )


def plural(kind: str) -> str:
    """The name of a kind in paths, by the rule that most definitions follow."""
    name = kind.lower()
    if name.endswith("y") and name[-2:-1] not in "aeiou":
        return f"{name[:-1]}ies"
    return f"{name}es" if name.endswith(("s", "x", "ch", "sh")) else f"{name}s" if name else ""


def unknown_fields(key: str) -> list[str]:
    """The fields of a key that there are not."""
    return [name for name in _FIELD.findall(key) if name not in FIELDS]


def identity(metadata: Mapping[str, Any], kind: str, namespace: str = "") -> Identity:
    """The identity in an object's metadata. `namespace` is that of the request, for objects without one."""
    owners: Sequence[Mapping[str, Any]] = metadata.get("ownerReferences") or ()
    parent = next((o for o in owners if o.get("controller") and o.get("kind") == kind), {})
    return Identity(
        namespace=str(metadata.get("namespace") or namespace),
        name=str(metadata.get("name") or ""),
        uid=str(metadata.get("uid") or ""),
        parent=str(parent.get("name") or ""),
        parent_uid=str(parent.get("uid") or ""),
    )


def key_of(source: Source, who: Identity) -> str | None:
    """The text that is hashed for an object; None while a part of it is not known yet."""
    parts = {
        "namespace": who.namespace,
        "name": who.parent or who.name,
        "uid": who.parent_uid if who.parent else who.uid,
    }
    if any(not parts.get(name, "") for name in _FIELD.findall(source.key)):
        return None
    return _FIELD.sub(lambda match: parts[match[1]], source.key)


def slot_label_value(source: Source, who: Identity, slots: int, name: HashName) -> str | None:
    """The value of the slot label of an object; None while its key is not known."""
    key = key_of(source, who)
    return None if key is None else str(slot_of(key, slots, name))


def legal_slot(value: str, slots: int) -> bool:
    """Whether a label's value is the decimal text of a slot."""
    slot = whole_number(value)
    return slot is not None and value == str(slot) and slot < slots

"""Keys of namespaced objects: the text `namespace/name`, as states store it and people read it.

A key is made and read here alone. A namespace has no slash in it, so that every key is read back exactly, also
where a user wrote one into a name. The types tell keys from other text, and keys of one kind from those of
another; at run time they are the text itself: `RequestKey(ObjectKey(text))` takes a text of an event as one.
"""

from __future__ import annotations

from typing import NewType

ObjectKey = NewType("ObjectKey", str)
"""Of a namespaced object whose kind is known from where the key stands."""
PodKey = NewType("PodKey", ObjectKey)
RequestKey = NewType("RequestKey", ObjectKey)
"""Of a ProvisioningRequest."""
BufferKey = NewType("BufferKey", ObjectKey)
"""Of a CapacityBuffer."""

NO_REQUEST = RequestKey(ObjectKey(""))
"""In place of a key where there is none."""


def key_of(namespace: str, name: str) -> ObjectKey:
    return ObjectKey(f"{namespace}/{name}")


def pod_key(namespace: str, name: str) -> PodKey:
    return PodKey(ObjectKey(f"{namespace}/{name}"))


def request_key(namespace: str, name: str) -> RequestKey:
    return RequestKey(ObjectKey(f"{namespace}/{name}"))


def buffer_key(namespace: str, name: str) -> BufferKey:
    return BufferKey(ObjectKey(f"{namespace}/{name}"))


def parts(key: ObjectKey) -> tuple[str, str]:
    """Namespace and name."""
    namespace, _, name = key.partition("/")
    return namespace, name


def namespace_of(key: ObjectKey) -> str:
    return key.partition("/")[0]


def name_of(key: ObjectKey) -> str:
    return key.partition("/")[2]

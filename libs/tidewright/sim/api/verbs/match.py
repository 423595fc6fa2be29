"""Which stored objects a list or a watch is about: label and field selectors over encoded objects.

Only what a selector looks at is decoded: a decoder is made for the set of paths and kept.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec

from tidewright.kube.selectors import FieldSelector, LabelSelector, SelectorError
from tidewright.sim.api import errors
from tidewright.sim.api.kinds.resources import Kind
from tidewright.sim.api.store.store import Record

_METADATA_FIELDS = frozenset({"metadata.name", "metadata.namespace"})
_INVOLVED = tuple(
    f"involvedObject.{field}"
    for field in ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
)
NODE_NAME = "spec.nodeName"
"""The API server has an index of it, since everybody asks for the pods of one node. Here those of others are told by their bytes,
without being decoded: no object has a text in a field that is nowhere in it."""
FIELDS: dict[str, frozenset[str]] = {
    "/pods": frozenset(
        {
            NODE_NAME,
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        }
    ),
    "/nodes": frozenset({"spec.unschedulable"}),
    "/namespaces": frozenset({"status.phase"}),
    "/secrets": frozenset({"type"}),
    "/services": frozenset({"spec.clusterIP", "spec.type"}),
    "/events": frozenset({*_INVOLVED, "reason", "reportingComponent", "source", "type"}),
    "/replicationcontrollers": frozenset({"status.replicas"}),
    "apps/replicasets": frozenset({"status.replicas"}),
    "batch/jobs": frozenset({"status.successful"}),
}
_DEFAULTS = {"spec.unschedulable": "false", "spec.hostNetwork": "false"}


class Matcher:
    """The selectors of one request; `matches` is true for the records they select."""

    __slots__ = ("_decode", "_fields", "_labels", "_needle", "_paths", "everything", "name")

    def __init__(self, labels: LabelSelector, fields: FieldSelector) -> None:
        self._labels = labels
        self._fields = fields
        self.name = fields.exact("metadata.name")
        self._paths = tuple(
            sorted({requirement.path for requirement in fields.requirements} - _METADATA_FIELDS)
        )
        self.everything = labels.everything and not fields.requirements
        node = fields.exact(NODE_NAME)
        self._needle = msgspec.json.encode(node) if node else b""
        self._decode = _decoder(("metadata.labels", *self._paths) if not labels.everything else self._paths)

    def matches(self, record: Record) -> bool:
        if self.everything:
            return True
        if self.name is not None and record.name != self.name:
            return False
        if self._needle not in record.raw:
            return False
        head: Any = None
        if not self._labels.everything or self._paths:
            head = self._decode(record.raw)
        if not self._labels.everything and not self._labels.matches(_get(head, "metadata.labels")):
            return False
        if not self._fields.requirements:
            return True
        values = {"metadata.name": record.name, "metadata.namespace": record.namespace}
        for path in self._paths:
            value = _get(head, path)
            values[path] = _DEFAULTS.get(path, "") if value is None else _text(value)
        return self._fields.matches(values)


def matcher(kind: Kind, query: dict[str, str]) -> Matcher:
    """Read `labelSelector` and `fieldSelector`. Raises 400 for what cannot be selected by."""
    labels_text = query.get("labelSelector", "")
    fields_text = query.get("fieldSelector", "")
    if not labels_text and not fields_text:
        return EVERYTHING
    try:
        labels = LabelSelector.parse(labels_text)
        fields = FieldSelector.parse(fields_text)
    except SelectorError as error:
        raise errors.bad_request(str(error)) from None
    supported = _METADATA_FIELDS | FIELDS.get(kind.table_name, frozenset()) | kind.selectable_fields
    for requirement in fields.requirements:
        if requirement.path not in supported:
            raise errors.bad_request(_unsupported(kind, requirement.path))
    return Matcher(labels, fields)


def _unsupported(kind: Kind, path: str) -> str:
    """The API server's words; kinds that select by nothing of their own say what every kind selects by."""
    if kind.table_name == "batch/jobs":
        return f'field label "{path}" not supported for Job'
    if kind.custom or kind.table_name in FIELDS:
        return f"field label not supported: {path}"
    return f'"{path}" is not a known field selector: only "metadata.name", "metadata.namespace"'


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):  # source of an event: its component
        return str(value.get("component", ""))
    return str(value)


def _get(head: Any, path: str) -> Any:
    for part in path.split("."):
        if head is None:
            return None
        head = getattr(head, part, None)
    return head


@lru_cache(maxsize=256)
def _decoder(paths: tuple[str, ...]) -> Any:
    tree: dict[str, Any] = {}
    for path in paths:
        node = tree
        for part in path.split("."):
            node = node.setdefault(part, {})
    return msgspec.json.Decoder(_struct("Head", tree)).decode


def _struct(name: str, tree: dict[str, Any]) -> Any:
    fields: list[tuple[str, Any, Any]] = []
    for key, below in tree.items():
        fields.append((key, (_struct(key.title(), below) | None) if below else Any, None))
    return msgspec.defstruct(name, fields)


EVERYTHING = Matcher(LabelSelector(), FieldSelector())

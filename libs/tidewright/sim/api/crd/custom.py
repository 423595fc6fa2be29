"""Custom resources: what one version of a CustomResourceDefinition asks of its objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from tidewright.kube.podapi.fielderrors import FieldError
from tidewright.sim.api.crd import rules, structural
from tidewright.sim.api.kinds import schemas
from tidewright.sim.api.kinds.schemas import Problems

if TYPE_CHECKING:
    from tidewright.sim.api.kinds.resources import Kind

Object = dict[str, Any]
_METADATA_ONLY = "V1ConfigMap"  # a model that has metadata and needs nothing else
_HEAD = ("apiVersion", "kind", "metadata")


# what keeps the rules from being asked, since they might fail on what they are given
_BLOCKING = frozenset(
    {
        "FieldValueNotSupported",
        "FieldValueRequired",
        "FieldValueTooLong",
        "FieldValueTooMany",
        "FieldValueTypeInvalid",
    }
)
RULES_NOT_CHECKED = FieldError(
    "<nil>",
    "Invalid value: null: some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation",
)


class PrinterColumn(msgspec.Struct, rename="camel"):
    """A column that a definition asks for."""

    name: str
    type: str
    json_path: str = msgspec.field(name="jsonPath")
    description: str = ""
    format: str = ""
    priority: int = 0


class CustomVersion:
    """One version of a custom resource: its schema and its columns.

    Args:
        schema: `openAPIV3Schema`.
        columns: additional printer columns.
        preserve: unknown fields are kept everywhere (`spec.preserveUnknownFields`).
        status: this version has a status subresource.
        deprecation: what everybody who uses this version is warned of; empty for nothing.
    """

    def __init__(
        self,
        schema: Object,
        columns: tuple[PrinterColumn, ...],
        *,
        preserve: bool = False,
        status: bool = False,
        deprecation: str = "",
    ) -> None:
        self.schema = schema
        self.columns = columns
        self.status = status
        self.deprecation = deprecation
        self._preserve = preserve or not schema
        self._rules = rules.has_rules(schema)

    def problems(self, kind: Kind, obj: Object) -> Problems | None:
        """Unknown fields, which are removed, and metadata of the wrong type."""
        del kind
        problems = schemas.check(_METADATA_ONLY, {"metadata": obj.get("metadata")})
        if not self._preserve:
            body = {key: value for key, value in obj.items() if key not in _HEAD}
            removed = structural.prune(self.schema, body, "")
            if removed:
                for key in [key for key in obj if key not in _HEAD and key not in body]:
                    del obj[key]
                problems = problems or Problems()
                problems.unknown = sorted(removed) + problems.unknown
        return problems

    def default(self, obj: Object) -> None:
        """Fill in the schema's defaults."""
        if self.schema:
            structural.default(self.schema, obj)

    def validate(self, obj: Object, old: Object | None) -> tuple[list[FieldError], list[str]]:
        """What does not fit the schema, what the rules say where they can be asked, and what they warn of."""
        if not self.schema:
            return [], []
        body, before = _body(obj), structural.ABSENT if old is None else _body(old)
        causes = structural.validate(self.schema, body, "", before)
        if not self._rules:
            return causes, []
        if any(cause.reason in _BLOCKING for cause in causes):
            return [*causes, RULES_NOT_CHECKED], []
        refused, warned = rules.validate_rules(
            self.schema, obj, "", structural.ABSENT if old is None else old
        )
        return causes + refused, [f"{cause.field}: {cause.message}" for cause in warned]


def _body(obj: Object) -> Object:
    return {key: value for key, value in obj.items() if key not in _HEAD}

"""Custom resources: what one version of a CustomResourceDefinition asks of its objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from tidewright.sim.api import schemas
from tidewright.sim.api.errors import Cause
from tidewright.sim.api.schemas import Problems

if TYPE_CHECKING:
    from tidewright.sim.api.resources import Kind

Object = dict[str, Any]
_METADATA_ONLY = "V1ConfigMap"  # a model that has metadata and needs nothing else


class PrinterColumn(msgspec.Struct, rename="camel"):
    """A column that a definition asks for."""

    name: str
    type: str
    json_path: str = msgspec.field(name="jsonPath")
    description: str = ""
    format: str = ""
    priority: int = 0


class CustomVersion:
    """One version of a custom resource."""

    def __init__(self, schema: Object, columns: tuple[PrinterColumn, ...]) -> None:
        self.schema = schema
        self.columns = columns

    def problems(self, kind: Kind, obj: Object) -> Problems | None:
        """Unknown and ill-typed fields."""
        return schemas.check(_METADATA_ONLY, {"metadata": obj.get("metadata")})

    def default(self, obj: Object) -> None:
        """Prune what the schema does not know and fill in its defaults."""

    def validate(self, obj: Object, old: Object | None) -> list[Cause]:
        return []

"""Server-side tables: what `kubectl get` prints.

A table has the columns of its kind (`columns.py` for built-in kinds, printer columns for custom ones) and a
row per object, with as much of the object as the client asked for (`includeObject`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from tidewright.sim.api.crd.custom import PrinterColumn
from tidewright.sim.api.http.ages import age
from tidewright.sim.api.http.columns import COLUMNS, Column
from tidewright.sim.api.kinds.resources import Kind
from tidewright.sim.api.store.store import Record

if TYPE_CHECKING:
    from tidewright.sim.api.api import Api

Object = dict[str, Any]

NAME = Column("Name", "string", "name", "Name must be unique within a namespace.")
AGE = Column(
    "Age",
    "string",
    "",
    "CreationTimestamp is a timestamp representing the server time when this object was created.",
)


_NAMED_LAST = frozenset({"/events"})  # whose name is a column of its own, for the wide form


def definitions(kind: Kind, version: str) -> list[Object]:
    """The columns of a kind."""
    return [
        {
            "name": column.name,
            "type": column.type,
            "format": column.format,
            "description": column.description,
            "priority": column.priority,
        }
        for column in _columns(kind, version)
    ]


def _columns(kind: Kind, version: str) -> list[Column]:
    if kind.custom:
        printed = kind.custom[version].columns
        if not printed:
            return [NAME, AGE]
        return [
            NAME,
            *(
                Column(column.name, column.type, column.format, column.description, column.priority)
                for column in printed
            ),
        ]
    printer = COLUMNS.get(kind.table_name)
    if printer is None:
        return [NAME, AGE]
    return list(printer.columns) if kind.table_name in _NAMED_LAST else [NAME, *printer.columns]


def cells(kind: Kind, version: str, obj: Object, now_s: float) -> list[Any]:
    """One row's cells."""
    name = obj["metadata"].get("name", "")
    created = age(obj["metadata"].get("creationTimestamp"), now_s)
    if kind.custom:
        columns = kind.custom[version].columns
        if not columns:
            return [name, created]
        return [name, *(_custom_cell(obj, column, now_s) for column in columns)]
    printer = COLUMNS.get(kind.table_name)
    if printer is None:
        return [name, created]
    row = printer.cells(obj, now_s)
    return row if kind.table_name in _NAMED_LAST else [name, *row]


def table(
    api: Api,
    kind: Kind,
    version: str,
    *,
    records: list[Record],
    metadata: Object,
    include: str,
    headers: bool = True,
) -> bytes:
    """A Table of records; `include` is None, Metadata or Object."""
    now_s = api.stamps.now_s()
    rows = []
    for record in records:
        obj = api.to_version(kind, version, record.decode())
        rows.append(
            {
                "cells": cells(kind, version, obj, now_s),
                "object": _shown(api, kind, version, record=record, obj=obj, include=include),
            }
        )
    return msgspec.json.encode(
        {
            "kind": "Table",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": metadata,
            "columnDefinitions": definitions(kind, version) if headers else None,
            "rows": rows,
        }
    )


def _shown(api: Api, kind: Kind, version: str, *, record: Record, obj: Object, include: str) -> Any:
    if include == "None":
        return None
    if include == "Object":
        return msgspec.Raw(api.render(kind, version, record))
    return partial(obj)


def partial(obj: Object) -> Object:
    """Only an object's metadata."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": obj["metadata"],
    }


_PATH_PART = re.compile(
    r"\.?\[\?\(@\.(?P<key>[\w.\-/]+)\s*==\s*(?P<quote>['\"])(?P<wanted>.*?)(?P=quote)\)\]"
    r"|\[(?P<index>-?\d+|\*)\]"
    r"|\[(?P<q2>['\"])(?P<quoted>.*?)(?P=q2)\]"
    r"|(?P<deep>\.)(?=\.)"
    r"|\.(?P<field>(?:\\.|[^.\[\]])+)"
)


def json_path(obj: Any, path: str) -> list[Any]:
    """The values at a JSON path of the simple kind that printer columns use."""
    values = [obj]
    text = path if path.startswith((".", "[")) else "." + path
    position = 0
    while position < len(text):
        if values and text[position:] == ".":
            return values  # the end of a path that ends in `..`
        match = _PATH_PART.match(text, position)
        if match is None:
            return []
        position = match.end()
        values = [value for item in values for value in _step(item, match)]
    return values


def _step(item: Any, match: re.Match[str]) -> list[Any]:
    if match["deep"]:
        return list(_descendants(item))
    field = match["field"] or match["quoted"]
    if field is not None:
        field = field.replace("\\.", ".")
        if field == "*":
            return list(item.values()) if isinstance(item, dict) else list(item or [])
        return [item[field]] if isinstance(item, dict) and field in item else []
    if not isinstance(item, list):
        return []
    if match["index"] is not None:
        if match["index"] == "*":
            return list(item)
        index = int(match["index"])
        return [item[index]] if -len(item) <= index < len(item) else []
    return [
        entry for entry in item if isinstance(entry, dict) and str(entry.get(match["key"])) == match["wanted"]
    ]


def _descendants(item: Any) -> Iterator[Any]:
    """What `..` finds: maps, lists and texts that are not empty, a parent before its children."""
    if isinstance(item, dict | list | str) and item:
        yield item
        if not isinstance(item, str):
            for child in item.values() if isinstance(item, dict) else item:
                yield from _descendants(child)


def _custom_cell(obj: Object, column: PrinterColumn, now_s: float) -> Any:
    values = json_path(obj, column.json_path)
    value = values[0] if values else None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    match column.type:
        case _ if value is None:
            return None
        case "date":
            return age(value, now_s) if isinstance(value, str) else None
        case "integer":
            return int(value) if is_number else None
        case "number":
            return float(value) if is_number else None
        case "boolean":
            return value if isinstance(value, bool) else None
    if isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode()

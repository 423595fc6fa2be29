"""Errors about fields of an object in the API server's words, and what it checks of metadata.

Paths, reasons and messages are those of the Kubernetes API (`spec.containers[0].name`, `FieldValueInvalid`,
`Invalid value: "A": a lowercase RFC 1123 label must ...`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from tidewright.kube.podapi import names


class FieldError(msgspec.Struct, frozen=True):
    """One field that is wrong: its path, what is wrong with it, and the machine-readable kind of it."""

    field: str
    message: str
    reason: str = "FieldValueInvalid"

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


def shown(value: Any) -> str:
    """A value as messages quote it: JSON."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return repr(value)  # JSON here has no integers beyond 64 bits
    return msgspec.json.encode(value).decode()


def required(field: str, message: str = "") -> FieldError:
    return FieldError(field, "Required value" + (f": {message}" if message else ""), "FieldValueRequired")


def invalid(field: str, value: Any, message: str) -> FieldError:
    return FieldError(field, f"Invalid value: {shown(value)}: {message}")


def not_supported(field: str, value: Any, supported: Sequence[str]) -> FieldError:
    listed = ", ".join(f'"{item}"' for item in supported)
    message = f"Unsupported value: {shown(value)}: supported values: {listed}"
    return FieldError(field, message, "FieldValueNotSupported")


def forbidden(field: str, message: str) -> FieldError:
    return FieldError(field, f"Forbidden: {message}", "FieldValueForbidden")


def duplicate(field: str, value: Any) -> FieldError:
    return FieldError(field, f"Duplicate value: {shown(value)}", "FieldValueDuplicate")


def not_found(field: str, value: Any) -> FieldError:
    return FieldError(field, f"Not found: {shown(value)}", "FieldValueNotFound")


def not_negative(field: str, value: Any) -> Iterator[FieldError]:
    if isinstance(value, int) and value < 0:
        yield invalid(field, value, "must be greater than or equal to 0")


MAX_ANNOTATIONS_BYTES = 256 * 1024


def label_errors(labels: Mapping[str, str], path: str) -> Iterator[FieldError]:
    """Keys and values of a map of labels."""
    for key, value in labels.items():
        yield from (invalid(path, key, message) for message in names.qualified(key))
        yield from (invalid(path, value, message) for message in names.label_value(value))


def annotation_errors(annotations: Mapping[str, str], path: str) -> Iterator[FieldError]:
    """Keys of a map of annotations, whose case does not matter, and its size."""
    for key in annotations:
        yield from (invalid(path, key, message) for message in names.qualified(key.lower()))
    if (
        sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
        > MAX_ANNOTATIONS_BYTES
    ):
        message = f"Too long: may not be more than {MAX_ANNOTATIONS_BYTES} bytes"
        yield FieldError(path, message, "FieldValueTooLong")


def owner_errors(references: Sequence[Mapping[str, Any]], path: str) -> Iterator[FieldError]:
    """Owner references: complete, and one controller at most."""
    for reference in references:
        version = reference.get("apiVersion") or ""
        if not version:
            yield invalid(f"{path}.apiVersion", version, "version must not be empty")
        elif version.count("/") > 1:
            yield invalid(f"{path}.apiVersion", version, f"unexpected GroupVersion string: {version}")
        for field in ("kind", "name", "uid"):
            if not reference.get(field):
                yield invalid(f"{path}.{field}", "", "must not be empty")
    controllers = [f"{r.get('kind')}/{r.get('name')}" for r in references if r.get("controller")]
    if len(controllers) > 1:
        both = f'Found "true" in references for {controllers[0]} and {controllers[1]}'
        yield invalid(path, references, f"Only one reference can have Controller set to true. {both}")

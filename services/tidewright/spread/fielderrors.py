"""Errors about fields of an object, and the checks of names that many rules share.

Paths and error types are those of the Kubernetes API (`spec.subsets[0].name`, `FieldValueInvalid`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec

ErrorType = Literal[
    "FieldValueRequired",
    "FieldValueInvalid",
    "FieldValueNotSupported",
    "FieldValueForbidden",
    "FieldValueDuplicate",
    "FieldValueNotFound",
    "FieldValueTooLong",
    "InternalError",
]

_LABEL_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")
_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_DNS_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NAME_MAX, _SUBDOMAIN_MAX = 63, 253


_WORDS = {"FieldValueRequired": "must be given"}
"""What an error says that has nothing to add."""


class FieldError(msgspec.Struct, frozen=True):
    """One thing that is wrong: where, of which kind, and what would be right."""

    field: str
    type: ErrorType
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.field}: {self.detail or _WORDS.get(self.type, self.type)}"


def required(field: str, detail: str = "") -> FieldError:
    return FieldError(field, "FieldValueRequired", detail)


def invalid(field: str, value: Any, detail: str) -> FieldError:
    return FieldError(field, "FieldValueInvalid", f"{value!r}: {detail}")


def not_supported(field: str, value: Any, supported: tuple[str, ...]) -> FieldError:
    return FieldError(field, "FieldValueNotSupported", f"{value!r}: supported are {', '.join(supported)}")


def forbidden(field: str, detail: str) -> FieldError:
    return FieldError(field, "FieldValueForbidden", detail)


def duplicate(field: str, value: Any) -> FieldError:
    return FieldError(field, "FieldValueDuplicate", f"{value!r} occurs before")


def not_found(field: str, value: Any) -> FieldError:
    return FieldError(field, "FieldValueNotFound", f"{value!r} does not exist")


def label_name_faults(name: str) -> Iterator[str]:
    """What is wrong with a label key, each fault by itself."""
    parts = name.split("/")
    if len(parts) > 2:
        yield "a label key is a name, or a DNS subdomain, a slash and a name"
        return
    if len(parts) == 2:
        if not parts[0]:
            yield "the part before the slash must not be empty"
        else:
            yield from subdomain_faults(parts[0])
    own = parts[-1]
    if not own:
        yield "the name must not be empty"
    elif len(own) > _NAME_MAX:
        yield f"the name must have at most {_NAME_MAX} characters"
    if not _LABEL_NAME.fullmatch(own):
        yield "the name consists of letters, digits, '-', '_' and '.', and begins and ends with a letter or digit"


def label_value_faults(value: str) -> Iterator[str]:
    """What is wrong with a label value."""
    if len(value) > _NAME_MAX:
        yield f"a label value has at most {_NAME_MAX} characters"
    if not _LABEL_VALUE.fullmatch(value):
        yield "a label value is empty, or consists of letters, digits, '-', '_', '.' between letters or digits"


ANNOTATIONS_MAX_BYTES = 256 << 10


def annotation_errors(annotations: Mapping[str, str], path: str) -> Iterator[FieldError]:
    """Keys of a map of annotations, whose case does not matter, and its size."""
    for key in annotations:
        for fault in label_name_faults(key.lower()):
            yield invalid(path, key, fault)
    size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
    if size > ANNOTATIONS_MAX_BYTES:
        yield FieldError(
            path, "FieldValueTooLong", f"{size} bytes; at most {ANNOTATIONS_MAX_BYTES} are allowed"
        )


def owner_errors(references: Sequence[Mapping[str, Any]], path: str) -> Iterator[FieldError]:
    """Owner references: complete, and one controller at most."""
    for reference in references:
        for field in ("apiVersion", "kind", "name", "uid"):
            if not reference.get(field):
                yield invalid(f"{path}.{field}", reference.get(field) or "", "must not be empty")
        if (reference.get("apiVersion") or "").count("/") > 1:
            yield invalid(f"{path}.apiVersion", reference["apiVersion"], "has more than one slash")
    controllers = [r.get("name") or "" for r in references if r.get("controller")]
    if len(controllers) > 1:
        yield invalid(path, controllers, "only one reference can be the controller")


def subdomain_faults(name: str) -> Iterator[str]:
    """What is wrong with a DNS subdomain name."""
    if len(name) > _SUBDOMAIN_MAX:
        yield f"a DNS subdomain has at most {_SUBDOMAIN_MAX} characters"
    if not _DNS_SUBDOMAIN.fullmatch(name):
        yield "a DNS subdomain consists of lower case letters, digits, '-' and '.'"


def dns_label_faults(name: str) -> Iterator[str]:
    """What is wrong with a DNS label."""
    if len(name) > _NAME_MAX:
        yield f"a DNS label has at most {_NAME_MAX} characters"
    if not _DNS_LABEL.fullmatch(name):
        yield "a DNS label consists of lower case letters, digits and '-' between letters or digits"


def label_errors(labels: Mapping[str, str], path: str) -> Iterator[FieldError]:
    """Keys and values of a map of labels."""
    for key, value in labels.items():
        for fault in label_name_faults(key):
            yield invalid(path, key, fault)
        for fault in label_value_faults(value):
            yield invalid(path, value, fault)

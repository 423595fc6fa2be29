"""What node selector terms and tolerations must satisfy, as Kubernetes checks them (V9 to V11)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tidewright.spread.fielderrors import (
    FieldError,
    forbidden,
    invalid,
    label_name_faults,
    label_value_faults,
    not_supported,
    required,
    subdomain_faults,
)

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_MAX_WEIGHT = 100


def term_errors(term: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    """One NodeSelectorTerm."""
    for i, expression in enumerate(term.get("matchExpressions") or ()):
        yield from _expression_errors(expression, f"{path}.matchExpressions[{i}]")
    for i, field in enumerate(term.get("matchFields") or ()):
        yield from _field_errors(field, f"{path}.matchFields[{i}]")


def _expression_errors(expression: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    operator = expression.get("operator") or ""
    values: Sequence[str] = expression.get("values") or ()
    match operator:
        case "In" | "NotIn":
            if not values:
                yield required(f"{path}.values", "In and NotIn need values")
        case "Exists" | "DoesNotExist":
            if values:
                yield forbidden(f"{path}.values", f"{operator} takes no values")
        case "Gt" | "Lt":
            if len(values) != 1:
                yield required(f"{path}.values", f"{operator} needs exactly one value")
        case _:
            yield invalid(f"{path}.operator", operator, "not a valid selector operator")
    key = expression.get("key") or ""
    for fault in label_name_faults(key):
        yield invalid(f"{path}.key", key, fault)
    for i, value in enumerate(values):
        for fault in label_value_faults(value):
            yield invalid(f"{path}.values[{i}]", value, fault)


def _field_errors(field: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    operator = field.get("operator") or ""
    values: Sequence[str] = field.get("values") or ()
    if operator not in ("In", "NotIn"):
        yield invalid(f"{path}.operator", operator, "field selectors know In and NotIn")
    elif len(values) != 1:
        yield required(f"{path}.values", f"{operator} of a field needs exactly one value")
    key = field.get("key") or ""
    if key != "metadata.name":
        yield invalid(f"{path}.key", key, "only metadata.name can be selected on")
        return
    for i, value in enumerate(values):
        for fault in subdomain_faults(value):
            yield invalid(f"{path}.values[{i}]", value, fault)


def preferred_errors(terms: Sequence[Mapping[str, Any]], path: str) -> Iterator[FieldError]:
    """PreferredSchedulingTerms."""
    for i, term in enumerate(terms):
        weight = term.get("weight") or 0
        if not 1 <= weight <= _MAX_WEIGHT:
            yield invalid(f"{path}[{i}].weight", weight, f"must be in the range 1-{_MAX_WEIGHT}")
        yield from term_errors(term.get("preference") or {}, f"{path}[{i}].preference")


def toleration_errors(tolerations: Sequence[Mapping[str, Any]], path: str) -> Iterator[FieldError]:
    """Tolerations."""
    for i, toleration in enumerate(tolerations):
        at = f"{path}[{i}]"
        key, operator = toleration.get("key") or "", toleration.get("operator") or ""
        value, effect = toleration.get("value") or "", toleration.get("effect") or ""
        if key:
            for fault in label_name_faults(key):
                yield invalid(f"{at}.key", key, fault)
        elif operator != "Exists":
            yield invalid(f"{at}.operator", operator, "an empty key needs the operator Exists")
        if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
            yield invalid(f"{at}.effect", effect, "tolerationSeconds needs the effect NoExecute")
        match operator:
            case "Equal" | "":
                for fault in label_value_faults(value):
                    yield invalid(f"{at}.operator", value, fault)
            case "Exists":
                if value:
                    yield invalid(f"{at}.operator", value, "Exists takes no value")
            case _:
                yield not_supported(f"{at}.operator", operator, ("Equal", "Exists"))
        if effect and effect not in _EFFECTS:
            yield not_supported(f"{at}.effect", effect, _EFFECTS)

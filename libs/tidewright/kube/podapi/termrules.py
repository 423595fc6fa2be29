"""What node selector terms and tolerations must satisfy, as Kubernetes checks them, in the API server's words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tidewright.kube.podapi import names
from tidewright.kube.podapi.fielderrors import FieldError, forbidden, invalid, not_supported, required

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
MAX_WEIGHT = 100


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
                yield required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
        case "Exists" | "DoesNotExist":
            if values:
                message = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                yield forbidden(f"{path}.values", message)
        case "Gt" | "Lt":
            if len(values) != 1:
                message = "must be specified single value when `operator` is 'Lt' or 'Gt'"
                yield required(f"{path}.values", message)
        case _:
            yield invalid(f"{path}.operator", operator, "not a valid selector operator")
    key = expression.get("key") or ""
    yield from (invalid(f"{path}.key", key, message) for message in names.qualified(key))
    for i, value in enumerate(values):
        yield from (invalid(f"{path}.values[{i}]", value, message) for message in names.label_value(value))


def _field_errors(field: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    operator = field.get("operator") or ""
    values: Sequence[str] = field.get("values") or ()
    if operator not in ("In", "NotIn"):
        yield invalid(f"{path}.operator", operator, "not a valid selector operator")
    elif len(values) != 1:
        message = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        yield required(f"{path}.values", message)
    key = field.get("key") or ""
    if key != "metadata.name":
        yield invalid(f"{path}.key", key, "not a valid field selector key")
        return
    for i, value in enumerate(values):
        yield from (invalid(f"{path}.values[{i}]", value, message) for message in names.subdomain(value))


def weight_errors(preferred: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    """The weight of a preference."""
    weight = preferred.get("weight") or 0
    if not 1 <= weight <= MAX_WEIGHT:
        yield invalid(f"{path}.weight", weight, f"must be in the range 1-{MAX_WEIGHT}")


def preferred_errors(terms: Sequence[Mapping[str, Any]], path: str) -> Iterator[FieldError]:
    """PreferredSchedulingTerms."""
    for i, term in enumerate(terms):
        yield from weight_errors(term, f"{path}[{i}]")
        yield from term_errors(term.get("preference") or {}, f"{path}[{i}].preference")


def toleration_errors(
    tolerations: Sequence[Mapping[str, Any]], path: str, *, comparing: bool = False
) -> Iterator[FieldError]:
    """Tolerations. `comparing`: the operators Lt and Gt are taken, as servers with that feature take them."""
    for i, toleration in enumerate(tolerations):
        at = f"{path}[{i}]"
        key, operator = toleration.get("key") or "", toleration.get("operator") or ""
        value, effect = toleration.get("value") or "", toleration.get("effect") or ""
        yield from (invalid(f"{at}.key", key, message) for message in (names.qualified(key) if key else ()))
        if not key and operator != "Exists":
            message = (
                'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            )
            yield invalid(f"{at}.operator", operator, message)
        if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
            message = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            yield invalid(f"{at}.effect", effect, message)
        match operator:
            case "Equal" | "":
                faults = names.label_value(value)
                yield from (invalid(f"{at}.operator", value, message) for message in faults)
            case "Exists":
                if value:
                    message = "value must be empty when `operator` is 'Exists'"
                    yield invalid(f"{at}.operator", value, message)
            case _ if not (comparing and operator in ("Lt", "Gt")):
                yield not_supported(f"{at}.operator", operator, ("Equal", "Exists"))
        if effect and effect not in EFFECTS:
            yield not_supported(f"{at}.effect", effect, EFFECTS)

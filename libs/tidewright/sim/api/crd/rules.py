"""The CEL rules of custom resources (`x-kubernetes-validations`): asked of a value and everything below it.

A rule that compares with the past (`oldSelf`) is asked only where there is one, or with an optional one
(`optionalOldSelf`). Rules that only look at a value which an update leaves as it was are not held against it.
"""

from __future__ import annotations

from typing import Any

from tidewright.kube.podapi.fielderrors import FieldError, shown
from tidewright.sim.api.crd.cel import CelError, Times, compile_rule, times_below, to_cel
from tidewright.sim.api.crd.structural import ABSENT, old_below, old_items

Object = dict[str, Any]


def has_rules(schema: Any) -> bool:
    """Whether there is a CEL rule in the schema or below."""
    if not isinstance(schema, dict):
        return False
    if schema.get("x-kubernetes-validations"):
        return True
    below = [
        *(schema.get("properties") or {}).values(),
        schema.get("items"),
        schema.get("additionalProperties"),
    ]
    return any(has_rules(part) for part in below)


def validate_rules(
    schema: Object, value: Any, path: str, old: Any = ABSENT
) -> tuple[list[FieldError], list[FieldError]]:
    """Ask the rules: (what is refused, what is only warned of because it was so before).

    Args:
        schema: of the value.
        value: what is to be stored; null is asked nothing.
        path: where it is.
        old: the stored value; ABSENT when there is none, or none that can be told.
    """
    refused: list[FieldError] = []
    warned: list[FieldError] = []
    _ask_all(schema, value, path, old=ABSENT if old is None else old, refused=refused, warned=warned)
    return refused, warned


def _ask_all(
    schema: Object, value: Any, path: str, *, old: Any, refused: list[FieldError], warned: list[FieldError]
) -> None:
    for rule in schema.get("x-kubernetes-validations") or ():
        cause, of_past = _ask(rule, schema, value, old, path)
        if cause is not None:
            (warned if not of_past and old is not ABSENT and old == value else refused).append(cause)
    if isinstance(value, dict):
        properties, additional = schema.get("properties") or {}, schema.get("additionalProperties")
        for key, item in value.items():
            part = properties.get(key, additional)
            if isinstance(part, dict) and item is not None:
                below = (
                    f"{path}.{key}"
                    if key in properties and path
                    else key
                    if key in properties
                    else f"{path}[{key}]"
                )
                _ask_all(part, item, below, old=old_below(old, key), refused=refused, warned=warned)
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        before = old_items(schema, old)
        for index, item in enumerate(value):
            if item is not None:
                _ask_all(
                    schema["items"],
                    item,
                    f"{path}[{index}]",
                    old=before(item),
                    refused=refused,
                    warned=warned,
                )


def _ask(rule: Object, schema: Object, value: Any, old: Any, path: str) -> tuple[FieldError | None, bool]:
    """What a rule has against a value, and whether it looked at the past."""
    optional = rule.get("optionalOldSelf") is True
    times = _times(schema)
    compiled = compile_rule(rule["rule"], optional_old=optional, times=times)
    of_past = compiled.uses_old
    if of_past and old is ABSENT and not optional:
        return None, of_past
    data = {"self": to_cel(value, schema, escaped=compiled.escaped)}
    if old is not ABSENT:
        data["oldSelf"] = to_cel(old, schema, escaped=compiled.escaped)
    field = path or "<nil>"
    kind = schema.get("type", "")
    name = str(rule.get("message") or rule["rule"]).strip()
    try:
        if compiled.evaluate(data) is True:
            return None, of_past
    except CelError as error:
        said = f"{error} evaluating rule: {name}"
        if str(error).startswith("no such overload"):
            said = (
                f"'{error}': call arguments did not match a supported operator, function or macro signature "
                f"for rule: {name}"
            )
        return FieldError(field, f'Invalid value: "{kind}": {said}'), of_past
    if rule.get("fieldPath"):
        field = f"{path}{rule['fieldPath']}" if path else str(rule["fieldPath"]).removeprefix(".")
    message = str(rule["message"]).strip() if rule.get("message") else f"failed rule: {name}"
    if rule.get("messageExpression"):
        message = _message(rule["messageExpression"], data, optional, times) or message
    quoted = "" if kind in {"object", "array"} else f": {shown(value)}"
    match rule.get("reason"):
        case "FieldValueRequired":
            return FieldError(field, f"Required value: {message}", "FieldValueRequired"), of_past
        case "FieldValueForbidden":
            return FieldError(field, f"Forbidden: {message}", "FieldValueForbidden"), of_past
        case "FieldValueDuplicate":
            return FieldError(field, f"Duplicate value{quoted}", "FieldValueDuplicate"), of_past
    return FieldError(field, f"Invalid value{quoted}: {message}", "FieldValueInvalid"), of_past


_known_times: dict[int, tuple[Object, Times]] = {}  # by the schema's identity, which is kept with it


def _times(schema: Object) -> Times:
    """The times of a schema, found once for each."""
    known = _known_times.get(id(schema))
    if known is None or known[0] is not schema:
        if len(_known_times) > 10_000:
            _known_times.clear()
        known = _known_times[id(schema)] = (schema, times_below(schema))
    return known[1]


def _message(expression: str, data: Object, optional: bool, times: Times) -> str:
    """What a message expression says; empty where the fixed message stands, as on the real server."""
    try:
        result = compile_rule(expression, optional_old=optional, times=times).evaluate(data)
    except CelError:
        return ""
    usable = isinstance(result, str) and result.strip() and "\n" not in result and len(result) <= 5 * 1024
    return str(result).strip() if usable else ""

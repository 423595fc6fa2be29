"""What the API server checks of the schemas in a CustomResourceDefinition: that they are structural, say nothing that
contradicts itself, have defaults that fit, and rules that compile.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from tidewright.kube.podapi.fielderrors import FieldError, forbidden, invalid, not_supported, required
from tidewright.sim.api.crd.cel import CelError, CelRule, compile_rule
from tidewright.sim.api.crd.cel_fields import trouble
from tidewright.sim.api.crd.structural import prune, validate

Object = dict[str, Any]
_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_REASONS = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]
_NOT_SUPPORTED = ("additionalItems", "definitions", "dependencies", "id", "patternProperties", "$ref")
_SCALARS = frozenset({"boolean", "integer", "number", "string"})
_ROOT, _FIELD, _ITEM = "at the root", "for specified object fields", "for specified array items"


def check_schema(schema: Object, path: str, *, status: bool) -> list[FieldError]:
    """What is wrong with the `openAPIV3Schema` of a version; `status` when it has that subresource."""
    causes = [*_check_root(schema, path, status=status), *_check(schema, path, _ROOT)]
    if not causes:  # what is not structural cannot be asked
        causes += _check_defaults(schema, path)
    if not causes:
        causes += _check_rules(schema, path, past=True, root=True)
    return causes


_ROOT_FIELDS = ("Description", "Type", "Format", "Title", "Maximum", "ExclusiveMaximum", "Minimum", "ExclusiveMinimum",
                "MaxLength", "MinLength", "Pattern", "MaxItems", "MinItems", "UniqueItems", "MultipleOf", "Required",
                "Items", "Properties", "ExternalDocs", "Example", "XPreserveUnknownFields", "XValidations")  # fmt: skip


def _check_root(schema: Object, path: str, *, status: bool) -> Iterator[FieldError]:
    kind = schema.get("type")
    if kind and kind != "object":
        yield invalid(f"{path}.type", kind, "must be object at the root")
        if status:
            message = 'only "object" is allowed as the type at the root of the schema if the status subresource is enabled'
            yield invalid(f"{path}.type", kind, message)
    if schema.get("nullable"):
        yield forbidden(f"{path}.nullable", "nullable cannot be true at the root")
    if isinstance(schema.get("additionalProperties"), dict):
        yield forbidden(f"{path}.additionalProperties", "must not be used at the root")
    allowed = {name[0].lower() + name[1:] for name in _ROOT_FIELDS if name[0] != "X"}
    beyond = [key for key in schema if key not in allowed and not key.startswith("x-kubernetes-")]
    if status and beyond:
        field_names = " ".join(_ROOT_FIELDS)
        message = f"only [{field_names}] fields are allowed at the root of the schema if the status subresource is enabled"
        yield invalid(path, schema, message)
    metadata = (schema.get("properties") or {}).get("metadata")
    if isinstance(metadata, dict):
        rest = {key: item for key, item in metadata.items() if key not in {"type", "description"}}
        if set(rest.pop("properties", None) or {}) - {"name", "generateName"} or rest:
            message = "must not specify anything other than name and generateName, but metadata is implicitly specified"
            yield forbidden(f"{path}.properties[metadata]", message)


def _check(schema: Object, path: str, where: str) -> Iterator[FieldError]:  # noqa: C901  # one rule after the other
    """Structural: every place has a type, or says why it has none."""
    kind = schema.get("type")
    either = schema.get("x-kubernetes-int-or-string") is True
    free = schema.get("x-kubernetes-preserve-unknown-fields")
    embedded = schema.get("x-kubernetes-embedded-resource") is True
    if embedded and kind != "object":
        message = "must be object if x-kubernetes-embedded-resource is true"
        yield invalid(f"{path}.type", kind, message) if kind else required(f"{path}.type", message)
    elif not kind and not either and not free:
        yield required(f"{path}.type", f"must not be empty {where}")
    if kind == "null":
        yield forbidden(f"{path}.type", "type cannot be set to null, use nullable as an alternative")
    elif kind and kind not in _TYPES:
        yield not_supported(f"{path}.type", kind, _TYPES)
    if free is False:
        yield invalid(f"{path}.x-kubernetes-preserve-unknown-fields", free, "must be true or undefined")
    if either and free:
        message = "must be false if x-kubernetes-int-or-string is true"
        yield invalid(f"{path}.x-kubernetes-preserve-unknown-fields", free, message)
    if embedded and not free and not schema.get("properties"):
        yield required(
            f"{path}.properties",
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields",
        )
    for name in _NOT_SUPPORTED:
        if schema.get(name):
            yield forbidden(f"{path}.{name}", f"{name} is not supported")
    yield from _check_pattern(schema, path)
    if isinstance(schema.get("items"), list):
        yield forbidden(f"{path}.items", "items must be a schema object and not an array")
    elif kind == "array" and not isinstance(schema.get("items"), dict):
        yield required(f"{path}.items", "must be specified")
    if schema.get("properties") and isinstance(schema.get("additionalProperties"), dict):
        message = "additionalProperties and properties are mutual exclusive"
        yield forbidden(f"{path}.additionalProperties", message)
    if schema.get("uniqueItems"):
        message = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield forbidden(f"{path}.uniqueItems", message)
    yield from _check_merging(schema, path)
    yield from _check_junctors(schema, path, either=either)
    for index, rule in enumerate(schema.get("x-kubernetes-validations") or ()):
        yield from _check_rule(rule, f"{path}.x-kubernetes-validations[{index}]")
    for name, below in (schema.get("properties") or {}).items():
        if isinstance(below, dict) and not (where == _ROOT and name in {"metadata", "apiVersion", "kind"}):
            yield from _check(below, f"{path}.properties[{name}]", _FIELD)
    if isinstance(schema.get("items"), dict):
        yield from _check(schema["items"], f"{path}.items", _ITEM)
    if isinstance(schema.get("additionalProperties"), dict):
        yield from _check(schema["additionalProperties"], f"{path}.additionalProperties", _FIELD)


def _check_pattern(schema: Object, path: str) -> Iterator[FieldError]:
    pattern = schema.get("pattern")
    if pattern is not None:
        try:
            re.compile(pattern)
        except re.error as error:
            yield invalid(
                f"{path}.pattern", pattern, f"must be a valid regular expression, but isn't: {error}"
            )


def _check_merging(schema: Object, path: str) -> Iterator[FieldError]:  # noqa: C901  # one rule after the other
    """How lists and maps merge has to go with what they are."""
    kind = schema.get("type")
    map_type, list_type = schema.get("x-kubernetes-map-type"), schema.get("x-kubernetes-list-type")
    keys = schema.get("x-kubernetes-list-map-keys") or []
    for given, expected, name in ((map_type, "object", "map"), (list_type, "array", "list")):
        if given and kind != expected:
            message = f"must be {expected} if x-kubernetes-{name}-type is specified"
            yield invalid(f"{path}.type", kind, message) if kind else required(f"{path}.type", message)
    if map_type and map_type not in {"atomic", "granular"}:
        yield not_supported(f"{path}.x-kubernetes-map-type", map_type, ("atomic", "granular"))
    if list_type and list_type not in {"atomic", "map", "set"}:
        yield not_supported(f"{path}.x-kubernetes-list-type", list_type, ("atomic", "map", "set"))
    if keys and list_type != "map":
        message = "must be map if x-kubernetes-list-map-keys is non-empty"
        at = f"{path}.x-kubernetes-list-type"
        yield invalid(at, list_type, message) if list_type else required(at, message)
    raw = schema.get("items")
    items: Object = raw if isinstance(raw, dict) else {}
    if list_type in {"map", "set"} and items.get("nullable"):
        yield forbidden(
            f"{path}.items.nullable", f"cannot be nullable when x-kubernetes-list-type is {list_type}"
        )
    if list_type != "map":
        return
    if not keys:
        yield required(
            f"{path}.x-kubernetes-list-map-keys", "must not be empty if x-kubernetes-list-type is map"
        )
    if not items:
        yield required(f"{path}.items", "must have a schema if x-kubernetes-list-type is map")
    elif items.get("type") != "object":
        message = "must be object if parent array's x-kubernetes-list-type is map"
        yield invalid(f"{path}.items.type", items.get("type", ""), message)
    properties = items.get("properties") or {}
    for key in keys:
        at = f"{path}.items.properties[{key}]"
        if key not in properties:
            message = "entries must all be names of item properties"
            yield invalid(f"{path}.x-kubernetes-list-map-keys", keys, message)
            continue
        if properties[key].get("type") not in _SCALARS:
            message = "must be a scalar type if parent array's x-kubernetes-list-type is map"
            yield invalid(f"{at}.type", items.get("type"), message)
        if key not in (items.get("required") or ()) and "default" not in properties[key]:
            message = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"
            yield required(f"{at}.default", message)
        if properties[key].get("nullable"):
            message = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable"
            yield forbidden(f"{at}.nullable", message)
    if len(set(keys)) < len(keys):
        yield invalid(f"{path}.x-kubernetes-list-map-keys", keys, "must not contain duplicate entries")


_ONLY_OUTSIDE = (
    "type", "title", "description", "default", "nullable", "additionalProperties", "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields",
)  # fmt: skip


def _check_junctors(schema: Object, path: str, *, either: bool) -> Iterator[FieldError]:
    """Below anyOf and its like there is only what narrows down what is specified outside."""
    for name in ("anyOf", "allOf", "oneOf"):
        for index, part in enumerate(schema.get(name) or ()):
            if either and name == "anyOf" and schema["anyOf"] == _INT_OR_STRING:
                continue
            if either and name == "allOf" and index == 0 and part.get("anyOf") == _INT_OR_STRING:
                continue
            yield from _check_nested(part, f"{path}.{name}[{index}]")
    if isinstance(schema.get("not"), dict):
        yield from _check_nested(schema["not"], f"{path}.not")


def _check_nested(schema: Object, path: str) -> Iterator[FieldError]:
    for name in _ONLY_OUTSIDE:
        if name in schema:
            undefined = name == "additionalProperties" or name == "default"
            how = "undefined" if undefined else "false" if schema[name] is True else "empty"
            yield forbidden(f"{path}.{name}", f"must be {how} to be structural")
    if schema.get("x-kubernetes-validations"):
        yield forbidden(f"{path}.x-kubernetes-validations", "must be empty to be structural")
    yield from _check_pattern(schema, path)
    for name, below in (schema.get("properties") or {}).items():
        yield from _check_nested(below, f"{path}.properties[{name}]")
    if isinstance(schema.get("items"), dict):
        yield from _check_nested(schema["items"], f"{path}.items")
    yield from _check_junctors(schema, path, either=False)


# -- defaults and rules --------------------------------------------------------------------------------


def _check_defaults(schema: Object, path: str) -> Iterator[FieldError]:
    if "default" in schema:
        given = msgspec.json.decode(msgspec.json.encode(schema["default"]))
        at = f"{path}.default"
        if prune(schema, given, ""):
            yield invalid(at, schema["default"], "must not have unknown fields")
        else:
            for cause in validate(schema, given, ""):
                field = (
                    cause.field if cause.field == "<nil>" else f"{at}.{cause.field}" if cause.field else at
                )
                yield FieldError(field, cause.message, cause.reason)
    for name, below in (schema.get("properties") or {}).items():
        yield from _check_defaults(below, f"{path}.properties[{name}]")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from _check_defaults(schema[key], f"{path}.{key}")


def _check_rule(rule: Object, path: str) -> Iterator[FieldError]:
    text, message = rule.get("rule") or "", rule.get("message")
    if not text.strip():
        yield required(f"{path}.rule", "rule is not specified")
    if message and not message.strip():
        yield invalid(f"{path}.message", message, "must be non-empty if specified")
    elif message and "\n" in message.strip():
        yield invalid(f"{path}.message", message, "must not contain line breaks")
    elif "\n" in text.strip() and not (message or "").strip():
        yield required(f"{path}.message", "message must be specified if rule contains line breaks")
    expression = rule.get("messageExpression")
    if expression and not expression.strip():
        yield required(f"{path}.messageExpression", "messageExpression must be non-empty if specified")
    reason = rule.get("reason")
    if reason is not None and reason not in _REASONS:
        yield not_supported(f"{path}.reason", reason, _REASONS)
    field = rule.get("fieldPath")
    if field and not field.strip():
        yield invalid(f"{path}.fieldPath", field, "must be non-empty if specified")
    elif field and field[0] not in ".[":
        yield invalid(f"{path}.fieldPath", field, "must be a valid path")


_BLANK_RULE: Object = {
    "rule": "",
    "message": "",
    "messageExpression": "",
    "reason": None,
    "fieldPath": "",
    "optionalOldSelf": None,
}


def _compiled(rule: Object, name: str, schema: Object, *, root: bool) -> CelRule:
    """A rule's expression of that name. Raises CelError when it does not compile, or names unknown fields."""
    wrong = trouble(rule[name], schema, root=root)
    if wrong and (name == "rule" or "undefined" in wrong):
        raise CelError(wrong)
    return compile_rule(rule[name], optional_old=rule.get("optionalOldSelf") is True)


def _check_rules(schema: Object, path: str, *, past: bool, root: bool = False) -> Iterator[FieldError]:
    """Whether the rules compile; `past` where a value can be told from what it was before."""
    for index, rule in enumerate(schema.get("x-kubernetes-validations") or ()):
        at = f"{path}.x-kubernetes-validations[{index}]"
        for name in ("rule", "messageExpression"):
            if not rule.get(name):
                continue
            try:
                compiled = _compiled(rule, name, schema, root=root)
            except CelError as error:
                whole = {key[0].upper() + key[1:]: value for key, value in (_BLANK_RULE | rule).items()}
                yield invalid(f"{at}.{name}", whole, str(error))
                continue
            if name == "rule" and compiled.uses_old and not past:
                message = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {path}"
                yield invalid(f"{at}.rule", rule["rule"], message)
            if name == "rule" and not compiled.uses_old and "optionalOldSelf" in rule:
                message = "may not be set if oldSelf is not used in rule"
                yield invalid(f"{at}.optionalOldSelf", rule["optionalOldSelf"], message)
    for name, below in (schema.get("properties") or {}).items():
        yield from _check_rules(below, f"{path}.properties[{name}]", past=past)
    if isinstance(schema.get("items"), dict):
        keyed = schema.get("x-kubernetes-list-type") == "map"
        yield from _check_rules(schema["items"], f"{path}.items", past=past and keyed)
    if isinstance(schema.get("additionalProperties"), dict):
        yield from _check_rules(schema["additionalProperties"], f"{path}.additionalProperties", past=past)

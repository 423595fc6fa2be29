"""What the original reports of a patch that cannot be merged into a pod template, or leaves no pod.

It goes on with what is left of the pod: with nothing when the merge failed, else without the values of a wrong type.
Ours names the patch once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tidewright.events.base import Json, JsonObject
from tidewright.kube.podapi.fielderrors import FieldError
from tidewright.kube.podapi.merging import merge, read_back
from tidewright.kube.podapi.rules import pod_spec_errors
from tidewright.kube.podapi.schema import types
from tidewright.kube.strategicmerge import InvalidPatch


def errors_of(workload: JsonObject, patch: JsonObject, error: FieldError) -> list[FieldError]:
    """The errors of a patch that is tried on a workload's template, in place of the one that ours has."""
    spec: Mapping[str, Any] = workload.get("spec") or {}
    template = spec.get("template") or {}
    claims = {claim["metadata"]["name"] for claim in spec.get("volumeClaimTemplates") or ()}
    try:
        merged = merge(template, patch)
    except InvalidPatch:
        return [error, error, *pod_spec_errors({}, error.field, claims)]
    try:
        read_back(merged)
    except InvalidPatch:
        left = _read(merged, "Pod")
        pod = left if isinstance(left, dict) else {}
        return [error, *pod_spec_errors(pod.get("spec") or {}, error.field, claims)]
    return [error]


def applies(patch: JsonObject) -> bool:
    """Whether some pod may be made of it: a refusal of such a patch is none that is meant."""
    try:
        read_back(merge({}, patch))
    except InvalidPatch:
        return False
    return True


def about_space(error: FieldError) -> bool:
    """Whether an error is that of an image with space around it, and the image has it."""
    if not error.field.endswith(".image") or not error.message.endswith("whitespace"):
        return False
    image = json.loads(error.message[error.message.index('"') : error.message.rindex('"') + 1])
    return bool(image != image.strip())


def _read(value: Json, code: str) -> Json:
    """A value as its type, without what is of another: None where nothing is left of it."""
    if code[0] == "[":
        return [_read(item, code[1:-1]) or {} for item in value] if isinstance(value, list) else None
    if code in types():
        fields = types()[code]
        if not isinstance(value, dict):
            return None
        read = {k: _read(v, fields[k]) for k, v in value.items() if k in fields}
        return {k: v for k, v in read.items() if v is not None}
    return value if _is(value, code) else None


def _is(value: Json, code: str) -> bool:
    match code[0]:
        case "s":
            return isinstance(value, str)
        case "b":
            return isinstance(value, bool)
        case "i":
            return isinstance(value, int) and not isinstance(value, bool)
        case "{":
            return isinstance(value, dict)
    return True

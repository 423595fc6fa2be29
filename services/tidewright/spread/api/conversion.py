"""ConversionReviews: objects between the two served versions (specification, 1.4). Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tidewright.events.base import JsonObject
from tidewright.host.webhook.reviews import BadReview
from tidewright.kube.workloadspreads.spec import GROUP

_NAMES = (
    ("requiredNodeSelectorTerm", "requiredNodeSelector"),
    ("preferredNodeSelectorTerms", "preferredNodeSelector"),
)


def converted(body: bytes) -> bytes:
    """Answer a ConversionReview.

    Raises:
        BadReview: it cannot be read.
    """
    try:
        review = msgspec.json.decode(body)
        request = review["request"]
        api_version, uid = request["desiredAPIVersion"], request["uid"]
        objects = request.get("objects") or []
    except (
        msgspec.DecodeError,
        UnicodeDecodeError,
        RecursionError,
        LookupError,
        TypeError,
        AttributeError,
    ) as error:
        raise BadReview(f"not a ConversionReview: {error!r}") from error
    response: JsonObject = {"uid": uid}
    try:
        response["convertedObjects"] = [convert(obj, api_version) for obj in objects]
        response["result"] = {"status": "Success"}
    except BadReview as error:
        response["result"] = {"status": "Failure", "message": str(error)}
    return msgspec.json.encode(
        {"apiVersion": review.get("apiVersion"), "kind": "ConversionReview", "response": response}
    )


def convert(obj: JsonObject, desired: str) -> JsonObject:
    """One object in another version. Raises BadReview for a version that is not served, and what is no WorkloadSpread."""
    if desired not in (f"{GROUP}/v1alpha1", f"{GROUP}/v1beta1"):
        raise BadReview(f"WorkloadSpread has no version {desired!r}; it has v1alpha1 and v1beta1 of {GROUP}")
    try:
        return _converted(obj, desired, up=desired.endswith("v1beta1"))
    except (AttributeError, TypeError, ValueError) as error:
        raise BadReview(f"the object is no WorkloadSpread: {error}") from error


def _converted(obj: JsonObject, desired: str, *, up: bool) -> JsonObject:
    spec = dict(obj.get("spec") or {})
    if "subsets" in spec:
        spec["subsets"] = [_subset(subset, up=up) for subset in spec["subsets"] or ()]
    result: JsonObject = {**obj, "apiVersion": desired, "spec": spec}
    if isinstance(obj.get("status"), dict):
        status = dict(obj["status"])
        if "subsetStatuses" in status:
            status["subsetStatuses"] = _entries(status["subsetStatuses"], up=up)
        if isinstance(status.get("versionedSubsetStatuses"), dict):
            status["versionedSubsetStatuses"] = {
                version: _entries(entries, up=up)
                for version, entries in status["versionedSubsetStatuses"].items()
            }
        result["status"] = status
    return result


def _subset(subset: JsonObject, *, up: bool) -> JsonObject:
    names = {(old if up else new): (new if up else old) for old, new in _NAMES}
    return {names.get(key, key): value for key, value in subset.items()}


def _entries(entries: Sequence[JsonObject] | None, *, up: bool) -> list[JsonObject]:
    return [
        {**entry, "conditions": [_condition(c, up=up) for c in entry["conditions"]]}
        if entry.get("conditions")
        else entry
        for entry in entries or ()
    ]


def _condition(condition: JsonObject, *, up: bool) -> JsonObject:
    if up:
        return {
            **condition,
            "reason": condition.get("reason") or "Unknown",
            "message": condition.get("message", ""),
        }
    return {key: value for key, value in condition.items() if key != "observedGeneration"}

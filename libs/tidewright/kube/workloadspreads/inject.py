"""Writing a subset's rules into a pod (specification, 2.8), and into one that is already there (3.3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidewright.events.base import JsonObject
from tidewright.kube.podapi.merging import merge, read_back
from tidewright.kube.podapi.nodeterms import PREFERRED, REQUIRED, merged_terms, required_terms
from tidewright.kube.workloadspreads.placements import Placement, annotation
from tidewright.kube.workloadspreads.spec import MATCHED_ANNOTATION, Spread, Subset


def inject(pod: JsonObject, spread_name: str, subset: Subset, uid: str = "") -> JsonObject:
    """The pod as admitted into the subset; `pod` itself is left alone.

    `uid` is the ledger key of a pod that has no name yet.

    Raises:
        InvalidPatch: the subset's patch does not apply to this pod.
    """
    injected = with_rules(pod, subset)
    before = injected["spec"]
    if subset.patch:
        injected = patched(injected, subset.patch)
        if (injected.get("spec") or {}).get("priorityClassName") != before.get("priorityClassName"):
            # The built-in admission plugin fills it again, from the new class.
            injected["spec"] = {k: v for k, v in injected["spec"].items() if k != "priority"}
    return _annotated(injected, Placement(spread_name, subset.name, uid))


def with_rules(pod: JsonObject, subset: Subset) -> JsonObject:
    """The pod with the subset's scheduling rules, before its patch: tolerations and node affinity."""
    spec = dict(pod.get("spec") or {})
    if subset.tolerations:
        spec["tolerations"] = [*(spec.get("tolerations") or ()), *subset.tolerations]
    affinity = dict(spec.get("affinity") or {})
    node_affinity = dict(affinity.get("nodeAffinity") or {})
    if subset.preferred:
        node_affinity[PREFERRED] = [*(node_affinity.get(PREFERRED) or ()), *subset.preferred]
    if subset.required is not None:
        terms = merged_terms(required_terms(spec), subset.required)
        node_affinity[REQUIRED] = {**(node_affinity.get(REQUIRED) or {}), "nodeSelectorTerms": terms}
    affinity["nodeAffinity"] = node_affinity
    spec["affinity"] = affinity
    return {**pod, "spec": spec}


def patched(pod: JsonObject, patch: Mapping[str, Any]) -> JsonObject:
    """The pod with a strategic merge patch applied, read back as a pod. Raises InvalidPatch."""
    return read_back(merge(pod, patch), before=pod)


def _annotated(pod: JsonObject, placement: Placement) -> JsonObject:
    meta = dict(pod.get("metadata") or {})
    meta["annotations"] = {**(meta.get("annotations") or {}), MATCHED_ANNOTATION: annotation(placement)}
    return {**pod, "metadata": meta}


def adoption_patch(spread: Spread, subset: Subset) -> JsonObject:
    """What an adopted pod's metadata gets: the patch's labels and annotations, and the annotation (3.3)."""
    given: Mapping[str, Any] = {} if spread.keep_metadata else (subset.patch or {}).get("metadata") or {}
    labels = dict(given.get("labels") or {})
    annotations = {
        **(given.get("annotations") or {}),
        MATCHED_ANNOTATION: annotation(Placement(spread.name, subset.name)),
    }
    return {"metadata": {**({"labels": labels} if labels else {}), "annotations": annotations}}

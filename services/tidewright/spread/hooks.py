"""The webhook configurations of the admission endpoint (specification, 1.5, 2.1). Pure.

Pods are looked at on create, delete and eviction; updates change nothing here.
"""

from __future__ import annotations

from typing import Literal

from tidewright.events.base import JsonObject
from tidewright.host.announce import Address, Announcement
from tidewright.spread.spec import GROUP

NAME = "tidewright-spread"
CREATE_POD, DELETE_POD = "/mutate-pod", "/validate-pod"
VALIDATE_SPREAD = "/validate-apps-kruise-io-workloadspread"
CONVERT = "/convert"
TIMEOUT_S = 30
DEFINITION = f"workloadspreads.{GROUP}"

FailurePolicy = Literal["Fail", "Ignore"]

NOT_OURS: JsonObject = {
    "matchExpressions": [
        {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system"]},
        {"key": "control-plane", "operator": "NotIn", "values": ["openkruise", "tidewright"]},
    ]
}
"""Namespaces whose pods are left alone: the system's, and those that the endpoint itself runs in."""


def announcement(
    address: Address, failure_policy: FailurePolicy = "Fail", *, conversion: bool = True
) -> Announcement:
    """What the API server has to know to call the endpoint."""

    def hook(name: str, path: str, policy: str, rule: JsonObject, **more: JsonObject) -> JsonObject:
        return {
            "name": name,
            "clientConfig": address.client_config(path),
            "rules": [{"scope": "*", **rule}],
            "failurePolicy": policy,
            "matchPolicy": "Equivalent",
            "sideEffects": "None",
            "timeoutSeconds": TIMEOUT_S,
            "admissionReviewVersions": ["v1", "v1beta1"],
            **more,
        }

    pods: JsonObject = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
    spreads: JsonObject = {
        "apiGroups": [GROUP],
        "apiVersions": ["v1alpha1", "v1beta1"],
        "resources": ["workloadspreads"],
    }
    mutating = hook(
        "mpod.kb.io",
        CREATE_POD,
        failure_policy,
        {"operations": ["CREATE"], **pods},
        namespaceSelector=NOT_OURS,
    )
    validating = [
        hook(
            "vpod.kb.io",
            DELETE_POD,
            failure_policy,
            {"operations": ["DELETE"], **pods},
            namespaceSelector=NOT_OURS,
        ),
        hook(
            "vpodeviction.kb.io",
            DELETE_POD,
            failure_policy,
            {"operations": ["CREATE"], **pods, "resources": ["pods/eviction"]},
            namespaceSelector=NOT_OURS,
        ),
        hook(
            "vworkloadspread.kb.io", VALIDATE_SPREAD, "Fail", {"operations": ["CREATE", "UPDATE"], **spreads}
        ),
    ]
    conversions: dict[str, JsonObject] = {
        DEFINITION: {
            "strategy": "Webhook",
            "webhook": {
                "clientConfig": address.client_config(CONVERT),
                "conversionReviewVersions": ["v1", "v1beta1"],
            },
        }
    }
    return Announcement(
        (
            _configuration("MutatingWebhookConfiguration", [mutating]),
            _configuration("ValidatingWebhookConfiguration", validating),
        ),
        conversions if conversion else {},
    )


def _configuration(kind: str, hooks: list[JsonObject]) -> JsonObject:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": NAME, "labels": {"app.kubernetes.io/managed-by": "tidewright"}},
        "webhooks": hooks,
    }

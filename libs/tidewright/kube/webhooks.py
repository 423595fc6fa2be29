"""The webhooks of our endpoints, as the API server is told of them: one table for who asks and who writes. Pure.

An endpoint announces by it, and the actuator refuses what is not in it: an endpoint that is taken over could
otherwise have every object of the cluster shown to it. Two rules hold for all of them.

    policy      `Ignore` unless a person has said `Fail`: an endpoint that is away must not stop a cluster
    namespaces  never those of the cluster itself, nor our own: what would mend an endpoint can always start
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Literal, TypeAlias

import msgspec

JsonObject: TypeAlias = dict[str, Any]
FailurePolicy: TypeAlias = Literal["Fail", "Ignore"]

NAMESPACE: Final = "kubernetes.io/metadata.name"
"""A label that the API server itself gives every namespace, and that nobody can take off."""
SYSTEM: Final = ("kube-system", "kube-public", "kube-node-lease")
"""Namespaces of the cluster itself."""
OWN_NAMESPACE: Final = "tidewright"
TIMEOUT_S: Final = 5
"""How long a request of a user waits for an endpoint at most: with policy `Ignore` it then goes on without."""
REVIEWS: Final = ("v1", "v1beta1")

MUTATING: Final = "MutatingWebhookConfiguration"
VALIDATING: Final = "ValidatingWebhookConfiguration"
API_VERSION: Final = "admissionregistration.k8s.io/v1"

SPREAD: Final = "tidewright-spread"
LABELS: Final = "tidewright-shard-labels"
"""Names of the configurations."""
LABEL_PATH: Final = "/label"
CONVERT_PATH: Final = "/convert"
SPREADS: Final = "workloadspreads.apps.kruise.io"


class Hook(msgspec.Struct, frozen=True, kw_only=True):
    """One webhook whose rule is known beforehand.

    Attributes:
        kind: of the configuration that it is in.
        may_fail: whether a person may choose the policy `Fail` for it.
        anywhere: it is called for objects of every namespace: they are ours alone, nothing else waits for it.
        conditions: name to CEL expression: all must hold for a call. They leave out only what the endpoint would
            leave alone; an API server that does not know them (before 1.28) calls for all.
    """

    name: str
    kind: str
    path: str
    group: str
    versions: tuple[str, ...]
    resource: str
    operations: tuple[str, ...]
    may_fail: bool = False
    anywhere: bool = False
    conditions: tuple[tuple[str, str], ...] = ()

    @property
    def rule(self) -> JsonObject:
        """What it is called for."""
        return {
            "scope": "*",
            "operations": list(self.operations),
            "apiGroups": [self.group],
            "apiVersions": list(self.versions),
            "resources": [self.resource],
        }


MATCHED: Final = "apps.kruise.io/matched-workloadspread"
"""The annotation of a pod that has a place."""
_OWNED: Final = ("owned", "has(object.metadata.ownerReferences)")
_CRITICAL: Final = "['system-node-critical', 'system-cluster-critical']"
_NOT_CRITICAL: Final = (
    "not-critical",
    f"!has(object.spec.priorityClassName) || !(object.spec.priorityClassName in {_CRITICAL})",
)
_PLACED: Final = (
    "placed",
    f"has(oldObject.metadata.annotations) && '{MATCHED}' in oldObject.metadata.annotations",
)

SPREAD_HOOKS: Final = (
    Hook(
        name="mpod.kb.io", kind=MUTATING, path="/mutate-pod", group="", versions=("v1",), resource="pods",
        operations=("CREATE",), may_fail=True, conditions=(_OWNED, _NOT_CRITICAL),
    ),
    # Nothing is refused by these two: they only tell sooner what is seen a moment later anyway.
    Hook(
        name="vpod.kb.io", kind=VALIDATING, path="/validate-pod", group="", versions=("v1",), resource="pods",
        operations=("DELETE",), conditions=(_PLACED,),
    ),
    Hook(
        name="vpodeviction.kb.io", kind=VALIDATING, path="/validate-pod", group="", versions=("v1",),
        resource="pods/eviction", operations=("CREATE",),
    ),
    Hook(
        name="vworkloadspread.kb.io", kind=VALIDATING, path="/validate-apps-kruise-io-workloadspread",
        group="apps.kruise.io", versions=("v1alpha1", "v1beta1"), resource="workloadspreads",
        operations=("CREATE", "UPDATE"), may_fail=True, anywhere=True,
    ),
)  # fmt: skip


def closed(own_namespace: str) -> tuple[str, ...]:
    """Namespaces that no webhook of ours is called for."""
    return (*SYSTEM, own_namespace)


def selector(own_namespace: str, only: Iterable[str] = ()) -> JsonObject:
    """The namespaces of a webhook: those that are named, or all, and never those that are closed."""
    named = sorted(only)
    expressions = [{"key": NAMESPACE, "operator": "NotIn", "values": list(closed(own_namespace))}]
    if named:
        expressions.append({"key": NAMESPACE, "operator": "In", "values": named})
    return {"matchExpressions": expressions}


def excludes(namespace_selector: Any, own_namespace: str) -> bool:
    """Whether a namespaceSelector leaves out all that are closed."""
    expressions = (
        (namespace_selector or {}).get("matchExpressions") or ()
        if isinstance(namespace_selector, dict)
        else ()
    )
    out: set[str] = set()
    for expression in expressions:
        if expression.get("key") == NAMESPACE and expression.get("operator") == "NotIn":
            out |= set(expression.get("values") or ())
    return out >= set(closed(own_namespace))


def hook(
    name: str,
    client: JsonObject,
    rule: JsonObject,
    *,
    policy: FailurePolicy,
    namespaces: JsonObject | None,
    conditions: Iterable[tuple[str, str]] = (),
) -> JsonObject:
    """A webhook as it stands in a configuration."""
    matched = [{"name": condition, "expression": text} for condition, text in conditions]
    return {
        "name": name,
        "clientConfig": client,
        "rules": [rule],
        "failurePolicy": policy,
        "matchPolicy": "Equivalent",
        "sideEffects": "None",
        "timeoutSeconds": TIMEOUT_S,
        "admissionReviewVersions": list(REVIEWS),
        **({"namespaceSelector": namespaces} if namespaces is not None else {}),
        **({"matchConditions": matched} if matched else {}),
    }


def configuration(kind: str, name: str, hooks: list[JsonObject]) -> JsonObject:
    """A webhook configuration of ours."""
    return {
        "apiVersion": API_VERSION,
        "kind": kind,
        "metadata": {"name": name, "labels": {"app.kubernetes.io/managed-by": "tidewright"}},
        "webhooks": hooks,
    }

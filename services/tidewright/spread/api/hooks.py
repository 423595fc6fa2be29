"""The webhook configurations of the admission endpoint (specification, 1.5, 2.1). Pure.

Pods are looked at on create, delete and eviction; updates change nothing here. What is announced is what
`tidewright.kube.webhooks` declares, because the actuator writes nothing else.
"""

from __future__ import annotations

from tidewright.events.base import JsonObject
from tidewright.host.webhook.announce import Address, Announcement
from tidewright.kube import webhooks
from tidewright.kube.webhooks import MUTATING, OWN_NAMESPACE, SPREAD_HOOKS, VALIDATING, FailurePolicy

NAME = webhooks.SPREAD
CREATE_POD, DELETE_POD = SPREAD_HOOKS[0].path, SPREAD_HOOKS[1].path
VALIDATE_SPREAD = SPREAD_HOOKS[3].path
CONVERT = webhooks.CONVERT_PATH
DEFINITION = webhooks.SPREADS


def announcement(
    address: Address,
    failure_policy: FailurePolicy = "Ignore",
    *,
    own_namespace: str = OWN_NAMESPACE,
    conversion: bool = True,
) -> Announcement:
    """What the API server has to know to call the endpoint."""
    conversions: dict[str, JsonObject] = {
        DEFINITION: {
            "strategy": "Webhook",
            "webhook": {
                "clientConfig": address.client_config(CONVERT),
                "conversionReviewVersions": list(webhooks.REVIEWS),
            },
        }
    }
    configurations = tuple(
        webhooks.configuration(
            kind,
            NAME,
            [
                webhooks.hook(
                    hook.name,
                    address.client_config(hook.path),
                    hook.rule,
                    policy=failure_policy if hook.may_fail else "Ignore",
                    namespaces=None if hook.anywhere else webhooks.selector(own_namespace),
                    conditions=hook.conditions,
                )
                for hook in SPREAD_HOOKS
                if hook.kind == kind
            ],
        )
        for kind in (MUTATING, VALIDATING)
    )
    return Announcement(configurations, conversions if conversion else {})

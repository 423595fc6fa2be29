"""A kustomize component that gives every service its signing key and the trust anchor: `deploy/kubernetes/signed/`.

Names are those that `tidewright keys new` writes its Secrets under. Folders are mounted, not single files,
so that a key which is replaced is seen.
"""

from __future__ import annotations

from typing import Any

import yaml

from tidewright.asking.services import SERVICES, Service
from tidewright.cli.keys.manifests import ANCHOR, KEY, TRUST, secret_of

KEYS_AT, TRUST_AT = "/run/tidewright/signing", "/run/tidewright/trust"


def component(namespace: str) -> dict[str, Any]:
    """The component: one patch for each service's Deployment."""
    return {
        "apiVersion": "kustomize.config.k8s.io/v1alpha1",
        "kind": "Component",
        "patches": [{"patch": _patch(service, namespace)} for service in SERVICES],
    }


def patched(service: Service, namespace: str) -> dict[str, Any]:
    """What a service's Deployment gets."""
    container = {
        "name": service.name,
        "env": [
            {"name": "TIDEWRIGHT_SIGNING_KEY", "value": f"{KEYS_AT}/{KEY}"},
            {"name": "TIDEWRIGHT_TRUST", "value": f"{TRUST_AT}/{ANCHOR}"},
        ],
        "volumeMounts": [
            {"name": "signing", "mountPath": KEYS_AT, "readOnly": True},
            {"name": "trust", "mountPath": TRUST_AT, "readOnly": True},
        ],
    }
    volumes = [
        {"name": "signing", "secret": {"secretName": secret_of(service.name)}},
        {"name": "trust", "configMap": {"name": TRUST}},
    ]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": service.name, "namespace": namespace},
        "spec": {"template": {"spec": {"containers": [container], "volumes": volumes}}},
    }


def _patch(service: Service, namespace: str) -> str:
    text: str = yaml.safe_dump(patched(service, namespace), sort_keys=False)
    return text

"""A kustomize component with the archiver: `deploy/kubernetes/archiver/`.

It is the user `archiver` of the bus, which may ask and nothing else, and has no account at the API server. Its key and, unless it seals into a bucket, the archive lie
on a volume of its own. Its way out is open: where the bucket is no policy can name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidewright.cli.contract import network, permissions
from tidewright.cli.contract.natsservers import HARDENED

NAME = permissions.ARCHIVER
VOLUME_AT = "/var/lib/tidewright"
ARCHIVE = f"{VOLUME_AT}/archive"
KEY = f"{VOLUME_AT}/key/archiver.key"
SIZE = "20Gi"
GROUP = 65532
"""Who may write to the volume: the group of the image's user."""

Manifest = dict[str, Any]


def component() -> Manifest:
    """What is added to the installation's `components`."""
    return {
        "apiVersion": "kustomize.config.k8s.io/v1alpha1",
        "kind": "Component",
        "resources": ["archiver.yaml"],
    }


def command(cluster: str, tokens: str, probes: int) -> list[str]:
    """Arguments of the image."""
    return [
        "run", NAME, "--cluster", cluster, "--archive", ARCHIVE, "--key", KEY,
        "--health-host", "0.0.0.0", "--health-port", str(probes), "--metrics-token-file", f"{tokens}/metrics",  # noqa: S104 - within a pod
    ]  # fmt: skip


def manifests(
    namespace: str, arguments: list[str], tokens: tuple[str, str], nats: Mapping[str, Any], probes: int
) -> list[Manifest]:
    """Account, volume, Deployment and who may talk to it; arguments as those of the console's."""
    meta: Manifest = {"name": NAME, "namespace": namespace}
    labels = {"app.kubernetes.io/name": "tidewright", "app.kubernetes.io/component": NAME}
    secret, place = tokens
    container = {
        "name": NAME,
        "image": "tidewright",
        "args": arguments,
        "env": nats["env"],
        "ports": [{"name": "probes", "containerPort": probes}],
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": "probes"}, "periodSeconds": 2},
        "livenessProbe": {
            "httpGet": {"path": "/livez", "port": "probes"}, "initialDelaySeconds": 10, "periodSeconds": 10,
        },
        "resources": {"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"memory": "1Gi"}},
        "securityContext": HARDENED,
        "volumeMounts": [
            {"name": "tokens", "mountPath": place, "readOnly": True},
            nats["mount"],
            {"name": "archive", "mountPath": VOLUME_AT},
            {"name": "scratch", "mountPath": "/tmp"},  # noqa: S108 - a volume of the pod's own: segments are made there
        ],
    }  # fmt: skip
    spec = {
        "serviceAccountName": NAME,
        "automountServiceAccountToken": False,
        "securityContext": {
            "runAsNonRoot": True, "fsGroup": GROUP, "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": [
            nats["volume"],
            {"name": "tokens", "secret": {"secretName": secret, "items": [{"key": "metrics", "path": "metrics"}]}},
            {"name": "archive", "persistentVolumeClaim": {"claimName": NAME}},
            {"name": "scratch", "emptyDir": {}},
        ],
    }  # fmt: skip
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": SIZE}}}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta, "automountServiceAccountToken": False},
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": claim},
        {
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta | {"labels": labels},
            "spec": {
                "replicas": 1,
                "strategy": {"type": "Recreate"},  # the volume is one pod's
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": spec},
            },
        },
        network.sealing(namespace, NAME, probes),
    ]  # fmt: skip

"""A kustomize component with the console: `deploy/kubernetes/console/`.

It is the user `reader` of the bus, has no account at the API server and no way to it, and lets in whoever brings a token
of the key `console` of the Secret `tokens`. Where it is reached from, an Ingress or a `kubectl port-forward`, is the installation's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tidewright.cli.contract import network, permissions
from tidewright.cli.contract.natsservers import HARDENED

NAME = "console"
USER = permissions.READER
"""Its user of the bus."""
PAGES = 8081

Manifest = dict[str, Any]


def component() -> Manifest:
    """What is added to the installation's `components`."""
    return {
        "apiVersion": "kustomize.config.k8s.io/v1alpha1",
        "kind": "Component",
        "resources": ["console.yaml"],
    }


def command(cluster: str, tokens: str, probes: int) -> list[str]:
    """Arguments of the image."""
    return [
        "console", "--cluster", cluster, "--listen", "0.0.0.0", "--port", str(PAGES),  # noqa: S104 - within a pod
        "--host-name", f"{NAME}.{{}}", "--token-file", f"{tokens}/{NAME}",
        "--health-host", "0.0.0.0", "--health-port", str(probes), "--metrics-token-file", f"{tokens}/metrics",  # noqa: S104
    ]  # fmt: skip


def manifests(
    namespace: str, arguments: Sequence[str], tokens: tuple[str, str], nats: Mapping[str, Any], probes: int
) -> list[Manifest]:
    """Account, Deployment, Service and who may talk to it.

    Args:
        namespace: of all of it.
        arguments: of the image.
        tokens: the Secret with tokens, and where it is mounted.
        nats: `env`, `volume` and `mount` of whoever connects to the bus.
        probes: port of probes and metrics.
    """
    meta: Manifest = {"name": NAME, "namespace": namespace}
    labels = {"app.kubernetes.io/name": "tidewright", "app.kubernetes.io/component": NAME}
    secret, place = tokens
    container = {
        "name": NAME,
        "image": "tidewright",
        "args": [text.format(namespace) for text in arguments],
        "env": nats["env"],
        "ports": [{"name": "probes", "containerPort": probes}, {"name": "http", "containerPort": PAGES}],
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": "probes"}, "periodSeconds": 2},
        "livenessProbe": {
            "httpGet": {"path": "/livez", "port": "probes"}, "initialDelaySeconds": 10, "periodSeconds": 10,
        },
        "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "1Gi"}},
        "securityContext": HARDENED,
        "volumeMounts": [{"name": "tokens", "mountPath": place, "readOnly": True}, nats["mount"]],
    }  # fmt: skip
    items = [{"key": key, "path": key} for key in ("metrics", NAME)]
    spec = {
        "serviceAccountName": NAME,
        "automountServiceAccountToken": False,
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
        "volumes": [nats["volume"], {"name": "tokens", "secret": {"secretName": secret, "items": items}}],
    }
    ports = [{"name": "http", "port": 80, "targetPort": "http"}]
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta, "automountServiceAccountToken": False},
        {
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta | {"labels": labels},
            "spec": {
                "replicas": 1,  # a session is known to the process that began it
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": spec},
            },
        },
        {
            "apiVersion": "v1", "kind": "Service", "metadata": meta | {"labels": labels},
            "spec": {"selector": labels, "ports": ports},
        },
        network.asking(namespace, NAME, [probes, PAGES]),
    ]  # fmt: skip

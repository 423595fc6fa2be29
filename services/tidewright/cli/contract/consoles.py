"""A kustomize component with the console: `deploy/kubernetes/console/`.

It is the user `reader` of the bus, has no account at the API server and no way to it, and lets in whoever brings a token
of the key `console` of the Secret `tokens`. Where it is reached from, an Ingress or a `kubectl port-forward`, is the installation's.
"""

from __future__ import annotations

from tidewright.cli.contract import network, permissions, pods
from tidewright.cli.contract.pods import EVERYWHERE, PROBES, TOKENS_AT, Manifest

NAME = "console"
USER = permissions.READER
"""Its user of the bus."""
PAGES = 8081


def command(cluster: str, namespace: str) -> list[str]:
    """Arguments of the image."""
    return [
        "console", "--cluster", cluster, "--listen", EVERYWHERE, "--port", str(PAGES),
        "--host-name", f"{NAME}.{namespace}", "--token-file", f"{TOKENS_AT}/{NAME}", *pods.observed(),
    ]  # fmt: skip


def manifests(cluster: str, namespace: str) -> list[Manifest]:
    """Account, Deployment, Service and who may talk to it."""
    http = {"name": "http", "containerPort": PAGES}
    container = pods.container(NAME, command(cluster, namespace), user=USER, ports=[http])
    container["resources"] = {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "1Gi"}}
    spec = pods.pod(NAME, container, [pods.nats_files(USER), pods.tokens(["metrics", NAME])])
    labels = pods.labels_of(NAME)
    return [
        pods.account(NAME, namespace),
        pods.deployment(NAME, namespace, spec, replicas=1),  # a session is known to the process that began it
        {
            "apiVersion": "v1", "kind": "Service", "metadata": pods.named(NAME, namespace) | {"labels": labels},
            "spec": {"selector": labels, "ports": [{"name": "http", "port": 80, "targetPort": "http"}]},
        },
        network.asking(namespace, NAME, [PROBES, PAGES]),
    ]  # fmt: skip

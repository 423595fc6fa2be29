"""What the pods of all our Deployments have alike: who they are, where the log and their tokens lie, and how they are looked after."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tidewright.cli.contract.natsservers import CERTIFICATES, HARDENED, OURS, PASSWORDS

Manifest = dict[str, Any]

IMAGE = "tidewright"
PROBES = 8080
TOKENS = "tokens"
"""Secret with what callers have to bring: `metrics` for the metrics of all, `push` for samples, `console` for its pages, and by the
name of an endpoint what the API server brings, in the path that the actuator writes for it."""
TOKENS_AT = "/run/tidewright/tokens"
NATS_URL = "tls://nats:4222"
NATS_AT = "/run/tidewright/nats"
"""Where a pod has its password and the CA of the NATS servers."""
EVERYWHERE = "::"
"""What a pod listens on: callers of both families, or of the one that its cluster has."""
RESOURCES: Manifest = {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "1Gi"}}
NATS_MOUNT: Manifest = {"name": "nats", "mountPath": NATS_AT, "readOnly": True}
TOKENS_MOUNT: Manifest = {"name": "tokens", "mountPath": TOKENS_AT, "readOnly": True}


def named(name: str, namespace: str) -> Manifest:
    """The metadata of an object."""
    return {"name": name, "namespace": namespace}


def labels_of(component: str) -> Manifest:
    """Labels of what a component is made of."""
    return {**OURS, "app.kubernetes.io/component": component}


def account(name: str, namespace: str) -> Manifest:
    """A ServiceAccount whose token goes nowhere by itself."""
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": named(name, namespace),
        "automountServiceAccountToken": False,
    }


def observed() -> list[str]:
    """Arguments for probes, and for metrics to who brings a token."""
    arguments = ["--health-host", EVERYWHERE, "--health-port", str(PROBES)]
    return [*arguments, "--metrics-token-file", f"{TOKENS_AT}/metrics"]


def container(
    name: str, arguments: Sequence[str], *, user: str = "", ports: Sequence[Manifest] = ()
) -> Manifest:
    """The container of a Deployment: on the log as `user`, by default its own name, with probes and tokens."""
    return {
        "name": name,
        "image": IMAGE,
        "args": list(arguments),
        "env": nats_env(user or name),
        "ports": [{"name": "probes", "containerPort": PROBES}, *ports],
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": "probes"}, "periodSeconds": 2},
        "livenessProbe": {
            "httpGet": {"path": "/livez", "port": "probes"}, "initialDelaySeconds": 10, "periodSeconds": 10,
        },
        "resources": RESOURCES,
        "securityContext": HARDENED,
        "volumeMounts": [TOKENS_MOUNT, NATS_MOUNT],
    }  # fmt: skip


def pod(name: str, running: Manifest, volumes: Sequence[Manifest], *, token: bool = False) -> Manifest:
    """The spec of a pod; `token`: it talks to the API server."""
    return {
        "serviceAccountName": name,
        "automountServiceAccountToken": token,
        # The environment is ours alone: a Service that somebody calls tidewright-nats would speak in our variables.
        "enableServiceLinks": False,
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [running],
        "volumes": list(volumes),
    }


def deployment(name: str, namespace: str, spec: Manifest, replicas: int) -> Manifest:
    """A Deployment of such pods."""
    labels = labels_of(name)
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": named(name, namespace) | {"labels": labels},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


def nats_env(user: str) -> list[Manifest]:
    """Where the log is, and who we are there: the password and the servers' CA lie in files."""
    variables = {
        "NATS": NATS_URL,
        "NATS_USER": user,
        "NATS_PASSWORD_FILE": f"{NATS_AT}/password",
        "NATS_CA": f"{NATS_AT}/ca.crt",
    }
    return [{"name": f"TIDEWRIGHT_{name}", "value": value} for name, value in variables.items()]


def nats_files(user: str, *more: str) -> Manifest:
    """The volume with both, and further passwords by name."""
    return passwords({user: "password"} | {name: name for name in more})


def passwords(files: dict[str, str]) -> Manifest:
    """The volume with passwords, user to file, and the servers' CA. Not their key, which lies in the same Secret."""
    sources = [
        {"secret": {"name": PASSWORDS, "items": [{"key": key, "path": path} for key, path in files.items()]}},
        {"secret": {"name": CERTIFICATES, "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
    ]
    return {"name": "nats", "projected": {"sources": sources}}


def tokens(keys: Sequence[str]) -> Manifest:
    """The volume with tokens. A folder: a single file of it (`subPath`) would stay as it was when the Secret changes."""
    return {
        "name": "tokens",
        "secret": {"secretName": TOKENS, "items": [{"key": key, "path": key} for key in keys]},
    }

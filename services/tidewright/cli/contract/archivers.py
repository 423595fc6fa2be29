"""A kustomize component with the archiver: `deploy/kubernetes/archiver/`.

It is the user `archiver` of the bus, which may ask and nothing else, and has no account at the API server. Its key and, unless it seals into a bucket, the archive lie
on a volume of its own. Its way out is open: where the bucket is no policy can name.
"""

from __future__ import annotations

from tidewright.cli.contract import network, permissions, pods
from tidewright.cli.contract.pods import PROBES, Manifest

NAME = permissions.ARCHIVER
VOLUME_AT = "/var/lib/tidewright"
ARCHIVE = f"{VOLUME_AT}/archive"
KEY = f"{VOLUME_AT}/key/archiver.key"
SIZE = "20Gi"
GROUP = 65532
"""Who may write to the volume: the group of the image's user."""


def command(cluster: str) -> list[str]:
    """Arguments of the image."""
    return ["run", NAME, "--cluster", cluster, "--archive", ARCHIVE, "--key", KEY, *pods.observed()]


def manifests(cluster: str, namespace: str) -> list[Manifest]:
    """Account, volume, Deployment and who may talk to it."""
    container = pods.container(NAME, command(cluster))
    container["resources"] = {"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"memory": "1Gi"}}
    container["volumeMounts"] += [
        {"name": "archive", "mountPath": VOLUME_AT},
        {"name": "scratch", "mountPath": "/tmp"},  # noqa: S108 - a volume of the pod's own: segments are made there
    ]
    volumes: list[Manifest] = [
        pods.nats_files(NAME),
        pods.tokens(["metrics"]),
        {"name": "archive", "persistentVolumeClaim": {"claimName": NAME}},
        {"name": "scratch", "emptyDir": {}},
    ]
    spec = pods.pod(NAME, container, volumes)
    spec["securityContext"] = spec["securityContext"] | {"fsGroup": GROUP}
    running = pods.deployment(NAME, namespace, spec, replicas=1)
    running["spec"]["strategy"] = {"type": "Recreate"}  # the volume is one pod's
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": SIZE}}}
    return [
        pods.account(NAME, namespace),
        {
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": pods.named(NAME, namespace),
            "spec": claim,
        },
        running,
        network.sealing(namespace, NAME, PROBES),
    ]  # fmt: skip

"""Keys as Kubernetes takes them: a Secret per service, which no other service may read, and the trust anchor.

Names and places are those that `deploy/kubernetes/signed/` mounts.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from tidewright.cli.keys.folder import KeyFolder

KEY, ANCHOR = "signing.key", "root.pub"
"""Names of the files in the Secret and in the ConfigMap."""
TRUST = "trust"
"""The ConfigMap with the trust anchor."""


def secret_of(service: str) -> str:
    """The Secret with a service's signing key."""
    return f"signing-{service}"


def write(folder: KeyFolder, namespace: str, services: tuple[str, ...]) -> list[Path]:
    """Write `<service>.secret.yaml` for each service and `trust.yaml`; returns the files."""
    files: list[Path] = []
    for service in services:
        data = {KEY: folder.key(service).read_text()}
        secret = {"kind": "Secret", "type": "Opaque", "stringData": data}
        files.append(_written(folder.path / f"{service}.secret.yaml", namespace, secret_of(service), secret))
    anchor = {"kind": "ConfigMap", "data": {ANCHOR: folder.anchor.read_text()}}
    return [*files, _written(folder.path / f"{TRUST}.yaml", namespace, TRUST, anchor)]


def _written(path: Path, namespace: str, name: str, said: dict[str, Any]) -> Path:
    document = {"apiVersion": "v1", **said, "metadata": {"name": name, "namespace": namespace}}
    path.touch(0o600)
    path.chmod(0o600)
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    return path

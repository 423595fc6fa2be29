"""Requests and pod templates as people write them: a YAML file with one or several documents."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tidewright.asking.errors import BadInput
from tidewright.asking.manifests import all_documents, known_fields
from tidewright.asking.planning import BUFFER, REQUEST, Draft

GROUP = "autoscaling.x-k8s.io"


def read(path: Path, namespace: str) -> list[Draft]:
    """The requests and buffers of a file (`-` for standard input), in its order.

    Raises:
        BadInput: it cannot be read, or holds neither.
    """
    name = "standard input" if str(path) == "-" else str(path)
    documents = all_documents(
        path, name, f"manifests, among them a ProvisioningRequest or CapacityBuffer of {GROUP}"
    )
    flat: list[Any] = []
    for document in documents:
        listed = isinstance(document, dict) and str(document.get("kind", "")).endswith("List")
        flat += document.get("items") or [] if listed else [document]
    requests: list[Draft] = []
    templates: dict[str, dict[str, dict[str, Any]]] = {}
    for number, manifest in enumerate(flat, start=1):
        if not isinstance(manifest, dict) or not isinstance(manifest.get("metadata"), dict):
            raise BadInput(f"{name}: document {number} is no Kubernetes object: it needs kind and metadata")
        known_fields(manifest, name)
        metadata = manifest["metadata"]
        space, own = str(metadata.get("namespace") or namespace), str(metadata.get("name", ""))
        kind, group = manifest.get("kind"), str(manifest.get("apiVersion", "")).partition("/")[0]
        if kind == "PodTemplate":
            templates.setdefault(space, {})[own] = manifest.get("template") or {}
        elif kind in (REQUEST, BUFFER) and group == GROUP:
            spec = manifest.get("spec")
            if not isinstance(spec, dict):
                raise BadInput(f"{name}: {kind} {own!r}: spec is missing")
            notes = {str(k): str(v) for k, v in (metadata.get("annotations") or {}).items()}
            requests.append(Draft(space, own or f"unnamed-{number}", spec, kind=str(kind), annotations=notes))
    if not requests:
        kinds = ", ".join(sorted({str(m.get("kind")) for m in flat})) or "nothing"
        raise BadInput(f"{name}: no ProvisioningRequest or CapacityBuffer of {GROUP} in it, but {kinds}")
    for request in requests:
        request.templates = templates.get(request.namespace, {})
    return requests

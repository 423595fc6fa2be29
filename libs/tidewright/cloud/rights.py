"""What watcher and actuator may do at an API server that a cloud is made of, as roles and their bindings. Pure.

Each such kind has a module `roles` with tables of the requests that its client makes, which tests compare with those
that it is seen to make; `make generate` writes the manifests to `deploy/clouds`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import yaml

NAMESPACE: Final = "tidewright"
"""Where our services are."""
RBAC: Final = "rbac.authorization.k8s.io"


class Right(NamedTuple):
    """Requests of one kind.

    Attributes:
        names: of the objects alone; empty for all.
    """

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()


def bound_role(
    name: str, rights: Sequence[Right], services: Sequence[str], namespace: str = ""
) -> list[dict[str, Any]]:
    """A role with these rights, of one namespace or of the whole cluster, and its binding to services of ours."""
    kind = "Role" if namespace else "ClusterRole"
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    rules = [
        {
            "apiGroups": [right.group], "resources": list(right.resources), "verbs": list(right.verbs),
            **({"resourceNames": list(right.names)} if right.names else {}),
        }
        for right in rights
    ]  # fmt: skip
    return [
        {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": metadata, "rules": rules},
        {
            "apiVersion": f"{RBAC}/v1", "kind": f"{kind}Binding", "metadata": dict(metadata),
            "roleRef": {"apiGroup": RBAC, "kind": kind, "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": one, "namespace": NAMESPACE} for one in services],
        },
    ]  # fmt: skip


def manifest(about: str, *objects: dict[str, Any]) -> str:
    """The file: comments, then one document for each object."""
    head = "".join(f"# {line}\n" for line in about.strip().splitlines())
    return head + yaml.safe_dump_all(objects, sort_keys=False, width=140, default_flow_style=None)

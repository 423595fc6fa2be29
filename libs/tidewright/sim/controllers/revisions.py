"""ControllerRevisions: the pod templates that StatefulSets and DaemonSets have had.

A revision is found by its data, never by its name alone; going back to an old template makes its
revision the newest again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tidewright.sim.controllers.deployments import template_hash
from tidewright.sim.controllers.objects import (
    CONTROLLER_REVISION,
    ClientKind,
    ControllerRevision,
    JsonObject,
    Metadata,
    owner_of,
)
from tidewright.sim.controllers.writes import Write, create, delete, patch


def data_of(template: JsonObject) -> JsonObject:
    """What a revision keeps of its owner: the pod template, as a patch that puts it back."""
    return {"spec": {"template": {**template, "$patch": "replace"}}}


def template_of(revision: ControllerRevision) -> JsonObject:
    """The pod template in a revision."""
    template = dict((revision.data.get("spec") or {}).get("template") or {})
    template.pop("$patch", None)
    return template


def revision_of(
    kind: ClientKind[Any], owner: Metadata, template: JsonObject, known: Sequence[ControllerRevision]
) -> tuple[str, Write | None]:
    """The name of the template's revision, and the write that makes it exist or the newest."""
    digest = template_hash(template)
    newest = max((revision.revision for revision in known), default=0)
    for revision in known:
        if template_of(revision) == template:
            if revision.revision == newest:
                return revision.metadata.name, None
            return revision.metadata.name, patch(CONTROLLER_REVISION, revision.key, {"revision": newest + 1})
    name = f"{owner.name}-{digest}"
    body = {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": name,
            "namespace": owner.namespace,
            "labels": {
                **((template.get("metadata") or {}).get("labels") or {}),
                "controller-revision-hash": digest,
            },
            "ownerReferences": [owner_of(kind, owner)],
        },
        "revision": newest + 1,
        "data": data_of(template),
    }
    return name, create(CONTROLLER_REVISION, owner.namespace, body, tolerate=(409,))


def surplus(known: Sequence[ControllerRevision], used: set[str], limit: int) -> list[Write]:
    """Deletions of the oldest revisions that nothing uses, beyond the history limit."""
    idle = sorted(
        (revision for revision in known if revision.metadata.name not in used),
        key=lambda revision: revision.revision,
    )
    chosen = idle[: max(0, len(idle) - limit)]
    return [delete(CONTROLLER_REVISION, revision.key, revision.metadata.uid) for revision in chosen]

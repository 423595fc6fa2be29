"""Labels of a workflow object, as those who make it make and inherit them (section 2.1): clients, not the manager."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from tidewright.sharding.keyspace import COMPAT_SLOTS, fnv1a32

SHARD_KEY = "shard-key"

_LABEL_TEXT_BYTES = 32
_LABEL_VALUE_LENGTH = 63
_OUTSIDE = re.compile(r"[^-a-z0-9]+")


class NoIdentity(ValueError):
    """Neither a workflow id nor an execution id."""


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """A workflow's or an execution's id; parts may be empty."""

    project: str = ""
    domain: str = ""
    name: str = ""

    def __str__(self) -> str:
        return f"{self.project}:{self.domain}:{self.name}"


class Labelled(msgspec.Struct, frozen=True, kw_only=True):
    """The metadata of a new workflow object. Exactly one of the names is set."""

    name: str
    generate_name: str
    labels: dict[str, str]


def workflow_labels(workflow: Identity | None, execution: Identity | None) -> Labelled:
    """Name and labels of the object for an execution, or for a bare workflow.

    Raises:
        NoIdentity: both are missing.
    """
    if execution is not None:
        text, name, generate_name = execution.name.encode(), execution.name, ""
        scope = execution
    elif workflow is not None:
        parts = filter(None, (workflow.project, workflow.domain, workflow.name))
        text = "-".join(parts).encode()[:_LABEL_TEXT_BYTES]
        name, generate_name = "", text.decode(errors="replace") + "-"
        scope = workflow
    else:
        raise NoIdentity("expected param not set. wfID or execID must be non-nil values")
    labels = {
        "execution-id": text.decode(errors="replace"),
        "project": scope.project,
        "domain": scope.domain,
        "workflow-name": workflow_name_label(str(workflow)) if workflow else "",
        SHARD_KEY: str(fnv1a32(text) % COMPAT_SLOTS),
    }
    return Labelled(name=name, generate_name=generate_name, labels=labels)


def workflow_name_label(workflow_id: str) -> str:
    """The third part of `project:domain:name` as a label value, empty when there are not three parts."""
    parts = workflow_id.split(":")
    if len(parts) != 3:
        return ""
    return _OUTSIDE.sub("-", parts[2].lower())[:_LABEL_VALUE_LENGTH].strip("-")


def prepared_labels(system: Mapping[str, str], user: Mapping[str, str]) -> dict[str, str]:
    """The labels of an execution as the original prepares them: the user's win."""
    return {**system, **user}


def child_labels(parent: Mapping[str, str]) -> dict[str, str]:
    """What a child execution inherits: all but the shard key, so that children spread."""
    return {key: value for key, value in parent.items() if key != SHARD_KEY}

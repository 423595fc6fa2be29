"""What a kubeconfig says where a command does not: the namespace that is meant, and which cluster it is."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from cyclopts import Parameter

DEFAULT = "default"

Namespace: TypeAlias = Annotated[
    str, Parameter(name=["--namespace", "-n"], help="Its namespace; the kubeconfig's by default.")
]


def meant(given: str, kubeconfig: Path | None = None, context: str | None = None) -> str:
    """The namespace given; otherwise that of the context in the kubeconfig; `default` where it names none.

    A kubeconfig that is not there or cannot be read names none: who needs it for more says what is wrong with it.
    """
    if given:
        return given
    for path in [kubeconfig] if kubeconfig is not None else _paths():
        if (content := _read(path)) is not None:
            chosen = context or content.get("current-context")
            if namespace := _of_context(content, chosen):
                return namespace
            if chosen:
                break
    return DEFAULT


def server(kubeconfig: Path | None = None, context: str | None = None) -> str:
    """The address of the cluster that a kubeconfig names, whatever the file is called; empty where it names none."""
    for path in [kubeconfig] if kubeconfig is not None else _paths():
        content = _read(path) or {}
        chosen = context or content.get("current-context")
        cluster = _named(content.get("contexts"), chosen, "context").get("cluster")
        if address := _named(content.get("clusters"), cluster, "cluster").get("server"):
            return str(address).rstrip("/")
    return ""


def _named(entries: Any, name: Any, what: str) -> dict[str, Any]:
    """What a list of a kubeconfig has under a name; nothing where it is otherwise than it should be."""
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and entry.get("name") == name and isinstance(entry.get(what), dict):
            found: dict[str, Any] = entry[what]
            return found
    return {}


def _paths() -> list[Path]:
    named = os.environ.get("KUBECONFIG", "")
    return [Path(part) for part in named.split(os.pathsep) if part] or [Path.home() / ".kube" / "config"]


def _read(path: Path) -> dict[str, Any] | None:
    try:
        text = path.expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    import yaml

    try:
        content = yaml.safe_load(text)
    except yaml.YAMLError:
        return None
    return content if isinstance(content, dict) else None


def _of_context(content: dict[str, Any], name: object) -> str:
    namespace = _named(content.get("contexts"), name, "context").get("namespace")
    return namespace if isinstance(namespace, str) else ""

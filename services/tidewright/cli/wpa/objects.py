"""WatermarkPodAutoscalers of a cluster: which are meant, whether they are dry, and making them so."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from tidewright.asking.errors import BadInput, CommandError
from tidewright.asking.manifests import one_document
from tidewright.kube.client import Kube

API = "/apis/datadoghq.com/v1alpha1"
PLURAL = "watermarkpodautoscalers"
PAGE = 500


class NothingMeant(BadInput):
    """Neither a name nor a selector nor `--all`."""


@dataclass(frozen=True)
class Object:
    """One object.

    Attributes:
        dry: its `spec.dryRun`.
    """

    namespace: str
    name: str
    dry: bool

    @property
    def path(self) -> str:
        """Its address."""
        return f"{collection(self.namespace)}/{quote(self.name, safe='')}"

    def __str__(self) -> str:
        return f"WatermarkPodAutoscaler '{self.namespace}/{self.name}'"


class _Meta(msgspec.Struct):
    name: str = ""
    namespace: str = ""


class _Spec(msgspec.Struct):
    dryRun: bool = False  # noqa: N815 - the API's name


class _Item(msgspec.Struct):
    metadata: _Meta
    spec: _Spec = msgspec.field(default_factory=_Spec)


class _ListMeta(msgspec.Struct, rename={"next": "continue"}):
    next: str = ""


class _List(msgspec.Struct):
    metadata: _ListMeta
    items: list[_Item] | None = None


def collection(namespace: str) -> str:
    """Path of the objects of a namespace; of all, when it is empty."""
    return f"{API}/namespaces/{quote(namespace, safe='')}/{PLURAL}" if namespace else f"{API}/{PLURAL}"


async def meant(kube: Kube, name: str, selector: str, namespace: str, *, everything: bool) -> list[Object]:
    """The objects that the options mean; a name wins over a selector.

    Raises:
        NothingMeant: none of name, selector and `--all` was given.
        CommandError: there is none such.
        KubeError: the API server refuses.
    """
    if not (name or selector or everything):
        raise NothingMeant("the watermarkpodautoscaler name or label-selector is required")
    if name and not namespace:
        raise BadInput(f"{name}: a name needs one namespace, give it with -n")
    query = {"limit": str(PAGE)}
    if name:
        query["fieldSelector"] = f"metadata.name={name}"
    elif selector:
        query["labelSelector"] = selector
    objects: list[Object] = []
    while True:
        answer = await kube.request("GET", collection(namespace), query=query)
        page = msgspec.json.decode(answer.body, type=_List)
        objects += [Object(i.metadata.namespace, i.metadata.name, i.spec.dryRun) for i in page.items or []]
        if not page.metadata.next:
            break
        query["continue"] = page.metadata.next
    if not objects:
        raise CommandError("no matching WatermarkPodAutoscaler intance")  # sic: scripts match it
    return objects


async def set_dry(kube: Kube, it: Object, *, dry: bool) -> None:
    """Write `spec.dryRun`.

    Raises:
        KubeError: the API server refuses.
    """
    body = msgspec.json.encode({"spec": {"dryRun": dry}})
    await kube.request("PATCH", it.path, body=body, content_type="application/merge-patch+json")


def current_namespace(kubeconfig: Path | None, context: str | None) -> str:
    """The namespace of the context in force, `default` where it names none.

    A kubeconfig that cannot be read is left to the client to refuse.
    """
    named = os.environ.get("KUBECONFIG") or str(Path("~/.kube/config").expanduser())
    paths = (
        [kubeconfig] if kubeconfig is not None else [Path(part) for part in named.split(os.pathsep) if part]
    )
    context_name = context or ""
    contexts: dict[str, Any] = {}
    for path in paths:
        try:
            content = one_document(path, str(path), "a kubeconfig")
        except BadInput:
            continue
        if not isinstance(content, dict):
            continue
        context_name = context_name or str(content.get("current-context") or "")
        for entry in content.get("contexts") or []:
            contexts.setdefault(str(entry.get("name")), entry.get("context") or {})
    return str(contexts.get(context_name, {}).get("namespace") or "default")

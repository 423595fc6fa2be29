"""What the end-to-end tests of the simulated cluster share: manifests, and waiting by watching."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests import waiting
from tests.waiting import text_of
from tidewright.kube.client import Kube
from tidewright.kube.listwatch import Added, Deleted, ListDone, ListStarted, Modified, Page, list_watch
from tidewright.sim.options import Delay, KubeletOptions, NodePool, SimOptions

WAIT_S = 60.0

QUICK = KubeletOptions(start=Delay(a_s=0.05), stop=Delay(a_s=0.05), job_run=Delay(a_s=0.1))


def small(nodes: int = 3, **changes: Any) -> SimOptions:
    """A few nodes with quick kubelets."""
    return SimOptions(**{"pools": (NodePool(count=nodes),), "kubelets": QUICK, **changes})


async def send(kube: Kube, method: str, path: str, body: Any = None, kind: str = "application/json") -> Any:
    """One request with JSON in and out."""
    content = None if body is None else json.dumps(body).encode()
    answer = await kube.request(method, path, body=content, content_type=kind)
    return json.loads(answer.body)


async def merge(kube: Kube, path: str, body: Any) -> Any:
    return await send(kube, "PATCH", path, body, "application/merge-patch+json")


async def until(
    kube: Kube, path: str, holds: Callable[[dict[str, dict[str, Any]]], bool], timeout_s: float = WAIT_S
) -> dict[str, dict[str, Any]]:
    """Watch a collection until its objects (by name) are as wanted; they are returned."""
    objects: dict[str, dict[str, Any]] = {}
    listed = False
    stream = list_watch(kube, path)

    async def changed() -> bool:
        """Take in what comes next; whether it is as wanted then."""
        nonlocal listed
        match await anext(stream):
            case ListStarted():  # again, where history was lost: what is not listed yet is not gone
                objects.clear()
                listed = False
            case Page(objects=raws):
                for raw in raws:
                    obj = json.loads(raw)
                    objects[obj["metadata"]["name"]] = obj
            case ListDone():
                listed = True
            case Added(raw=raw) | Modified(raw=raw):
                obj = json.loads(bytes(raw))
                objects[obj["metadata"]["name"]] = obj
            case Deleted(raw=raw):
                objects.pop(json.loads(bytes(raw))["metadata"]["name"], None)
        return listed and holds(objects)

    try:
        await waiting.until(changed, what=f"{text_of(holds)} of {path}", within_s=timeout_s, every_s=0.0)
    except AssertionError as error:
        raise AssertionError(f"{error}; it is {json.dumps(objects)[:4000]}") from None
    finally:
        await stream.aclose()
    return objects


def ready_pods(objects: dict[str, dict[str, Any]]) -> list[str]:
    """Names of the ready pods that are not on their way out, sorted."""
    return sorted(
        name
        for name, pod in objects.items()
        if "deletionTimestamp" not in pod["metadata"]
        and any(
            condition["type"] == "Ready" and condition["status"] == "True"
            for condition in pod.get("status", {}).get("conditions", ())
        )
    )


def template(
    app: str,
    *,
    image: str = "app:1",
    cpu: str = "100m",
    annotations: dict[str, str] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """A pod template with the label `app`."""
    return {
        "metadata": {"labels": {"app": app}, "annotations": annotations or {}},
        "spec": {
            "containers": [
                {"name": "main", "image": image, "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}}}
            ],
            **spec,
        },
    }


def workload(kind: str, app: str, *, version: str = "apps/v1", **spec: Any) -> dict[str, Any]:
    """A workload of the apps group that selects its pods by `app`."""
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": app, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": app}}, "template": template(app), **spec},
    }


PODS = "/api/v1/namespaces/default/pods"
NODES = "/api/v1/nodes"
APPS = "/apis/apps/v1/namespaces/default"

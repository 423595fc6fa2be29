"""`tidewright crds`: install the CustomResourceDefinitions by server-side apply, and wait until they are served."""

from __future__ import annotations

import asyncio
from importlib.resources import files
from typing import Any

import yaml

from tidewright.cli.errors import Unavailable, translated
from tidewright.cli.options import ClusterOptions
from tidewright.kube.client import Kube
from tidewright.kube.errors import KubeError

PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ESTABLISHED_WITHIN_S = 30.0


def crds(*, cluster: ClusterOptions | None = None) -> None:
    """Install the CustomResourceDefinitions in a cluster. Safe to repeat."""
    at = cluster or ClusterOptions()

    async def main() -> list[str]:
        async with await Kube.connect(at.kubeconfig, at.in_cluster, at.context) as kube:
            return await install(kube)

    with translated():
        print("\n".join(asyncio.run(main())))


def manifests() -> list[dict[str, Any]]:
    """The CRDs that the services bring, by name."""
    folder = files("tidewright.kube") / "crds"
    found = [
        document
        for file in folder.iterdir()
        if file.name.endswith(".yaml")
        for document in yaml.safe_load_all(file.read_text(encoding="utf-8"))
        if document
    ]
    return sorted(found, key=lambda manifest: str(manifest["metadata"]["name"]))


async def install(kube: Kube) -> list[str]:
    """Apply all of them; returns their names. Safe to repeat.

    Raises:
        KubeError: the API server refuses one.
        Unavailable: one is not established in time.
    """
    names = []
    for manifest in manifests():
        name = str(manifest["metadata"]["name"])
        await kube.request(
            "PATCH",
            f"{PATH}/{name}",
            query={"fieldManager": "tidewright", "force": "true"},
            body=yaml.safe_dump(manifest).encode(),
            content_type="application/apply-patch+yaml",
        )
        names.append(name)
    for manifest in manifests():
        await _established(kube, manifest)
    return names


async def _established(kube: Kube, manifest: dict[str, Any]) -> None:
    name, said = str(manifest["metadata"]["name"]), "no status yet"
    try:
        async with asyncio.timeout(ESTABLISHED_WITHIN_S):
            while True:
                answer = await kube.request("GET", f"{PATH}/{name}")
                conditions = (yaml.safe_load(answer.body).get("status") or {}).get("conditions") or []
                if any(c["type"] == "Established" and c["status"] == "True" for c in conditions):
                    if await _served(kube, manifest["spec"]):
                        return
                    said = "established, and not served yet"
                else:
                    said = "; ".join(f"{c['type']}={c['status']}: {c.get('message', '')}" for c in conditions)
                await asyncio.sleep(0.1)
    except TimeoutError as error:
        raise Unavailable(
            f"CRD {name} was not established within {ESTABLISHED_WITHIN_S:g} s ({said or 'no condition'}): "
            f"see `kubectl describe crd {name}`"
        ) from error


async def _served(kube: Kube, spec: dict[str, Any]) -> bool:
    """Whether the API server lists the kind: its handlers follow the condition a moment later."""
    version = next(v["name"] for v in spec["versions"] if v.get("served"))
    try:
        await kube.request(
            "GET", f"/apis/{spec['group']}/{version}/{spec['names']['plural']}", query={"limit": "1"}
        )
    except KubeError as error:
        if error.status == 404:
            return False
        raise
    return True

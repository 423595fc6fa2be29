"""Create the definitions that are absent, bring up to date those that are ours, and leave the others."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any, Final, Literal

import msgspec
import yaml

from tidewright.asking.errors import Unavailable
from tidewright.cli.crds.choosing import MANAGER, Object, Policy, Step, step, unmet, versions
from tidewright.kube.client import Kube
from tidewright.kube.errors import KubeError

PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
ESTABLISHED_WITHIN_S = 30.0
LOOKS = 8
"""How often one is looked at anew because somebody else wrote it first."""

_LOADER: Final[type[Any]] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""Seven times as fast where PyYAML has libyaml: in Python alone it takes 0.15 s to read all definitions."""
_DONE: dict[str, Literal["created", "updated", "kept", "left"]] = {
    "create": "created",
    "update": "updated",
    "keep": "kept",
    "leave": "left",
}


@dataclass(frozen=True)
class Outcome:
    """What came of one definition, or PriorityClass.

    Attributes:
        unmet: what of ours will not work with it as it is; empty when all does.
    """

    name: str
    action: Literal["created", "updated", "kept", "left"]
    why: str
    unmet: str = ""
    kind: str = "CustomResourceDefinition"

    def line(self) -> str:
        """One line for people."""
        return f"{self.action:<8} {self.name}: {self.why}" + (f"; {self.unmet}" if self.unmet else "")


def manifests() -> list[Object]:
    """The CRDs that the services bring, by name."""
    return _brought("CustomResourceDefinition")


def priority_classes() -> list[Object]:
    """The PriorityClasses that they bring, by name: of pods that others displace."""
    return _brought("PriorityClass")


def _brought(kind: str) -> list[Object]:
    folder = files("tidewright.kube") / "crds"
    documents = [
        document
        for file in folder.iterdir()
        if file.name.endswith(".yaml")
        for document in yaml.load_all(file.read_text(encoding="utf-8"), Loader=_LOADER)
        if document and document["kind"] == kind
    ]
    return sorted(documents, key=lambda manifest: str(manifest["metadata"]["name"]))


async def install(
    kube: Kube, policy: Policy = "ours", definitions: Sequence[Object] | None = None
) -> list[Outcome]:
    """Do with each what `choosing.step` says, and say so. Safe to repeat.

    Args:
        kube: the cluster.
        policy: what may be touched.
        definitions: of custom resources; by default all that the services bring, and their PriorityClasses.

    Raises:
        KubeError: the API server refuses one.
        Unavailable: these credentials may not, or one that was made is not established in time.
    """
    classes = priority_classes() if definitions is None else []
    definitions = manifests() if definitions is None else definitions
    outcomes = [await _one(kube, manifest, policy) for manifest in definitions]
    for manifest, outcome in zip(definitions, outcomes, strict=True):
        if outcome.action in ("created", "updated"):
            await _established(kube, manifest)
    return outcomes + [await _class(kube, manifest, policy) for manifest in classes]


async def _class(kube: Kube, manifest: Object, policy: Policy) -> Outcome:
    return replace(await _class_of(kube, manifest, policy), kind="PriorityClass")


async def _class_of(kube: Kube, manifest: Object, policy: Policy) -> Outcome:
    """A PriorityClass: made where there is none. What it is for goes on without it, so that nothing here is an error."""
    name = str(manifest["metadata"]["name"])
    lacking = "placeholders of buffers are made only with it"
    try:
        answer = await kube.request("GET", f"{CLASSES}/{name}")
    except KubeError as error:
        if error.status != 404:
            return Outcome(name, "left", f"it cannot be read ({error})")
    else:
        value = msgspec.json.decode(answer.body).get("value", 0)
        other = value != manifest["value"]
        return Outcome(name, "kept", "is there", f"its value is {value}: {lacking}" if other else "")
    if policy == "skip":
        return Outcome(name, "left", "absent, and --crds skip creates nothing", lacking)
    try:
        await kube.request(
            "POST", CLASSES, query={"fieldManager": MANAGER}, body=msgspec.json.encode(manifest)
        )
    except KubeError as error:
        if error.reason == "AlreadyExists":
            return Outcome(name, "kept", "is there")
        return Outcome(name, "left", f"it cannot be created ({error})", lacking)
    return Outcome(name, "created", "absent")


async def _one(kube: Kube, manifest: Object, policy: Policy) -> Outcome:
    name = str(manifest["metadata"]["name"])
    for _ in range(LOOKS):
        try:
            current = await definition(kube, name)
        except KubeError as error:
            if policy != "skip" or error.error_class != "forbidden":
                raise
            return Outcome(name, "left", "--crds skip; these credentials may not read it")
        chosen = step(manifest, current, policy)
        if chosen.verb in ("keep", "leave"):
            return Outcome(name, _DONE[chosen.verb], chosen.why, unmet(manifest, current))
        try:
            await _send(kube, name, chosen)
        except KubeError as error:
            if error.status == 409:
                continue  # somebody else created, wrote or removed it meanwhile: what is there now decides
            if error.status == 403:
                raise Unavailable(
                    f"CRD {name} cannot be {_DONE[chosen.verb]} ({error}): "
                    "grant it, or have it installed by who may and say --crds skip"
                ) from error
            raise
        return Outcome(name, _DONE[chosen.verb], chosen.why)
    raise Unavailable(f"CRD {name} is written by others all the time: try again")


async def _send(kube: Kube, name: str, chosen: Step) -> None:
    method, path = ("POST", PATH) if chosen.verb == "create" else ("PUT", f"{PATH}/{name}")
    body = msgspec.json.encode(chosen.body)
    await kube.request(method, path, query={"fieldManager": MANAGER}, body=body)


async def definition(kube: Kube, name: str) -> Object | None:
    """A definition as it is; None when there is none.

    Raises:
        KubeError: the API server does not say.
    """
    try:
        answer = await kube.request("GET", f"{PATH}/{name}")
    except KubeError as error:
        if error.status == 404:
            return None
        raise
    current: Object = msgspec.json.decode(answer.body)
    return current


async def _established(kube: Kube, manifest: Object) -> None:
    name, said = str(manifest["metadata"]["name"]), "no status yet"
    try:
        async with asyncio.timeout(ESTABLISHED_WITHIN_S):
            while True:
                current = await definition(kube, name) or {}
                conditions = (current.get("status") or {}).get("conditions") or []
                if any(c["type"] == "Established" and c["status"] == "True" for c in conditions):
                    if await _served(kube, manifest):
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


async def _served(kube: Kube, manifest: Object) -> bool:
    """Whether the API server lists the kind: its handlers follow the condition a moment later."""
    spec = manifest["spec"]
    version = next(v["name"] for v in versions(manifest) if v.get("served"))
    try:
        await kube.request(
            "GET", f"/apis/{spec['group']}/{version}/{spec['names']['plural']}", query={"limit": "1"}
        )
    except KubeError as error:
        if error.status == 404:
            return False
        raise
    return True

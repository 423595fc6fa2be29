"""ShardSets, their members and pods, as the API server has them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tidewright.asking.errors import BadInput, CommandError, translated
from tidewright.cli.options import ClusterOptions
from tidewright.kube.client import Kube
from tidewright.kube.errors import KubeError
from tidewright.sharding.document import Document, MemberState
from tidewright.sharding.keyspace import parse_runs
from tidewright.sharding.wire import document_of

API = "/apis/shards.tidewright.dev/v1alpha1"
SET_LABEL = "shards.tidewright.dev/set"
SLOTS_ANNOTATION = "shards.tidewright.dev/slots"
GRACE_S = 30.0


@dataclass(frozen=True)
class ReadSet:
    """One ShardSet with what belongs to it.

    Attributes:
        document: its assignment; empty when it has none yet.
        members: its ShardMembers.
        pods: pods with its label.
    """

    namespace: str
    name: str
    raw: dict[str, Any]
    document: Document
    members: list[dict[str, Any]] = field(default_factory=list)
    pods: list[dict[str, Any]] = field(default_factory=list)

    @property
    def path(self) -> str:
        return f"{API}/namespaces/{self.namespace}/shardsets/{self.name}"

    @property
    def spec(self) -> dict[str, Any]:
        spec: dict[str, Any] = self.raw.get("spec") or {}
        return spec

    @property
    def status(self) -> dict[str, Any]:
        status: dict[str, Any] = self.raw.get("status") or {}
        return status

    def section(self, name: str) -> dict[str, Any]:
        """A section of the spec, empty when it is not there."""
        section: dict[str, Any] = self.spec.get(name) or {}
        return section

    @property
    def mapped(self) -> bool:
        """Whether its shards have values of a label and no slots of a hash."""
        return bool(self.section("assignment").get("strategy") == "mapping")

    @property
    def told(self) -> dict[int, list[int]]:
        """By shard index, the slots that the running pods were told; empty for workers that follow by themselves."""
        slots_by_shard: dict[int, list[int]] = {}
        for pod in self.pods:
            meta = pod["metadata"]
            index = meta["name"].rpartition("-")[2]
            if (text := (meta.get("annotations") or {}).get(SLOTS_ANNOTATION)) and index.isdecimal():
                slots_by_shard[int(index)] = parse_runs(text)
        return slots_by_shard

    @property
    def grace_s(self) -> float:
        """The longest termination grace of its pods, seconds."""
        graces = [pod["spec"].get("terminationGracePeriodSeconds", GRACE_S) for pod in self.pods]
        return float(max(graces, default=GRACE_S))

    def member_names(self) -> list[str]:
        """Names of the members that can own slots, sorted."""
        members = self.document.members.values()
        return sorted(m.name for m in members if m.state in (MemberState.READY, MemberState.EXPIRED))

    def check_member(self, name: str) -> None:
        """Raises BadInput when nobody of that name is a member."""
        names = self.member_names()
        if name not in names:
            known = ", ".join(names) or "there is none"
            raise BadInput(f"{name!r} is no member of shardset {self.namespace}/{self.name}: {known}")

    def check_slot(self, slot: int) -> None:
        """Raises BadInput when the keyspace has no such slot."""
        slots = len(self.document.slots)
        if not 0 <= slot < slots:
            raise BadInput(
                f"slot {slot}: shardset {self.namespace}/{self.name} has the slots 0 to {slots - 1}"
            )


@asynccontextmanager
async def connected(at: ClusterOptions | None) -> AsyncIterator[Kube]:
    """A client of the cluster; its errors are those of commands."""
    where = at or ClusterOptions()
    with translated():
        async with await Kube.connect(where.kubeconfig, where.in_cluster, where.context) as kube:
            yield kube


async def get(kube: Kube, path: str, query: dict[str, str] | None = None) -> dict[str, Any]:
    """The object or list at a path."""
    answer: dict[str, Any] = msgspec.json.decode((await kube.request("GET", path, query=query)).body)
    return answer


async def listed(
    kube: Kube, path: str, query: dict[str, str] | None = None, page_size: int = 500
) -> AsyncIterator[dict[str, Any]]:
    """All objects of a collection, page by page."""
    more = ""
    while True:
        asked = {**(query or {}), "limit": str(page_size), **({"continue": more} if more else {})}
        page = await get(kube, path, asked)
        for item in page.get("items") or ():
            yield item
        more = (page.get("metadata") or {}).get("continue") or ""
        if not more:
            return


async def sets(kube: Kube, namespace: str | None) -> list[ReadSet]:
    """The ShardSets of a namespace, of all with None; without members and pods."""
    path = f"{API}/namespaces/{namespace}/shardsets" if namespace else f"{API}/shardsets"
    try:
        return [_read(raw) async for raw in listed(kube, path)]
    except KubeError as error:
        if error.status == 404:
            raise CommandError(
                "the cluster has no ShardSets: install the CRDs (`tidewright up` does, or proto/crds/shardsets.yaml)"
            ) from error
        raise


async def the_set(kube: Kube, namespace: str, name: str | None) -> ReadSet:
    """One set with its members and pods; the only one of its namespace when none is named.

    Raises:
        BadInput: there is none of that name, or more than one to choose from.
    """
    if name is None:
        candidates = await sets(kube, namespace)
        if len(candidates) != 1:
            names = ", ".join(s.name for s in candidates) or "none"
            raise BadInput(f"name the ShardSet with --set: namespace {namespace} has {names}")
        read = candidates[0]
    else:
        try:
            read = _read(await get(kube, f"{API}/namespaces/{namespace}/shardsets/{name}"))
        except KubeError as error:
            if error.status != 404:
                raise
            names = ", ".join(s.name for s in await sets(kube, namespace)) or "none"
            raise BadInput(
                f"shardset {namespace}/{name} not found: namespace {namespace} has {names}"
            ) from error
    members = [
        m
        async for m in listed(kube, f"{API}/namespaces/{namespace}/shardmembers")
        if (m.get("spec") or {}).get("shardSet") == read.name
    ]
    query = {"labelSelector": f"{SET_LABEL}={read.name}"}
    pods = [p async for p in listed(kube, f"/api/v1/namespaces/{namespace}/pods", query)]
    return ReadSet(read.namespace, read.name, read.raw, read.document, members, pods)


def _read(raw: dict[str, Any]) -> ReadSet:
    meta = raw["metadata"]
    assignment = (raw.get("status") or {}).get("assignment")
    document = document_of(assignment) if assignment else Document()
    return ReadSet(meta["namespace"], meta["name"], raw, document)

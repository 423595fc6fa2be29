"""A member's record at the API server: a ShardMember, which is its lease and its voice.

Every write is made under the resourceVersion of the one before, so that a renewal and the taking of
the lease by the manager exclude each other.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tidewright.kube.client import Kube
from tidewright.kube.errors import KubeError
from tidewright.sharding.keyspace import runs
from tidewright.sharding.member import Member, Phase

API_VERSION = "shards.tidewright.dev/v1alpha1"
MERGE_PATCH = "application/merge-patch+json"


class Taken(Exception):
    """The lease was taken, or the record deleted: this member is over."""


class Record:
    """The ShardMember of one member."""

    def __init__(self, kube: Kube, namespace: str, shard_set: str, member: Member) -> None:
        self.kube = kube
        self.shard_set = shard_set
        self.member = member
        self.name = f"{shard_set}-{member.name}-{member.incarnation}"
        self._collection = f"/apis/{API_VERSION}/namespaces/{namespace}/shardmembers"
        self._version = ""
        self._renewals = 0

    async def create(self, owner: dict[str, Any], *, weight: int, version: str, timeout_s: float) -> None:
        """Join. `owner` is the owner reference to the ShardSet, with which the record goes."""
        manifest = {
            "apiVersion": API_VERSION,
            "kind": "ShardMember",
            "metadata": {"name": self.name, "ownerReferences": [owner]},
            "spec": {
                "shardSet": self.shard_set,
                "member": self.member.name,
                "incarnation": self.member.incarnation,
                "weight": weight,
                "version": version,
                # The manager waits at least this long, whatever the set's spec says meanwhile.
                "leaseSeconds": self.member.times.duration_s,
            },
            "status": {"renewals": 0},
        }
        answer = await self.kube.request(
            "POST", self._collection, body=msgspec.json.encode(manifest), timeout_s=timeout_s
        )
        self._version = msgspec.json.decode(answer.body)["metadata"]["resourceVersion"]

    async def renew(
        self,
        *,
        leaving: bool = False,
        released: bool = False,
        load: dict[int, int | None] | None = None,
        signals: dict[str, Any] | None = None,
        timeout_s: float,
    ) -> None:
        """Renew the lease, and say how things stand.

        Raises:
            Taken: there is no lease any more.
            KubeError: the API server did not take it; nothing is known about the lease.
        """
        member = self.member
        status: dict[str, Any] = {
            "renewals": self._renewals + 1,
            "released": released,
            "leaving": leaving,
            "prepared": runs(s for s, h in member.holdings.items() if h.phase is Phase.PREPARED),
            "acting": runs(member.acting()),
            "stopped": [
                {"slot": a.slot, "epoch": a.epoch, "checkpoint": a.checkpoint}
                for a in member.acknowledgements()
            ],
        }
        if load:
            status["load"] = {str(slot): busy for slot, busy in sorted(load.items())}  # null removes one
        if signals and any(value is not None for value in signals.values()):
            status["signals"] = signals
        for _attempt in range(3):
            body = {"metadata": {"resourceVersion": self._version}, "status": status}
            try:
                answer = await self.kube.request(
                    "PATCH",
                    f"{self._collection}/{self.name}",
                    body=msgspec.json.encode(body),
                    content_type=MERGE_PATCH,
                    timeout_s=timeout_s,
                )
            except KubeError as error:
                if error.status == 404:
                    raise Taken(f"{self.name} was deleted") from error
                if error.status != 409:
                    raise
                await self._reread(timeout_s)
                continue
            self._renewals += 1
            self._version = msgspec.json.decode(answer.body)["metadata"]["resourceVersion"]
            return
        raise KubeError(409, "Conflict", f"{self.name} is written by somebody else all the time")

    async def _reread(self, timeout_s: float) -> None:
        """After a conflict: whose write was it?"""
        try:
            answer = await self.kube.request("GET", f"{self._collection}/{self.name}", timeout_s=timeout_s)
        except KubeError as error:
            if error.status == 404:
                raise Taken(f"{self.name} was deleted") from error
            raise
        recorded = msgspec.json.decode(answer.body)
        if recorded["spec"].get("taken"):
            raise Taken(f"the lease of {self.name} was taken")
        self._version = recorded["metadata"]["resourceVersion"]

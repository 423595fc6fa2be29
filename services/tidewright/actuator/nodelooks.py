"""Copies of nodes to write from: of many that are to change at the same moment, by one list instead of a look at each.

A copy is good for one write under its resourceVersion, which the API server refuses where the node has changed since.
Nothing else is concluded from it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from tidewright.events.base import JsonObject
from tidewright.kube.errors import KubeError

GATHERED_S = 0.002
"""For so long others are waited for, wall seconds."""
KEPT_S = 2.0
"""So long copies are kept that nobody has asked for yet: who is to be changed next is often among them. Who is not had its copy
before, or is gone: for a few of these all nodes are not asked for again so soon."""
MANY = 8
"""Fewer are looked at one by one."""
NODES_EACH, NODES_AT_ONCE = 5, 500
"""How long the list may be for each node that is to be changed, and at all: a longer one costs more than it spares."""
LARGE_FOR_S = 60.0
"""So long after a list that was longer, or refused, none is asked for but one `TIMES` as long, or as long as any may be."""
TIMES = 2

Ask = Callable[[int], Awaitable[list[JsonObject] | None]]
"""Asks for all nodes; None if there are more than so many."""


class NodeLooks:
    """Looks at nodes, some of them together."""

    def __init__(self) -> None:
        self._asked: dict[str, asyncio.Future[JsonObject | None]] = {}
        """Who asks next, by name; the first of them asks for all."""
        self._kept: dict[str, JsonObject] = {}
        self._large_until = float("-inf")
        self._worth_from = 0
        """A list of fewer would not be all nodes either, or be refused."""
        self._listed_at = float("-inf")
        """When all nodes came last."""
        self._under_way: asyncio.Future[None] | None = None
        """Done when a list that was asked for has come, or does not."""

    async def copy(self, name: str, ask: Ask, alike: int = 1) -> JsonObject | None:
        """A copy of a node that is for this caller alone; None where it is to be looked at by itself.

        `ask` is used where this is the first of some that ask together; `alike`: so many are to be changed by now, this one among
        them, of which most have not begun: each begins when there is a request for it.
        """
        while (kept := self._kept.pop(name, None)) is None and self._under_way is not None:
            await asyncio.wait(
                (self._under_way,)
            )  # a list that is slow is none to ask for once more beside it
        if kept is not None or name in self._asked:
            return kept
        asked = self._asked
        mine: asyncio.Future[JsonObject | None] = asyncio.get_running_loop().create_future()
        asked[name] = mine
        if len(asked) == 1:
            await self._look(asked, ask, alike)
        return await mine

    async def _look(
        self, asked: Mapping[str, asyncio.Future[JsonObject | None]], ask: Ask, alike: int
    ) -> None:
        found: dict[str, JsonObject] = {}
        come = asyncio.get_running_loop().create_future()
        try:
            await asyncio.sleep(GATHERED_S)
            self._asked = {}
            most = min(NODES_EACH * max(len(asked), alike), NODES_AT_ONCE)
            if self._is_worth(len(asked), alike, most):
                self._under_way = come
                found = await self._listed(most, ask)
        finally:
            if self._asked is asked:
                self._asked = {}
            for name, waiting in asked.items():
                copy = found.pop(name, None)
                if not waiting.done():  # whoever waited may have been cancelled
                    waiting.set_result(copy)
            self._keep(found)
            if self._under_way is come:
                self._under_way = None
            come.set_result(None)

    def _is_worth(self, together: int, alike: int, most: int) -> bool:
        """Whether a list of so many is asked for."""
        now = asyncio.get_running_loop().time()
        enough = together >= MANY or (alike >= MANY and now >= self._listed_at + KEPT_S)
        in_vain = most < self._worth_from and now < self._large_until
        return enough and not in_vain

    async def _listed(self, most: int, ask: Ask) -> dict[str, JsonObject]:
        try:
            nodes = await ask(most)
        except KubeError:
            nodes = None  # each that looks by itself is told what the matter is
        if nodes is None:
            self._worth_from = max(most + 1, min(TIMES * most, NODES_AT_ONCE))
            self._large_until = asyncio.get_running_loop().time() + LARGE_FOR_S
            return {}
        self._listed_at = asyncio.get_running_loop().time()
        # What a list has of its kind in common its items do not say.
        return {
            str((node.get("metadata") or {}).get("name")): {"apiVersion": "v1", "kind": "Node", **node}
            for node in nodes
        }

    def _keep(self, copies: dict[str, JsonObject]) -> None:
        if copies:
            self._kept = copies
            asyncio.get_running_loop().call_later(KEPT_S, copies.clear)

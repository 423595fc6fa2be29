"""Marks that are made at the same moment: one list in place of a look at each, and each still one write under what was seen."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from tests.unit.actuator.test_marks import mark
from tidewright.actuator import nodelooks
from tidewright.actuator.allowance import Allowance
from tidewright.actuator.apply import Applier
from tidewright.actuator.nodelooks import GATHERED_S, MANY, NODES_AT_ONCE, NODES_EACH, TIMES, NodeLooks
from tidewright.actuator.verdict import Done, Refused, Result
from tidewright.events.base import JsonObject
from tidewright.events.provisioning import MarkNode
from tidewright.kube.discovery import Discovery, Resource
from tidewright.kube.errors import KubeError, error_of
from tidewright.kube.taints import TO_BE_DELETED

NODES = "/api/v1/nodes"


class Server:
    """Nodes `n0`, `n1`, ... by name, written only under their resourceVersion; `asked` says what was asked, in order."""

    def __init__(self, count: int) -> None:
        self.nodes: dict[str, JsonObject] = {f"n{i}": node(f"n{i}") for i in range(count)}
        self.asked: list[str] = []
        self.refuses_lists = False
        self.lists = asyncio.Event()
        """Lists wait for it."""
        self.lists.set()

    async def request(self, method: str, path: str, **options: Any) -> Any:
        self.asked.append(f"{method} {path}")
        await asyncio.sleep(0)
        if path.startswith(f"{NODES}?"):
            await self.lists.wait()
            if self.refuses_lists:
                raise error_of(403, b'{"reason": "Forbidden", "code": 403}')
            most = int(path.rpartition("=")[2])
            items = [{k: v for k, v in n.items() if k != "kind"} for n in self.nodes.values()]
            more = {"continue": "token"} if len(items) > most else {}
            return answer({"metadata": more, "items": items[:most]})
        name = path.rpartition("/")[2]
        if name not in self.nodes:
            raise error_of(404, b'{"reason": "NotFound", "code": 404}')
        if method == "PUT":
            wanted = msgspec.json.decode(options["body"])
            assert wanted["kind"] == "Node"
            if wanted["metadata"]["resourceVersion"] != self.nodes[name]["metadata"]["resourceVersion"]:
                raise error_of(409, b'{"reason": "Conflict", "code": 409}')
            self.nodes[name] = wanted
            self.changed(name)
        return answer(self.nodes[name])

    def changed(self, name: str) -> None:
        """A node is of another version."""
        metadata = self.nodes[name]["metadata"]
        metadata["resourceVersion"] = str(int(metadata["resourceVersion"]) + 1)

    @property
    def looks(self) -> list[str]:
        return [request for request in self.asked if request.startswith("GET")]

    @property
    def marked(self) -> set[str]:
        return {name for name, n in self.nodes.items() if "taints" in n["spec"]}


def node(name: str) -> JsonObject:
    metadata = {"name": name, "uid": "u", "resourceVersion": "9"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {"providerID": name}}


def answer(body: JsonObject) -> Any:
    return SimpleNamespace(body=msgspec.json.encode(body))


async def free() -> None:
    """The budget of a test has no end."""


class Known:
    """A discovery that knows nodes."""

    async def resources(self, group: str, kind: str) -> list[Resource]:
        return [Resource(group, "v1", "nodes", kind, False, False)]


def applier(server: Server) -> Applier:
    return Applier(cast("Any", server), cast("Discovery", Known()))


async def mark_all(made: Applier, names: list[str], alike: int = 1) -> list[Result]:
    return await asyncio.gather(*(made.attempt(marking(name), allowance(alike)) for name in names))


def allowance(alike: int) -> Allowance:
    found = Allowance(free)
    found.alike = alike
    return found


def marking(name: str) -> MarkNode:
    one = mark()
    return msgspec.structs.replace(one, id=name, target=msgspec.structs.replace(one.target, name=name))


async def test_marks_of_one_moment_are_made_from_one_list() -> None:
    server = Server(MANY + 2)
    made = applier(server)
    names = list(server.nodes)
    assert await mark_all(made, names[:MANY]) == [Done()] * MANY
    assert server.looks == [f"GET {NODES}?limit={NODES_EACH * MANY}"]
    assert await mark_all(made, names[MANY:]) == [Done()] * 2, "their copies came with the same list"
    assert len(server.looks) == 1
    assert server.marked == set(names)


async def test_marks_that_begin_one_after_the_other_are_made_from_one_list_too() -> None:
    server = Server(NODES_EACH * MANY)
    made = applier(server)
    names = list(server.nodes)
    for left in range(MANY, 0, -1):
        assert await mark_all(made, names[left - 1 : left], alike=left) == [Done()]
    assert server.looks == [f"GET {NODES}?limit={NODES_EACH * MANY}"]


async def test_a_list_that_is_slow_is_not_asked_for_once_more_beside_it() -> None:
    server = Server(NODES_EACH * MANY)
    server.lists.clear()
    made = applier(server)
    tasks = []
    for name in list(server.nodes)[: 2 * MANY]:
        tasks.append(asyncio.create_task(mark_all(made, [name], alike=2 * MANY)))
        await asyncio.sleep(2 * GATHERED_S)
    server.lists.set()
    async with asyncio.timeout(30.0):
        assert await asyncio.gather(*tasks) == [[Done()]] * (2 * MANY)
    assert server.looks == [f"GET {NODES}?limit={NODES_EACH * 2 * MANY}"]


async def test_for_a_node_that_no_list_has_all_are_not_asked_for_again_and_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(nodelooks, "KEPT_S", 3600.0)
    server = Server(2 * MANY)
    made = applier(server)
    names = list(server.nodes)
    assert await mark_all(made, names[:1], alike=MANY) == [Done()]
    gone = [f"gone-{n}" for n in range(3)]
    for name in gone:
        [found] = await mark_all(made, [name], alike=MANY)
        assert isinstance(found, Refused)
    assert server.looks == [
        f"GET {NODES}?limit={NODES_EACH * MANY}",
        *(f"GET {NODES}/{name}" for name in gone),
    ]


async def test_a_list_that_was_too_short_is_asked_for_again_by_many_more_alone() -> None:
    server = Server(NODES_AT_ONCE + 1)
    made = applier(server)
    names = list(server.nodes)
    for n in range(2 * NODES_AT_ONCE // NODES_EACH):
        assert await mark_all(made, names[n : n + 1], alike=MANY + n) == [Done()]
    lists = [int(look.rpartition("=")[2]) for look in server.looks if "limit=" in look]
    begun = NODES_EACH * MANY
    assert lists == [begun, TIMES * begun, TIMES**2 * begun, TIMES**3 * begun, NODES_AT_ONCE]


async def test_a_copy_that_is_old_is_refused_by_the_server_and_looked_at_anew() -> None:
    server = Server(MANY + 1)
    made = applier(server)
    await mark_all(made, [f"n{i}" for i in range(MANY)])
    late = f"n{MANY}"
    server.nodes[late]["spec"]["taints"] = [{"key": "gpu", "effect": "NoSchedule"}]
    server.changed(late)
    assert await mark_all(made, [late]) == [Done()]
    assert server.looks[1:] == [f"GET {NODES}/{late}"]
    assert [taint["key"] for taint in server.nodes[late]["spec"]["taints"]] == ["gpu", TO_BE_DELETED]


async def test_nothing_is_concluded_from_a_copy_but_what_is_written() -> None:
    server = Server(MANY + 1)
    late = f"n{MANY}"
    theirs = {"key": TO_BE_DELETED, "value": "1", "effect": "NoSchedule"}
    server.nodes[late]["spec"]["taints"] = [theirs]
    made = applier(server)
    await mark_all(made, [f"n{i}" for i in range(MANY)])
    del server.nodes[late]["spec"]["taints"]
    server.changed(late)
    assert await mark_all(made, [late]) == [Done()]
    assert late in server.marked


async def test_few_marks_are_looked_at_one_by_one() -> None:
    server = Server(MANY)
    assert await mark_all(applier(server), [f"n{i}" for i in range(MANY - 1)]) == [Done()] * (MANY - 1)
    assert sorted(server.looks) == [f"GET {NODES}/n{i}" for i in range(MANY - 1)]


@pytest.mark.parametrize("refuses", [True, False])
async def test_where_a_list_is_refused_or_long_each_is_looked_at_and_none_is_asked_for_again_soon(
    refuses: bool,
) -> None:
    server = Server(2 * MANY if refuses else NODES_EACH * MANY + 1)
    server.refuses_lists = refuses
    made = applier(server)
    assert await mark_all(made, [f"n{i}" for i in range(MANY)]) == [Done()] * MANY
    assert len(server.looks) == 1 + MANY
    assert await mark_all(made, [f"n{i}" for i in range(MANY, 2 * MANY)]) == [Done()] * MANY
    assert len(server.looks) == 1 + MANY + MANY


async def test_a_node_that_is_not_there_and_one_that_is_another_are_found_out_among_many() -> None:
    server = Server(MANY)
    server.nodes["n1"]["metadata"]["uid"] = "another"
    del server.nodes["n2"]
    found = await mark_all(applier(server), [f"n{i}" for i in range(MANY)])
    assert [result for result in found if result == Done()] == [Done()] * (MANY - 2)
    assert isinstance(found[1], Refused)
    assert isinstance(found[2], Refused)


async def test_who_looks_for_all_and_is_cancelled_leaves_the_others_to_themselves() -> None:
    looks, never = NodeLooks(), asyncio.Event()

    async def ask(_: int) -> list[JsonObject] | None:
        await never.wait()
        raise KubeError(0, "Unreachable", "")

    tasks = [asyncio.create_task(looks.copy(f"n{i}", ask)) for i in range(MANY)]
    await asyncio.sleep(0.05)
    tasks[0].cancel()
    async with asyncio.timeout(90):
        assert await asyncio.gather(*tasks[1:]) == [None] * (MANY - 1)
        assert await looks.copy("n1", ask) is None

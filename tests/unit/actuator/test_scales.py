"""A scale whose patch is refused."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from tests.unit.actuator.effects import scale
from tidewright.actuator.allowance import Allowance
from tidewright.actuator.apply import Applier
from tidewright.actuator.requests import JSON_PATCH
from tidewright.actuator.verdict import Again, Done
from tidewright.kube.errors import error_of


class Server:
    """An API server, or what stands before it, that takes no patch."""

    def __init__(self, status: int) -> None:
        self.status = status
        self.replicas = 3
        self.asked: list[str] = []

    async def request(
        self, method: str, path: str, *, body: bytes | None, content_type: str, **_: Any
    ) -> Any:
        self.asked.append(method)
        if method == "PATCH":
            assert content_type == JSON_PATCH
            raise error_of(self.status, b"no")
        if body is not None:
            self.replicas = msgspec.json.decode(body)["spec"]["replicas"]
        return SimpleNamespace(
            body=msgspec.json.encode({"metadata": {}, "spec": {"replicas": self.replicas}})
        )


async def free() -> None:
    """The budget of a test has no end."""


async def attempt(server: Server) -> object:
    return await Applier(cast("Any", server), cast("Any", None)).attempt(scale(5, 3), Allowance(free))


@pytest.mark.parametrize("status", [400, 403, 405, 409, 415, 422, 501])
async def test_a_server_that_takes_no_patch_is_looked_at_and_written_to(status: int) -> None:
    server = Server(status)
    assert await attempt(server) == Done()
    assert (server.replicas, server.asked) == (5, ["PATCH", "GET", "PUT"])


@pytest.mark.parametrize("status", [429, 503])
async def test_one_that_cannot_answer_now_is_asked_again(status: int) -> None:
    server = Server(status)
    assert isinstance(await attempt(server), Again)
    assert (server.replicas, server.asked) == (3, ["PATCH"])

"""Kinds that are served elsewhere than they were."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from tests.unit.actuator.effects import scale
from tidewright.actuator.allowance import Allowance
from tidewright.actuator.apply import Applier
from tidewright.actuator.verdict import Done, Refused
from tidewright.events.base import ObjectRef
from tidewright.kube import discovery as discoveries
from tidewright.kube.discovery import Discovery
from tidewright.kube.errors import error_of

GROUP, KIND = "games.example.com", "Fleet"
ARENA = ObjectRef(api_version=f"{GROUP}/v1", kind=KIND, namespace="shop", name="arena")


class Server:
    """Serves fleets in one version."""

    def __init__(self) -> None:
        self.version = "v1"
        self.asked: list[str] = []

    async def request(self, method: str, path: str, **_: Any) -> Any:
        self.asked.append(path)
        root = f"/apis/{GROUP}/{self.version}"
        answers: dict[str, Any] = {
            f"/apis/{GROUP}": {"versions": [{"version": self.version}]},
            root: {"resources": [{"name": name, "kind": KIND, "namespaced": True} for name in ("fleets", "fleets/scale")]},
            f"{root}/namespaces/shop/fleets/arena/scale": {"spec": {"replicas": 3}},
        }  # fmt: skip
        if path not in answers:
            raise error_of(404, b"404 page not found")
        return SimpleNamespace(body=msgspec.json.encode(answers[path]))


async def test_what_was_found_long_ago_is_doubted_once_and_what_was_found_just_now_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = Server()
    discovery = Discovery(cast("Any", server))
    assert not discovery.doubt(GROUP, KIND)
    assert [place.version for place in await discovery.resources(GROUP, KIND)] == ["v1"]
    server.version = "v2"
    assert not discovery.doubt(GROUP, KIND)
    assert [place.version for place in await discovery.resources(GROUP, KIND)] == ["v1"]
    monkeypatch.setattr(discoveries, "FORGET_S", 0.0)
    assert discovery.doubt(GROUP, KIND)
    assert [place.version for place in await discovery.resources(GROUP, KIND)] == ["v2"]


async def test_a_scale_is_written_in_the_version_that_is_served_by_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def free() -> None:
        """Without a budget."""

    server = Server()
    applier = Applier(cast("Any", server), Discovery(cast("Any", server)))
    effect = msgspec.structs.replace(scale(5, 3), target=ARENA)
    assert await applier.attempt(effect, Allowance(free)) == Done()
    server.version = "v2"
    assert isinstance(
        await applier.attempt(effect, Allowance(free)), Refused
    )  # the object is gone, most often
    monkeypatch.setattr(discoveries, "FORGET_S", 0.0)
    assert await applier.attempt(effect, Allowance(free)) == Done()
    assert server.asked[-1].startswith(f"/apis/{GROUP}/v2/")

"""Modes from flags and from the ConfigMap onto the log, with the namespaces that a selector selects."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.nats_server import EmbeddedServer
from tests.unit.watcher.cluster import Cluster
from tests.unit.watcher.test_service import PODS, Tail, cluster, is_pod, tail, watching
from tidewright.events.base import Event
from tidewright.events.config import ConfigSet, ModesSet
from tidewright.events.facts import PodObserved
from tidewright.kube.client import Kube
from tidewright.watcher.modes import (
    BadModes,
    OperatorModes,
    Services,
    event_of,
    known_namespaces,
    read,
    selected,
    to_say,
)

__all__ = ["cluster", "tail"]
"""Fixtures."""
NAMESPACES, CONFIG_MAPS = "/api/v1/namespaces", "/api/v1/namespaces/tw/configmaps"
SERVICES = Services({"autoscaler": (), "spread": ("spread-admission",)})


def test_a_services_endpoints_have_its_mode() -> None:
    wanted = OperatorModes(mode="shadow", services={"spread": "enforce"})
    event = event_of(wanted, (), SERVICES)
    assert event.services == {"spread": "enforce", "spread-admission": "enforce"}


def test_what_the_config_map_says_is_read() -> None:
    data = {
        "mode": "shadow",
        "services": {"autoscaler": "enforce"},
        "namespaces": "team=a",
        "regardless": ["spread"],
    }
    wanted = read(data, SERVICES)
    assert event_of(wanted, ("b", "a"), SERVICES) == ModesSet(
        at=0.0, mode="shadow", services={"autoscaler": "enforce"}, selector="team=a", namespaces=("a", "b"),
        regardless=("spread",),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"mode": "half"}, r"Invalid enum value 'half' - at `\$.mode`"),
        ({"modus": "shadow"}, "unknown field `modus`"),
        (
            {"services": {"scaler": "enforce"}},
            "'scaler' is no service that decides: valid are autoscaler, spread",
        ),
        ({"regardless": ["scaler"]}, "'scaler' is no service that decides"),
        ({"namespaces": "a==="}, r"namespaces 'a===' is no label selector: .*; valid is for example team=a"),
    ],
)
def test_what_cannot_be_meant_so_is_refused_with_what_is_valid(data: dict[str, Any], said: str) -> None:
    with pytest.raises(BadModes, match=said):
        read(data, SERVICES)


def test_only_what_differs_from_the_log_is_said() -> None:
    plain = event_of(OperatorModes(), (), SERVICES)
    assert not to_say(None, plain)  # a log of before is enforced
    assert not to_say(ModesSet(at=7.0, refresh=True, mode="shadow"), ModesSet(at=0.0, mode="shadow"))
    assert to_say(None, ModesSet(at=0.0, mode="shadow"))
    assert to_say(ModesSet(at=7.0, mode="shadow"), plain)


def test_until_namespaces_are_seen_those_of_the_log_hold_and_none_for_another_selector() -> None:
    known = ModesSet(at=1.0, selector="team=a", namespaces=("shop",))
    assert known_namespaces(known, OperatorModes(namespaces="team=a")) == ("shop",)
    assert known_namespaces(known, OperatorModes(namespaces="team=b")) == ()
    assert known_namespaces(None, OperatorModes(namespaces="team=b")) == ()


async def test_namespaces_are_told_when_all_are_listed_and_whenever_others_are_selected() -> None:
    async with Cluster().serving() as cluster:
        cluster.objects[NAMESPACES] = {}
        for name, team in (("shop", "a"), ("bank", "b")):
            await cluster.put(NAMESPACES, "", name, metadata={"labels": {"team": team}})
        async with Kube.at(cluster.url) as kube, asyncio.timeout(90):
            told = selected(kube, "team=a")
            assert await anext(told) == ("shop",)
            await cluster.put(NAMESPACES, "", "bank", metadata={"labels": {"team": "a"}})
            assert await anext(told) == ("bank", "shop")
            await cluster.drop(NAMESPACES, "", "shop")
            assert await anext(told) == ("bank",)
            await cluster.put(NAMESPACES, "", "bank", metadata={"labels": {}})
            assert await anext(told) == ()


def is_set(mode: str, **fields: object) -> Callable[[Event], bool]:
    return lambda event: (
        isinstance(event, ModesSet)
        and event.mode == mode
        and all(getattr(event, field) == value for field, value in fields.items())
    )


def modes_of(tail: Tail) -> list[ModesSet]:
    return [event for event in tail.events if isinstance(event, ModesSet)]


async def test_the_modes_are_said_before_anything_that_somebody_could_act_on(
    cluster: Cluster, nats: EmbeddedServer, tail: Tail, tmp_path: Path
) -> None:
    await cluster.put(PODS, "shop", "a", status={"phase": "Pending"})
    async with watching(cluster, nats, tmp_path, modes=OperatorModes(mode="shadow"), services=SERVICES):
        await tail.until(is_pod("a"))
    kinds = [type(event) for event in tail.events]
    assert kinds.index(ModesSet) < kinds.index(PodObserved)


async def test_modes_that_are_on_the_log_are_not_said_again_by_a_restart(
    cluster: Cluster, nats: EmbeddedServer, tail: Tail, tmp_path: Path
) -> None:
    for name in "ab":
        await cluster.put(PODS, "shop", name, status={"phase": "Pending"})
        async with watching(cluster, nats, tmp_path, modes=OperatorModes(mode="shadow"), services=SERVICES):
            await tail.until(is_pod(name))
    async with watching(cluster, nats, tmp_path, modes=OperatorModes(), services=SERVICES):
        await tail.until(is_set("enforce"))
    assert [event.mode for event in modes_of(tail)] == ["shadow", "enforce"]


async def test_who_acts_as_ever_says_nothing_on_a_log_without_modes(
    cluster: Cluster, nats: EmbeddedServer, tail: Tail, tmp_path: Path
) -> None:
    await cluster.put(PODS, "shop", "a", status={"phase": "Pending"})
    async with watching(cluster, nats, tmp_path, modes=OperatorModes(), services=SERVICES):
        await tail.until(is_pod("a"))
    assert modes_of(tail) == []


async def test_the_config_map_says_who_acts_and_a_bad_edit_leaves_it_as_it_was(
    cluster: Cluster, nats: EmbeddedServer, tail: Tail, tmp_path: Path
) -> None:
    cluster.objects[CONFIG_MAPS] = {}
    given: dict[str, Any] = {
        "modes": OperatorModes(mode="shadow"),
        "services": SERVICES,
        "config_map": "tw/config",
    }
    async with watching(cluster, nats, tmp_path, **given):
        await tail.until(is_set("shadow", services={}))
        await cluster.put(
            CONFIG_MAPS, "tw", "config", data={"modes": "mode: shadow\nservices: {autoscaler: enforce}"}
        )
        await tail.until(is_set("shadow", services={"autoscaler": "enforce"}))
        await cluster.put(CONFIG_MAPS, "tw", "config", data={"modes": "mode: half", "autoscaler": "a: 1"})
        await tail.until(lambda event: isinstance(event, ConfigSet) and event.name == "autoscaler")
    said = len(modes_of(tail))
    # A restart goes by what the ConfigMap has said until it has been read, and not by the flags in between.
    await cluster.put(CONFIG_MAPS, "tw", "config", data={"modes": "mode: enforce"})
    async with watching(cluster, nats, tmp_path, **given):
        await tail.until(is_set("enforce"))
        await cluster.drop(CONFIG_MAPS, "tw", "config")
        await tail.until(is_set("shadow"))
    assert [event.mode for event in modes_of(tail)[said:]] == ["enforce", "shadow"]


async def test_a_selector_selects_nobody_until_namespaces_are_seen(
    cluster: Cluster, nats: EmbeddedServer, tail: Tail, tmp_path: Path
) -> None:
    cluster.objects[NAMESPACES] = {}
    await cluster.put(NAMESPACES, "", "shop", metadata={"labels": {"team": "a"}})
    async with watching(cluster, nats, tmp_path, modes=OperatorModes(namespaces="team=a"), services=SERVICES):
        await tail.until(is_set("enforce", namespaces=("shop",)))
        await cluster.put(NAMESPACES, "", "bank", metadata={"labels": {"team": "a"}})
        await tail.until(is_set("enforce", namespaces=("bank", "shop")))
    assert modes_of(tail)[0].namespaces == ()

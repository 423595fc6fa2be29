"""What of a configuration is not used is said on the ConfigMap, by every service, once."""

from __future__ import annotations

from typing import Any

import pytest

from tidewright.actuator.allowed.table import GRANTS
from tidewright.asking.services import BY_NAME, DECIDERS, load
from tidewright.events.base import Decision, JsonObject
from tidewright.events.config import PARTS, ConfigSet, ModesSet
from tidewright.events.decisions import RecordObjectEvent
from tidewright.host.fold.decider import Decider
from tidewright.host.fold.order import Fold
from tidewright.log.subjects import ALL, Slot

CONFIG_MAP = "ops/tidewright"
TYPOS: dict[str, tuple[JsonObject, str]] = {
    "autoscaler": (
        {"stale_after": 60, "strict": "yes", "labels_as_tags": ["app"]},
        (
            "autoscaler: stale_after: not a setting of the autoscaler; did you mean stale_after_s?; "
            "strict='yes': expected `bool`, got `str`; the default stays"
        ),
    ),
    "spread": (
        {"cleanUpDelete": True},
        "spread: cleanUpDelete: not a setting of spread; did you mean cleanUpDeleted?",
    ),
    "shard-manager": (
        {"mangers": [], "services": {"name": "autoscaler"}},
        (
            "shardmanager: mangers: not a setting of the shard manager; did you mean managers?; "
            "services: expected a list of mappings, got dict"
        ),
    ),
}


def _decider(name: str) -> Decider[Any, Any]:
    decider: Decider[Any, Any] = load(BY_NAME[name])
    return decider


def _first(name: str) -> Slot:
    return ALL if BY_NAME[name].partition == "cluster" else Slot("0")


def _told(fold: Fold[Any], event: ConfigSet | ModesSet, seq: int = 1) -> list[Decision]:
    decided = [decided.decision for decided in fold.step(seq, b"{}", event)]
    return [decision for decision in decided if isinstance(decision, RecordObjectEvent)]


def _config(name: str, data: JsonObject, source: str = CONFIG_MAP) -> ConfigSet:
    return ConfigSet(at=5.0, name=name, data=data, source=source)


def test_the_parts_that_somebody_reads_are_those_of_the_deciders_and_the_modes() -> None:
    assert {_decider(name).config.name for name in DECIDERS} | {"modes"} == set(PARTS)  # type: ignore[union-attr]  # all have one


@pytest.mark.parametrize("service", TYPOS)
def test_a_key_that_nobody_knows_and_a_value_that_cannot_be_read_are_told_by_the_first_slot(
    service: str,
) -> None:
    decider, (data, message) = _decider(service), TYPOS[service]
    assert decider.config is not None
    event = _config(decider.config.name, data)
    (told,) = _told(Fold(decider, Slot("0")), event)
    assert isinstance(told, RecordObjectEvent)
    assert (told.reason, told.event_type, told.message) == ("ConfigurationIgnored", "Warning", message)
    assert (told.target.kind, told.target.namespace, told.target.name) == ("ConfigMap", "ops", "tidewright")
    assert _told(Fold(decider, Slot("1")), event) == []
    assert _told(Fold(decider, Slot("0")), _config(decider.config.name, data, source="")) == []


@pytest.mark.parametrize("service", TYPOS)
def test_a_service_that_is_held_back_writes_no_object_event(service: str) -> None:
    decider = _decider(service)
    assert decider.config is not None
    fold = Fold(decider, Slot("0"))
    fold.step(1, b"{}", ModesSet(at=1.0, mode="shadow"))
    assert _told(fold, _config(decider.config.name, TYPOS[service][0]), 2) == []


@pytest.mark.parametrize("service", DECIDERS)
def test_a_part_whose_name_is_misspelt_is_told_of_by_whose_it_may_be(service: str) -> None:
    decider = _decider(service)
    assert decider.config is not None
    misspelt = f"{decider.config.name[:-1]}-{decider.config.name[-1]}"
    tellers = {}
    for name in DECIDERS:
        told = _told(Fold(_decider(name), _first(name)), _config(misspelt, {"a": 1}))
        if told:
            tellers[name] = told
    assert list(tellers) == [service]
    (event,) = tellers[service]
    assert isinstance(event, RecordObjectEvent)
    assert event.reason == "ConfigurationUnknown"
    assert event.message == f"key {misspelt!r} configures nobody; did you mean {decider.config.name}?"


def test_what_is_right_and_parts_of_others_are_not_told_of() -> None:
    for name in DECIDERS:
        decider = _decider(name)
        assert decider.config is not None
        fold = Fold(decider, _first(name))
        others = [part for part in (*PARTS, "kruise-configuration") if part != decider.config.name]
        for seq, part in enumerate(others, 1):
            assert _told(fold, _config(part, {"a": 1}), seq) == []
        assert decider.config.problems({}) == ()


@pytest.mark.parametrize("service", DECIDERS)
def test_the_actuator_lets_it_be_said(service: str) -> None:
    decider = _decider(service)
    assert decider.config is not None
    grants = [
        grant
        for grant in GRANTS
        if grant.service == service
        and grant.effect is RecordObjectEvent
        and ("", "ConfigMap") in grant.kinds
        and grant.slot in ("any", _first(service))
    ]
    event = RecordObjectEvent(
        at=1.0, target=None, event_type="Warning", reason="x", message="x", component=decider.config.component  # type: ignore[arg-type]  # not looked at
    )  # fmt: skip
    assert [grant.check(event) for grant in grants] == [""]

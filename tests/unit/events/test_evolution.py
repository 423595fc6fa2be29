"""Old events decode for ever, newer ones are read past, and what is no event is said to be none."""

from __future__ import annotations

from unittest.mock import Mock

import msgspec
import pytest

from tidewright.events import registry
from tidewright.events.base import Event
from tidewright.events.facts import NodeGone, PodGone, PodObserved


def test_an_old_type_is_read_as_todays(monkeypatch: pytest.MonkeyPatch) -> None:
    # As if PodGone had become a PodObserved that failed, by way of NodeGone.
    def first(event: PodGone) -> Event:
        return NodeGone(at=event.at, name=event.name)

    def second(event: NodeGone) -> Event:
        return PodObserved(at=event.at, name=event.name, phase="Failed")

    stored = registry.encode(PodGone(at=5.0, namespace="shop", name="p"))
    monkeypatch.setattr(registry, "UPCASTS", {PodGone: first, NodeGone: second})
    assert registry.decode(stored) == PodObserved(at=5.0, name="p", phase="Failed")
    untouched = PodObserved(at=6.0, name="q")
    assert registry.decode(registry.encode(untouched)) == untouched


def test_one_event_and_the_one_after_many_are_read_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "MANY", 3)
    monkeypatch.setattr(registry, "_decoder", registry.ByAndBy())
    event = PodObserved(at=6.0, name="q")
    spaced = b'{ "type" : "fact.pod-gone.v1", "at": 7, "namespace": "shop", "name": "p" }'
    for _ in range(5):
        assert registry.decode(registry.encode(event)) == event
        assert (
            registry.decode(rb'{"type":"fact.pod-g\u006fne.v1","at":7.0,"namespace":"shop","name":"p"}').at
            == 7
        )
        assert registry.decode(spaced) == PodGone(at=7.0, namespace="shop", name="p")
        assert isinstance(registry.decode(b'{"type":"fact.pod-teleported.v3","at":7.5}'), registry.Unknown)
        with pytest.raises(
            registry.NotAnEvent, match=r"not a fact.pod-observed.v1: Expected `str`, got `int`"
        ):
            registry.decode(b'{"type":"fact.pod-observed.v1","at":7.5,"name":1}')


def test_a_short_command_makes_the_decoders_of_few_types(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "MANY", 100)
    monkeypatch.setattr(registry, "_decoder", registry.ByAndBy())
    of_all = Mock(wraps=msgspec.json.Decoder)
    monkeypatch.setattr(msgspec.json, "Decoder", of_all)
    body = registry.encode(PodObserved(at=6.0, name="q"))
    for _ in range(98):
        registry.decode(body)
    assert isinstance(registry.decode(b'{"type":"checkpoint.v1","at":1.0}'), registry.Unknown)
    of_all.assert_called_once_with(PodObserved)
    registry.decode(body)
    assert of_all.call_count == 2


def test_every_upcast_leads_from_a_known_type() -> None:
    assert set(registry.UPCASTS) <= set(registry.ALL)


def test_a_type_of_a_newer_writer_is_unknown_and_no_error() -> None:
    found = registry.decode(b'{"type":"fact.pod-teleported.v3","at":7.5,"whither":"moon"}')
    assert found == registry.Unknown(type="fact.pod-teleported.v3", at=7.5)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b"{}",
        b'{"at":1}',
        b'{"type":"\xff","at":1}',
        b'{"type":"fact.pod-gone.v1","at":1,"name":"\xc3\x28"}',
        b'{"type":"fact.pod-gone.v1","at":"noon","name":"p"}',
        b'{"type":"fact.pod-teleported.v3"}',
    ],
)
def test_bytes_that_are_no_event_say_so(body: bytes) -> None:
    with pytest.raises(registry.NotAnEvent, match="not a"):
        registry.decode(body)

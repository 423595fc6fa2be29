"""What selectors and requests say of devices; how they are handed out is a property of its own."""

from __future__ import annotations

from typing import Any

import pytest

from tidewright.kube.devices import allocation
from tidewright.kube.devices.allocation import Entry, Problem, handed_out
from tidewright.kube.devices.claims import Ask, Bond, Claimed, Wish, parse
from tidewright.kube.devices.devices import Matcher, device, takes
from tidewright.kube.devices.selectors import version_number

DRIVER = "d.example.com"


def test_both_forms_of_a_request_are_read_alike() -> None:
    old = {"requests": [{"name": "r", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2}]}
    new = {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu", "count": 2}}]}
    read = [parse(spec, lambda name: ("true",)) for spec in (old, new)]
    assert read[0] == read[1]
    assert read[0].wishes == (Wish("r", (Ask(Matcher("gpu", ("true",)), 2),)),)


def test_a_class_that_does_not_exist_is_named() -> None:
    spec = {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}
    with pytest.raises(ValueError, match="device class 'gpu' does not exist"):
        parse(spec, lambda name: None)


@pytest.mark.parametrize(
    ("expression", "taken"),
    [
        (f'device.driver == "{DRIVER}"', True),
        (f'device.attributes["{DRIVER}"].version.isGreaterThan(semver("1.9.9"))', True),
        (f'device.attributes["{DRIVER}"].version == semver("2.0.0-rc.1")', False),
        (f'device.attributes["{DRIVER}"].version.compareTo(semver("2.0.0")) == 0', True),
        (f'device.capacity["{DRIVER}"].memory.isLessThan(quantity("41Gi"))', True),
        ('device.attributes["k8s.example.com"].root == "r"', True),
        (f'device.attributes["{DRIVER}"].exists(name, name == "version")', True),
        ("device.allowMultipleAllocations", True),
        ("1 + 1", False),
        ("device.nothing", False),
    ],
)
def test_selectors_speak_of_versions_quantities_and_domains(expression: str, taken: bool) -> None:
    body = {
        "name": "d",
        "attributes": {"version": {"version": "2.0.0"}, "k8s.example.com/root": {"string": "r"}},
        "capacity": {"memory": {"value": "40Gi"}},
        "allowMultipleAllocations": True,
    }
    assert takes(Matcher("m", (expression,)), device(DRIVER, "p", body)) is taken


def test_a_device_whose_version_is_none_is_not_taken_by_what_asks_for_it() -> None:
    body = {"name": "d", "attributes": {"version": {"version": "next"}}}
    asking = f'device.attributes["{DRIVER}"].version.isGreaterThan(semver("1.0.0"))'
    assert not takes(Matcher("m", (asking,)), device(DRIVER, "p", body))


def test_versions_sort_as_versions_do() -> None:
    ordered = ["0.9.10", "1.0.0-rc.1", "1.0.0", "1.2.3", "v1.10.0", "2.0.0+build"]
    numbers = [version_number(text) for text in ordered]
    assert numbers == sorted(numbers)
    with pytest.raises(ValueError, match="no semantic version"):
        version_number("1.2")


def test_a_search_in_which_hardly_a_device_may_be_tried_ends_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tries were counted, and not what was looked at in vain: one claim of a pod held up everybody's nodes for minutes."""
    wishes = tuple(
        Wish(f"r{n}", tuple(Ask(Matcher("gpu"), 2, name=f"a{k}") for k in range(8))) for n in range(16)
    )
    claim = Claimed(wishes=wishes, bonds=(Bond("uuid", distinct=True),), digest="d")
    entries = tuple(
        Entry(
            takes=sum(1 << (n * 8 + k) for n in range(16) for k in range(8) if (n + k) % 9 == device % 9),
            bears=(1 << 128) - 1,
            values=(frozenset({device % 30}),),
            consumes=(),
            free=True,
        )
        for device in range(128)
    )
    looks, may = 0, allocation._Search._may

    def counted(search: Any, choice: Any, i: int) -> bool:
        nonlocal looks
        looks += 1
        assert looks <= 2 * allocation.MOST_LOOKS
        return may(search, choice, i)

    monkeypatch.setattr(allocation._Search, "_may", counted)
    found = handed_out(Problem((claim,), (True,), entries, ()))
    assert found.gave_up
    assert not found.pods

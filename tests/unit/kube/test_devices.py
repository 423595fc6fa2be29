"""Devices counted by sets of matchers, against trying all ways to hand them out."""

from __future__ import annotations

from itertools import permutations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidewright.kube.devices import Ask, Asked, Bundle, Catalogue, Device, Matcher, device, parse, takes
from tidewright.kube.deviceselectors import version_number

DRIVER = "d.example.com"
LETTERS = "abcd"


def taking(letters: str) -> Matcher:
    """A matcher of the devices whose letter is one of these."""
    some = ", ".join(f'"{letter}"' for letter in sorted(letters))
    return Matcher(letters, (f'device.attributes["{DRIVER}"].letter in [{some}]',))


def lettered(letters: str, values: str = "") -> list[Device]:
    return [
        device(
            DRIVER,
            "p",
            {
                "name": f"d{i}",
                "attributes": {
                    "letter": {"string": letter},
                    **({"root": {"string": values[i]}} if values else {}),
                },
            },
        )
        for i, letter in enumerate(letters)
    ]


def room(catalogue: Catalogue, devices: list[Device], pods: list[Asked]) -> bool:
    """Whether the amounts say that these pods fit together."""
    offer = catalogue.offer(devices, lambda one: False)
    total: dict[str, int] = {}
    for pod in pods:
        for name, amount in catalogue.asked(pod).items():
            total[name] = total.get(name, 0) + amount
    return all(offer.get(name, 0) >= amount for name, amount in total.items())


def handed_out(letters: str, wanted: list[str]) -> bool:
    """The naive way: some order of the devices gives each request one that it takes."""
    return len(wanted) <= len(letters) and any(
        all(letter in takes for letter, takes in zip(order, wanted, strict=False))
        for order in permutations(letters)
    )


@given(
    st.text(LETTERS, max_size=5),
    st.lists(
        st.lists(st.sampled_from(["a", "ab", "bc", "cd", "abcd", "d"]), min_size=1, max_size=2), max_size=3
    ),
)
def test_amounts_say_what_handing_out_devices_says(letters: str, pods: list[list[str]]) -> None:
    catalogue = Catalogue()
    asked = [Asked(tuple(Ask(taking(takes)) for takes in pod)) for pod in pods]
    devices = lettered(letters)
    catalogue.see(devices)
    for one in asked:
        catalogue.learn(one)
    assert room(catalogue, devices, asked) == handed_out(letters, [takes for pod in pods for takes in pod])


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("xyz")), max_size=6),
    st.integers(1, 2),
    st.integers(0, 2),
    st.integers(1, 3),
)
def test_bundles_count_pods_of_one_kind_value_by_value(
    found: list[tuple[str, str]], first: int, second: int, pods: int
) -> None:
    asks = [Ask(taking("a"), first)] + ([Ask(taking("b"), second)] if second else [])
    asked = Asked(tuple(asks), (Bundle("root", tuple(asks)),))
    catalogue = Catalogue()
    devices = lettered("".join(letter for letter, _ in found), "".join(value for _, value in found))
    catalogue.see(devices)
    catalogue.learn(asked)
    naive = 0
    for value in "xyz":
        a, b = (sum(one == (letter, value) for one in found) for letter in "ab")
        naive += min(a // first, b // second) if second else a // first
    assert room(catalogue, devices, [asked] * pods) == (naive >= pods)


def test_the_order_in_which_things_are_learnt_changes_nothing() -> None:
    devices = lettered("aabbcd")
    asks = [Asked((Ask(taking(takes)),)) for takes in ("ab", "bc", "d", "a")]
    offers = []
    for order in (asks, asks[::-1]):
        catalogue = Catalogue()
        for one in order:
            catalogue.learn(one)
            catalogue.see(devices)
        offers.append((catalogue.offer(devices, lambda one: False), [catalogue.asked(one) for one in asks]))
    assert offers[0] == offers[1]


def test_both_forms_of_a_request_are_read_alike() -> None:
    old = {"requests": [{"name": "r", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2}]}
    new = {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu", "count": 2}}]}
    read = [parse(spec, lambda name: ("true",), lambda ask: True) for spec in (old, new)]
    assert read[0] == read[1] == Asked((Ask(Matcher("gpu", ("true",)), 2),))


def test_a_class_that_does_not_exist_is_named() -> None:
    spec = {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}
    with pytest.raises(ValueError, match="device class 'gpu' does not exist"):
        parse(spec, lambda name: None, lambda ask: True)


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
        ("1 + 1", False),
        ("device.nothing", False),
    ],
)
def test_selectors_speak_of_versions_quantities_and_domains(expression: str, taken: bool) -> None:
    body = {
        "name": "d",
        "attributes": {"version": {"version": "2.0.0"}, "k8s.example.com/root": {"string": "r"}},
        "capacity": {"memory": {"value": "40Gi"}},
    }
    assert takes(Matcher("m", (expression,)), device(DRIVER, "p", body)) is taken


def test_versions_sort_as_versions_do() -> None:
    ordered = ["0.9.10", "1.0.0-rc.1", "1.0.0", "1.2.3", "v1.10.0", "2.0.0+build"]
    numbers = [version_number(text) for text in ordered]
    assert numbers == sorted(numbers)
    with pytest.raises(ValueError, match="no semantic version"):
        version_number("1.2")


def test_a_matcher_is_named_after_its_class() -> None:
    assert taking("a").label.startswith("a[")
    assert taking("a").label != msgspec.structs.replace(taking("a"), selectors=()).label

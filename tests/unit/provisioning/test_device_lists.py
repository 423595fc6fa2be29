"""Attributes of devices that are lists: selectors look into them, and bonds compare them as sets."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.provisioning.claimworld import (
    CHECK,
    GPU,
    by_template,
    claim_template,
    device,
    device_class,
    exactly,
    offers,
    provisioned,
)
from tests.vectors.provisioning_life import Cluster
from tidewright.kube.devices.selectors import takes

ROOTS = f'device.attributes["{GPU}"].roots'


@pytest.mark.parametrize(
    ("attribute", "expression", "expected"),
    [
        ({"strings": ["a", "b"]}, f'{ROOTS}.includes("b")', True),
        ({"strings": ["a", "b"]}, f'{ROOTS}.includes("c")', False),
        ({"string": "a"}, f'{ROOTS}.includes("a")', True),
        ({"string": "a"}, f'{ROOTS}.includes("b")', False),
        ({"ints": [1, 2]}, f"{ROOTS}.includes(2)", True),
        ({"ints": [0, 1]}, f"{ROOTS}.includes(true)", False),
        ({"bools": [True]}, f"{ROOTS}.includes(true)", True),
        ({"bools": [True]}, f"{ROOTS}.includes(1)", False),
        ({"versions": ["1.2.3", "2.0.0"]}, f'{ROOTS}.includes(semver("2.0.0"))', True),
        ({"versions": ["1.2.3"]}, f'{ROOTS}.exists(v, v.isGreaterThan(semver("1.2.0")))', True),
        ({"strings": ["a", "b"]}, f'"b" in {ROOTS}', True),
        ({"strings": ["a", "b"]}, f"{ROOTS}.size() == 2", True),
        ({"ints": [1, 2]}, f"{ROOTS}.all(i, i < 2)", False),
    ],
)
def test_selectors_look_into_lists(attribute: dict[str, Any], expression: str, expected: bool) -> None:
    assert takes(expression, GPU, {"attributes": {"roots": attribute}}) is expected


def pairs_fit(constraint: str, *attributes: dict[str, Any], count: int = 2) -> bool:
    cluster = Cluster()
    device_class(cluster)
    cluster.add_node("n")
    offers(cluster, "n", *(device(f"d{i}", roots=found) for i, found in enumerate(attributes)))
    constraints = [{"requests": ["g"], constraint: f"{GPU}/roots"}]
    claim_template(cluster, "some", exactly(count=count), constraints=constraints)
    cluster.template("worker", "100m", resourceClaims=by_template("some"))
    cluster.request("r", CHECK, [("worker", 1)])
    cluster.settle()
    return provisioned(cluster, "r")


@pytest.mark.parametrize(
    ("first", "second", "match", "distinct"),
    [
        ({"strings": ["a", "b"]}, {"strings": ["b", "c"]}, True, False),
        ({"strings": ["a", "b"]}, {"strings": ["c"]}, False, True),
        ({"strings": ["a", "b"]}, {"string": "a"}, True, False),
        ({"ints": [1]}, {"strings": ["1"]}, False, True),
        ({"ints": [1, 2]}, {"bools": [True]}, False, True),
        ({"versions": ["1.0.0"]}, {"strings": ["1.0.0"]}, False, True),
        ({"versions": ["1.0.0", "2.0.0"]}, {"version": "2.0.0"}, True, False),
        ({"strings": ["a", "a"]}, {"strings": ["a"]}, True, False),
    ],
)
def test_bonds_compare_sets(
    first: dict[str, Any], second: dict[str, Any], match: bool, distinct: bool
) -> None:
    assert pairs_fit("matchAttribute", first, second) is match
    assert pairs_fit("distinctAttribute", first, second) is distinct


def test_all_that_match_have_one_value_in_common() -> None:
    chain = [{"strings": ["a", "b"]}, {"strings": ["b", "c"]}, {"strings": ["a", "c"]}]
    assert not pairs_fit("matchAttribute", *chain, count=3)
    assert pairs_fit("matchAttribute", *chain, {"strings": ["c"]}, count=3)


def test_a_device_without_the_attribute_is_in_no_bond() -> None:
    assert not pairs_fit("matchAttribute", {"strings": ["a"]}, {"strings": []})
    assert not pairs_fit("distinctAttribute", {"strings": ["a"]}, {"strings": []})

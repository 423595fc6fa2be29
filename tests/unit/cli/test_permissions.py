"""`tidewright permissions`: what nats-server is given of one cluster, of several, and of a leaf."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tidewright.asking.errors import BadInput
from tidewright.cli.contract.permissions import USERS
from tidewright.cli.permissions import permissions

GENERATED = Path(__file__).resolve().parents[3] / "deploy" / "nats" / "permissions.conf"


def said(capsys: pytest.CaptureFixture[str], *clusters: str, shared: bool = False, leaf: bool = False) -> str:
    assert permissions(*clusters, shared=shared, leaf=leaf) == 0
    return capsys.readouterr().out


def test_of_one_cluster_it_is_what_the_deployment_has(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "prod") == GENERATED.read_text()


def test_each_cluster_has_all_users_for_itself_and_one_reader_has_all(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = said(capsys, "east", "a-b")
    users = re.findall(r"users: \[\{ user: (\S+),", text)
    assert sorted(users) == sorted([*(f"{c}-{user}" for c in ("east", "a-b") for user in USERS), "reader"])
    assert len(re.findall(r"password: \$(\w+)", text)) == len(set(re.findall(r"password: \$(\w+)", text)))
    # A cluster that is alone for now is named as it will be when others come.
    alone = said(capsys, "east", shared=True)
    assert set(re.findall(r"user: (\S+),", alone)) == {"reader", *(u for u in users if u.startswith("east-"))}


def test_a_leaf_passes_on_every_user_from_an_address_of_the_environment(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = said(capsys, "north", leaf=True)
    assert re.findall(r"account: (\S+), url: \$TIDEWRIGHT_\w+_HUB", text) == list(USERS)
    assert "jetstream" not in text


@pytest.mark.parametrize(
    ("clusters", "leaf", "problem"),
    [
        ((), False, "name the clusters"),
        (("East",), False, "cluster 'East': lower case letters"),
        (('a" {',), False, "lower case letters"),
        (("east", "west", "east"), False, "east is named twice"),
        (("east", "west"), True, "--leaf is of one cluster"),
    ],
)
def test_what_means_nothing_is_refused(clusters: tuple[str, ...], leaf: bool, problem: str) -> None:
    with pytest.raises(BadInput) as refused:
        permissions(*clusters, leaf=leaf)
    assert problem in str(refused.value)

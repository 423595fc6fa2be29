"""One thing is told of as one."""

from __future__ import annotations

import pytest

from tidewright.provisioning.tell.in_number import in_number
from tidewright.provisioning.tell.sentences import because, sentence


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("its 1 pods fit on 1 other nodes: g2 (1)", "its 1 pod fits on 1 other node: g2 (1)"),
        ("all 1 pods have a node", "the only pod has a node"),
        ("all 1 nodes of group a are ready", "the only node of group a is ready"),
        ("1 of 2 pods fit on nodes that exist", "1 of 2 pods fit on nodes that exist"),
        ("11 pods of 21 shapes are waiting", "11 pods of 21 shapes are waiting"),
        ("at 0.1 nodes, g-1 pods, 3:1 nodes", "at 0.1 nodes, g-1 pods, 3:1 nodes"),
        ("1 pods of 1 shapes are waiting", "1 pod of 1 shape is waiting"),
        ("8 pods of 1 shapes are waiting", "8 pods of 1 shape are waiting"),
        ("11 pods of 1 shapes are waiting", "11 pods of 1 shape are waiting"),
    ],
)
def test_a_sentence_about_one_is_in_the_singular(written: str, read: str) -> None:
    assert in_number(written) == read


def test_numbers_above_one_stay_as_they_are() -> None:
    told = sentence(because("PodsFitElsewhere", pods=12, nodes=2, places="a (10), b (2)"))
    assert in_number(told) == told


def test_what_is_held_back_is_a_sentence_like_the_others_which_who_tells_it_ends() -> None:
    told = sentence(because("HeldBack", mode="dry-run", why="another autoscaler is at work"))
    assert told == "Nothing of it is done (dry run): another autoscaler is at work"

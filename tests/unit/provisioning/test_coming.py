"""Nodes that are not there yet: their names say whose they are."""

import pytest

from tidewright.provisioning.group_ids import NodeGroupId
from tidewright.provisioning.scaleup.coming import Coming, coming, planned, upcoming


@pytest.mark.parametrize("group_id", ["workers", "projects/p/zones/z/workers", "a/1/2/3"])
def test_a_name_says_the_group_and_who_ordered_the_node(group_id: str) -> None:
    group = NodeGroupId(group_id)
    on_their_way = upcoming(group, 2)
    ordered_now = planned(group, 2, in_round=1, nodes=30, layout=0)
    assert len({*on_their_way, *ordered_now}) == 4
    assert {coming(name) for name in on_their_way} == {Coming(group, planned=False)}
    assert {coming(name) for name in ordered_now} == {Coming(group, planned=True)}


def test_a_node_that_is_there_is_none_of_them() -> None:
    assert coming("planned-1.example") is None

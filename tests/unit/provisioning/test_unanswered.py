"""Decisions that wait for their outcome are stored as a verb and what they were about, as ever."""

import msgspec
import pytest

from tidewright.provisioning.group_ids import NodeGroupId
from tidewright.provisioning.unanswered import DeleteOrder, Order


@pytest.mark.parametrize(
    "stored",
    [
        b'["status","shop/gang"]',
        b'["collect","shop/gang"]',
        b'["hold","system/hold-1"]',
        b'["free","system/hold-1"]',
        b'["mark","n1"]',
        b'["report",""]',
        b'["create","workers"]',
        b'["increase","5af3107a4000-1"]',
        b'["decrease","workers"]',
        b'["delete","workers",1,0]',
    ],
)
def test_an_order_is_stored_as_a_verb_and_what_it_is_about(stored: bytes) -> None:
    order = msgspec.json.decode(stored, type=Order)
    assert msgspec.json.encode(order) == stored


def test_a_deletion_that_was_stored_without_numbers_is_read() -> None:
    assert msgspec.json.decode(b'["delete","workers"]', type=Order) == DeleteOrder(NodeGroupId("workers"))

"""Parts of the status ConfigMap, as a report names them."""

import pytest

from tidewright.provisioning.cluster.status_parts import HEALTH, SCALE_UP, StatusPart, part_of


@pytest.mark.parametrize(
    "part", [StatusPart(SCALE_UP, "workers"), StatusPart(HEALTH, "projects/p/b"), StatusPart(HEALTH, "")]
)
def test_a_part_is_read_back_from_its_key(part: StatusPart) -> None:
    assert part_of(part.key) == part


def test_a_key_is_the_kind_and_the_group() -> None:
    assert StatusPart(SCALE_UP, "workers").key == "scaleUp/workers"

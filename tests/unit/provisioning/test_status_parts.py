"""Parts of the status ConfigMap, as a report names them."""

import pytest

from tidewright.provisioning.cluster.status_parts import HEALTH, SCALE_UP, Part, part_of


@pytest.mark.parametrize("part", [Part(SCALE_UP, "workers"), Part(HEALTH, "projects/p/b"), Part(HEALTH, "")])
def test_a_part_is_read_back_from_its_key(part: Part) -> None:
    assert part_of(part.key) == part


def test_a_key_is_the_kind_and_the_group() -> None:
    assert Part(SCALE_UP, "workers").key == "scaleUp/workers"

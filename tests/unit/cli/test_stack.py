"""What may be brought up, before anything is started."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tidewright.asking.errors import BadInput
from tidewright.cli.stack import StackOptions, stages


@pytest.mark.parametrize(
    ("url", "at"),
    [
        ("https://127.0.0.1:9443", ("127.0.0.1", 9443)),
        ("https://localhost:9443", ("127.0.0.1", 9443)),
        ("https://laptop.example.com:9443", ("0.0.0.0", 9443)),
        ("https://laptop.example.com", ("0.0.0.0", 443)),
    ],
)
def test_admission_listens_where_its_url_says(url: str, at: tuple[str, int]) -> None:
    assert StackOptions(data=Path(), admission_url=url).admission_at() == at


@pytest.mark.parametrize("url", ["http://127.0.0.1:9443", "127.0.0.1:9443", "https://", "https://a:port"])
def test_what_is_no_https_url_is_refused(url: str) -> None:
    with pytest.raises(BadInput, match="--admission-url"):
        StackOptions(data=Path(), admission_url=url)


def test_a_limit_of_the_store_that_cannot_be_is_refused() -> None:
    with pytest.raises(BadInput, match="--max-bytes 5: at least"):
        StackOptions(data=Path(), max_bytes=5)
    with pytest.raises(BadInput, match="is set there"):
        StackOptions(data=Path(), nats="nats://user:secret@there", max_bytes=10**9)


def test_beside_a_cluster_nobody_acts_before_the_watcher_has_said_modes_and_incumbents(
    tmp_path: Path,
) -> None:
    def names(**more: Any) -> list[list[str]]:
        found = StackOptions(data=tmp_path, admission_url="https://10.0.0.1:8443", **more)
        return [[service.name for service in stage] for stage in stages(found)]

    beside = names(kubeconfig=tmp_path / "kubeconfig")
    assert beside[0] == ["watcher"]
    assert "actuator" in beside[1]
    assert "spread-admission" in beside[-1]
    assert {"watcher", "actuator"} <= set(names()[0])

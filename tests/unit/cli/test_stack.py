"""What may be brought up, before anything is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidewright.cli.errors import BadInput
from tidewright.cli.stack import StackOptions


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

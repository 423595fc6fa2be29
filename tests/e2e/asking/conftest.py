"""The log as a file and on a server, and the command line in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.asking.world import recorded, server, stored
from tidewright.cli import main
from tidewright.log.reader import Record


@dataclass(frozen=True)
class Answer:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str


Ask = Callable[..., Answer]


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str]) -> Ask:
    """Run a command line in this process."""

    def run(*words: object) -> Answer:
        capsys.readouterr()
        code = main.run([str(word) for word in words])
        printed = capsys.readouterr()
        return Answer(code, printed.out, printed.err)

    return run


@pytest.fixture(scope="session")
def records() -> list[Record]:
    return recorded()


@pytest.fixture(scope="session")
def whole(records: list[Record], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The whole log as a file."""
    return stored(tmp_path_factory.mktemp("asking") / "whole.twlog", records)


@pytest.fixture(scope="module")
def nats(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of an empty nats-server."""
    with server(tmp_path_factory.mktemp("nats")) as url:
        yield url


@pytest.fixture(scope="module")
def running(nats: str, whole: Path) -> tuple[str, ...]:
    """Options that name the log on a server, imported from the file."""
    options = ("--nats", nats, "--cluster", "bench")
    assert main.run(["import", str(whole), *options]) == 0
    return options

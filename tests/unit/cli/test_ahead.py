"""A log that is opened while what serves it is still imported: what is raised where, and that nothing stays behind."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest

from tests.unit.console.conftest import LOG
from tests.waiting import until
from tidewright.asking.errors import BadInput, Unavailable
from tidewright.asking.exported import ExportedLog
from tidewright.asking.source import Source
from tidewright.cli.ahead import Ahead
from tidewright.log import diagnostics
from tidewright.log.export import ExportFile


class Altered(Exception):
    """As a file that differs from its digests is, when it is read."""


def opening(said: list[str], problem: Exception | None) -> Callable[[], AbstractAsyncContextManager[Source]]:
    @asynccontextmanager
    async def opened() -> AsyncIterator[Source]:
        if problem is not None:
            raise problem
        said.append("open")
        try:
            yield ExportedLog(ExportFile(LOG))
        except Altered as error:
            raise BadInput("the file was altered") from error
        finally:
            said.append("closed")

    return opened


async def looked(ahead: Ahead, problem: Exception | None = None) -> int:
    async with ahead.log() as (source, lists):
        if problem is not None:
            raise problem
        await asyncio.sleep(0)
        assert source.name
        await until(lambda: bool(lists._now))  # nobody but who opened it has asked for them
        return len(lists._now["watermarkpodautoscaler"].rows)


def test_lists_are_asked_for_before_anybody_waits_for_them() -> None:
    said: list[str] = []
    ahead = Ahead(opening(said, None))
    ahead.importing(("tidewright.console.words",))
    assert said == ["open"]
    assert ahead.loop.run_until_complete(looked(ahead)) > 0
    assert said == ["open", "closed"]
    ahead.abandon()
    assert ahead.loop.is_closed()


def test_what_is_raised_within_has_the_words_of_whoever_opened_it() -> None:
    said: list[str] = []
    ahead = Ahead(opening(said, None))
    ahead.importing(())
    with pytest.raises(BadInput, match="the file was altered"):
        ahead.loop.run_until_complete(looked(ahead, Altered()))
    other = Ahead(opening(said, None))
    with pytest.raises(KeyError):
        other.loop.run_until_complete(looked(other, KeyError("x")))
    assert said == ["open", "closed"] * 2
    ahead.abandon()
    other.abandon()


def test_a_log_that_cannot_be_opened_is_told_where_it_is_waited_for() -> None:
    ahead = Ahead(opening([], Unavailable("nobody answers")))
    ahead.importing(("tidewright.console.words",))
    with pytest.raises(Unavailable, match="nobody answers"):
        ahead.loop.run_until_complete(looked(ahead))
    ahead.abandon()


def test_what_was_asked_of_a_module_that_was_half_imported_is_asked_again_when_it_is_whole() -> None:
    """Another thread was at it, under load: a console ended before it had begun."""
    opened, tried = opening([], None), list[int]()

    @asynccontextmanager
    async def half() -> AsyncIterator[Source]:
        tried.append(len(tried))
        if len(tried) == 1:
            raise AttributeError("partially initialized module")
        async with opened() as source:
            yield source

    ahead = Ahead(half)
    ahead.importing(("tidewright.console.words",))
    assert ahead.loop.run_until_complete(looked(ahead)) > 0
    assert tried == [0, 1]
    ahead.abandon()


def test_a_library_that_another_thread_is_importing_is_not_asked_whether_it_is_configured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    half = ModuleType("structlog")
    half.__spec__ = ModuleSpec("structlog", None)
    half.__spec__._initializing = True  # type: ignore[attr-defined]  # as the import system says it
    monkeypatch.setitem(sys.modules, "structlog", half)
    monkeypatch.setattr(diagnostics, "_configuring", [])
    diagnostics.configure_when_used(lambda: None)
    assert len(diagnostics._configuring) == 1


@pytest.mark.parametrize("problem", [None, Unavailable("nobody answers")])
def test_a_log_that_nobody_waits_for_is_let_go(
    problem: Exception | None, caplog: pytest.LogCaptureFixture
) -> None:
    said: list[str] = []
    ahead = Ahead(opening(said, problem))
    ahead.importing(("tidewright.console.words",))
    ahead.abandon()
    assert said == ([] if problem else ["open", "closed"])
    assert ahead.loop.is_closed()
    del ahead
    gc.collect()
    assert not caplog.records  # of tasks that are pending, or whose end nobody took note of


BEFORE = """
import sys
import tidewright.cli.webconsole
print(*sorted(sys.modules))
"""


def test_the_log_is_asked_before_what_serves_pages_is_imported() -> None:
    started = subprocess.run(
        [sys.executable, "-c", BEFORE], capture_output=True, text=True, timeout=120, check=True
    )
    imported = set(started.stdout.split())
    assert "tidewright.asking.opening" in imported
    assert not imported & {
        "aiohttp.web",
        "aiohttp.connector",
        "jinja2",
        "prometheus_client",
        "structlog",
        "tidewright.console.server",
        "tidewright.host.process.process",
    }

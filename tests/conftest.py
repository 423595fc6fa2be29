"""Fixtures that every part of the suite uses: a real nats-server of its own, and a log on it."""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from hypothesis import HealthCheck, settings

from tests.dealing import dealt, usual_s
from tests.nats_server import EmbeddedServer
from tidewright.log.connection import Log
from tidewright.log.install import Plan, install_log
from tidewright.log.outage import OUTAGE, Outage

# Every service that a test starts would compile everything anew: half of the processor time that its start takes.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# This process serves gRPC in threads and forks: gRPC's own handlers of forks crash one child in eight before it is another program.
# It reads this when it is imported.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"
# Nor does anything here trust what this machine trusts, or calculate in several threads: reading its certificates and starting
# threads would be 50 ms of the start of each of some 500 processes.
os.environ |= {"SSL_CERT_FILE": os.devnull, "SSL_CERT_DIR": os.devnull, "OPENBLAS_NUM_THREADS": "1"}
# Stacks that tests start are found by nobody else, nor those of whoever runs the tests by them.
for _variable, _what in (("XDG_STATE_HOME", "state"), ("XDG_CACHE_HOME", "cache")):
    os.environ[_variable] = tempfile.mkdtemp(prefix=f"tidewright-{_what}-")
    atexit.register(shutil.rmtree, os.environ[_variable], ignore_errors=True)

# The same examples at every run, so that a change is judged by what it changes. New ones are looked for
# with `make test ARGS='--hypothesis-profile=explore'`.
# How long an example takes says something of the machine, which does much else.
UNTIMED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("repeatable", UNTIMED, derandomize=True)
settings.register_profile("explore", UNTIMED, derandomize=False)
settings.load_profile("repeatable")


def pytest_addoption(parser: pytest.Parser) -> None:
    """The cluster for end-to-end tests, and for the suite of clouds that are objects of one."""
    parser.addoption("--kubeconfig", type=Path, help="run on this cluster instead of the embedded one")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage while tests are collected, and never again among what they are: it stays to the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deal out what takes long to the workers, where there are several."""
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if workers > 1:
        root = config.rootpath

        def takes_s(item: pytest.Item) -> float:
            slow = item.get_closest_marker("slow") is not None
            return usual_s(item.path.relative_to(root).as_posix(), slow=slow)

        items[:] = dealt(items, workers, lambda item: str(item.path), takes_s)


@pytest.fixture(autouse=True)
def plain_logs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Log lines as structlog prints them by itself: a command that a test runs in this process configures them for good.

    Loggers are not cached, because a cached one keeps what was configured at its first line.
    """
    configure = structlog.configure

    def uncached(**options: Any) -> None:
        configure(**options | {"cache_logger_on_first_use": False})

    monkeypatch.setattr(structlog, "configure", uncached)
    structlog.reset_defaults()
    yield
    structlog.reset_defaults()


@pytest.fixture(autouse=True)
def no_outage_of_before() -> None:
    """A process says once that a log is away and once that it answers again: not of the log of the test before."""
    vars(OUTAGE).update(vars(Outage()))


@pytest.fixture
async def nats(tmp_path: Path) -> AsyncIterator[EmbeddedServer]:
    """A nats-server with its own store on a free port."""
    server = EmbeddedServer(tmp_path / "nats")
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
async def log(nats: EmbeddedServer) -> AsyncIterator[Log]:
    """A connection to the stream of a cluster named `test`, with eight slots."""
    async with await Log.connect(nats.url, "test", timeout_s=10.0) as connected:
        await install_log(connected, Plan(slots=8, deciders=("counting", "reminding")))
        yield connected

"""An answer imports only what it needs."""

from __future__ import annotations

import json
import subprocess
import sys

HEAVY = (
    "aiohttp.client",
    "multidict._compat",
    "cyclopts.validators",
    "nats.js.client",
    "rich",
    "structlog",
    "numpy",
    "yaml",
    "difflib",
    "tidewright.sim",
    "tidewright.kube.client",
    "tidewright.provisioning",
)


def imported(source: str) -> list[str]:
    """Which of the heavy modules are there after some code, in a process of its own."""
    code = f"{source}\nimport json, sys\nprint(json.dumps([m for m in {HEAVY!r} if sys.modules.get(m) is not None]))"
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True, timeout=60)
    found: list[str] = json.loads(done.stdout)
    return found


def test_explaining_an_autoscaler_imports_nothing_of_the_others() -> None:
    source = (
        "import tidewright.cli.main, tidewright.cli.explain, tidewright.cli.events\n"
        "from tidewright.asking.explain import speakers\n"
        "speakers('watermarkpodautoscaler')"
    )
    assert imported(source) == []


def test_explaining_a_workload_imports_only_those_that_have_run_on_the_log() -> None:
    source = (
        "import asyncio\n"
        "from tidewright.asking.explain import speakers_on\n"
        "from tidewright.log.subjects import Subjects\n"
        "class Quiet:\n"
        "    subjects = Subjects('it')\n"
        "    async def last(self, patterns):\n"
        "        assert f'{self.subjects.root}.checkpoint.*.provisioning' in patterns\n"
        "        return []\n"
        "assert asyncio.run(speakers_on(Quiet(), 'deployment')) == []"
    )
    assert imported(source) == []


def test_aiohttp_is_imported_when_a_part_of_it_is_asked_for() -> None:
    for use in (
        "aiohttp.ClientSession",
        "import aiohttp.web; aiohttp.web.Application",
        "from aiohttp import web",
    ):
        source = (
            "import tidewright.asking.opening, sys\n"
            "from nats.aio import transport\n"
            "assert 'aiohttp.client' not in sys.modules\n"
            f"aiohttp = transport.aiohttp\n{use}\n"
            "assert aiohttp is sys.modules['aiohttp'] and type(aiohttp) is type(sys)\n"
            "assert transport.aiohttp.ClientSession.__module__ == 'aiohttp.client'"
        )
        assert "aiohttp.client" in imported(source)


def test_jetstream_is_imported_when_a_part_of_it_is_asked_for() -> None:
    for use in ("nats.js.api.Header.STATUS", "from nats.js.errors import NotFoundError", "import nats.js.kv"):
        source = (
            "import tidewright.asking.opening, nats, sys\n"
            "assert 'nats.js.client' not in sys.modules\n"
            f"{use}\n"
            "assert nats.js.JetStreamContext is sys.modules['nats.js.client'].JetStreamContext\n"
            "assert nats.js.errors is sys.modules['nats.js.errors']"
        )
        assert "nats.js.client" in imported(source)


def test_what_is_there_already_or_nowhere_is_left_alone() -> None:
    source = (
        "import aiohttp, sys\n"
        "from tidewright.asking.postponed import postpone\n"
        "postpone('aiohttp'); postpone('no_such_module')\n"
        "assert sys.modules['aiohttp'] is aiohttp and 'no_such_module' not in sys.modules"
    )
    assert "aiohttp.client" in imported(source)


def test_what_is_said_is_a_warning_on_stderr_whoever_imports_structlog_first() -> None:
    for first in ("", "import structlog"):
        source = (
            f"{first}\n"
            "from tidewright.host.process.stderr import warnings_only\n"
            "from tidewright.log.diagnostics import configure_when_used, get_logger\n"
            "logger = get_logger('here')\n"
            "configure_when_used(warnings_only)\n"
            "logger.info('not this')\n"
            "logger.warning('this', n=1)\n"
            "import structlog as now\n"
            "now.get_logger().warning('and this')"
        )
        done = subprocess.run(
            [sys.executable, "-c", source], capture_output=True, check=True, timeout=60, text=True
        )
        assert done.stdout == ""
        assert [line.split("]")[1].split()[0] for line in done.stderr.splitlines()] == ["this", "and"]

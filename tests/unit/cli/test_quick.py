"""An answer imports only what it needs."""

from __future__ import annotations

import json
import subprocess
import sys

HEAVY = (
    "aiohttp",
    "nats.js",
    "email.parser",
    "rich",
    "structlog.dev",
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
    source = "from tidewright.cli.asking.explain import speakers\nspeakers('watermarkpodautoscaler')"
    assert imported(source) == []


def test_what_was_left_out_can_be_imported_afterwards() -> None:
    source = (
        "from tidewright.cli.asking import quick\n"
        "from nats.aio import transport\n"
        "assert transport.aiohttp is None\n"
        "quick.allow_websockets()\n"
        "assert transport.aiohttp.ClientSession\n"
        "import nats, rich\n"
        "assert nats.js.api.Header.STATUS.value == 'Status'\n"
        "assert nats.js.JetStreamContext.__module__ == 'nats.js.client'\n"
        "from nats.js.errors import NotFoundError\n"
        "assert nats.js.errors.NotFoundError is NotFoundError"
    )
    assert set(imported(source)) >= {"aiohttp", "rich", "nats.js"}


def test_what_is_said_is_a_warning_on_stderr_whoever_asks_for_the_logger_first() -> None:
    for first in (
        "",
        "import structlog.stdlib; structlog.stdlib.BoundLogger",
        "import structlog; structlog.testing",
    ):
        source = (
            "from tidewright.cli.asking import quick\n"
            "import structlog\n"
            "logger = structlog.get_logger('here')\n"
            "quick.warn_only()\n"
            f"{first}\n"
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

"""`tidewright version`."""

from __future__ import annotations

import platform
import subprocess
import sys
from importlib import metadata
from importlib.util import find_spec

from tidewright.asking.answers.form import builtins
from tidewright.asking.errors import Unavailable
from tidewright.asking.options import Output, emit
from tidewright.asking.services import SERVICES, Role, load
from tidewright.cli import embedded
from tidewright.cli.answers import Versions
from tidewright.events.version import __version__
from tidewright.host.process.software import software_of
from tidewright.log.errors import LogUnavailable

EXTRAS = {
    "aws": "aiobotocore",
    "console": "jinja2",
    "embedded": "tidewright.sim",
    "grpc": "grpc",
    "traces": "opentelemetry",
}
"""Extras, and a module by which each is known to be there."""
SHOWN = ("nats-py", "kubernetes-asyncio", "msgspec", "numpy")


def version(*, output: Output = "table") -> None:
    """Versions of this software, of what it runs on and the extras that are there; those of deciders are what their decisions say."""
    versions = Versions(
        tidewright=__version__,
        deciders={
            service.name: software_of(load(service)) for service in SERVICES if service.role is Role.DECIDER
        },
        python=platform.python_version(),
        nats_server=_server(),
        libraries={name: metadata.version(name) for name in SHOWN},
        platform=sys.platform,
        extras=tuple(name for name, module in EXTRAS.items() if find_spec(module)),
    )
    emit(builtins(versions), output, lambda: _table(versions))


def _table(versions: Versions) -> str:
    rows = {
        "tidewright": versions.tidewright,
        **versions.deciders,
        "python": versions.python,
        "nats-server": versions.nats_server or "<none>",
        **versions.libraries,
        "platform": versions.platform,
        "extras": " ".join(versions.extras) or "<none>",
    }
    return "\n".join(f"{name:<20}{value}" for name, value in rows.items())


def _server() -> str | None:
    try:
        answer = subprocess.run(
            [embedded.nats_program(), "--version"], capture_output=True, text=True, check=True, timeout=10
        )
    except (Unavailable, LogUnavailable, OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.split()[-1].removeprefix("v")

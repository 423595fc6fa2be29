"""Which settings are read from the environment: where we connect, and who we are there. Nothing else is.

What a command does stands in its line, where it is seen. A connection is the same for every command, and may hold a
password, which nobody else is to see. Variables that were read by earlier versions are told, so that no setting ends
silently.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from cyclopts import Parameter

if TYPE_CHECKING:
    from cyclopts import App, ArgumentCollection

PREFIX = "TIDEWRIGHT_"
READ = frozenset(
    (
        "--nats", "--nats-credentials", "--nats-user", "--nats-password-file", "--nats-ca", "--nats-cert", "--nats-key",
        "--cluster", "--archive-nats", "--archive-password-file", "--signing-key", "--trust",
        "--kubeconfig", "--context", "--in-cluster", "--cloud", "--external-metrics-url", "--resource-metrics-url",
    )
)  # fmt: skip
"""Options that have a twin in the environment; each has one meaning, whichever command is used."""
_LINK = re.compile(r"(tcp|udp|sctp)://")
"""How the values of `<SERVICE>_PORT` begin, which Kubernetes gives every container for every Service beside it."""


def variable(option: str) -> str:
    """The name that an option has, or had, in the environment."""
    return PREFIX + option.lstrip("-").upper().replace("-", "_")


def read(option: str) -> Parameter:
    """An option that is read from the environment where the command line does not give it.

    Raises:
        KeyError: it is none of those.
    """
    if option not in READ:
        raise KeyError(option)
    return Parameter(env_var=variable(option))


def tell_unread(app: App, commands: tuple[str, ...], arguments: ArgumentCollection) -> None:
    """Say which variables of the environment an earlier version took for the options of a command.

    Each is said once: programs that are started from here do not find it any more. To be given to cyclopts as `config`.
    """
    del app, commands
    for name, option in _unread(arguments):
        if _is_service_link(name):
            continue
        if os.environ.pop(name, ""):
            print(
                f"warning: {name} is set and is not read any more: pass {option} (the environment says where to connect and "
                "as whom, and nothing else)",
                file=sys.stderr,
            )


def _is_service_link(name: str) -> bool:
    """Whether Kubernetes has set a variable for a Service `tidewright-…` of the pod's namespace: nobody meant an option by it."""
    return name.endswith("_SERVICE_HOST") or bool(_LINK.match(os.environ.get(name, "")))


def _unread(arguments: ArgumentCollection) -> Iterator[tuple[str, str]]:
    for argument in arguments:
        option = argument.name
        if argument.children or argument.tokens or not argument.parse or option in READ:
            continue
        yield variable(option), option

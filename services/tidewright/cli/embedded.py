"""What comes with the extra `embedded`: the embedded cluster, the simulated cloud, the embedded log server.

An installation for a cluster has none of it. Everything here but the commands' own packages (`cli/sim`,
`cli/demo`) goes through this module, which imports it when it is asked for.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Never

from cyclopts import Parameter

from tidewright.asking.errors import Unavailable

EXTRA = "pip install 'tidewright[embedded]' (of images, run the one built with `--target embedded`)"


def is_installed() -> bool:
    """Whether the extra is there."""
    return find_spec("tidewright.sim") is not None


def needed_for(what: str) -> None:
    """Refuse what cannot be done without the extra.

    Raises:
        Unavailable: it is not installed.
    """
    if not is_installed():
        raise Unavailable(f"{what} is not part of this installation: {EXTRA}")


def missing(*_arguments: Annotated[str, Parameter(allow_leading_hyphen=True, show=False)]) -> Never:
    """Not part of this installation; it comes with the extra `embedded`."""
    raise Unavailable(f"this command is not part of this installation: {EXTRA}")


def nats_program() -> str:
    """The program of the embedded log server.

    Raises:
        Unavailable: the extra is not installed.
        LogUnavailable: the program is missing.
    """
    needed_for("the embedded log server")
    from tidewright.sim.nats_server import find_binary

    return str(find_binary())


def nats_configuration(
    store: Path, host: str, port: int, *, sync_always: bool, max_store_bytes: int | None
) -> str:
    """The configuration of the embedded log server.

    Raises:
        Unavailable: the extra is not installed.
    """
    needed_for("the embedded log server")
    from tidewright.sim.nats_server import configuration

    return configuration(store, host, port, sync_always=sync_always, max_store_bytes=max_store_bytes)


def default_node_groups() -> Path:
    """The file of the simulated cloud's default groups.

    Raises:
        Unavailable: the extra is not installed.
    """
    needed_for("the simulated cloud")
    from tidewright.sim.cloud.config import DEFAULT

    return DEFAULT


def check_node_groups(file: Path) -> None:
    """Refuse a file of node groups that the simulated cloud cannot use.

    Raises:
        Unavailable: the extra is not installed.
        ValueError: what is wrong with the file.
    """
    needed_for("the simulated cloud")
    from tidewright.sim.cloud.config import load

    load(file)

"""The stacks of this user that run on this machine, so that a plain question beside a plain `up` finds its log.

Each has a file in the user's state folder that names its NATS server and cluster. It is locked for as long as the stack
runs: a file that nobody locks was left by one that was killed, and says nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import msgspec

from tidewright.asking import lifefiles
from tidewright.asking.errors import BadInput
from tidewright.asking.options import AskedLogOptions, LogOptions


class Running(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A stack that runs.

    Attributes:
        nats: URL of its server.
        cluster: name of its cluster on the log.
        data: its data folder.
        made_by: the command that started it, `up` or `demo`.
        pid: its process.
    """

    nats: str
    cluster: str
    data: str
    made_by: str
    pid: int


def folder() -> Path:
    """Where the files lie."""
    return lifefiles.folder("running")


@contextmanager
def announced(stack: Running) -> Iterator[None]:
    """Say that a stack runs, while it does. A folder that cannot be written to is no reason not to run."""
    with lifefiles.kept(folder() / f"{stack.pid}.json", msgspec.json.encode(stack) + b"\n"):
        yield


def stacks() -> list[Running]:
    """Those that run, by process."""
    found = []
    for content in lifefiles.living(folder()):
        with suppress(msgspec.MsgspecError):
            found.append(msgspec.json.decode(content, type=Running))
    return found


def located(on: LogOptions) -> LogOptions:
    """The log that is meant: where neither a server nor a folder is named, that of the stack that runs.

    A stack of `up` goes before a demo. Options stay as they are where nothing runs.

    Raises:
        BadInput: several run, and which one is meant is not said.
    """
    if on.nats != LogOptions.nats or (isinstance(on, AskedLogOptions) and on.data is not None):
        return on
    named = on.cluster != LogOptions.cluster
    candidates = [stack for stack in stacks() if not named or stack.cluster == on.cluster]
    candidates = [stack for stack in candidates if stack.made_by == "up"] or candidates
    if len(candidates) > 1:
        which = ", ".join(f"--data {stack.data}" for stack in candidates)
        raise BadInput(f"{len(candidates)} stacks run here: say which one is asked, with {which}")
    return replace(on, nats=candidates[0].nats, cluster=candidates[0].cluster) if candidates else on

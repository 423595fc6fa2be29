"""Who orders at which clouds on this machine: a stack, or `tidewright cloud serve` for somebody else; never both at one."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from tidewright.asking import lifefiles
from tidewright.asking.errors import BadInput
from tidewright.asking.namespaces import server
from tidewright.cloud.providers import CloudSpec, Surroundings

Role: TypeAlias = Literal["stack", "server"]


class _Held(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What one process says.

    Attributes:
        clouds: as `identity` has them.
        command: that started it.
    """

    role: Role
    clouds: tuple[str, ...]
    command: str
    pid: int


def identity(spec: CloudSpec, around: Surroundings) -> str:
    """What a cloud is, whatever it is called: two of one identity have the same groups."""
    said = (spec.config or " ".join((around.config, *around.discovery, *around.nodes))).rstrip("/")
    with suppress(OSError):  # no file name
        said = str(Path(said).resolve()) if said and Path(said).is_file() else said
    if spec.kind not in ("clusterapi", "kwok"):
        return f"{spec.kind}:{said}"
    where = (
        "the pod's"
        if around.in_cluster
        else server(around.kubeconfig, around.context) or around.kubeconfig or ""
    )
    return f"{spec.kind}:{said} {where}"


@contextmanager
def held(role: Role, command: str, specs: Sequence[CloudSpec], around: Surroundings) -> Iterator[None]:
    """Say for the length of the block that a process orders at these clouds.

    Raises:
        BadInput: a process of the other role does so at one of them.
    """
    where = lifefiles.folder("clouds")
    mine = {identity(spec, around): spec for spec in specs}
    for content in lifefiles.living(where):
        with suppress(msgspec.MsgspecError):
            other = msgspec.json.decode(content, type=_Held)
            both = [name for name in other.clouds if name in mine] if other.role != role else []
            if both:
                raise BadInput(
                    f"--cloud {mine[both[0]].text}: `{other.command}` (process {other.pid}) orders at this cloud on its own"
                    " account: end that, or leave the cloud out; two that order at one group undo each other's work"
                )
    said = _Held(role=role, clouds=tuple(sorted(mine)), command=command, pid=os.getpid())
    name = f"{role}-{command.rpartition(' ')[2]}-{said.pid}.json"  # watcher and actuator may share a process
    with lifefiles.kept(where / name, msgspec.json.encode(said) + b"\n"):
        yield

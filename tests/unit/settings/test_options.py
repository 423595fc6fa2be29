"""Every flag of every service reaches what runs it, and everything that a service takes is read by its code."""

from __future__ import annotations

import ast
import dataclasses
import inspect
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import msgspec
import pytest

from tidewright.actuator import service as actuator
from tidewright.actuator.allowed.bounds import Bounds
from tidewright.actuator.options import Options as ActuatorOptions
from tidewright.asking.errors import CommandError
from tidewright.asking.services import BY_NAME, SERVICES
from tidewright.cli import run
from tidewright.host.loop.settings import Settings
from tidewright.host.process import service as deciders
from tidewright.host.process.process import HostedService, ProcessOptions
from tidewright.host.webhook.server import EndpointOptions
from tidewright.shardmanager.labels import endpoint as shard_labels
from tidewright.spread.admission import endpoint as admission
from tidewright.watcher import service as watcher
from tidewright.watcher.pushport import PushOptions
from tidewright.watcher.tls import Tls

GIVEN: dict[str, list[str]] = {
    "--cloud": ["simulated=http://127.0.0.1:1"],
    "--cloud-provider": ["kwok"],
    "--node-group-auto-discovery": ["asg:tag=a"],
    "--whitelist-config-map": ["ns/name"],
    "--config-map": ["ns/name"],
    "--enforce": ["spread"],
    "--regardless": ["spread"],
    "--act-in": ["team=blue"],
    "--mode": ["shadow"],
    "--recommender-hosts": ["example.org"],
    "--namespaces": ["spread=ns"],
    "--features": ["spread"],
    "--endpoint": ["shard-labels=https://there:1"],
    "--endpoint-token": ["shard-labels=FILE"],
    "--failure-policy": ["Fail"],
    "--url": ["https://there:1"],
    "--service": ["ns/name:1"],
}
"""What a flag is given that does not take just anything."""
BESIDE: dict[str, list[str]] = {
    "--nats-password-file": ["--nats-user", "u"],
    "--nats-key": ["--nats-cert", "C"],
    "--nats-cert": ["--nats-key", "K"],
    "--log-start": ["--speed", "2"],
    "--clock-wall": ["--speed", "2"],
    "--push-host": ["--push-port", "1"],
    "--push-certificate-file": ["--push-port", "1", "--push-key-file", "K"],
    "--push-key-file": ["--push-port", "1", "--push-certificate-file", "C"],
    "--tls-cert-file": ["--tls-key-file", "K"],
    "--tls-key-file": ["--tls-cert-file", "C"],
}
"""Flags without which a flag is refused, or means nothing."""
PAIRED = {"--push-certificate-file", "--push-key-file", "--tls-cert-file", "--tls-key-file"}
"""Flags which those beside them do not go without: it is another value that changes something."""


def of_service(name: str) -> dict[str, Any]:
    """The flags of a service with what each is for."""
    found = run.app[name].assemble_argument_collection()
    return {argument.name: argument.hint for argument in found if argument.name.startswith("--")}


def value(flag: str, hint: Any) -> list[str]:
    """Something that is not the default."""
    if flag in GIVEN:
        return GIVEN[flag]
    kinds = [kind for kind in (get_args(hint) or (hint,)) if kind is not type(None)]
    if bool in kinds:
        return []
    if get_origin(hint) is Literal:
        return [str(kinds[-1])]
    return ["7"] if {int, float} & set(kinds) else ["other"]


@cache
def given(service: str, *flags: str) -> str:
    """What runs a service, and its process, are given by a command line."""
    taken: list[Any] = []

    def run_together(services: Sequence[HostedService], _loop: object = None) -> int:
        """Runs the service's main function, as far as what is put in its place."""
        [hosted] = services
        taken.append(hosted.options)
        inspect.getclosurevars(hosted.main).nonlocals["main"](None)
        return 0

    with pytest.MonkeyPatch.context() as patch:
        for module in (watcher, actuator, shard_labels, admission):
            patch.setattr(module, "run", lambda options, process: taken.append(options))
        patch.setattr(deciders, "run_decider", lambda process, decider, *options: taken.append(options))
        patch.setattr(run, "run_together", run_together)
        run.app([service, *flags], exit_on_error=False, result_action="return_value")
    assert len(taken) == 2, f"{service} {flags}: {taken}"
    return repr(taken)


@pytest.mark.parametrize(
    ("service", "flag"), [(service.name, flag) for service in SERVICES for flag in of_service(service.name)]
)
def test_a_flag_changes_what_the_service_takes(service: str, flag: str) -> None:
    beside = BESIDE.get(flag, [])
    name = flag if flag != "--enabled" else "--no-enabled"
    before = given(service, *beside, *([flag, "before"] if flag in PAIRED else []))
    assert before != given(service, *beside, name, *value(flag, of_service(service)[flag]))


@pytest.mark.parametrize(
    ("service", "flags", "said"),
    [
        ("watcher", ("--log-start", "5"), "--log-start 5 without --speed"),
        ("watcher", ("--clock-wall", "5"), "--clock-wall 5 without --speed"),
        ("watcher", ("--push-host", "0.0.0.0"), "--push-host 0.0.0.0 without --push-port"),
    ],
)
def test_a_flag_that_means_nothing_without_another_is_refused(
    service: str, flags: tuple[str, ...], said: str
) -> None:
    with pytest.raises(CommandError, match=said):
        given(service, *flags)


ROOT = Path(__file__).parents[3]
TAKEN: dict[type[Any], str] = {
    watcher.Options: "services/tidewright/watcher",
    PushOptions: "services/tidewright/watcher",
    Tls: "services/tidewright/watcher",
    ActuatorOptions: "services/tidewright/actuator",
    Bounds: "services/tidewright/actuator",
    admission.Options: "services/tidewright/spread/admission",
    EndpointOptions: "libs/tidewright/host/webhook",
    deciders.LogOptions: "libs/tidewright/host",
    ProcessOptions: "libs/tidewright/host",
    Settings: "libs/tidewright/host",
}
"""What services take, and whose code reads it."""
HOLDERS = {"options", "_options", "settings", "_settings", "bounds", "push", "self"}


@cache
def attributes(folder: str) -> set[str]:
    """Attributes that are read off options, by whatever name these go, in the code of a folder."""
    found: set[str] = set()
    for path in (ROOT / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                holder = node.value
                name = holder.attr if isinstance(holder, ast.Attribute) else getattr(holder, "id", "")
                if name in HOLDERS:
                    found.add(node.attr)
    return found


@pytest.mark.parametrize("kind", TAKEN, ids=lambda kind: f"{kind.__module__}.{kind.__name__}")
def test_everything_that_a_service_takes_is_read(kind: type[Any]) -> None:
    fields = dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else msgspec.structs.fields(kind)
    read = attributes(TAKEN[kind]) | (
        attributes(TAKEN[EndpointOptions]) if kind is admission.Options else set()
    )
    assert [field.name for field in fields if field.name not in read] == []


def test_options_of_every_service_are_looked_at() -> None:
    modules = {
        service.main.partition(":")[0] for service in BY_NAME.values() if service.main.endswith(":run")
    }
    assert {f"{m.__name__}" for m in (watcher, actuator, admission, shard_labels)} == modules

"""`tidewright run SERVICE SERVICE...`: several services in one process, for small clusters.

Each is given those of the flags that it takes; `{service}` in a value stands for its name, and `--SERVICE:flag` is for that
one alone. Services of one kind alone share a process: one that is taken over then has no rights that the others lack.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from tidewright.asking.errors import BadInput
from tidewright.asking.services import BY_NAME, Role
from tidewright.kube.nearest import nearest

if TYPE_CHECKING:
    from tidewright.cli.run import Life

KINDS: Final = {
    Role.WATCHER: "edge",
    Role.ACTUATOR: "edge",
    Role.DECIDER: "deciders",
    Role.ENDPOINT: "endpoints",
}
"""What may share a process."""
OWN: Final = "{service}"


def asked_for(arguments: Sequence[str]) -> bool:
    """Whether a command line names several services."""
    return arguments[:1] == ["run"] and len(named(arguments[1:])) > 1


def named(tokens: Sequence[str]) -> list[str]:
    """The services before the flags."""
    first = next((n for n, token in enumerate(tokens) if token.startswith("-")), len(tokens))
    return list(tokens[:first])


def run(tokens: Sequence[str]) -> int:
    """Run the services that are named until one ends or they are told to stop; returns the exit code. Raises as `read`."""
    from tidewright.cli import run as single

    return single.live(read(tokens))


def read(tokens: Sequence[str]) -> list[Life]:
    """The services that a command line names, as they are to be run.

    Raises:
        BadInput: they do not share a process, or no one of them takes a flag.
        cyclopts.CycloptsError: as of the command of a single service.
    """
    from tidewright.cli import run as single
    from tidewright.cli.main import application

    services = _checked(named(tokens))
    flags = tokens[len(services) :]
    lives: list[Life] = []
    untaken: list[set[str]] = []
    gathering = single.together.set(lives)
    try:
        for service in services:
            command, given, unused, _ = application().parse_known_args(
                ["run", service, *flags_of(service, flags)]
            )
            if unused and not unused[0].startswith("-"):
                raise BadInput(f"{unused[0]!r} is neither a flag nor the value of one")
            untaken.append({token.partition("=")[0] for token in unused if token.startswith("-")})
            command(*given.args, **given.kwargs)
    finally:
        single.together.reset(gathering)
    if nobodys := set.intersection(*untaken):
        raise BadInput(f"{min(nobodys)}: none of {', '.join(services)} takes it")
    return lives


def flags_of(service: str, flags: Sequence[str]) -> list[str]:
    """The flags as one service is given them. Pure.

    Raises:
        BadInput: one is for a service that is none.
    """
    mine: list[str] = []
    skipping = False
    for token in flags:
        if token.startswith("--"):
            name, colon, flag = token.removeprefix("--").partition(":")
            if skipping := bool(colon) and "=" not in name and name != service:
                if name not in BY_NAME:
                    raise BadInput(f"--{name}:{flag}: no such service; {nearest(name, BY_NAME)}")
                continue
            token = f"--{flag}" if colon and "=" not in name else token
        if not skipping:
            mine.append(token.replace(OWN, service))
    return mine


def _checked(services: list[str]) -> list[str]:
    for service in services:
        if service not in BY_NAME:
            raise BadInput(f"{service!r} is no service; {nearest(service, BY_NAME)}")
    if twice := sorted({service for service in services if services.count(service) > 1}):
        raise BadInput(f"{twice[0]} is named twice: one process runs it once")
    kinds = {service: KINDS[BY_NAME[service].role] for service in services}
    if len(set(kinds.values())) > 1:
        told = ", ".join(f"{service} ({kind})" for service, kind in kinds.items())
        valid = "; ".join(
            f"{kind}: {', '.join(s.name for s in BY_NAME.values() if KINDS[s.role] == kind)}"
            for kind in dict.fromkeys(KINDS.values())
        )
        raise BadInput(f"{told} do not share a process: services of one kind do. {valid}")
    return services

"""The table of services says what each reads and writes, and the code does that and nothing else."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tidewright.actuator.allowed.table import GRANTS
from tidewright.asking.services import BY_NAME, SERVICES, Role, Service, load
from tidewright.events.base import Decision
from tidewright.events.registry import BY_NAME as EVENTS

ROOT = Path(__file__).parents[3]
TYPES = {event_type.__name__: tag for tag, event_type in EVENTS.items() if issubclass(event_type, Decision)}
DECIDERS = [service for service in SERVICES if service.role is Role.DECIDER]
ENDPOINTS = [service for service in SERVICES if service.role is Role.ENDPOINT]


def short(tag: str) -> str:
    return tag.removeprefix("decision.").partition(".")[0]


def made_in(folder: Path) -> set[str]:
    """Types of decisions that the code of a package makes: their names are called there."""
    made: set[str] = set()
    for file in folder.rglob("*.py"):
        tree = ast.parse(file.read_text())
        imported = {
            alias.asname or alias.name: alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tidewright.events.")
            for alias in node.names
        }
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call):
                continue
            match node.func:
                case ast.Name(id=name) if imported.get(name) in TYPES:
                    made.add(short(TYPES[imported[name]]))
                case ast.Attribute(attr=name) if name in TYPES:
                    made.add(short(TYPES[name]))
    return made


@pytest.mark.parametrize("service", DECIDERS, ids=lambda service: service.name)
def test_a_decider_reads_and_writes_what_the_table_says(service: Service) -> None:
    decider = load(service)
    room = f"services/tidewright/{service.name.replace('-', '')}"
    made = made_in(ROOT / room)
    if decider.config is not None:  # the host tells what of its part is not used
        made |= made_in(ROOT / "libs" / "tidewright" / "host" / "fold")
    table = f"of {service.name} in services/tidewright/asking/services.py"
    assert decider.kinds == service.reads, (
        f"in KINDS of {room}/decide.py and not in `reads` {table}: {sorted(decider.kinds - service.reads)}; "
        f"the other way round: {sorted(service.reads - decider.kinds)}"
    )
    assert made == service.writes, (
        f"made in {room} and not in `writes` {table}: {sorted(made - service.writes)}; "
        f"in `writes`, and made nowhere in {room}: {sorted(service.writes - made)}"
    )


@pytest.mark.parametrize("service", ENDPOINTS, ids=lambda service: service.name)
def test_an_endpoint_announces_itself_and_decides_nothing_else(service: Service) -> None:
    assert made_in(ROOT / "libs" / "tidewright" / "host" / "webhook") == service.writes
    room = ROOT / "services" / "tidewright" / Path(*service.main.split(":")[0].split(".")[1:]).parent
    assert made_in(room) <= BY_NAME[service.of].writes


def test_nobody_is_allowed_an_effect_that_it_does_not_decide() -> None:
    assert {grant.service for grant in GRANTS} <= set(BY_NAME)
    for grant in GRANTS:
        tag = next(tag for tag, event_type in EVENTS.items() if event_type is grant.effect)
        assert short(tag) in BY_NAME[grant.service].writes, grant

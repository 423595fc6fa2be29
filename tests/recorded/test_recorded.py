"""What an earlier version recorded still folds, explains and verifies, and no version says more about it."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from tests.recorded.ended import (
    DECISIONS,
    INPUTS,
    NAMES,
    RECORDED,
    SERVICES,
    UNNAMED,
    Counts,
    folded,
    given_inputs,
    golden,
    redecided,
    stored_in,
    the_log,
)
from tidewright.asking.service_state import inputs_of
from tidewright.asking.services import BY_NAME, load
from tidewright.asking.verify import verified
from tidewright.cli import main
from tidewright.events import registry
from tidewright.events.base import Decision
from tidewright.events.version import __version__
from tidewright.host.fold.order import Fold
from tidewright.host.fold.verify import Difference, Report

_PASSES = "a propeller's pass that deletes or creates is recorded as begun, and is none where that is not on the log"
DIFFERENT: dict[tuple[str, str], str] = {
    ("shard-manager", "BeginPass"): _PASSES,
    ("shard-manager", "RecordPass"): _PASSES,
    ("shard-manager", "CreateObject"): _PASSES,
    ("shard-manager", "DeleteObject"): _PASSES,
    ("shard-manager", "SetTimer"): _PASSES,
    ("autoscaler", "SetStatus"): "says since when each condition has been so, exactly",
    ("autoscaler", "ScaleWorkload"): "says the status that led to it, which is written with the outcome",
}
"""Service and type of decisions that are taken otherwise today, and why: each is named in the changelog, too."""
_ENTRIES = "it did not keep the entries of propeller fleets as they are configured"
_AGES = "it did not keep when a spread was made"
FOLDED_OTHERWISE: dict[str, str] = {
    "provisioning-v4": "it forgot when the burst before began, and did not keep for how long good nodes had been ready",
    "autoscaler-v3": "it has the exact times of conditions, and the log of then says whole seconds",
    "spread-v2": _AGES,
    "spread-v3": _AGES,
    "shard-manager-v4": "it knows of the propeller's passes, of which the log does not say that they began",
    "shard-manager-v5": _ENTRIES,
    "shard-manager-v6": _ENTRIES,
}
"""Golden snapshots (`<service>-v<N>`) of which an upcast cannot make what today's fold of the whole log gives, and why."""


@pytest.fixture(scope="module")
def taken() -> tuple[Counts, Counts]:
    """Decisions that are recorded, and those that today's code takes in the recorded situations."""
    return asyncio.run(redecided())


async def test_it_verifies_but_for_decisions_that_differ_for_a_reason(
    monkeypatch: pytest.MonkeyPatch, taken: tuple[Counts, Counts]
) -> None:
    monkeypatch.setattr(Report, "KEPT", 100_000)
    outcome = await verified(the_log(), SERVICES)
    assert outcome.services == NAMES
    assert outcome.report.decisions == sum(sum(types.values()) for types in counted().values())
    differing: dict[tuple[str, str], Difference] = {}
    for difference in outcome.report.differences:
        for service, name in _differing(difference):
            differing.setdefault((service, name), difference)
    unexplained = {about: difference for about, difference in differing.items() if about not in DIFFERENT}
    assert not unexplained, (
        f"taken otherwise than by the version that recorded: {sorted(unexplained)}. Is that meant, name each in DIFFERENT here with "
        f"the reason, and in the changelog; a new decision shifts those that follow it in the same answer. {next(iter(unexplained.values()))}"
    )
    # Of an answer, verify tells the first difference alone: what differs behind it shows by being taken more often, or less.
    idle = set(DIFFERENT) - set(differing) - _taken_otherwise(*taken)
    assert not idle, f"in DIFFERENT here, and decided as it was: {sorted(idle)}. Take it out"


def _taken_otherwise(recorded: Counts, today: Counts) -> set[tuple[str, str]]:
    """Service and types of which another number is decided today."""
    return {
        (service, name)
        for service in NAMES
        for name in {*recorded[service], *today[service]}
        if today[service].get(name, 0) != recorded[service].get(name, 0)
    }


def _differing(difference: Difference) -> set[tuple[str, str]]:
    """Service and types of the decisions that differ; its cause, when it is not decisions that do."""
    if difference.cause not in ("different decision", "other software version"):
        return {(difference.service, difference.cause)}
    bodies = [body for body in (difference.recorded, difference.recomputed) if body]
    events = [registry.read(body) for body in bodies]
    return {(difference.service, type(event).__name__) for event in events if isinstance(event, Decision)}


def test_no_more_is_decided_about_it_than_was(taken: tuple[Counts, Counts]) -> None:
    recorded, today = taken
    assert recorded == counted()
    more = {
        (service, name): (today[service][name], recorded[service].get(name, 0))
        for service in NAMES
        for name in today[service]
        if today[service][name] > recorded[service].get(name, 0) and (service, name) not in DIFFERENT
    }
    assert more == {}, (
        "decided today, decided then: is more meant, name the type in DIFFERENT here with the reason, and in the changelog"
    )


@pytest.mark.parametrize("name", NAMES)
async def test_states_that_were_stored_then_are_what_the_log_folds_to_today(name: str) -> None:
    decider, today = load(BY_NAME[name]), {s.slot: s for s in await folded(BY_NAME[name])}
    assert decider.state_version in golden()[name], (
        "no golden snapshot of this state version: python -m tests.recorded"
    )
    for version, path in golden()[name].items():
        if version not in decider.readable:
            assert path.stem in FOLDED_OTHERWISE, f"{path.name} cannot be read any more"
            continue
        stored = stored_in(path)
        assert {snapshot.state_version for snapshot in stored} == {version}
        assert {snapshot.slot for snapshot in stored} == set(today)
        for snapshot in stored:
            fold, expected = Fold.resumed(decider, snapshot), today[snapshot.slot]
            assert (fold.position, fold.digest.hex(), fold.chain) == (
                expected.position,
                expected.digest,
                expected.chain,
            )
            if path.stem not in FOLDED_OTHERWISE:
                assert msgspec.json.decode(msgspec.json.encode(fold.state)) == msgspec.json.decode(
                    expected.state
                ), f"{path.name}, slot {snapshot.slot}"


@pytest.mark.parametrize("name", NAMES)
def test_the_inputs_of_every_version_are_known(name: str) -> None:
    given, inputs = given_inputs(), inputs_of(BY_NAME[name], load(BY_NAME[name]), the_log())
    assert __version__ in given, f"version {__version__} is not in {INPUTS.name}: make golden"
    known = (*inputs.formerly, inputs.today)
    forgotten = {
        version: sets[name] for version, sets in given.items() if sets.get(name, known[0]) not in known
    }
    where = f"`formerly` of DECIDER in services/tidewright/{name.replace('-', '')}/decide.py (docs/adding.md, what a decider reads)"
    assert not forgotten, (
        f"{name} reads {sorted(set(inputs.today.kinds) ^ set(next(iter(forgotten.values())).kinds)) or 'other services'} more or "
        f"less than version {', '.join(forgotten)} did: that set is the next of {where}"
    )
    assert inputs.unnamed == given[UNNAMED][name], (
        f"checkpoints that name no inputs are of the first of {where}"
    )


def counted() -> Counts:
    """Decisions per service and type on the log."""
    return msgspec.json.decode(DECISIONS.read_bytes(), type=Counts)


EXPLAINED = {
    ("watermarkpodautoscaler", "app-0", "team-0"): "watermark",
    ("deployment", "app-1", "team-1"): "replicas",
    ("workloadspread", "app-0", "team-0"): "first",
    ("provisioningrequest", "atomic", "team-0"): "asked",
}
"""Kind, name and namespace of some objects, and a word that has to be in what is said about each."""


@pytest.mark.parametrize("reference", EXPLAINED, ids=lambda reference: f"{reference[0]}/{reference[1]}")
def test_its_objects_are_explained(
    reference: tuple[str, str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    kind, name, namespace = reference
    assert main.run(["explain", f"{kind}/{name}", "-n", namespace, "--log", str(RECORDED)]) == 0
    assert EXPLAINED[reference] in capsys.readouterr().out

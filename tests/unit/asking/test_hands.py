"""Answers say when what they tell was folded by other software than decided it, or by other inputs."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from tests.bench import asking as bench
from tests.bench.askedlog import MadeUp
from tidewright.asking import rendering, state
from tidewright.asking.explain import explained
from tidewright.asking.exported import ExportedLog
from tidewright.asking.point_in_time import Moment
from tidewright.asking.service_state import Asked, hands_on
from tidewright.asking.services import BY_NAME
from tidewright.host.fold.explainer import Reference
from tidewright.log import checkpoint as checkpoints
from tidewright.log.export import ExportFile
from tidewright.log.reader import Record

RECORDED = Path(__file__).parents[2] / "recorded" / "chaos.twlog"


def told(path: Path, about: Reference, seq: int) -> tuple[str, dict[str, object], str]:
    """The explanation as text, who folded and who decided, and the state as text."""
    log = ExportedLog(ExportFile(path))

    async def asked() -> tuple[str, dict[str, object], str]:
        explanation = await explained(log, about, Moment(seq, 0.0))
        known = await state.state_of(log, about, Moment(seq, 0.0))
        said = msgspec.to_builtins(rendering.answer(explanation).hands)
        assert msgspec.to_builtins(state.answer(known).hands) == said
        return rendering.as_text(explanation), said, state.as_text(known)

    return asyncio.run(asked())


def test_a_log_of_another_version_is_told_of_as_folded_by_one_and_decided_by_the_other() -> None:
    about = Reference("watermarkpodautoscaler", "team-0", "app-0")
    text, hands, held = told(RECORDED, about, 3_000)
    two = hands["autoscaler"]
    assert isinstance(two, dict)
    assert two["foldedBy"] != two["decidedBy"]
    both = f"(folded by {two['foldedBy']}, decided by {two['decidedBy']}):"
    assert f"Now, as autoscaler sees it {both}" in text
    assert f"autoscaler {both}" in held


def test_nothing_is_said_where_the_same_software_decided(tmp_path: Path) -> None:
    path = tmp_path / "it.twlog"
    bench.write(path, MadeUp(2_000, 0.05), 2_000)
    text, hands, held = told(path, Reference("watermarkpodautoscaler", "team-7", "app-1"), 2_000)
    assert hands == {}
    assert "folded by" not in text + held


def test_another_set_of_inputs_is_named_where_the_software_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "it.twlog"
    bench.write(path, MadeUp(2_000, 0.05), 2_000)
    log = ExportedLog(ExportFile(path))
    asked = Asked.about(log, BY_NAME["autoscaler"], "team-7")
    last = log.last

    async def of_other_inputs(patterns: list[str], up_to: int = 0) -> list[Record]:
        return [
            msgspec.structs.replace(
                record,
                body=checkpoints.encode(msgspec.structs.replace(checkpoints.usable(record), inputs="ab" * 8)),
            )
            for record in await last(patterns, up_to)
        ]

    monkeypatch.setattr(log, "last", of_other_inputs)
    hands = asyncio.run(hands_on(log, asked, 0))
    assert hands.told == (
        f"folded by {asked.software} (inputs {asked.inputs.today.digest}), decided by {asked.software} (inputs {'ab' * 8})"
    )

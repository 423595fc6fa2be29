"""The table of services says which kinds each explainer speaks about, and explainers tell every decision of some object."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tidewright.asking.explain import explainer_of
from tidewright.asking.objects import CLUSTER_SCOPED
from tidewright.asking.services import BY_NAME, SERVICES, Service, load
from tidewright.autoscaler.tell.explaining import UNTOLD as UNTOLD_BY_THE_AUTOSCALER
from tidewright.cli import main
from tidewright.cli.contract import golden
from tidewright.events import registry
from tidewright.events.base import Event, ObjectRef
from tidewright.events.decisions import CancelTimer, SetStatus, SetTimer
from tidewright.host.fold.explainer import Explainer, Reference
from tidewright.kube import kinds

GOLDEN = Path(__file__).parents[2] / "golden" / "events"
RECORDED = Path(__file__).parents[2] / "recorded" / "chaos.twlog"
PLAN = "provisioning.all.284.3"
"""A PlanScaleUp of that log."""
UNTOLD: dict[str, dict[type[Event], str]] = {
    "autoscaler": UNTOLD_BY_THE_AUTOSCALER,
    "spread": {SetStatus: "says what was decided once more"},
    "shard-manager": {SetStatus: "says what was decided once more"},
}
"""Decisions that are told of no object when it is explained, and why. Provisioning's are in its own test_explaining.py."""


@pytest.mark.parametrize("service", [s for s in SERVICES if s.explainer], ids=lambda s: s.name)
def test_the_table_names_the_kinds_of_the_explainer(service: Service) -> None:
    explainer = explainer_of(service)
    assert explainer is not None
    assert service.explains == explainer.kinds


@pytest.mark.parametrize("service", [s for s in SERVICES if s.explainer], ids=lambda s: s.name)
def test_every_explainer_answers_every_question_about_what_it_does_not_know(service: Service) -> None:
    explainer, decider = explainer_of(service), load(service)
    assert explainer is not None
    for kind in sorted(explainer.kinds):
        asked = Reference(kind, "" if kind in CLUSTER_SCOPED else "shop", "nobody")
        state = decider.initial()
        assert explainer.told(state, asked).ledgers == () or kind in ("workloadspread", "pod")
        assert explainer.aggregate(state, asked) is None
        assert list(explainer.standing(state, asked, 1.0)) == []


def test_who_has_no_explainer_explains_nothing() -> None:
    assert not [s.name for s in SERVICES if s.explains and not s.explainer]


@pytest.mark.parametrize("name", UNTOLD)
def test_every_decision_is_told_of_some_object_or_said_why_not(name: str) -> None:
    service, room = BY_NAME[name], f"services/tidewright/{name.replace('-', '')}/tell/explaining.py"
    explainer = explainer_of(service)
    assert explainer is not None
    for tag, kind in registry.BY_NAME.items():
        if tag.removeprefix("decision.").partition(".")[0] not in service.writes or kind in (
            SetTimer,
            CancelTimer,
        ):
            continue
        event = registry.decode(golden.stored(GOLDEN, tag))
        assert isinstance(event, Event)
        told = any(_is_told(explainer, event, kinds.BY_NAME[place].kind) for place in explainer.kinds)
        assert told != (kind in UNTOLD[name]), (
            f"explain tells {kind.__name__} of {'an' if told else 'no'} object: `concerns` in {room} says of which it is told, or UNTOLD "
            f"{'there' if name == 'autoscaler' else 'here'} why of none"
        )


def _is_told(explainer: Explainer[Any], event: Event, kind: str) -> bool:
    """Whether a decision about an object of a kind is told of that object, or of one that it names."""
    target = ObjectRef(api_version="v1", kind=kind, namespace="shop", name="web")
    about = msgspec.structs.replace(event, target=target)
    texts = {"web", *re.findall('"([^"]+)"', registry.encode(event).decode())}
    return any(
        explainer.concerns(about, Reference(asked, "shop", text))
        for asked in explainer.kinds
        for text in texts
    )


def test_what_is_decided_with_it_about_another_object_is_told_with_that_object(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One pass over a spread changes several pods: their lines were the same."""
    log = Path(__file__).parents[2] / "recorded" / "chaos.twlog"
    asked = ["explain", "pod/app-0-b8xfmhgxjw-bl6v2", "-n", "team-0", "--log", str(log)]
    assert main.run(asked) == 0
    said = capsys.readouterr().out.partition("  With it:\n")[2]
    assert said.startswith("    pod/team-0/app-0-b8xfmhgxjw-bl6v2: set deletion cost 100\n    set status")


def test_what_is_said_of_a_decision_about_no_object_is_headed_by_its_id(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main.run(["explain", "--decision", PLAN, "--log", str(RECORDED)]) == 0
    assert capsys.readouterr().out.startswith(f"decision/{PLAN}, as of ")

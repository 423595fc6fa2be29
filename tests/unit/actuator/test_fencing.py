"""An actuator that finds another one acting stops there, in the midst of an effect too."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import msgspec
import pytest

from tests.unit.actuator.effects import Watched
from tests.waiting import until
from tidewright.actuator import acting, modes, verdict
from tidewright.actuator.acting import Actuator
from tidewright.actuator.allowance import Allowance
from tidewright.actuator.apply import Applier
from tidewright.actuator.ledger import ActPosition
from tidewright.actuator.options import Options
from tidewright.actuator.plan import Job
from tidewright.actuator.verdict import Again, Done, Result
from tidewright.events import registry
from tidewright.events.acting import MODES
from tidewright.events.base import ObjectRef
from tidewright.events.config import ModesSet
from tidewright.events.decisions import ScaleWorkload
from tidewright.events.outcomes import Applied
from tidewright.host.loop.fenced import Fenced, ended_by
from tidewright.log.connection import Log
from tidewright.log.errors import LogError, LogForbidden
from tidewright.log.reader import Record
from tidewright.log.subjects import Subjects

WEB = ObjectRef(api_version="apps/v1", kind="Deployment", namespace="ns", name="web")


class Shared:
    """A log whose checkpoint is said to be of these incarnations, look by look."""

    subjects, replicas = Subjects("c"), 1

    def __init__(self, incarnations: Sequence[str | LogError]) -> None:
        self._incarnations = list(incarnations)
        self.words: dict[str, bytes] = {}

    async def last(self, subject: str) -> Record | None:
        if subject.split(".")[2] != "checkpoint":  # at first no modes are set, and no incumbent is seen
            return Record(1, subject, self.words[subject], {}) if subject in self.words else None
        said = self._incarnations.pop(0)
        if isinstance(said, LogError):
            raise said
        return Record(1, subject, msgspec.json.encode(ActPosition(at=0.0, incarnation=said)), {})


class Twice:
    """Effects of two requests each."""

    async def attempt(self, effect: object, allowance: Allowance, marks: object) -> Result:
        await allowance.take()
        await allowance.take()
        return Done()

    def finished(self, effect: object) -> None:
        """Nothing is kept."""


@pytest.mark.parametrize("second", ["another", LogForbidden("these credentials may not")])
async def test_a_fence_met_between_two_requests_is_not_the_outcome_of_the_effect(
    second: str | LogError, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acting, "OWNED_S", -1.0)  # look each time
    log = Shared([])
    options, applier = Options(nats_url="", cluster="c"), cast("Applier", Twice())
    actuator = Actuator(options, cast("Log", log), applier, lookout=Watched())
    log._incarnations[:] = [actuator._writer.incarnation, second]
    effect = ScaleWorkload(at=1.0, id="autoscaler.1.1.0", target=WEB, replicas=5, from_replicas=3)
    actuator._plan.add(Job(1, "tw.c.decision.1.autoscaler.deployment.ns.web", effect, ""))
    found: Any = None
    try:
        async with asyncio.timeout(90), asyncio.TaskGroup() as tasks:
            tasks.create_task(actuator._dispatch(tasks))
    except* Exception as group:  # noqa: BLE001  # told apart below
        found = group
    assert actuator._outcomes.waiting.empty()
    if isinstance(second, LogError):
        assert found.exceptions == (second,)
    else:
        assert "belongs to incarnation another" in str(ended_by(found))


class Parted(Shared):
    """A log whose leader has lost the others and does not know of who has taken over; the next one does."""

    stream, replicas = "TW_c", 3

    def __init__(self, mine: str) -> None:
        super().__init__(())
        self._mine = mine
        self.led: list[bool] = []

    async def is_led(self) -> bool:
        self.led.append(bool(self.led))
        return self.led[-1]

    async def last(self, subject: str) -> Record | None:
        self._incarnations[:] = ["another" if any(self.led) else self._mine]
        return await super().last(subject)


async def test_what_a_leader_says_that_has_lost_the_others_is_not_believed() -> None:
    """It would go on saying that the checkpoint is ours, after another has claimed it and acted."""
    actuator = Actuator(
        Options(nats_url="", cluster="c"),
        cast("Log", Shared([])),
        cast("Applier", Twice()),
        lookout=Watched(),
    )
    log = Parted(actuator._writer.incarnation)
    part: Any = actuator._part
    actuator._log, part._log = cast("Log", log), log
    with pytest.raises(Fenced, match="belongs to incarnation another"):
        await actuator._owned()
    assert log.led == [False, True]
    assert actuator._in_flight.problem == ""
    assert not actuator._is_owned


class Later:
    """Effects that have to be tried once more."""

    def __init__(self) -> None:
        self.attempts = 0

    async def attempt(self, effect: object, allowance: Allowance, marks: object) -> Result:
        self.attempts += 1
        return Again("Unavailable", "") if self.attempts == 1 else Done()

    def finished(self, effect: object) -> None:
        """Nothing is kept."""


async def test_an_outage_of_the_log_takes_nothing_from_the_time_for_retries(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    applier = Later()
    actuator = Actuator(
        Options(nats_url="", cluster="c"),
        cast("Log", Shared([])),
        cast("Applier", applier),
        lookout=Watched(),
    )
    loop = asyncio.get_running_loop()
    plain, outages = loop.time, [10 * actuator._options.retry_for_s]
    passed = 0.0

    async def owned() -> None:
        nonlocal passed
        passed += outages.pop() if outages else 0.0

    monkeypatch.setattr(actuator, "_owned", owned)
    monkeypatch.setattr(loop, "time", lambda: plain() + passed)
    monkeypatch.setattr(verdict, "delay_s", lambda *given: 0.0)
    effect = ScaleWorkload(at=1.0, id="autoscaler.1.1.0", target=WEB, replicas=5, from_replicas=3)
    actuator._plan.add(Job(1, "tw.c.decision.1.autoscaler.deployment.ns.web", effect, ""))
    job = actuator._plan.next()
    assert job is not None
    await actuator._apply(job)
    said = actuator._outcomes.waiting.get_nowait()
    assert said is not None
    _, outcome = said
    assert (applier.attempts, type(outcome)) == (2, Applied)


async def test_modes_that_answered_before_an_outage_are_asked_again_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The bus goes away between two answers: what is set meanwhile holds for what is carried out then."""
    monkeypatch.setattr(modes, "BELIEVED_S", 0.0)
    log, applier = Shared([]), Later()
    actuator = Actuator(
        Options(nats_url="", cluster="c"), cast("Log", log), cast("Applier", applier), lookout=Watched()
    )
    loop = asyncio.get_running_loop()
    plain, passed = loop.time, 0.0
    effect = ScaleWorkload(at=1.0, id="autoscaler.1.1.0", target=WEB, replicas=5, from_replicas=3)
    dry_run = ModesSet(at=2.0, services={"autoscaler": "dry-run"})

    async def owned() -> None:
        """The first time it waits an outage out, before which the modes have answered."""
        nonlocal passed
        if not passed:
            await until(lambda: bool(actuator._modes._read_at))
            passed = 60.0
            log.words[log.subjects.config(MODES)] = registry.encode(dry_run)

    monkeypatch.setattr(actuator, "_owned", owned)
    monkeypatch.setattr(loop, "time", lambda: plain() + passed)
    actuator._plan.add(Job(1, "tw.c.decision.1.autoscaler.deployment.ns.web", effect, ""))
    job = actuator._plan.next()
    assert job is not None
    await actuator._apply(job)
    said = actuator._outcomes.waiting.get_nowait()
    assert said is not None
    assert (applier.attempts, said[1].reason) == (0, verdict.DRY_RUN)

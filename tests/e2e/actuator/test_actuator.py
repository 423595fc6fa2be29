"""Decisions on a real log, applied to the embedded API server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from tests.unit.actuator.effects import ANYTHING, Watched
from tests.waiting import until
from tidewright.actuator import nodelooks
from tidewright.actuator.acting import Actuator
from tidewright.actuator.apply import Applier
from tidewright.actuator.correlate import BURST, COMBINED, SIMILAR_LIMIT
from tidewright.actuator.ledger import ActPosition
from tidewright.actuator.options import SERVICE, Mode, Options
from tidewright.actuator.requests import DECISION
from tidewright.events import registry
from tidewright.events.acting import INCUMBENT, MODES
from tidewright.events.autoscaler import HoldReplicas
from tidewright.events.base import ObjectRef, Outcome
from tidewright.events.config import ClockSet, ModesSet
from tidewright.events.config import Mode as ConfigMode
from tidewright.events.decisions import (
    CreateObject,
    DeleteObject,
    Effect,
    PatchObject,
    RecordObjectEvent,
    ScaleWorkload,
    SetStatus,
)
from tidewright.events.endpoints import ForgetEndpoint
from tidewright.events.incumbents import IncumbentObserved
from tidewright.events.outcomes import Applied, Failed, Rejected, Superseded
from tidewright.events.provisioning import MarkNode
from tidewright.host.loop.fenced import InFlight, Part
from tidewright.host.webhook.certificates import make
from tidewright.kube.client import Kube, Response
from tidewright.kube.discovery import Discovery
from tidewright.kube.errors import KubeError
from tidewright.kube.taints import TO_BE_DELETED
from tidewright.log.connection import Committed, Log, Message
from tidewright.log.envelope import CAUSE_SEQ, Writer
from tidewright.log.errors import Conflict, LogUnavailable
from tidewright.log.subjects import ALL
from tidewright.sim.api.server import ApiServer

DEPLOYMENTS = "/apis/apps/v1/namespaces/shop/deployments"
WEB = ObjectRef(api_version="apps/v1", kind="Deployment", namespace="shop", name="web")


class Client(Kube):
    """A client that refuses what a test says, before it is sent or after it was answered."""

    faults: list[Callable[[str, str], KubeError | None]]
    losses: list[Callable[[str, str], bool]]
    calls: list[tuple[str, str]]
    written: list[tuple[str, str]]

    async def request(self, method: str, path: str, **options: Any) -> Response:
        self.calls.append((method, path))
        for fault in self.faults:
            if (error := fault(method, path)) is not None:
                raise error
        answer = await super().request(method, path, **options)
        if method != "GET":
            self.written.append((method, path))
        for loss in list(self.losses):
            if loss(method, path):
                self.losses.remove(loss)
                raise KubeError(0, "Timeout", "the answer was lost")
        return answer

    async def get(self, path: str) -> dict[str, Any]:
        answer = await super().request("GET", path)
        found: dict[str, Any] = msgspec.json.decode(answer.body)
        return found

    async def make(self, path: str, **content: Any) -> dict[str, Any]:
        answer = await super().request("POST", path, body=msgspec.json.encode(content))
        made: dict[str, Any] = msgspec.json.decode(answer.body)
        return made

    def writes(self) -> list[tuple[str, str]]:
        """What the API server has accepted."""
        return list(self.written)


@pytest.fixture
async def kube() -> AsyncIterator[Client]:
    server = ApiServer()
    await server.start()
    async with Client.at(server.url) as client:
        assert isinstance(client, Client)
        client.faults, client.losses, client.calls, client.written = [], [], [], []
        await client.make("/api/v1/namespaces", apiVersion="v1", kind="Namespace", metadata={"name": "shop"})
        await make_deployment(client, "web")
        yield client
    await server.stop()


async def make_deployment(kube: Client, name: str) -> dict[str, Any]:
    template = {"metadata": {"labels": {"a": name}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": 3, "selector": {"matchLabels": {"a": name}}, "template": template}
    return await kube.make(
        DEPLOYMENTS, apiVersion="apps/v1", kind="Deployment", metadata={"name": name}, spec=spec
    )


class Bench:
    """Writes decisions, reads outcomes."""

    def __init__(self, log: Log, kube: Client) -> None:
        self.log = log
        self.kube = kube
        self._read = 0

    async def decide(self, *effects: Any) -> None:
        await self.log.commit(
            [
                Message(
                    self.log.subjects.decision(
                        self.log.slot_of("shop"), "autoscaler", "deployment", "shop", "web"
                    ),
                    registry.encode(effect),
                )
                for effect in effects
            ]
        )

    async def outcomes(self, count: int) -> list[Outcome]:
        """The next outcomes, in the order of the log."""
        found: list[Outcome] = []
        async with (
            asyncio.timeout(90),
            self.log.reader([self.log.subjects.outcomes("*")], after=self._read) as reader,
        ):
            while len(found) < count:
                for record in await reader.fetch(count - len(found), timeout_s=1.0):
                    event = registry.decode(record.body)
                    assert isinstance(event, Outcome)
                    found.append(event)
                    self._read = record.seq
        return found

    @asynccontextmanager
    async def acting(self, mode: Mode = "enforce", **options: Any) -> AsyncIterator[Actuator]:
        chosen = Options(nats_url="", cluster="test", mode=mode, **({"qps": 500.0} | options))
        applier = Applier(self.kube, Discovery(self.kube))
        actuator = Actuator(chosen, self.log, applier, judging=lambda *_: ANYTHING, lookout=Watched())
        task = asyncio.create_task(actuator.run())
        try:
            yield actuator
        finally:
            task.cancel()
            async with asyncio.timeout(90):
                await asyncio.gather(task, return_exceptions=True)

    async def act(self, *effects: Any, **options: Any) -> list[Outcome]:
        """Decide, act, and take the outcomes."""
        await self.decide(*effects)
        wanted = sum(isinstance(effect, Effect) for effect in effects)
        async with self.acting(**options):
            return await self.outcomes(wanted)

    async def replicas(self) -> int:
        found: int = (await self.kube.get(f"{DEPLOYMENTS}/web"))["spec"]["replicas"]
        return found


@pytest.fixture
async def bench(log: Log, kube: Client) -> Bench:
    return Bench(log, kube)


def scale(
    to: int, came_from: int = 3, decision: str = "", target: ObjectRef = WEB, **fields: Any
) -> ScaleWorkload:
    return ScaleWorkload(
        at=1.0, id=decision or f"autoscaler.1.{came_from}.{to}", target=target, replicas=to,
        from_replicas=came_from, **fields,
    )  # fmt: skip


async def test_a_workload_is_scaled_through_its_scale(bench: Bench) -> None:
    [outcome] = await bench.act(scale(5))
    assert isinstance(outcome, Applied)
    assert (outcome.decision, outcome.found, outcome.attempts) == ("autoscaler.1.3.5", False, 1)
    assert await bench.replicas() == 5
    assert bench.kube.writes() == [("PATCH", f"{DEPLOYMENTS}/web/scale")]


async def test_a_scale_that_may_not_be_patched_is_written_after_a_look(bench: Bench) -> None:
    """With roles of before, and at API servers that take no such patch."""
    refused = KubeError(403, "Forbidden", 'cannot patch resource "deployments/scale"')
    bench.kube.faults.append(lambda method, _path: refused if method == "PATCH" else None)
    [outcome] = await bench.act(scale(5))
    assert isinstance(outcome, Applied)
    assert await bench.replicas() == 5
    assert bench.kube.writes() == [("PUT", f"{DEPLOYMENTS}/web/scale")]


async def test_a_scale_from_none_is_written_after_a_look(bench: Bench) -> None:
    """A count of 0 is left out of a scale: there is nothing to test."""
    [down] = await bench.act(scale(0))
    [up] = await bench.act(scale(4, came_from=0))
    assert isinstance(down, Applied)
    assert isinstance(up, Applied)
    assert await bench.replicas() == 4
    assert [method for method, _ in bench.kube.writes()] == ["PATCH", "PUT"]


async def test_a_scale_of_another_workload_of_the_same_name_is_refused(bench: Bench) -> None:
    """By its uid, though the count is what the decision saw."""
    another = msgspec.structs.replace(WEB, uid="of-the-one-before")
    [outcome] = await bench.act(scale(5, target=another))
    assert isinstance(outcome, Rejected)
    assert outcome.reason == "Conflict"
    assert await bench.replicas() == 3


async def test_the_outcome_lies_in_the_slot_and_under_the_name_of_its_decision(
    bench: Bench, log: Log
) -> None:
    await bench.act(scale(5))
    record = await log.last(log.subjects.outcome(log.slot_of("shop"), "deployment", "shop", "web"))
    assert record is not None
    outcome = registry.decode(record.body)
    assert isinstance(outcome, Applied)
    assert outcome.decision == "autoscaler.1.3.5"
    decided = await log.at(int(record.headers["Tw-Cause-Seq"]))
    assert decided is not None
    assert b'"id":"autoscaler.1.3.5"' in decided.body


async def test_outcomes_are_of_the_log_time_that_the_watcher_set_meanwhile(bench: Bench, log: Log) -> None:
    async def set_clock(to: float) -> None:
        setting = ClockSet(at=1.0, wall=time.time(), log=to, speed=1.0)
        await log.jetstream.publish(log.subjects.config("clock"), registry.encode(setting))

    async with bench.acting():
        await set_clock(5000.0)
        await bench.decide(scale(5))
        [first] = await bench.outcomes(1)
        await set_clock(9000.0)  # seen at once by who is told of a decision that is later than all it knows
        await bench.decide(msgspec.structs.replace(scale(6, 5), at=8000.0))
        [second] = await bench.outcomes(1)
    assert 5000.0 <= first.at < 5060.0
    assert 9000.0 <= second.at < 9060.0


async def test_a_wanted_value_that_is_there_is_found(bench: Bench) -> None:
    [outcome] = await bench.act(scale(3, 2))
    assert isinstance(outcome, Applied)
    assert outcome.found
    assert bench.kube.writes() == []


async def test_a_value_that_the_decider_did_not_see_is_left_alone(bench: Bench) -> None:
    [outcome] = await bench.act(scale(9, 7))
    assert isinstance(outcome, Rejected)
    assert (outcome.reason, outcome.message) == ("Conflict", "replicas is 3, not 7 as the decision saw")
    assert await bench.replicas() == 3


async def test_another_object_of_the_same_name_is_left_alone(bench: Bench) -> None:
    [outcome] = await bench.act(scale(5, target=msgspec.structs.replace(WEB, uid="other")))
    assert isinstance(outcome, Rejected)
    assert outcome.reason == "Conflict"
    assert "uid" in outcome.message
    assert await bench.replicas() == 3


async def test_what_is_not_there_is_gone(bench: Bench) -> None:
    nothing = msgspec.structs.replace(WEB, name="nothing")
    unknown = ObjectRef(api_version="example.com/v1", kind="Nothing", namespace="shop", name="x")
    for outcome in await bench.act(scale(5, target=nothing), scale(5, target=unknown)):
        assert isinstance(outcome, Rejected)
        assert outcome.reason == "Gone"


async def test_a_later_wish_supersedes_an_earlier_one(bench: Bench) -> None:
    superseded, applied = await bench.act(scale(5, decision="a"), scale(8, decision="b"))
    assert isinstance(superseded, Superseded)
    assert (superseded.decision, superseded.by) == ("a", "b")
    assert isinstance(applied, Applied)
    assert await bench.replicas() == 8


async def test_records_get_no_outcome_and_dry_runs_write_nothing(bench: Bench) -> None:
    hold = HoldReplicas(at=1.0, id="h", target=WEB, replicas=3, reason="InBand")
    [outcome] = await bench.act(hold, scale(5, dry_run=True))
    assert isinstance(outcome, Applied)
    assert (outcome.reason, outcome.attempts) == ("DryRun", 0)
    assert bench.kube.calls == []


async def test_in_shadow_nothing_is_written(bench: Bench) -> None:
    [outcome] = await bench.act(scale(5), mode="shadow")
    assert isinstance(outcome, Applied)
    assert outcome.reason == "Shadow"
    assert bench.kube.calls == []


async def test_what_is_decided_in_shadow_is_not_written(bench: Bench) -> None:
    [outcome] = await bench.act(scale(5, shadow=True))
    assert isinstance(outcome, Applied)
    assert (outcome.reason, outcome.attempts) == ("Shadow", 0)
    assert bench.kube.calls == []


async def test_the_modes_on_the_log_are_heeded_whatever_a_decision_says(bench: Bench) -> None:
    forget = ForgetEndpoint(
        at=1.0, id="spread-admission.all.i.1", ca=make(("127.0.0.1",)).ca_pem,
        target=ObjectRef(api_version="admissionregistration.k8s.io/v1", kind="MutatingWebhookConfiguration", name="x"),
    )  # fmt: skip

    async def say(mode: ConfigMode) -> None:
        message = registry.encode(ModesSet(at=1.0, services={"autoscaler": mode}))
        await bench.log.commit([Message(bench.log.subjects.config(MODES), message)])

    for mode, replicas, reason in (("shadow", 5, "Shadow"), ("enforce", 6, ""), ("shadow", 7, "Shadow")):
        await say(mode)  # type: ignore[arg-type]  # one of the literals
        [outcome] = await bench.act(scale(replicas))
        assert isinstance(outcome, Applied)
        assert outcome.reason == reason
    assert await bench.replicas() == 6
    [outcome] = await bench.act(forget)
    assert isinstance(outcome, Applied)
    assert outcome.reason == ""


async def test_who_has_decided_by_newer_modes_is_not_refused_by_those_that_were_read_before(
    bench: Bench,
) -> None:
    subject = bench.log.subjects.config(MODES)
    async with bench.acting():
        await bench.log.commit([Message(subject, registry.encode(ModesSet(at=1.0, mode="shadow")))])
        await bench.decide(scale(5))
        [first] = await bench.outcomes(1)
        await bench.log.commit([Message(subject, registry.encode(ModesSet(at=2.0)))])
        await bench.decide(scale(6))
        [second] = await bench.outcomes(1)
    assert (first.reason, second.reason) == ("Shadow", "")
    assert await bench.replicas() == 6


async def test_an_incumbent_on_the_log_is_heeded_whatever_a_decision_says(bench: Bench) -> None:
    subjects = bench.log.subjects

    async def say(service: str, **fields: Any) -> None:
        fact = IncumbentObserved(at=1.0, service=service, rival="the other", **fields)
        subject = subjects.fact(ALL, INCUMBENT, "", service)
        await bench.log.commit([Message(subject, registry.encode(fact))])

    await say("spread", present=True, everywhere=True)
    await say("autoscaler", present=True, namespaces=(WEB.namespace,))
    [outcome] = await bench.act(scale(5))
    assert isinstance(outcome, Applied)
    assert (outcome.reason, outcome.attempts) == ("DryRun", 0)
    assert bench.kube.calls == []
    await say("autoscaler")
    [outcome] = await bench.act(scale(6))
    assert outcome.reason == ""
    assert await bench.replicas() == 6


async def test_a_status_is_made_equal(bench: Bench) -> None:
    first = SetStatus(at=1.0, id="s1", target=WEB, status={"replicas": 2, "readyReplicas": 1})
    second = SetStatus(at=1.0, id="s2", target=WEB, status={"replicas": 4})
    again = SetStatus(at=1.0, id="s3", target=WEB, status={"replicas": 4})
    for effect, found in ((first, False), (second, False), (again, True)):
        [outcome] = await bench.act(effect)
        assert isinstance(outcome, Applied)
        assert outcome.found == found
    assert (await bench.kube.get(f"{DEPLOYMENTS}/web"))["status"] == {"replicas": 4}


async def test_a_lost_race_is_run_again_on_what_the_winner_left(bench: Bench) -> None:
    lost: list[str] = []

    def race(method: str, path: str) -> KubeError | None:
        if method in ("PATCH", "PUT") and len(lost) < 2:
            lost.append(path)
            return KubeError(409, "Conflict", "the object has been modified")
        return None

    bench.kube.faults.append(race)
    [outcome] = await bench.act(scale(5))
    assert isinstance(outcome, Applied)
    assert outcome.attempts == 5


async def test_an_outage_is_outlasted(bench: Bench) -> None:
    left = [
        KubeError(503, "ServiceUnavailable", "down"),
        KubeError(429, "TooManyRequests", "slow", retry_after_s=0.01),
    ]
    bench.kube.faults.append(lambda _method, _path: left.pop() if left else None)
    [outcome] = await bench.act(scale(5))
    assert isinstance(outcome, Applied)
    assert await bench.replicas() == 5


async def test_retries_that_are_used_up_end_in_an_outcome_too(bench: Bench) -> None:
    bench.kube.faults.append(lambda _method, _path: KubeError(503, "ServiceUnavailable", "down"))
    [outcome] = await bench.act(scale(5), retry_for_s=0.5)
    assert isinstance(outcome, Failed)
    assert outcome.reason == "Unavailable"


async def test_a_refusal_is_not_tried_again(bench: Bench) -> None:
    bench.kube.faults.append(lambda _method, _path: KubeError(403, "Forbidden", "no"))
    [outcome] = await bench.act(scale(5))
    assert isinstance(outcome, Rejected)
    assert (outcome.reason, outcome.attempts) == ("Forbidden", 2)


async def test_a_lost_answer_is_found_to_have_been_obeyed(bench: Bench) -> None:
    bench.kube.losses.append(lambda method, _path: method == "PATCH")
    [outcome] = await bench.act(scale(5))
    assert isinstance(outcome, Applied)
    assert outcome.found
    assert len(bench.kube.writes()) == 1


async def test_an_outcome_that_no_checkpoint_covers_is_found_by_who_takes_over(
    bench: Bench, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process ends between the two; and the next one, before it has committed anything."""
    written = asyncio.Event()

    async def ends(*_: object) -> None:
        written.set()
        await asyncio.Event().wait()

    async with bench.acting() as first:
        await until(lambda: first._part.sequence)
        monkeypatch.setattr(first._part, "commit", ends)
        await bench.decide(scale(5, decision="one"))
        async with asyncio.timeout(90):
            await written.wait()
    for _ in range(2):
        async with bench.acting() as next_one:
            await until(lambda: next_one._ledger.position > 0)
    async with bench.acting():
        await bench.decide(scale(6, 5, decision="two"))
        one, two = await bench.outcomes(2)
    assert (one.decision, two.decision) == ("one", "two")
    assert isinstance(two, Applied)
    assert [path for _, path in bench.kube.writes()] == [f"{DEPLOYMENTS}/web/scale"] * 2


@pytest.mark.parametrize("stored", [True, False])
async def test_an_outcome_whose_append_had_no_answer_is_there_once(
    bench: Bench, log: Log, monkeypatch: pytest.MonkeyPatch, stored: bool
) -> None:
    commit, lost = log.commit, asyncio.Event()

    async def loses(messages: Sequence[Message]) -> Committed:
        if messages[0].expect_of and not lost.is_set():
            lost.set()
            if stored:
                await commit(messages)
            raise LogUnavailable("no answer")
        return await commit(messages)

    monkeypatch.setattr(log, "commit", loses)
    async with bench.acting() as actuator:
        await bench.decide(scale(5, decision="one"))
        (one,) = await bench.outcomes(1)
        await bench.decide(scale(6, 5, decision="two"))
        (two,) = await bench.outcomes(1)
        await until(lambda: actuator._part.position.position > 1)
        assert actuator._part.position.apart == 0
    assert lost.is_set()
    assert (one.decision, two.decision) == ("one", "two")
    assert len(bench.kube.writes()) == 2


async def test_who_was_taken_over_appends_no_outcome(bench: Bench, log: Log) -> None:
    subject = log.subjects.checkpoint(ALL, SERVICE)
    old, new = (Part(log, Writer(SERVICE), subject, ActPosition, InFlight()) for _ in range(2))
    await old.claim(ActPosition.seen)
    await new.claim(ActPosition.seen)
    outcome = Message(
        log.subjects.outcome(log.slot_of("shop"), "deployment", "shop", "web"), b"{}", {CAUSE_SEQ: "1"}
    )
    with pytest.raises(Conflict):
        await old.append(outcome)
    await new.append(outcome)


async def test_a_patch_is_marked_conditional_and_found_again(bench: Bench) -> None:
    def wish(value: str, expect: str | None) -> PatchObject:
        return PatchObject(
            at=1.0, id=f"p{value}", target=WEB, patch={"metadata": {"labels": {"tier": value}}},
            expect={"/metadata/labels/tier": expect},
        )  # fmt: skip

    [first] = await bench.act(wish("1", None))
    [again] = await bench.act(wish("1", None))
    [wrong] = await bench.act(wish("2", "7"))
    assert isinstance(first, Applied)
    assert not first.found
    assert isinstance(again, Applied)
    assert again.found
    assert isinstance(wrong, Rejected)
    assert wrong.message == '/metadata/labels/tier is "1", not "7"'
    meta = (await bench.kube.get(f"{DEPLOYMENTS}/web"))["metadata"]
    assert meta["annotations"][DECISION] == "p1"


async def test_an_object_is_created_once_per_decision(bench: Bench) -> None:
    target = ObjectRef(api_version="v1", kind="ConfigMap", namespace="shop", name="c")

    def wish(decision: str) -> CreateObject:
        return CreateObject(at=1.0, id=decision, target=target, manifest={"data": {"a": "b"}})

    [made] = await bench.act(wish("c1"))
    [again] = await bench.act(wish("c1"))
    [other] = await bench.act(wish("c2"))
    assert isinstance(made, Applied)
    assert isinstance(again, Applied)
    assert (made.found, again.found) == (False, True)
    assert made.result == again.result
    assert made.result["uid"]
    assert isinstance(other, Rejected)
    assert (other.reason, "of decision c1" in other.message) == ("Conflict", True)


async def test_an_object_is_deleted_under_its_uid(bench: Bench) -> None:
    target = ObjectRef(api_version="v1", kind="ConfigMap", namespace="shop", name="c")
    made = await bench.kube.make(
        "/api/v1/namespaces/shop/configmaps", apiVersion="v1", kind="ConfigMap", metadata={"name": "c"}
    )
    uid = made["metadata"]["uid"]
    wrong = DeleteObject(at=1.0, id="d1", target=msgspec.structs.replace(target, uid="other"))
    right = DeleteObject(at=1.0, id="d2", target=msgspec.structs.replace(target, uid=uid))
    [first] = await bench.act(wrong)
    assert isinstance(first, Applied)
    assert first.found  # the one that was meant is not there
    assert (await bench.kube.get("/api/v1/namespaces/shop/configmaps/c"))["metadata"]["uid"] == uid
    [second] = await bench.act(right)
    [third] = await bench.act(right)
    assert isinstance(second, Applied)
    assert isinstance(third, Applied)
    assert (second.found, third.found) == (False, True)


async def test_object_events_are_written_once_and_counted(bench: Bench) -> None:
    def wish(decision: str) -> RecordObjectEvent:
        return RecordObjectEvent(
            at=1.0, id=decision, target=WEB, event_type="Normal", reason="Scaled", message="to 5",
            component="autoscaler",
        )  # fmt: skip

    await bench.decide(wish("e1"), wish("e2"))
    async with bench.acting():
        outcomes = await bench.outcomes(2)
    assert all(isinstance(outcome, Applied) for outcome in outcomes)
    [written] = (await bench.kube.get("/api/v1/namespaces/shop/events"))["items"]
    assert (written["count"], written["reason"], written["message"]) == (2, "Scaled", "to 5")
    await bench.decide(wish("e1"))
    async with bench.acting():  # a new process, whose memory is empty
        [again] = await bench.outcomes(1)
    assert isinstance(again, Applied)
    assert again.found


async def test_several_object_events_of_one_decision_are_each_written_once(bench: Bench) -> None:
    told = RecordObjectEvent(
        at=1.0, id="e", target=WEB, event_type="Normal", reason="Scaled", message="to 1",
        also=tuple(f"to {n}" for n in range(2, 40)), component="autoscaler",
    )  # fmt: skip
    bench.kube.losses += [lambda method, _path: method == "POST" and len(bench.kube.written) == 3]
    await bench.decide(told)
    async with bench.acting():
        [outcome] = await bench.outcomes(1)
    assert isinstance(outcome, Applied)
    assert (outcome.found, outcome.result) == (False, {"written": BURST})
    written = (await bench.kube.get("/api/v1/namespaces/shop/events"))["items"]
    alone = {item["message"]: item["count"] for item in written if item["count"] == 1}
    combined = [item for item in written if item["count"] > 1]
    assert alone == {f"to {n}": 1 for n in range(1, SIMILAR_LIMIT + 1)}
    assert [(item["count"], item["message"]) for item in combined] == [
        (BURST - SIMILAR_LIMIT, f"{COMBINED}to {BURST}")
    ]


async def test_a_mark_that_is_tried_again_by_itself_is_looked_at_by_itself(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = [f"n{n}" for n in range(nodelooks.MANY)]
    for name in nodes:
        await bench.kube.make("/api/v1/nodes", apiVersion="v1", kind="Node", metadata={"name": name})
    once_more = iter((True,))

    def until_the_others_are_marked(method: str, path: str) -> KubeError | None:
        if (method, path) != ("PUT", "/api/v1/nodes/n0"):
            return None
        monkeypatch.setattr(nodelooks, "KEPT_S", 0.0)
        late = len(bench.kube.written) < len(nodes) - 1 or next(once_more, False)
        return KubeError(503, "ServiceUnavailable", "away") if late else None

    bench.kube.faults.append(until_the_others_are_marked)
    await bench.decide(
        *(
            MarkNode(
                at=1.0, id=name, target=ObjectRef(api_version="v1", kind="Node", name=name), key=TO_BE_DELETED,
                present=True, drain="d",
            )
            for name in nodes
        )
    )  # fmt: skip
    async with bench.acting():
        outcomes = await bench.outcomes(len(nodes))
    assert all(isinstance(outcome, Applied) for outcome in outcomes)
    assert ("GET", f"/api/v1/nodes?limit={nodelooks.NODES_EACH * nodelooks.MANY}") in bench.kube.calls
    assert bench.kube.calls[-2:] == [("GET", "/api/v1/nodes/n0"), ("PUT", "/api/v1/nodes/n0")]


async def test_a_restart_applies_what_is_open_and_nothing_twice(bench: Bench, log: Log) -> None:
    release = asyncio.Event()
    await make_deployment(bench.kube, "slow")
    slow = msgspec.structs.replace(WEB, name="slow")

    def stuck(_method: str, path: str) -> KubeError | None:
        if "slow" in path and not release.is_set():
            return KubeError(503, "ServiceUnavailable", "down", retry_after_s=60.0)
        return None

    bench.kube.faults.append(stuck)
    await bench.decide(scale(5, decision="slow", target=slow), scale(6, decision="quick"))

    async def kept() -> ActPosition:
        record = await log.last(log.subjects.checkpoint(ALL, "actuator"))
        return ActPosition(at=0.0) if record is None else msgspec.json.decode(record.body, type=ActPosition)

    async with bench.acting(retry_for_s=600.0):
        [quick] = await bench.outcomes(1)
        # The checkpoint may come behind the outcome that it covers.
        position = await until(kept, lambda position: len(position.done) == 1)
    assert quick.decision == "quick"
    assert position.position == 0
    release.set()
    bench.kube.calls.clear()
    async with bench.acting():
        [late] = await bench.outcomes(1)
    assert late.decision == "slow"
    assert isinstance(late, Applied)
    assert all("slow" in path for _, path in bench.kube.calls)


async def test_a_second_actuator_takes_over_and_the_first_commits_no_more(bench: Bench) -> None:
    async with bench.acting():
        await bench.decide(scale(4, 3, decision="one"))
        await bench.outcomes(1)
        async with bench.acting():
            await bench.decide(scale(5, 4, decision="two"))
            [second] = await bench.outcomes(1)
            await bench.decide(scale(6, 5, decision="three"))
            [third] = await bench.outcomes(1)
    assert [second.decision, third.decision] == ["two", "three"]
    assert await bench.replicas() == 6


async def test_an_actuator_without_the_bus_does_not_have_the_last_word(
    bench: Bench, log: Log, kube: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It holds a decision that it could not apply; another has applied that, and a later one, when it tries again."""
    cut, asked, healed = asyncio.Event(), asyncio.Event(), asyncio.Event()
    kube.faults.append(lambda *_: KubeError(503, "ServiceUnavailable", "down", retry_after_s=0.5))
    async with (
        await Log.connect(log.url, "test", name="other", timeout_s=10.0) as other,
        Client.at(kube.url) as second_kube,
    ):
        assert isinstance(second_kube, Client)
        second_kube.faults, second_kube.losses = [], []
        second_kube.calls, second_kube.written = [], []
        await other.adopt_slots()
        second = Bench(other, second_kube)
        for name in ("commit", "last"):

            async def waiting(*args: Any, call: Any = getattr(log, name)) -> Any:
                if cut.is_set():
                    asked.set()
                    await healed.wait()
                return await call(*args)

            monkeypatch.setattr(log, name, waiting)
        async with bench.acting():
            await second.decide(scale(5, 3, decision="one"))
            await until(lambda: kube.calls)
            cut.set()
            async with second.acting():
                await second.outcomes(1)
                await second.decide(scale(3, 5, decision="two"))
                await second.outcomes(1)
                kube.faults.clear()
                async with asyncio.timeout(90):
                    await asked.wait()
                healed.set()
                await second.decide(scale(4, 3, decision="three"))
                [third] = await second.outcomes(1)
    assert isinstance(third, Applied)
    assert kube.writes() == []
    assert [method for method, _ in second_kube.writes()] == ["PATCH"] * 3


async def test_requests_stay_within_the_budget(bench: Bench) -> None:
    for n in range(5):
        await make_deployment(bench.kube, f"d{n}")
    wishes = [scale(5, decision=f"w{n}", target=msgspec.structs.replace(WEB, name=f"d{n}")) for n in range(5)]
    loop = asyncio.get_running_loop()
    begun = loop.time()
    outcomes = await bench.act(*wishes, qps=20.0, burst=1)
    assert all(isinstance(outcome, Applied) for outcome in outcomes)
    assert loop.time() - begun >= 4 / 20.0  # five requests, the first at once


class Rations:
    """A budget of which the test gives out each request."""

    def __init__(self) -> None:
        self._given = asyncio.Semaphore(0)

    def has_capacity(self, amount: float = 1) -> bool:
        return True

    async def acquire(self, amount: float = 1) -> None:
        await self._given.acquire()

    def give(self, requests: int) -> None:
        for _ in range(requests):
            self._given.release()


async def test_a_scale_up_gets_the_budget_before_reports_under_way(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(12):
        await make_deployment(bench.kube, f"d{n}")
    reports = [
        SetStatus(
            at=1.0, id=f"s{n}", target=msgspec.structs.replace(WEB, name=f"d{n}"), status={"replicas": n + 1}
        )
        for n in range(12)
    ]
    await bench.decide(*reports)
    async with bench.acting() as actuator:
        rations = Rations()
        monkeypatch.setattr(actuator, "_limiter", rations)
        rations.give(1)
        await until(lambda: actuator._spending)  # one has begun, and wants another request
        await bench.decide(scale(5, decision="up"))
        await until(lambda: len(actuator._plan) == len(reports) + 1)
        rations.give(1)
        (first,) = await bench.outcomes(1)
        rations.give(2 * len(reports))
        rest = [outcome.decision for outcome in await bench.outcomes(12)]
    assert (type(first), first.decision) == (Applied, "up")
    assert sorted(rest) == sorted(report.id for report in reports)


async def test_reports_leave_half_of_the_burst_to_scales(bench: Bench) -> None:
    for n in range(12):
        await make_deployment(bench.kube, f"d{n}")
    reports = [
        SetStatus(
            at=1.0, id=f"s{n}", target=msgspec.structs.replace(WEB, name=f"d{n}"), status={"replicas": n + 1}
        )
        for n in range(12)
    ]
    await bench.decide(*reports)
    async with bench.acting(qps=0.05, burst=24) as actuator:  # so slow that nothing comes after the burst
        await until(lambda: not actuator._limiter.has_capacity(13))
        # Each report has made one request of its two, and waits for the other.
        await bench.decide(scale(5, decision="up"))
        (first,) = await bench.outcomes(1)
    assert (type(first), first.decision) == (Applied, "up")


async def test_a_defect_costs_one_decision_and_no_more(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: object) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr(Applier, "_set_status", broken)
    outcomes = await bench.act(SetStatus(at=1.0, id="s", target=WEB, status={}), scale(5))
    by_id = {outcome.decision: outcome for outcome in outcomes}
    assert by_id["s"].reason == "Internal"
    assert isinstance(by_id["autoscaler.1.3.5"], Applied)

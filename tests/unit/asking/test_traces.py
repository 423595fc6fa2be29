"""Traces out of the recorded log: whole, the same at every reading, and taken by what speaks OTLP."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import msgspec
import pytest

from tests.recorded.ended import RECORDED, the_log
from tidewright.asking.errors import Unavailable
from tidewright.asking.lookups import cause_in
from tidewright.asking.services import DECIDERS
from tidewright.asking.traces import Span, Tracer
from tidewright.cli import main, traces
from tidewright.events import registry
from tidewright.events.base import Decision, Event, Outcome
from tidewright.log.envelope import CAUSE_SEQ
from tidewright.log.reader import Record


async def traced(after: int = 0) -> list[Span]:
    """The spans of the recorded log, read from behind a sequence."""
    source = the_log()
    tracer, spans = Tracer(source, "cluster"), list[Span]()
    async for record in source.records(after=after):
        event = registry.read(record.body)
        if isinstance(event, Event):
            spans += await tracer.spans(record, event)
    return spans


async def test_every_decision_and_outcome_is_below_the_fact_that_it_began_with() -> None:
    spans = await traced()
    by_id = {span.span_id: span for span in spans}
    assert len(by_id) == len(spans), "each span once"
    for span in spans:
        assert span.start <= span.end
        if span.parent:
            assert by_id[span.parent].trace_id == span.trace_id
    roots = [span for span in spans if not span.parent]
    assert len({span.trace_id for span in roots}) == len(roots) == len({span.trace_id for span in spans})
    events = [registry.read(record.body) async for record in the_log().records()]
    effects = [span for span in spans if span.name.startswith("actuator ")]
    # What an endpoint says of itself is no answer to anything on the log, and has no trace.
    answered = {event.decision for event in events if isinstance(event, Outcome)}
    assert len(effects) == len([decision for decision in answered if cause_in(decision) is not None]) > 100
    decided = {
        span.attributes["tidewright.decision"] for span in spans if span.name.partition(" ")[0] in DECIDERS
    }
    assert decided == {
        event.id for event in events if isinstance(event, Decision) and cause_in(event.id) is not None
    }


async def test_a_scale_is_one_trace_from_the_metric_to_what_came_of_it() -> None:
    spans = await traced()
    by_id = {span.span_id: span for span in spans}
    effect = next(span for span in spans if span.name == "actuator ScaleWorkload" and not span.failed)
    outcome = next(span for span in spans if span.parent == effect.span_id)
    decision = by_id[effect.parent]
    assert (outcome.name, decision.name) == ("Applied", "autoscaler ScaleWorkload")
    assert decision.start == effect.start <= effect.end == outcome.start
    assert by_id[decision.parent].service in ("watcher", "actuator", "log")


async def test_who_begins_in_the_middle_says_the_same() -> None:
    """Also of outcomes whose decisions were read before."""
    whole = {span.span_id: span for span in await traced()}
    _, last = await the_log().bounds()
    for span in await traced(after=last // 2):
        assert whole[span.span_id] == span


async def test_what_has_aged_out_is_still_one_trace() -> None:
    whole = {span.span_id: span for span in await traced()}
    source = the_log()
    records = [record async for record in source.records()]
    decision = next(r for r in records if isinstance(registry.read(r.body), Decision))
    outcome = next(r for r in records if isinstance(registry.read(r.body), Outcome))

    class Forgetful:
        subjects = source.subjects

        async def at(self, seq: int) -> Record | None:
            return None

    tracer = Tracer(Forgetful(), "cluster")  # type: ignore[arg-type]  # what a tracer asks of a log
    for record in (decision, outcome):
        event = registry.read(record.body)
        assert isinstance(event, Event)
        for span in await tracer.spans(record, event):
            assert whole[span.span_id].parent == span.parent or not span.parent


@pytest.mark.parametrize(
    "decision", ["", "a", "a.b", "a.b.c", "a.b.x.0", "a.0.٣.0", f"a.0.{'9' * 5000}.1", f"a.0.{10**22}.1"]
)
async def test_an_id_that_is_none_makes_no_span(decision: str) -> None:
    assert cause_in(decision) is None
    assert cause_in("shard-manager.0.17.2") == 17
    [record] = await the_log().tail(1)
    event = registry.decode(
        msgspec.json.encode({"type": "outcome.applied.v1", "at": 1.0, "decision": decision})
    )
    assert isinstance(event, Outcome)
    assert await Tracer(the_log(), "").spans(record, event) == []


@pytest.mark.parametrize("cause", ["9" * 5000, str(10**22), "٣", "-1"])
async def test_a_cause_that_is_no_sequence_is_not_asked_for(cause: str) -> None:
    [record] = await the_log().tail(1)
    record = msgspec.structs.replace(record, headers={CAUSE_SEQ: cause})
    event = registry.decode(
        msgspec.json.encode(
            {"type": "outcome.applied.v1", "at": 1.0, "decision": "autoscaler.0.1.0", "attempts": 2**70}
        )
    )
    assert isinstance(event, Outcome)
    effect, _ = await Tracer(the_log(), "").spans(record, event)
    assert effect.name == "actuator effect"
    assert effect.attributes["tidewright.attempts"] == 2**63 - 1


@pytest.mark.parametrize(
    ("at", "ns"), [(-1.0, 0), (1.5, 1_500_000_000), (1e300, 2**63 - 1), (float("inf"), 2**63 - 1)]
)
def test_a_time_that_there_is_not_is_the_nearest_that_a_span_can_have(at: float, ns: int) -> None:
    assert traces._nanoseconds(at) == ns


def test_they_are_printed_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["traces", "--log", str(RECORDED), "-n", "team-1"]) == 0
    spans = [msgspec.json.decode(line, type=Span) for line in capsys.readouterr().out.splitlines()]
    assert spans
    assert all(len(span.trace_id) == 32 and len(span.span_id) == 16 for span in spans)


@pytest.fixture
def collector() -> Iterator[tuple[str, list[bytes], list[int]]]:
    """A server that takes spans, after having answered what it is told to."""
    bodies, answers = list[bytes](), list[int]()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status = answers.pop(0) if answers else 200
            if status == 200:
                bodies.append(body)
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            """Nothing is said."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1/traces", bodies, answers
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_collector_takes_them(
    collector: tuple[str, list[bytes], list[int]], capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("opentelemetry.sdk")
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    url, bodies, answers = collector
    answers.append(400)  # once more, then
    assert main.run(["traces", "--log", str(RECORDED), "-n", "team-1"]) == 0
    printed = [msgspec.json.decode(line, type=Span) for line in capsys.readouterr().out.splitlines()]
    assert main.run(["traces", "--log", str(RECORDED), "-n", "team-1", "--to", url]) == 0
    sent = {
        span.span_id.hex(): (span.trace_id.hex(), span.parent_span_id.hex(), span.name)
        for body in bodies
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    }
    assert sent == {span.span_id: (span.trace_id, span.parent, span.name) for span in printed}


async def test_who_takes_nothing_is_not_waited_for_after_the_last_attempt(
    collector: tuple[str, list[bytes], list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("opentelemetry.sdk")
    url, _, answers = collector
    answers += [400] * (traces.ATTEMPTS + 1)
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    with pytest.raises(Unavailable) as said:
        await traces._Exporting(f"{url}?key=secret").send([])
    assert slept == [1.0, 2.0, 4.0, 8.0]
    assert len(answers) == 1
    assert url in str(said.value)
    assert "secret" not in str(said.value)


@pytest.mark.parametrize(
    "url", ["http://u:secret@h:4318/v1/traces", "http://secret@h/v1", "http://u:se/cret@h", "ftp://secret@h"]
)
def test_a_password_of_a_collector_is_refused_and_not_said(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["traces", "--log", str(RECORDED), "--to", url]) == 2
    said = capsys.readouterr().err
    assert "--to" in said
    assert "can be read by everybody" in said
    assert "secret" not in said
    assert "cret" not in said


def test_what_cannot_be_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["traces", "--log", str(RECORDED), "--follow"]) == 2
    assert "nothing is added to a file" in capsys.readouterr().err
    assert main.run(["traces", "--log", str(RECORDED), "--to", "collector:4318"]) == 2
    assert "http://collector:4318/v1/traces" in capsys.readouterr().err


@pytest.mark.parametrize("question", ["traces", "events"])
def test_a_log_that_ends_a_question_is_told_as_everywhere(
    question: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two tasks read and send: what ends one of them came as a traceback."""
    altered, body = tmp_path / "altered.twlog", bytearray(RECORDED.read_bytes())
    body[len(body) // 2] ^= 1
    altered.write_bytes(body)
    assert main.run([question, "--log", str(altered)]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert str(altered) in said

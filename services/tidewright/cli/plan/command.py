"""`tidewright plan provisioning`: what would be done about a request or buffer, and why, per group; `plan scale-down`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Any

import msgspec
from cyclopts import App, Group, Parameter

from tidewright.asking.errors import BadInput
from tidewright.asking.options import AskedLogOptions, LogOptions, Output, emit
from tidewright.asking.point_in_time import moment_of
from tidewright.asking.service_state import Asked, restored
from tidewright.asking.services import BY_NAME
from tidewright.asking.source import opened
from tidewright.cli.commands import BY_NAME as COMMANDS
from tidewright.cli.plan.manifests import BUFFER, PlannedRequest, read
from tidewright.provisioning.buffers import extras
from tidewright.provisioning.buffers import spec as buffers
from tidewright.provisioning.requests.spec import parse
from tidewright.provisioning.state import State
from tidewright.provisioning.tell import folding, what_if_scaledown
from tidewright.provisioning.tell.what_if import NOT_OURS, Answer, preview
from tidewright.provisioning.tell.what_if_buffers import preview as preview_of_buffer

LIVE = "live"
STATE = Group("State", sort_key=0)

app = App(name="plan", help_format="plaintext", help_epilogue=COMMANDS["plan"].epilogue)
app.command("tidewright.cli.plan.ws:ws", name="ws")


@app.command
def provisioning(
    *,
    file: Annotated[
        Path,
        Parameter(
            name=["--filename", "-f"],
            allow_leading_hyphen=True,
            help="Manifests: the request or buffer, and its templates if they are new; - for standard input.",
        ),
    ],
    namespace: Annotated[
        str, Parameter(name=["--namespace", "-n"], help="Of objects that name none.")
    ] = "default",
    state: Annotated[
        str, Parameter(help="An exported log to try it on, or live: the running one.", group=STATE)
    ] = LIVE,
    at: Annotated[
        str, Parameter(help="As of this log time, so long ago, or seq:N; now by default.", group=STATE)
    ] = "",
    log: AskedLogOptions | None = None,
    output: Output = "table",
) -> int:
    """What would be done about a ProvisioningRequest or CapacityBuffer, without doing it."""
    requests = read(file, namespace)
    for request in requests:
        try:
            (buffers.parse if request.kind == BUFFER else parse)(request.spec)
            if request.kind == BUFFER:
                extras.parse(request.annotations)
        except ValueError as error:
            raise BadInput(f"{request.kind} {request.namespace}/{request.name}: {error}") from error
    answers = asyncio.run(_answers(requests, state, at, log))
    emit(
        [as_json(request, answer) for request, answer in zip(requests, answers, strict=True)],
        output,
        lambda: "\n\n".join(
            as_text(request, answer) for request, answer in zip(requests, answers, strict=True)
        ),
    )
    return 0


@app.command(name="scale-down")
def scale_down(
    *,
    state: Annotated[
        str, Parameter(help="An exported log to try it on, or live: the running one.", group=STATE)
    ] = LIVE,
    at: Annotated[
        str, Parameter(help="As of this log time, so long ago, or seq:N; now by default.", group=STATE)
    ] = "",
    log: AskedLogOptions | None = None,
    output: Output = "table",
) -> int:
    """Which nodes would go now, in which order, and what keeps the others, without doing it."""
    answer = asyncio.run(_scale_down(state, at, log))
    emit([msgspec.to_builtins(answer)], output, lambda: what_if_scaledown.as_text(answer))
    return 0


async def _scale_down(state: str, at: str, log: LogOptions | None) -> what_if_scaledown.Answer:
    async with opened(log, None if state == LIVE else Path(state)) as source:
        moment = await moment_of(source, at)
        fold = await restored(source, Asked.about(source, BY_NAME["provisioning"], ""), moment.seq)
    copied = msgspec.json.decode(msgspec.json.encode(fold.state), type=State)
    return what_if_scaledown.preview(copied, max(fold.at, moment.at))


async def _answers(
    requests: list[PlannedRequest], state: str, at: str, log: LogOptions | None
) -> list[Answer]:
    """Each request on its own, on the same state."""
    async with opened(log, None if state == LIVE else Path(state)) as source:
        moment = await moment_of(source, at)
        fold = await restored(source, Asked.about(source, BY_NAME["provisioning"], ""), moment.seq)
    body = msgspec.json.encode(fold.state)
    return [
        _answer(request, msgspec.json.decode(body, type=State), max(fold.at, moment.at))
        for request in requests
    ]


def _answer(request: PlannedRequest, state: State, now: float) -> Answer:
    where = state, request.namespace, request.name, request.spec
    if request.kind == BUFFER:
        notes = request.annotations
        return preview_of_buffer(*where, annotations=notes, templates=request.templates, now=now)
    return preview(*where, templates=request.templates, now=now)


def as_json(request: PlannedRequest, answer: Answer) -> dict[str, Any]:
    """For programs."""
    return {"namespace": request.namespace, "name": request.name, **msgspec.to_builtins(answer)}


def as_text(request: PlannedRequest, answer: Answer) -> str:
    """For people."""
    lines = [f"{request.kind} {request.namespace}/{request.name}: {_headline(request, answer)}"]
    for increase in answer.increases:
        added = increase.size - increase.from_size
        lines.append(
            f"  group {increase.group}: +{added} nodes, {increase.from_size} -> {increase.size}"
            f" (of at most {increase.max_size})"
        )
    if answer.cost_micro is not None and answer.increases:
        lines.append(f"  costs {answer.cost_micro / 1e6:.2f} per hour")
    if answer.ready_in_s is not None:
        lines.append(f"  ready in about {answer.ready_in_s:.0f} s, as long as it took last time")
    if answer.sentences:
        lines += ["", "Why:", *(f"  - {text}" for text in answer.sentences if not text.startswith("group "))]
    if answer.verdicts:
        lines += ["", "Groups:", *(f"  - {text}" for text in folding.verdicts(answer.verdicts))]
    if answer.clouds:
        lines += ["", "Clouds:", *(f"  - {text}" for text in answer.clouds)]
    messages = [
        m
        for m in answer.messages
        if not answer.increases and answer.result not in ("Successful", "NotNeeded")
    ]
    if messages:
        lines += ["", "Users would be told:", *(f"  - {message}" for message in dict.fromkeys(messages))]
    return "\n".join(lines)


def _of_buffer(answer: Answer) -> str:
    if answer.result == NOT_OURS:
        return "its strategy is not served here, or no buffers are."
    if not answer.chunks:
        said = next(
            (c.message for c in answer.conditions if c.status == "False"),
            "it is not known what a chunk is like",
        )
        return f"no room would be kept: {said}."
    wanted, ready = answer.chunks["wanted"], answer.chunks["ready"]
    text = (
        f"{ready} of {wanted} chunks have room on ready nodes, {answer.chunks['upcoming']} on nodes that come"
    )
    nodes = sum(i.size - i.from_size for i in answer.increases)
    ordered = f"; {nodes} nodes would be ordered" if nodes else "; nothing would be ordered"
    missing = answer.chunks["missing"]
    return f"{text}{ordered}{f', and {missing} chunks have no room' if missing else ''}."


def _headline(request: PlannedRequest, answer: Answer) -> str:
    if request.kind == BUFFER:
        return _of_buffer(answer)
    pods = sum(int(s.get("count", 0)) for s in request.spec.get("podSets", ()))
    if answer.increases:
        nodes = sum(i.size - i.from_size for i in answer.increases)
        return f"{nodes} nodes would be ordered for its {pods} pods."
    match answer.result:
        case "Successful" | "NotNeeded":
            return f"all {pods} pods have room, nothing would be ordered."
        case "Failed":
            return "it would fail for good."
    if answer.result == NOT_OURS:
        return f"class {request.spec.get('provisioningClassName')!r} is not decided here, or nothing is decided now."
    return "there is no room, and nothing would be ordered."

"""`tidewright plan provisioning`: what would be done about a request or buffer, and why, per group; `plan scale-down`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

from cyclopts import App, Group, Parameter

from tidewright.asking import planning
from tidewright.asking.answers.form import builtins
from tidewright.asking.answers.planning import ProvisioningPlan, ScaleDownPlan
from tidewright.asking.errors import BadInput
from tidewright.asking.namespaces import meant
from tidewright.asking.opening import opened
from tidewright.asking.options import AskedLogOptions, At, Output, emit
from tidewright.asking.planning import BUFFER, Draft
from tidewright.asking.point_in_time import moment_of
from tidewright.asking.tables import plain
from tidewright.cli.commands import BY_NAME as COMMANDS
from tidewright.cli.plan.manifests import read
from tidewright.provisioning.buffers import extras
from tidewright.provisioning.buffers import spec as buffers
from tidewright.provisioning.requests.spec import parse
from tidewright.provisioning.tell import folding, what_if_scaledown
from tidewright.provisioning.tell.in_number import in_number
from tidewright.provisioning.tell.what_if import NOT_OURS, Answer

LIVE = "live"
STATE = Group("State", sort_key=0)
OnState = Annotated[
    str, Parameter(help="An exported log to try it on, or live: the running one.", group=STATE)
]
AsOf = Annotated[At, Parameter(group=STATE)]

app = App(name="plan", help_format="plaintext", help_epilogue=COMMANDS["plan"].epilogue)
app.command(
    "tidewright.cli.plan.ws:ws", name="ws", help_epilogue=COMMANDS["plan"].part("ws"),
    help="Where so many pods would land, and with --now (or --log) what the change would do to those there.",
)  # fmt: skip


@app.command(help_epilogue=COMMANDS["plan"].part("provisioning"))
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
        str,
        Parameter(name=["--namespace", "-n"], help="Of objects that name none; the kubeconfig's by default."),
    ] = "",
    state: OnState = LIVE,
    at: AsOf = "",
    log: AskedLogOptions | None = None,
    output: Output = "table",
) -> int:
    """What would be done about a ProvisioningRequest or CapacityBuffer, without doing it."""
    wanted = read(file, meant(namespace))
    for one in wanted:
        try:
            (buffers.parse if one.kind == BUFFER else parse)(one.spec)
            if one.kind == BUFFER:
                extras.parse(one.annotations)
        except ValueError as error:
            raise BadInput(f"{one.kind} {one.namespace}/{one.name}: {error}") from error

    async def run() -> tuple[list[Answer], ProvisioningPlan]:
        async with opened(log, None if state == LIVE else Path(state)) as source:
            moment = await moment_of(source, at)
            found = await planning.provisioning(source, wanted, moment)
            return found, planning.answer(source, moment, wanted, found)

    answers, told = asyncio.run(run())
    emit(
        builtins(told), output,
        lambda: plain("\n\n".join(as_text(one, found) for one, found in zip(wanted, answers, strict=True))),
        names=lambda: (f"{item.kind.lower()}/{item.name}" for item in told.items),
    )  # fmt: skip
    return 0


@app.command(name="scale-down", help_epilogue=COMMANDS["plan"].part("scale-down"))
def scale_down(
    *,
    state: OnState = LIVE,
    at: AsOf = "",
    log: AskedLogOptions | None = None,
    output: Output = "table",
) -> int:
    """Which nodes would go now, in which order, and what keeps the others, without doing it."""

    async def run() -> tuple[what_if_scaledown.ScaleDownAnswer, ScaleDownPlan]:
        async with opened(log, None if state == LIVE else Path(state)) as source:
            moment = await moment_of(source, at)
            found = await planning.scale_down(source, moment)
            return found, planning.answer_of_scale_down(source, moment, found)

    answer, told = asyncio.run(run())
    emit(
        builtins(told), output, lambda: plain(what_if_scaledown.as_text(answer)),
        names=lambda: (f"node/{one.node}" for one in told.going),
    )  # fmt: skip
    return 0


def as_text(request: Draft, answer: Answer) -> str:
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


def _headline(request: Draft, answer: Answer) -> str:
    if request.kind == BUFFER:
        return _of_buffer(answer)
    pods = sum(int(s.get("count", 0)) for s in request.spec.get("podSets", ()))
    if answer.increases:
        nodes = sum(i.size - i.from_size for i in answer.increases)
        return in_number(f"{nodes} nodes would be ordered for its {pods} pods.")
    match answer.result:
        case "Successful" | "NotNeeded":
            return in_number(f"all {pods} pods have room, nothing would be ordered.")
        case "Failed":
            return "it would fail for good."
    if answer.result == NOT_OURS:
        return f"class {request.spec.get('provisioningClassName')!r} is not decided here, or nothing is decided now."
    return "there is no room, and nothing would be ordered."

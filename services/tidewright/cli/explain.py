"""`tidewright explain`: what was decided and why, what came of it, and why nothing else happens."""

from __future__ import annotations

import asyncio
from typing import Annotated

from cyclopts import Parameter

from tidewright.asking.answers.form import builtins
from tidewright.asking.errors import BadInput
from tidewright.asking.explain import Explanation, explained, explained_decision
from tidewright.asking.namespaces import Namespace, meant
from tidewright.asking.objects import named, spoken
from tidewright.asking.opening import FromFile, opened
from tidewright.asking.options import AskedLogOptions, At, Output, emit
from tidewright.asking.point_in_time import moment_of
from tidewright.asking.tables import plain


def explain(
    *what: Annotated[str, Parameter(help="The object, as KIND/NAME or KIND NAME.")],
    namespace: Namespace = "",
    at: At = "",
    decision: Annotated[str, Parameter(help="Explain the decision of this id.")] = "",
    log: AskedLogOptions | None = None,
    file: FromFile = None,
    output: Output = "table",
) -> int:
    """What was decided about an object and why, what came of it, and why nothing else happens."""
    from tidewright.asking import rendering

    if not what and not decision:
        raise BadInput("name one object as KIND/NAME, for example wpa/shop, or a decision with --decision ID")
    if at and decision:
        raise BadInput("--at and --decision: a decision has its own moment, give one of them")
    asked = named(spoken(what), meant(namespace)) if what else None

    async def run() -> Explanation:
        async with opened(log, file) as source:
            if asked is None or decision:
                return await explained_decision(source, decision, asked)
            return await explained(source, asked, await moment_of(source, at))

    explanation = asyncio.run(run())
    emit(
        builtins(rendering.answer(explanation)), output, lambda: plain(rendering.as_text(explanation)),
        names=lambda: (f"{explanation.asked.kind}/{explanation.asked.name}",),
    )  # fmt: skip
    return 0

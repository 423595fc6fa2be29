"""`tidewright state`: any aggregate as of any moment."""

from __future__ import annotations

import asyncio
from typing import Annotated

from cyclopts import Parameter

from tidewright.asking.answers.form import builtins
from tidewright.asking.namespaces import Namespace, meant
from tidewright.asking.objects import named, spoken
from tidewright.asking.opening import FromFile, opened
from tidewright.asking.options import AskedLogOptions, At, Output, emit
from tidewright.asking.point_in_time import moment_of
from tidewright.asking.state import StateOf, answer, as_text, state_of
from tidewright.asking.tables import plain


def state(
    *what: Annotated[str, Parameter(help="The object, as KIND/NAME or KIND NAME.")],
    namespace: Namespace = "",
    at: At = "",
    log: AskedLogOptions | None = None,
    file: FromFile = None,
    output: Output = "table",
) -> int:
    """What was known of an object at any moment: its last fact, and what each service held of it."""
    asked = named(spoken(what), meant(namespace))

    async def run() -> StateOf:
        async with opened(log, file) as source:
            return await state_of(source, asked, await moment_of(source, at))

    known = asyncio.run(run())
    emit(
        builtins(answer(known)), output, lambda: plain(as_text(known)),
        names=lambda: (f"{known.asked.kind}/{known.asked.name}",),
    )  # fmt: skip
    return 0

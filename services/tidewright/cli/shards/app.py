"""The commands of `tidewright shards`, and where each is made."""

from __future__ import annotations

from collections.abc import Callable

from cyclopts import App

from tidewright.cli.commands import BY_NAME as COMMANDS
from tidewright.cli.commands import with_examples
from tidewright.cli.shards import fleets, looking, moving, rollouts, sizing

app = App(name="shards", help_format="plaintext", help_epilogue=COMMANDS["shards"].epilogue)
rollout = App(name="rollout", help="A rolling update of the pods of a set.", help_format="plaintext")
app.command(rollout)

COMMANDS_OF_SETS: tuple[Callable[..., int], ...] = (
    looking.explain,
    looking.verify,
    looking.plan,
    moving.move,
    moving.pin,
    moving.unpin,
    moving.drain,
    moving.freeze,
    moving.unfreeze,
    sizing.resize,
    sizing.double,
    fleets.adopt,
)
COMMANDS_OF_ROLLOUTS: tuple[Callable[..., int], ...] = (
    rollouts.status,
    rollouts.pause,
    rollouts.resume,
    rollouts.undo,
)

app.command(looking.get_, name="get")
for command in COMMANDS_OF_SETS:
    app.command(command)
for command in COMMANDS_OF_ROLLOUTS:
    rollout.command(command)
with_examples(app, "shards")

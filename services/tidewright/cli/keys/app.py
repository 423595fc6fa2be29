"""The commands of `tidewright keys`."""

from __future__ import annotations

from cyclopts import App

from tidewright.cli.commands import BY_NAME as COMMANDS
from tidewright.cli.commands import with_examples
from tidewright.cli.keys import commands

app = App(name="keys", help_format="plaintext", help_epilogue=COMMANDS["keys"].epilogue)
app.command(commands.new)
app.command(commands.install)
app.command(commands.show)
app.command(commands.archiver)
with_examples(app, "keys")

"""`tidewright sim`: the embedded cluster, and what is done to it.

clusters   up, attach: run it, or its nodes beside another API server
load       replay a recorded list of pods
fault      let requests fail, nodes go, pods crash, the API server restart
target     which cluster `load` and `fault` mean
"""

from __future__ import annotations

from cyclopts import App

from tidewright.cli.commands import BY_NAME as COMMANDS
from tidewright.cli.commands import with_examples
from tidewright.cli.sim import clusters, fault, load

app = App(name="sim", help_format="plaintext", help_epilogue=COMMANDS["sim"].epilogue)
app.command(clusters.up)
app.command(clusters.attach)
app.command(load.load)
app.command(fault.app)
with_examples(app, "sim")

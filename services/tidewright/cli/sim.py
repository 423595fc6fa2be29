"""`tidewright sim`: the embedded cluster alone, or its nodes beside another API server."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import App, Group, Parameter

from tidewright.cli.commands import BY_NAME as COMMANDS
from tidewright.cli.errors import Unavailable
from tidewright.cli.options import ProcessFlags
from tidewright.cli.run import execute
from tidewright.host.process import Process

SERVER = Group("API server", sort_key=0)

app = App(name="sim", help_format="plaintext", help_epilogue=COMMANDS["sim"].epilogue)


@app.command
def up(
    *,
    port: Annotated[int, Parameter(help="Port of the API server; 0 takes a free one.", group=SERVER)] = 0,
    data: Annotated[Path | None, Parameter(help="Keep the objects in this folder.", group=SERVER)] = None,
    write_kubeconfig: Annotated[Path | None, Parameter(help="Write a kubeconfig here.", group=SERVER)] = None,
    nodes: int = 3,
    process: ProcessFlags | None = None,
) -> int:
    """Run the embedded cluster until Ctrl-C."""
    from tidewright.sim.api.server import ApiServer

    async def main(it: Process) -> None:
        server = ApiServer(data, port=port)
        try:
            await server.start()
        except OSError as error:
            raise Unavailable(
                f"the API server cannot listen on port {port}: {error.strerror or error}: "
                "stop what uses it, or pass another --port"
            ) from error
        try:
            if write_kubeconfig is not None:
                server.write_kubeconfig(write_kubeconfig)
            it.health.not_ready = ""
            await it.stop.wait()
        finally:
            await server.stop()

    return execute("cluster", process or ProcessFlags(), main)

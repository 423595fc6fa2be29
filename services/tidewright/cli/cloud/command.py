"""`tidewright cloud serve`: our clouds behind the protocol that Cluster Autoscaler speaks with a cloud it does not know."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Group, Parameter

from tidewright.asking.errors import BadInput, Unavailable
from tidewright.cli.cloud.announcing import announced
from tidewright.cli.cloud.held import held
from tidewright.cli.cloudflags import CloudFlags
from tidewright.cli.commands import BY_NAME as COMMANDS
from tidewright.cli.options import ClusterOptions, Level
from tidewright.cloud.providers import KINDS, CloudSpec, Surroundings, specs_of

SERVED = Group("What is served, and where", sort_key=0)

app = App(name="cloud", help_format="plaintext", help_epilogue=COMMANDS["cloud"].epilogue)


@app.command
def serve(
    *,
    clouds: CloudFlags | None = None,
    at: ClusterOptions | None = None,
    listen: Annotated[
        str, Parameter(help="HOST:PORT to listen on; port 0 takes a free one.", group=SERVED)
    ] = "127.0.0.1:8086",
    tls_cert: Annotated[
        Path | None,
        Parameter(help="The server's certificate, PEM; callers then need one of --tls-ca.", group=SERVED),
    ] = None,
    tls_key: Annotated[Path | None, Parameter(help="Its key.", group=SERVED)] = None,
    tls_ca: Annotated[Path | None, Parameter(help="Whose certificates callers have.", group=SERVED)] = None,
    log_level: Annotated[Level, Parameter(help="Least severe level that is shown.")] = "info",
) -> int:
    """Serve clouds to Cluster Autoscaler (`--cloud-provider=externalgrpc`).

    The watcher and actuator of the same cluster must not have the clouds that are served: two would order there. On one machine that is refused; elsewhere
    they leave these groups alone, by a Lease that is renewed in the cluster.
    """
    flags, place = clouds or CloudFlags(), at or ClusterOptions()
    given = flags.options()
    if not given["clouds"]:
        raise BadInput(
            "--cloud: name what is to be served, as in --cloud east=simulated:http://127.0.0.1:8080"
        )
    if not KINDS["externalgrpc"].is_installed:
        raise Unavailable("`cloud serve` is not part of this installation: pip install 'tidewright[grpc]'")
    files = {"--tls-cert": tls_cert, "--tls-key": tls_key, "--tls-ca": tls_ca}
    if any(files.values()) and not all(files.values()):
        missing = ", ".join(name for name, path in files.items() if path is None)
        raise BadInput(f"{missing}: missing; all three or none of {', '.join(files)}")
    specs = specs_of(given["clouds"])
    for spec in specs:
        if spec.kind == "externalgrpc":
            raise BadInput(f"--cloud {spec.text}: it speaks the protocol already: point the caller at it")
    options = place.of_a_service()
    around = Surroundings(
        kubeconfig=options["kubeconfig"], context=options["context"], in_cluster=options["in_cluster"],
        discovery=flags.node_group_auto_discovery, nodes=flags.nodes, config=flags.cloud_config,
        per_s=flags.cloud_qps, timeout_s=flags.cloud_timeout,
    )  # fmt: skip
    from tidewright.host.process.process import configure_logs

    credentials = _credentials(files)
    with held("server", "tidewright cloud serve", specs, around):
        configure_logs(log_level, "console", service="cloud")
        asyncio.run(_serve(specs, around, listen, credentials))
    return 0


def _credentials(files: dict[str, Path | None]) -> Any:
    """Of the server; None without encryption."""
    import grpc

    content = {}
    for name, path in files.items():
        if path is None:
            return None
        try:
            content[name] = path.read_bytes()
        except OSError as error:
            raise BadInput(f"{name} {path}: cannot be read: {error.strerror}") from error
    return grpc.ssl_server_credentials(
        ((content["--tls-key"], content["--tls-cert"]),),
        root_certificates=content["--tls-ca"],
        require_client_auth=True,
    )


async def _serve(specs: tuple[CloudSpec, ...], around: Surroundings, listen: str, credentials: Any) -> None:
    from tidewright.cloud.externalgrpc.server import CloudServer

    try:
        server = CloudServer({spec.name: spec.provider(around) for spec in specs})
    except ValueError as error:
        raise BadInput(f"--cloud: {error}") from error
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await server.look()  # said before anybody can order
    async with announced(around, lambda: server.groups):
        try:
            await server.start(listen, credentials)
        except OSError as error:
            raise Unavailable(f"--listen {listen}: {error}") from error
        print(f"serving {', '.join(spec.name for spec in specs)} on port {server.port}", flush=True)
        await stop.wait()
        await server.stop()

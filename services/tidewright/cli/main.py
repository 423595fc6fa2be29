"""`tidewright`: the root command. A subcommand's module is imported when it is used, and not before.

Results go to stdout, logs and messages to stderr. Exit codes: `tidewright.cli.errors`. Every option
has an environment twin: `--nats` is `TIDEWRIGHT_NATS`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from cyclopts import App, CycloptsError, Group
from cyclopts.config import Env

from tidewright.cli.errors import BAD_USAGE, INTERRUPTED, CommandError
from tidewright.events.version import __version__

RUNNING = Group.create_ordered("Running")
ASKING = Group.create_ordered("Asking the log")
OTHER = Group.create_ordered("Other")


@dataclass(frozen=True)
class Command:
    """One subcommand.

    Attributes:
        where: `module:attribute`, imported when the command is used.
        examples: command lines and what each does; a test runs them through the parser.
    """

    name: str
    where: str
    group: Group
    help: str
    examples: tuple[tuple[str, str], ...]

    @property
    def epilogue(self) -> str:
        """The examples, as they stand below the help."""
        return "\n".join(["Examples:", *(f"  # {why}\n  {line}" for line, why in self.examples)])


COMMANDS: tuple[Command, ...] = (
    Command(
        "up", "tidewright.cli.up:up", RUNNING, "Bring up the log, a cluster and every service, until Ctrl-C.",
        (
            ("tidewright up", "everything on this machine, with an embedded cluster"),
            ("tidewright up --kubeconfig ~/.kube/config --cluster prod", "beside a cluster that is there"),
        ),
    ),
    Command(
        "run", "tidewright.cli.run:app", RUNNING, "Run one service alone, as a container would.",
        (
            ("tidewright run autoscaler --nats nats://nats:4222 --cluster prod", "a decider"),
            ("tidewright run watcher --in-cluster --cluster prod", "what reads the cluster"),
        ),
    ),
    Command(
        "demo", "tidewright.cli.demo:demo", RUNNING, "Watch an autoscaler follow a recorded load, in a minute.",
        (
            ("tidewright demo", "the built-in load"),
            ("tidewright demo --metrics requests.csv -o json", "a recorded one, as JSON"),
        ),
    ),
    Command(
        "sim", "tidewright.cli.sim:app", RUNNING, "The embedded cluster: run it, attach to another, load it.",
        (
            ("tidewright sim up --nodes 10", "a cluster for kubectl, without the services"),
            ("tidewright sim attach --kubeconfig kind.yaml", "simulated nodes beside another API server"),
        ),
    ),
    Command(
        "version", "tidewright.cli.version:version", OTHER, "Versions of this software and what it runs on.",
        (("tidewright version", "for people"), ("tidewright version -o json", "for programs")),
    ),
)  # fmt: skip
"""Every subcommand, in one place."""


def application() -> App:
    """The command tree, without any of its subcommands' modules."""
    app = App(
        name="tidewright",
        help="An event-sourced capacity control plane for Kubernetes: every decision explained, "
        "replayable, verifiable.",
        version=__version__,
        help_format="plaintext",
        config=Env("TIDEWRIGHT_", command=False),
        result_action="return_value",
    )
    app["--help"].group = OTHER
    app["--version"].group = OTHER
    for command in COMMANDS:
        app.command(
            command.where, name=command.name, group=command.group, help=command.help,
            help_epilogue=command.epilogue,
        )  # fmt: skip
    return app


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command line, and return its exit code."""
    try:
        result = application()(arguments, exit_on_error=False)
    except CycloptsError:
        return BAD_USAGE  # the message is out already
    except CommandError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()  # whoever read our output has seen enough
        return 0
    return result if isinstance(result, int) else 0


def main() -> None:
    """The console script."""
    sys.exit(run())


if __name__ == "__main__":
    main()

"""`tidewright`: the root command. A subcommand's module is imported when it is used, and not before.

Results go to stdout, logs and messages to stderr. Exit codes: `tidewright.asking.errors`. What is read from the
environment: `tidewright.asking.environment`.
"""

from __future__ import annotations

from tidewright.cli import garbage  # before everything else: imports make most of a command's objects

# isort: split
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from cyclopts import App, CycloptsError, Parameter, UnknownCommandError, UnusedCliTokensError

from tidewright.asking.environment import READ, tell_unread, variable
from tidewright.asking.errors import BAD_USAGE, FAILED, INTERRUPTED, UNAVAILABLE, CommandError
from tidewright.asking.tables import plain
from tidewright.cli import embedded, helppages, suggested
from tidewright.cli.commands import BY_NAME, COMMANDS, OTHER, RUNNING
from tidewright.cli.helppages import Pages
from tidewright.events.version import __version__
from tidewright.host.process.stderr import warnings_only
from tidewright.log.diagnostics import configure_when_used
from tidewright.log.redaction import redacted

_PASSWORD = re.compile(r"\b([A-Za-z][A-Za-z0-9+.-]*)://[^/\s@:]*:(?!\d+(?:/|$))\S+@")
"""A URL with a password, which may have a slash in it; but no port before a path."""
_OF_NATS = ("--nats", "--archive-nats")
"""Addresses that need no scheme, and in which a user alone is a token."""


def application(*, whole: bool = False) -> App:
    """The command tree, without any of its subcommands' modules; with `whole` help pages explain every option."""
    app = App(
        name="tidewright",
        help="An event-sourced capacity control plane for Kubernetes: every decision explained, "
        "replayable, verifiable.",
        version=__version__,
        help_format="plaintext",
        help_formatter=Pages(whole=whole),
        config=tell_unread,
        # No `--empty-...` beside an option of many values.
        default_parameter=Parameter(negative_iterable=(), show_default=helppages.default),
        result_action="return_value",
    )
    app["--help"].group = OTHER
    app["--version"].group = OTHER
    complete = embedded.is_installed()
    for command in COMMANDS:
        # A command with subcommands is an App of its own, which brings its own epilogue.
        more = {} if command.where.endswith(":app") else {"help_epilogue": command.epilogue}
        where = command.where if complete or not command.embedded else "tidewright.cli.embedded:missing"
        app.command(where, name=command.name, group=command.group, help=command.help, **more)
    return app


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command line, and return its exit code."""
    if (shown := _with_password(sys.argv[1:] if arguments is None else arguments)) is not None:
        hidden = f"give it in the environment as {variable(shown)}" if shown in READ else "leave it out"
        files = "; or in a file (`--nats-user USER --nats-password-file FILE`)" if shown in _OF_NATS else ""
        print(
            f"error: {shown}: a password in an argument can be read by everybody on this machine; {hidden}{files}",
            file=sys.stderr,
        )
        return BAD_USAGE
    if sys.stdout is None and not _does_without(sys.argv[1:] if arguments is None else arguments):
        print("error: standard output is closed: there is nowhere to answer to", file=sys.stderr)
        return FAILED
    given = list(sys.argv[1:] if arguments is None else arguments)
    whole = helppages.ALL in given
    try:
        if given[:1] == [suggested.COMMAND]:
            return suggested.answer(" ".join(given[1:]))
        result = _result(["--help" if part == helppages.ALL else part for part in given], whole=whole)
    except CycloptsError as error:
        error.verbose = False  # not what function would have been called
        chain = " ".join(("tidewright", *(error.command_chain or ())))
        said = _said(error)
        print(plain(redacted(f"error: {said}; see `{chain} --help`")), file=sys.stderr)
        return BAD_USAGE
    except CommandError as error:
        print(plain(redacted(f"error: {error}")), file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()  # whoever read our output has seen enough
        return 0
    except SystemExit as ended:
        if not isinstance(ended.__context__, BrokenPipeError):
            raise
        return 0  # as above, of a help page: rich ends the process
    except OSError as error:
        from tidewright.log.disk import is_full, no_space

        if not is_full(error):
            raise
        print(f"error: {no_space(error.filename or 'the disk that is written to')}", file=sys.stderr)
        return UNAVAILABLE
    return result if isinstance(result, int) else 0


def _result(arguments: list[str], *, whole: bool) -> object:
    if arguments[:1] == ["run"]:
        from tidewright.cli import together

        if together.asked_for(arguments) and "--help" not in arguments:
            return together.run(arguments[1:])
    return application(whole=whole)(arguments, exit_on_error=False, print_error=False)


def _does_without(arguments: Sequence[str]) -> bool:
    """Whether a command goes on without standard output: what runs for long has its logs on stderr."""
    command = BY_NAME.get(arguments[0]) if arguments else None
    if command is None or command.group is not RUNNING:
        return False
    sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  # for as long as the process
    return True


def _with_password(arguments: Sequence[str]) -> str | None:
    """The option whose URL has a password; None when none has."""
    for before, argument in zip(("", *arguments), arguments, strict=False):
        own = argument.startswith("-")
        name, value = (argument.partition("=")[::2]) if own else (before, argument)
        if _PASSWORD.search(argument) or (name in _OF_NATS and "@" in value):
            return name if name.startswith("-") else redacted(argument)
    return None


def _said(error: CycloptsError) -> str:
    if isinstance(error, UnknownCommandError):
        return _unknown(error)
    if isinstance(error, UnusedCliTokensError):
        tokens = error.unused_tokens or ()
        return f"{' '.join(tokens)!r}: no argument is expected there"
    return str(error).rstrip(".")


def _unknown(error: UnknownCommandError) -> str:
    """What was typed, what may have been meant, and every name that would be valid."""
    from difflib import get_close_matches

    typed = (error.unused_tokens or [""])[0]
    valid = [name for name in error.app or () if not name.startswith("-")]
    meant = [f"did you mean {name}?" for name in get_close_matches(typed, valid, n=1)]
    return " ".join([f"unknown command {typed!r};", *meant, f"valid are {', '.join(valid)}"])


def main() -> None:
    """The console script."""
    configure_when_used(warnings_only)
    code = run()
    garbage.leave()
    sys.exit(code)


if __name__ == "__main__":
    main()

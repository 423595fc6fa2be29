"""Errors that end a command, and the exit code of each.

CommandError      1    it failed
|- BadInput       2    refused input: the message names what was found and what would be valid
`- Unavailable    69   cluster or log unavailable: try again, or name another one

Interrupted commands exit with 130. A message names what, where, and what to do.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidewright.kube.errors import KubeError

FAILED, BAD_USAGE, UNAVAILABLE, INTERRUPTED = 1, 2, 69, 130


class CommandError(Exception):
    """A command failed for a reason that its user can read."""

    exit_code = FAILED


class BadInput(CommandError):
    """Something that the user gave is not valid."""

    exit_code = BAD_USAGE


class Unavailable(CommandError):
    """The cluster or the log does not answer, or refuses us."""

    exit_code = UNAVAILABLE


@contextmanager
def translated() -> Iterator[None]:
    """Turn the errors of the log and of the Kubernetes client into those of commands.

    Raises:
        CommandError: with the message of the original, which is its cause.
    """
    from tidewright.host.process.misconfigured import Misconfigured
    from tidewright.kube.errors import KubeError
    from tidewright.log.errors import BadKey, LogError, LogForbidden, LogUnavailable, NoUrl, WrongStream

    try:
        yield
    except Misconfigured as error:
        raise BadInput(str(error)) from error
    except (LogUnavailable, LogForbidden) as error:
        raise Unavailable(str(error)) from error
    except (WrongStream, BadKey, NoUrl) as error:
        raise BadInput(str(error)) from error
    except LogError as error:
        raise CommandError(str(error)) from error
    except KubeError as error:
        if error.reason == "Configuration":
            raise BadInput(f"{error.message}: name another with --kubeconfig FILE") from error
        raise Unavailable(_of_a_cluster(error)) from error


def _of_a_cluster(error: KubeError) -> str:
    """Which cluster did what, and what to do about it."""
    from tidewright.kube.errors import UNREACHABLE

    if error.reason == UNREACHABLE:
        return f"no cluster answers: {error.message}: check it, or name another with --kubeconfig FILE"
    if error.error_class != "forbidden":
        said = f"the cluster at {error.server} answers " if error.server else ""
        return f"{said}{error}: check it, or name another with --kubeconfig FILE"
    which = f"the cluster at {error.server} refuses " if error.server else "the cluster refuses "
    if error.status == 401:
        return f"{which}these credentials ({error.status} {error.reason}): name others with --kubeconfig FILE"
    return f"{which}what is needed ({error}): grant it, or name other credentials with --kubeconfig FILE"

"""A credentials file, looked at before the client gets it: the client library waits for ever on one without a JWT."""

from __future__ import annotations

from pathlib import Path

from tidewright.log import errors

_PARTS = ("BEGIN NATS USER JWT", "BEGIN USER NKEY SEED")


def checked(path: Path) -> str:
    """The file's name, when it is one that the client can use.

    Raises:
        LogForbidden: it cannot be read, or a part is missing; the message does not repeat what is in it.
    """
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise errors.LogForbidden(
            f"credentials file {path} cannot be read ({error.strerror}): name the file that `nsc` made"
        ) from error
    missing = [part for part in _PARTS if part not in text]
    if missing:
        raise errors.LogForbidden(
            f"credentials file {path} has no line with {missing[0]!r}: name the file that `nsc` made"
        )
    return str(path)

"""Bearer tokens that callers of a port have to bring, from a file that is read again when it changes.

    # one token per line; several hold at once, so that one can be replaced by another in peace
    0kY7c1bq0Pq4Jw1nH2nV                   may do all
    R3kq9sVn2cTtq0zY8w5L shop,checkout     in these namespaces alone

What is kept of a token is its digest. A file that cannot be read, or has a line that is wrong, lets
nobody in: who takes a token away must not wonder whether it still holds.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from tidewright.host.process.misconfigured import Misconfigured
from tidewright.host.process.once import Once
from tidewright.log.diagnostics import get_logger

if TYPE_CHECKING:
    from aiohttp import web  # who only asks whether an address is loopback does without

LEAST = 16
"""Characters of a token: what is shorter can be guessed."""
MAX_FILE_BYTES = 2**20
_IN_A_PATH = re.compile(r"[A-Za-z0-9._~-]+")

_log = get_logger(__name__)


class BadTokens(Misconfigured):
    """Tokens that cannot be used; the message names file and line, and repeats no token."""


class Token(msgspec.Struct, frozen=True):
    """A token that holds.

    Attributes:
        digest: of its text.
        namespaces: where it may be used; None for everywhere.
    """

    digest: bytes
    namespaces: frozenset[str] | None = None

    def allows(self, namespace: str) -> bool:
        """Whether it may be used for objects of a namespace; empty for what belongs to none."""
        return self.namespaces is None or namespace in self.namespaces


EVERYTHING = Token(b"")
"""Stands for callers of whom no token is asked."""


def parse(text: str, where: str) -> tuple[Token, ...]:
    """The tokens of a text; `where` it comes from, for messages.

    Raises:
        BadTokens: a line is wrong, or there is no token.
    """
    tokens: list[Token] = []
    for number, line in enumerate(text.splitlines(), start=1):
        parts = line.split()
        if not parts or parts[0].startswith("#"):
            continue
        if len(parts) > 2:
            raise BadTokens(
                f"{where}, line {number}: a token and, behind a space, namespaces with commas between them"
            )
        if len(parts[0]) < LEAST:
            raise BadTokens(
                f"{where}, line {number}: a token of {len(parts[0])} characters, at least {LEAST} are needed"
            )
        spaces = frozenset(name for name in parts[1].split(",") if name) if len(parts) == 2 else None
        tokens.append(Token(_digest(parts[0]), spaces))
    if not tokens:
        raise BadTokens(f"{where} is empty: a token on a line of its own is needed")
    return tuple(tokens)


def first_of(file: Path) -> str:
    """The first token of a file, for who has to bring it; it can stand in a path.

    Raises:
        BadTokens: there is none, or it has characters that a path has not.
    """
    try:
        text = file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadTokens(f"token file {file} cannot be read: {error}") from error
    parse(text, f"token file {file}")
    lines = (line.split() for line in text.splitlines())
    token = next(parts[0] for parts in lines if parts and not parts[0].startswith("#"))
    if not _IN_A_PATH.fullmatch(token):
        raise BadTokens(f"token file {file}: the first token has other characters than A-Za-z0-9._~-")
    return token


def _digest(token: str) -> bytes:
    return hashlib.blake2b(token.encode("utf-8", "surrogateescape"), digest_size=32).digest()


class Tokens:
    """The tokens that hold at the moment."""

    def __init__(self, file: Path | None = None, text: str = "") -> None:
        """Take them from a file, or from a text in the same form (of an environment variable).

        Raises:
            BadTokens: they cannot be used.
        """
        self._file = file
        self._once = Once()
        self._seen: object = None
        self._held: tuple[Token, ...] = ()
        if file is None:
            self._held = parse(text, "the tokens of the environment")
        else:
            self._held, self._seen = self._read(file), _stamp(file)

    def of(self, request: web.BaseRequest) -> Token | None:
        """The token that a request brings; None when it brings none that holds."""
        kind, _, given = request.headers.get("Authorization", "").partition(" ")
        if kind.lower() != "bearer":
            return None
        return self.holds(given.strip())

    def holds(self, text: str) -> Token | None:
        """The token with this text; None when there is none that holds."""
        digest = _digest(text)
        # All are compared, each in the same time, whichever fits.
        fitting = [token for token in self._current() if hmac.compare_digest(token.digest, digest)]
        return fitting[0] if fitting else None

    def still(self, token: Token) -> bool:
        """Whether a token that held holds now."""
        return token in self._current()

    def _current(self) -> tuple[Token, ...]:
        if self._file is None:
            return self._held
        try:
            stamp = _stamp(self._file)
            if stamp != self._seen:
                self._held, self._seen = (), None
                self._held, self._seen = self._read(self._file), stamp
                _log.info("tokens read again", file=str(self._file), tokens=len(self._held))
        except (OSError, BadTokens) as error:
            self._held, self._seen = (), None
            if self._once.due(str(error)):
                _log.error(
                    "tokens cannot be read, nobody is let in",
                    file=str(self._file),
                    error=str(error),
                    do="mend the file; it is read again",
                )
        return self._held

    def _read(self, file: Path) -> tuple[Token, ...]:
        try:
            with file.open("rb") as opened:
                content = opened.read(MAX_FILE_BYTES + 1)
            if len(content) > MAX_FILE_BYTES:
                raise BadTokens(f"token file {file} is longer than {MAX_FILE_BYTES} bytes")
            return parse(content.decode("utf-8"), f"token file {file}")
        except OSError as error:
            raise BadTokens(f"token file {file} cannot be read: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise BadTokens(f"token file {file} is no text") from error


def _stamp(file: Path) -> tuple[int, int, int]:
    stat = file.stat()
    return stat.st_mtime_ns, stat.st_size, stat.st_ino


def is_loopback(host: str | None) -> bool:
    """Whether an address to listen on, or of a caller, is this machine's own."""
    if not host:
        return False
    if host == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def challenge(what: str) -> web.Response:
    """The answer to a caller without a token that holds."""
    from aiohttp import web

    return web.json_response(
        {"error": f"{what}: Authorization: Bearer with a token that holds is needed"},
        status=401,
        headers={"WWW-Authenticate": "Bearer"},
    )

"""A certificate of ours in files: loaded again when they change, so that it is rotated without a restart."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

from tidewright.host.process.misconfigured import Misconfigured
from tidewright.host.process.once import Once
from tidewright.log.diagnostics import get_logger

CHECK_S = 10.0
"""Wall time between two looks at the files."""

_log = get_logger(__name__)


class BadCertificate(Misconfigured):
    """The files cannot be served with; the message names them."""


class CertificateFiles:
    """Certificate and key to serve with, and the context that does."""

    def __init__(self, certificate: Path, key: Path) -> None:
        """Load them.

        Raises:
            BadCertificate: they cannot be used.
        """
        self._files = (certificate, key)
        self._once = Once()
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            self._seen = self._stamp()
            self._load(self.context)
        except (OSError, ssl.SSLError) as error:
            raise BadCertificate(f"certificate {certificate} with key {key}: {error}") from error

    def _stamp(self) -> tuple[tuple[int, int, int], ...]:
        stats = [file.stat() for file in self._files]
        return tuple((stat.st_mtime_ns, stat.st_size, stat.st_ino) for stat in stats)

    def _load(self, context: ssl.SSLContext) -> None:
        context.load_cert_chain(*self._files, password=_none)

    def look(self) -> bool:
        """Load them if they have changed; True when others are served from the next handshake on."""
        try:
            stamp = self._stamp()
            if stamp == self._seen:
                return False
            # Tried on another context first: of a pair that does not match, half would be served.
            self._load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
            self._load(self.context)
        except (OSError, ssl.SSLError) as error:
            if self._once.due(str(error)):
                _log.warning(
                    "a new certificate cannot be used, the last one is served on",
                    certificate=str(self._files[0]), key=str(self._files[1]), error=str(error),
                )  # fmt: skip
            return False
        self._seen = stamp
        _log.info("certificate loaded again", certificate=str(self._files[0]))
        return True

    async def keep(self) -> None:
        """Look for ever."""
        while True:
            await asyncio.sleep(CHECK_S)
            self.look()


def _none() -> str:
    """A key that asks for a password would have the process ask the terminal."""
    return ""

"""TLS towards recommenders: settings of the object and of the process, and contexts made of them.

Files of an object win over the process's one by one; everything else comes from the object alone
when it has a `tlsConfig`, and from the process otherwise (watermark-autoscaler.md, 2.7). Each set of
settings has a context of its own, so that one recommender's never leak into another's. Certificates
are read again every `RELOAD_S`, or once they have expired.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import structlog

RELOAD_S: Final = 600.0
TRIES: Final = 5
"""Key and certificate are written one after the other: a pair that does not match is read again."""
PAUSE_S: Final = 0.05
VERSIONS: Final = {
    "TLS10": ssl.TLSVersion.TLSv1,
    "TLS11": ssl.TLSVersion.TLSv1_1,
    "TLS12": ssl.TLSVersion.TLSv1_2,
    "TLS13": ssl.TLSVersion.TLSv1_3,
}

_log = structlog.get_logger(__name__)


class BadTls(ValueError):
    """The settings cannot be used; the message names the member."""


class Tls(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How to talk TLS to one server; the members are named as in `spec.recommender.tlsConfig`.

    Attributes:
        ca_file: certificates that are trusted; empty for the system's.
        cert_file: our certificate, `key_file` its key; empty for none.
        server_name: the name expected in the server's certificate; empty for that of the URL.
        insecure_skip_verify: trust any certificate.
        min_version, max_version: `TLS10` to `TLS13`; empty for the library's choice.
    """

    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    server_name: str = ""
    insecure_skip_verify: bool = False
    min_version: str = ""
    max_version: str = ""


NO_TLS: Final = Tls()
"""The library's own choices."""


def merged(given: Mapping[str, Any] | None, process: Tls, folder: Path | None = None) -> Tls:
    """The settings of an object, given its `tlsConfig`; files that it names lie in `folder`.

    Raises:
        BadTls: a member has the wrong type, or a file lies elsewhere.
    """
    counts = bool(process.ca_file or process.cert_file)
    base = process if counts else Tls()
    if given is None:
        return base
    try:
        own = msgspec.convert(given, Tls)
    except msgspec.ValidationError as error:
        raise BadTls(f"spec.recommender.tlsConfig: {error}") from error
    for member, file in (("caFile", own.ca_file), ("certFile", own.cert_file), ("keyFile", own.key_file)):
        if file:
            _check_within(member, file, folder)
    return msgspec.structs.replace(
        own,
        ca_file=own.ca_file or base.ca_file,
        cert_file=own.cert_file or base.cert_file,
        key_file=own.key_file or base.key_file,
    )


def _check_within(member: str, file: str, folder: Path | None) -> None:
    """Refuse a file that objects may not name; whether there is one elsewhere is not told.

    Raises:
        BadTls: it lies elsewhere.
    """
    where = f"spec.recommender.tlsConfig.{member}"
    if folder is None:
        raise BadTls(
            f"{where}: objects may name no files here, unless the operator names a folder with "
            "--recommender-tls-folder"
        )
    inside = os.path.normpath(file)
    # A link within that leads out is as much elsewhere; those that a mounted Secret is made of stay within.
    if (
        "\0" not in file
        and Path(inside).is_relative_to(folder)
        and Path(inside).resolve().is_relative_to(folder.resolve())
    ):
        return
    raise BadTls(f"{where} is not in {folder}, the folder of files that objects may name")


def context_of(settings: Tls) -> ssl.SSLContext:
    """A context of these settings; reads the files.

    Raises:
        BadTls: a version or file cannot be used.
        ssl.SSLError: key and certificate do not match.
    """
    context = ssl.create_default_context()
    if settings.ca_file:
        try:
            context.load_verify_locations(cafile=settings.ca_file)
        except (OSError, ssl.SSLError) as error:
            # As the reference has it; what it does silently is said here.
            _log.warning(
                "CA file left out, the system's certificates hold", file=settings.ca_file, error=str(error)
            )
    if settings.cert_file or settings.key_file:
        if not (settings.cert_file and settings.key_file):
            missing = "keyFile" if settings.cert_file else "certFile"
            raise BadTls(f"tlsConfig.{missing}: a certificate needs its key, give both")
        try:
            context.load_cert_chain(settings.cert_file, settings.key_file)
        except ssl.SSLError:
            raise
        except OSError as error:
            raise BadTls(f"tlsConfig.certFile {settings.cert_file}, keyFile: {error}") from error
    if settings.insecure_skip_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    for member, text in (("minVersion", settings.min_version), ("maxVersion", settings.max_version)):
        if not text:
            continue
        if text not in VERSIONS:
            raise BadTls(f"tlsConfig.{member} is {text!r}; valid are {', '.join(VERSIONS)}")
        attribute = "minimum_version" if member == "minVersion" else "maximum_version"
        try:
            setattr(context, attribute, VERSIONS[text])
        except ValueError as error:
            raise BadTls(f"tlsConfig.{member} {text}: {error}") from error
    return context


class Contexts:
    """Contexts by their settings, read anew now and then."""

    def __init__(self) -> None:
        self._known: dict[Tls, tuple[ssl.SSLContext, float]] = {}

    async def get(self, settings: Tls) -> ssl.SSLContext:
        """The context of these settings.

        Raises:
            BadTls: they cannot be used. A failure is not remembered.
        """
        known = self._known.get(settings)
        now = time.monotonic()
        if known is not None and now < known[1]:
            return known[0]
        context = await self._load(settings)
        expires_s = await asyncio.to_thread(_expires_in_s, settings)
        self._known[settings] = (context, now + min(RELOAD_S, max(expires_s, 1.0)))
        return context

    async def _load(self, settings: Tls) -> ssl.SSLContext:
        for remaining in range(TRIES - 1, -1, -1):
            try:
                return await asyncio.to_thread(context_of, settings)
            except ssl.SSLError as error:
                if not remaining:
                    raise BadTls(
                        f"tlsConfig.certFile {settings.cert_file} and keyFile {settings.key_file}: {error}"
                    ) from error
            await asyncio.sleep(PAUSE_S)
        raise AssertionError("the last try returns or raises")


def _expires_in_s(settings: Tls) -> float:
    if not settings.cert_file:
        return RELOAD_S
    from cryptography import x509

    try:
        certificate = x509.load_pem_x509_certificate(Path(settings.cert_file).read_bytes())
    except (OSError, ValueError):
        return RELOAD_S
    return certificate.not_valid_after_utc.timestamp() - time.time()

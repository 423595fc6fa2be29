"""Certificates of an endpoint that the API server calls, made and kept in memory.

Each replica is its own authority: it publishes the certificate of that authority, and keeps both keys.
Nothing secret is ever written. A certificate is replaced when a third of its life is left.
"""

from __future__ import annotations

import ipaddress
import os
import ssl
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME = timedelta(days=1)
"""Short, so that what replicas leave behind when they are killed is soon nobody's."""
_CLOCKS_DIFFER_BY = timedelta(hours=1)


@dataclass(frozen=True)
class Certificate:
    """A serving certificate and the authority that signed it.

    Attributes:
        ca_pem: the authority's certificate: what clients must trust, and all that is published.
    """

    ca_pem: str
    not_after: datetime
    _chain_pem: bytes
    _key_pem: bytes

    def renew_at(self) -> datetime:
        """When it is to be replaced."""
        return self.not_after - LIFETIME / 3

    def load_into(self, context: ssl.SSLContext) -> None:
        """Serve with it from the next handshake on.

        The ssl module reads certificates from files only: the file lies in memory where the system
        has such files, is readable by us alone, and is gone when this returns.
        """
        path = f"/proc/self/fd/{descriptor}" if (descriptor := _memory_file()) is not None else ""
        if descriptor is None:
            descriptor, path = tempfile.mkstemp()
        try:
            os.write(descriptor, self._chain_pem + self._key_pem)
            context.load_cert_chain(path)
        finally:
            os.close(descriptor)
            if not path.startswith("/proc/"):
                Path(path).unlink()


def _memory_file() -> int | None:
    if not hasattr(os, "memfd_create"):
        return None
    return os.memfd_create("certificate", os.MFD_CLOEXEC)


def make(hosts: Sequence[str], *, now: datetime | None = None, lifetime: timedelta = LIFETIME) -> Certificate:
    """A fresh certificate for these DNS names and IP addresses, under a fresh authority."""
    start = (now or datetime.now(UTC)) - _CLOCKS_DIFFER_BY
    end = start + lifetime
    ca_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    ca_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tidewright-endpoint-ca")])
    ca = (
        _builder(ca_name, ca_name, ca_key, start, end)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(ca_key, hashes.SHA256())
    )
    own = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, hosts[0][:64])])
    leaf = (
        _builder(own, ca_name, key, start, end)
        .add_extension(x509.SubjectAlternativeName([_name(host) for host in hosts]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False
        )
        .sign(ca_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    return Certificate(
        ca_pem=ca.public_bytes(pem).decode(),
        not_after=end,
        _chain_pem=leaf.public_bytes(pem),
        _key_pem=key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
    )


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, start: datetime, end: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def server_context(certificate: Certificate) -> ssl.SSLContext:
    """A context to serve with; a renewed certificate is loaded into the same one."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    certificate.load_into(context)
    return context

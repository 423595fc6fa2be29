"""A webhook server for the tests: HTTPS on loopback, with a certificate of its own."""

from __future__ import annotations

import base64
import datetime as dt
import ipaddress
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

Object = dict[str, Any]
Answer = Callable[[Object], Object]


def certificate(folder: Path) -> tuple[Path, str]:
    """A self-signed certificate for 127.0.0.1: the file with its key, and the bundle that trusts it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tidewright test webhook")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(hours=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = made.public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path = folder / "webhook.pem"
    path.write_bytes(private + pem)
    return path, base64.b64encode(pem).decode()


class WebhookServer:
    """Answers AdmissionReviews by path; `asked` has the requests in the order in which they came."""

    def __init__(self, folder: Path) -> None:
        self._certificate, self.bundle = certificate(folder)
        self.asked: list[tuple[str, Object]] = []
        self.answers: dict[str, Answer] = {}
        self.url = ""
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> WebhookServer:
        app = web.Application()
        app.router.add_post("/{name}", self._answer)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self._certificate)
        await web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=context).start()
        self.url = f"https://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        review = msgspec.json.decode(await request.read())
        name = request.match_info["name"]
        if not (review["request"].get("name") or "").endswith(".crt"):  # what controllers publish everywhere
            self.asked.append((name, review["request"]))
        response = {"uid": review["request"]["uid"], **self.answers[name](review["request"])}
        body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
        return web.Response(body=msgspec.json.encode(body), content_type="application/json")

    def operations(self, name: str) -> list[str]:
        return [asked["operation"] for found, asked in self.asked if found == name]


def allow(_: Object) -> Object:
    return {"allowed": True}


def deny(message: str, code: int = 403) -> Answer:
    return lambda _: {"allowed": False, "status": {"message": message, "code": code}}


def patch(*operations: Object) -> Answer:
    encoded = base64.b64encode(msgspec.json.encode(operations)).decode()
    return lambda _: {"allowed": True, "patchType": "JSONPatch", "patch": encoded}

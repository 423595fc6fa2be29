"""Certificates of our endpoints, joined where the API server looks for them.

    bundle_of, joined   certificate bundles: text to certificates, and with one more or less (pure)
    configured, served  a webhook configuration, a CRD, as they shall be with a bundle (pure)
    Endpoints           reads, joins, writes; a lost race is run again

Each replica of an endpoint trusts nobody and shares nothing: its own authority's certificate is in the
bundle from its decision until it retires it, or until it expires. Expired ones go whenever somebody writes.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from tidewright.actuator import verdict
from tidewright.actuator.verdict import Again, Done, Refused, Result
from tidewright.events.base import JsonObject
from tidewright.events.endpoints import EndpointEffect, ForgetEndpoint, TrustEndpoint
from tidewright.host.ports.tokens import BadTokens, first_of
from tidewright.kube.errors import KubeError
from tidewright.kube.ownership import is_ours

LOOKS = 8
"""How often a write that lost a race is made again, within one attempt: replicas start together."""
_PLURALS: Final = {
    "MutatingWebhookConfiguration": "mutatingwebhookconfigurations",
    "ValidatingWebhookConfiguration": "validatingwebhookconfigurations",
}
_CONFIGURATIONS: Final = "/apis/admissionregistration.k8s.io/v1"
_DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

Ask = Callable[[str, str, bytes | None], Awaitable[JsonObject]]
"""Makes one request: method, path, body. Raises KubeError."""


class NotACertificate(ValueError):
    """What a replica wants to be trusted is no PEM certificate, or holds more than that."""


def certificate(pem: str) -> str:
    """One certificate in its one form of writing.

    Raises:
        NotACertificate: it is none, or there is something beside it: a key must never get further.
    """
    if "PRIVATE KEY" in pem:
        raise NotACertificate("ca holds a private key: only a certificate may be published")
    try:
        (cert,) = x509.load_pem_x509_certificates(pem.encode())
    except ValueError as error:
        raise NotACertificate(f"ca is not one PEM certificate: {error}") from error
    return cert.public_bytes(serialization.Encoding.PEM).decode()


def bundle_of(text: str, now: datetime) -> list[str]:
    """The certificates of a `caBundle` that can be read and have not expired, in their order."""
    try:
        certificates = x509.load_pem_x509_certificates(base64.b64decode(text, validate=True)) if text else []
    except (ValueError, binascii.Error):
        return []  # it let nobody in before either
    return [
        cert.public_bytes(serialization.Encoding.PEM).decode()
        for cert in certificates
        if cert.not_valid_after_utc > now
    ]


def joined(present: Iterable[str], add: str, without: Iterable[str], now: datetime) -> str:
    """A bundle: what is in those that are there, plus one, less some; base64, "" when nothing is left."""
    gone = set(without)
    kept = dict.fromkeys(pem for text in present for pem in bundle_of(text, now))
    if add:
        kept[add] = None
    return base64.b64encode("".join(pem for pem in kept if pem not in gone).encode()).decode()


def bundles_in(configuration: JsonObject) -> list[str]:
    """Every `caBundle` of a webhook configuration."""
    hooks = configuration.get("webhooks") or ()
    return [(hook.get("clientConfig") or {}).get("caBundle") or "" for hook in hooks]


def configured(current: JsonObject | None, desired: JsonObject, bundle: str) -> JsonObject:
    """A webhook configuration as it shall be; what the API server filled in stays."""
    known = {hook.get("name"): hook for hook in (current or {}).get("webhooks") or ()}
    hooks = []
    for hook in desired.get("webhooks") or ():
        client = {**(hook.get("clientConfig") or {}), "caBundle": bundle}
        before = (known.get(hook.get("name")) or {}).get("clientConfig") or {}
        if "service" in client and "service" in before:
            client["service"] = {**before["service"], **client["service"]}
        hooks.append({**(known.get(hook.get("name")) or {}), **hook, "clientConfig": client})
    metadata = dict((current or {}).get("metadata") or {})
    mine = desired.get("metadata") or {}
    for part in ("labels", "annotations"):
        if mine.get(part):
            metadata[part] = {**(metadata.get(part) or {}), **mine[part]}
    return {**(current or desired), "metadata": {**mine, **metadata}, "webhooks": hooks}


def served(definition: JsonObject, conversion: JsonObject, bundle: str) -> JsonObject:
    """A CRD with its conversion webhook; all its versions are served. Without a bundle: only stored ones are."""
    spec = dict(definition.get("spec") or {})
    if bundle:
        webhook = dict(conversion.get("webhook") or {})
        webhook["clientConfig"] = {**(webhook.get("clientConfig") or {}), "caBundle": bundle}
        before = ((spec.get("conversion") or {}).get("webhook") or {}).get("clientConfig") or {}
        if "service" in webhook["clientConfig"] and "service" in before:
            webhook["clientConfig"]["service"] = {**before["service"], **webhook["clientConfig"]["service"]}
        spec["conversion"] = {**conversion, "webhook": webhook}
    else:
        spec["conversion"] = {"strategy": "None"}
    spec["versions"] = [
        {**version, "served": bool(bundle) or bool(version.get("storage"))}
        for version in spec.get("versions") or ()
    ]
    return {**definition, "spec": spec}


def _as_it_is(configuration: JsonObject) -> JsonObject:
    """What is wanted of a configuration that stays as it is, but for its bundles."""
    return {
        "webhooks": [
            {"name": hook.get("name"), "clientConfig": _client(hook)}
            for hook in configuration.get("webhooks") or ()
        ]
    }


def _called_with(configuration: JsonObject, token: str) -> JsonObject:
    hooks = [
        {**hook, "clientConfig": with_token(_client(hook), token)}
        for hook in configuration.get("webhooks") or ()
    ]
    return {**configuration, "webhooks": hooks}


def _client(webhook: Any) -> JsonObject:
    return dict((webhook or {}).get("clientConfig") or {})


def _conversion_client(definition: JsonObject) -> JsonObject:
    return _client(((definition.get("spec") or {}).get("conversion") or {}).get("webhook"))


def _converts(definition: JsonObject, conversion: JsonObject) -> bool:
    """Whether a CRD is converted by the very endpoint that asks: versions before `is_ours` set that up."""
    ours = _client(conversion.get("webhook"))
    return bool(ours) and _address(_conversion_client(definition)) == _address(ours)


def _address(client: JsonObject) -> tuple[Any, ...]:
    """Whom a webhook calls, whatever path and token it calls there."""
    service = client.get("service") or {}
    return _url_of(client), service.get("namespace"), service.get("name")


def _url_of(client: JsonObject) -> str:
    return "/".join(str(client.get("url") or "").split("/")[:3])


def with_token(client: JsonObject, token: str) -> JsonObject:
    """A `clientConfig` whose path begins with a token, by which the endpoint knows who calls."""
    if not token:
        return client
    if "service" in client:
        service = client["service"]
        return {**client, "service": {**service, "path": f"/{token}{service.get('path') or ''}"}}
    url = str(client.get("url") or "")
    base = _url_of(client)
    return {**client, "url": f"{base}/{token}{url.removeprefix(base)}"}


def _at_home(current: JsonObject | None, desired: JsonObject) -> bool:
    """Whether a configuration calls no other address than the wanted one does."""
    called = {_url_of(_client(hook)) for hook in (current or {}).get("webhooks") or ()}
    return called <= {_url_of(_client(hook)) for hook in desired.get("webhooks") or ()}


class Endpoints:
    """Applies what endpoints decide about themselves."""

    def __init__(self, ask: Ask, tokens: Mapping[str, Path] | None = None) -> None:
        """`tokens`: endpoint to the file whose first token stands in the paths under which it is called."""
        self._ask = ask
        self._tokens = tokens or {}

    async def attempt(self, effect: EndpointEffect) -> Result:
        """Bring every configuration of the endpoint in line. Raises KubeError."""
        try:
            ca = certificate(effect.ca)
            retired = [
                certificate(pem) for pem in (effect.retired if isinstance(effect, TrustEndpoint) else ())
            ]
        except NotACertificate as error:
            return Refused("Invalid", str(error))
        try:
            token = self._token(effect.id.partition(".")[0])
        except BadTokens as error:
            return Again("Unavailable", str(error))
        if isinstance(effect, ForgetEndpoint) and effect.if_last and await self._others(effect, ca):
            return Done(found=True)
        add, without = (ca, retired) if isinstance(effect, TrustEndpoint) else ("", [ca])
        remove = isinstance(effect, ForgetEndpoint) and effect.remove_last
        alone = isinstance(effect, ForgetEndpoint) and effect.alone
        changed = False
        for configuration in effect.configurations:
            plural = _PLURALS.get(str(configuration.get("kind")))
            name = (configuration.get("metadata") or {}).get("name")
            if plural is None or not isinstance(name, str):
                return Refused(
                    "Invalid",
                    f"kind {configuration.get('kind')!r} named {name!r} is no webhook configuration: valid are {', '.join(_PLURALS)}",
                )
            collection = f"{_CONFIGURATIONS}/{plural}"
            called = _called_with(configuration, token)
            written = await self._configuration(
                collection, name, called, add, without, remove=remove, alone=alone
            )
            if written is None:
                return Again(verdict.CONFLICT, f"lost {LOOKS} races for {plural}/{name}")
            changed = changed or written
        for name, conversion in effect.conversions.items():
            webhook = conversion.get("webhook") or {}
            client = with_token(_client(webhook), token)
            conversion = {**conversion, "webhook": {**webhook, "clientConfig": client}}
            written = await self._definition(name, conversion, add, without, remove=remove, alone=alone)
            if written is None:
                return Again(verdict.CONFLICT, f"lost {LOOKS} races for customresourcedefinitions/{name}")
            changed = changed or written
        return Done(found=not changed)

    def _token(self, endpoint: str) -> str:
        file = self._tokens.get(endpoint)
        return first_of(file) if file is not None else ""

    async def _others(self, effect: EndpointEffect, ca: str) -> bool:
        """Whether the API server trusts another replica, too."""
        for configuration in effect.configurations:
            plural, name = (
                _PLURALS.get(str(configuration.get("kind"))),
                (configuration.get("metadata") or {}).get("name"),
            )
            current = await self._found(f"{_CONFIGURATIONS}/{plural}/{name}")
            if joined(bundles_in(current or {}), "", [ca], datetime.now(UTC)):
                return True
        return False

    async def _configuration(
        self, collection: str, name: str, desired: JsonObject, add: str, without: list[str], *,
        remove: bool, alone: bool,
    ) -> bool | None:  # fmt: skip
        """Whether it was changed; None when too many races were lost."""
        path = f"{collection}/{name}"
        for _ in range(LOOKS):
            current = await self._found(path)
            present = () if alone and _at_home(current, desired) else bundles_in(current or {})
            bundle = joined(present, add, without, datetime.now(UTC))
            try:
                if current is None:
                    if not add:
                        return False
                    await self._ask("POST", collection, _encoded(configured(None, desired, bundle)))
                elif not bundle and remove:
                    await self._ask("DELETE", path, _encoded({"preconditions": _precondition(current)}))
                else:
                    # Who leaves says nothing about those that stay.
                    updated = configured(current, desired if add else _as_it_is(current), bundle)
                    if updated == current:
                        return False
                    await self._ask("PUT", path, _encoded(updated))
            except KubeError as error:
                if error.status not in (404, 409):
                    raise
                continue
            return True
        return None

    async def _definition(
        self, name: str, conversion: JsonObject, add: str, without: list[str], *, remove: bool, alone: bool
    ) -> bool | None:
        path = f"{_DEFINITIONS}/{name}"
        for _ in range(LOOKS):
            definition = await self._found(path)
            if definition is None:
                return False  # it is installed by whoever installs the CRDs, or not wanted
            if not (is_ours(definition) or _converts(definition, conversion)):
                return False  # a vendor's conversion, and the versions that a vendor serves, are the vendor's
            at_home = _url_of(_conversion_client(definition)) == _url_of(_client(conversion.get("webhook")))
            present = (
                () if alone and at_home else (str(_conversion_client(definition).get("caBundle") or ""),)
            )
            bundle = joined(present, add, without, datetime.now(UTC))
            stays = conversion if add else (definition.get("spec") or {}).get("conversion") or conversion
            updated = served(definition, stays, bundle) if bundle or remove else definition
            if updated == definition:
                return False
            try:
                await self._ask("PUT", path, _encoded(updated))
            except KubeError as error:
                if error.status not in (404, 409):
                    raise
                continue
            return True
        return None

    async def _found(self, path: str) -> JsonObject | None:
        try:
            return await self._ask("GET", path, None)
        except KubeError as error:
            if error.status == 404:
                return None
            raise


def _precondition(current: JsonObject) -> JsonObject:
    metadata = current.get("metadata") or {}
    return {key: metadata[key] for key in ("uid", "resourceVersion") if key in metadata}


def _encoded(value: Any) -> bytes:
    return msgspec.json.encode(value)

"""Pod templates of workloads, as far as somebody has to know whether a patch of them makes a pod. Pure but for a cache.

Templates are said once per content. What they are told for is their form: metadata is left out, and so is
every text that may hold a secret (values of variables, arguments, headers); a placeholder stands where
one was, because whether something is given may matter.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

import msgspec

from tidewright.events.base import JsonObject
from tidewright.events.facts import TemplateObserved
from tidewright.kube.shapes import SpecFields

LEFT_OUT = "-"
CACHE_SIZE = 20_000
_DIGEST_BYTES = 12

_any = msgspec.json.Decoder()
_same = msgspec.json.Encoder(order="deterministic")


class _ClaimMeta(msgspec.Struct):
    name: str = ""


class _Claim(msgspec.Struct):
    metadata: _ClaimMeta = msgspec.field(default_factory=_ClaimMeta)


_claims = msgspec.json.Decoder(list[_Claim] | None)


class Templates:
    """Templates by the raw bytes that make them."""

    def __init__(self) -> None:
        self._cache: dict[tuple[str, bytes, bytes], TemplateObserved] = {}

    def of(self, namespace: str, spec: bytes, claims: bytes) -> TemplateObserved:
        """The template of a workload, with `at` 0; `spec` is a pod spec, `claims` its claim templates, both as JSON.

        Raises:
            ValueError, TypeError, AttributeError, msgspec.MsgspecError: it cannot be read.
        """
        key = (namespace, spec, claims)
        known = self._cache.get(key)
        if known is None:
            if len(self._cache) >= CACHE_SIZE:
                self._cache.clear()
            known = self._cache[key] = _template(
                namespace,
                form(_any.decode(spec) or {}),
                tuple(claim.metadata.name for claim in _claims.decode(claims) or ()),
            )
        return known


def unreadable(namespace: str, spec: bytes, error: Exception) -> TemplateObserved:
    """A template that is none, as somebody else's kind may have one: what is wrong with it, where that can be said by field."""
    try:
        msgspec.json.decode(spec, type=SpecFields)
    except (msgspec.MsgspecError, RecursionError) as better:
        error = better
    why = f"{type(error).__name__}: {error}"
    digest = blake2b(_same.encode((namespace, why)), digest_size=_DIGEST_BYTES).hexdigest()
    return TemplateObserved(at=0.0, digest=digest, namespace=namespace, error=why)


def _template(namespace: str, spec: JsonObject, claims: tuple[str, ...]) -> TemplateObserved:
    digest = blake2b(_same.encode((namespace, spec, claims)), digest_size=_DIGEST_BYTES).hexdigest()
    return TemplateObserved(at=0.0, digest=digest, namespace=namespace, spec=spec, claims=claims)


def form(spec: JsonObject) -> JsonObject:
    """A pod spec without the texts that may hold a secret; in place, and returned."""
    for name in ("containers", "initContainers", "ephemeralContainers"):
        for container in _objects(spec.get(name)):
            for variable in _objects(container.get("env")):
                if variable.get("value"):
                    variable["value"] = LEFT_OUT
            for words in ("command", "args"):
                if words in container:
                    container[words] = [LEFT_OUT for _ in container[words] or ()]
            lifecycle = container.get("lifecycle") or {}
            for handler in (
                *(container.get(probe) for probe in ("livenessProbe", "readinessProbe", "startupProbe")),
                *(lifecycle.get(hook) for hook in ("postStart", "preStop")),
            ):
                _handler(handler or {})
    for volume in _objects(spec.get("volumes")):
        for source, field in (("csi", "volumeAttributes"), ("flexVolume", "options")):
            options = (volume.get(source) or {}).get(field)
            if options:
                volume[source][field] = dict.fromkeys(options, LEFT_OUT)
    return spec


def _handler(handler: JsonObject) -> None:
    """A probe, or what is done at the begin or end of a container."""
    if (execute := handler.get("exec")) and "command" in execute:
        execute["command"] = [LEFT_OUT for _ in execute["command"] or ()]
    for header in _objects((handler.get("httpGet") or {}).get("httpHeaders")):
        header["value"] = LEFT_OUT


def _objects(entries: Any) -> Iterable[JsonObject]:
    return entries or ()

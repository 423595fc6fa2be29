"""Admission webhooks: who is asked about a request, in which order, and what their answers do.

Mutating webhooks are asked one after the other, in the order of their configurations' and their own names;
each may patch the object, and those with `reinvocationPolicy: IfNeeded` are asked again when a later one
changed it. Validating webhooks are asked all at once. Calls go over HTTPS to the webhook's URL, or to an
endpoint of its service, with the `caBundle` as the only trusted authority.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import ssl
import uuid
from typing import TYPE_CHECKING, Any

import aiohttp
import msgspec

from tidewright.kube.selectors import LabelSelector, SelectorError
from tidewright.sim.api import errors
from tidewright.sim.api.crd.cel import CelError, compile_rule
from tidewright.sim.api.http.request import Request, json_type
from tidewright.sim.api.verbs import patch
from tidewright.sim.api.verbs.reviews import USER

if TYPE_CHECKING:
    from tidewright.sim.api.api import Api
    from tidewright.sim.api.store.store import Record

Object = dict[str, Any]
GROUP = "admissionregistration.k8s.io"
MUTATING = f"{GROUP}/mutatingwebhookconfigurations"
VALIDATING = f"{GROUP}/validatingwebhookconfigurations"
_CONDITION_VARIABLES = ("object", "oldObject", "request", "authorizer")
_NO_SIDE_EFFECTS = frozenset({"None", "NoneOnDryRun"})


class Hook(msgspec.Struct):
    """One webhook of a configuration, read."""

    configuration: str
    spec: Object
    namespaces: LabelSelector
    objects: LabelSelector

    @property
    def name(self) -> str:
        return str(self.spec.get("name", ""))


class _Unreachable(Exception):
    """The webhook did not answer, or not with an AdmissionReview."""


class Admission:
    """Asks the webhooks of one API server."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._hooks: dict[
            str, tuple[int, list[Hook]]
        ] = {}  # by table, with the version that they were read at
        self._session: aiohttp.ClientSession | None = None
        self._contexts: dict[str, ssl.SSLContext] = {}

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    def asks(self) -> bool:
        """Whether there is any webhook at all."""
        tables = self._api.store.tables
        return any(name in tables and tables[name].keys for name in (MUTATING, VALIDATING))

    async def mutate(
        self, request: Request, operation: str, obj: Object | None, old: Object | None
    ) -> Object | None:
        """The object as the mutating webhooks leave it. Raises what a webhook answers when it refuses."""
        hooks = self._matching(MUTATING, request, operation, obj, old)
        if not hooks:
            return obj
        changed_since: set[str] = set()
        for hook in hooks:
            before = obj
            obj = await self._mutate_one(hook, request, operation, obj, old)
            if obj != before:
                changed_since.update(
                    h.name for h in hooks if h is not hook and hooks.index(h) < hooks.index(hook)
                )
        for hook in hooks:
            if hook.name in changed_since and hook.spec.get("reinvocationPolicy") == "IfNeeded":
                obj = await self._mutate_one(hook, request, operation, obj, old)
        return obj

    async def validate(
        self, request: Request, operation: str, obj: Object | None, old: Object | None
    ) -> None:
        """Raises the first refusal, in the order of the webhooks."""
        hooks = self._matching(VALIDATING, request, operation, obj, old)
        if not hooks:
            return
        answers = await asyncio.gather(
            *(self._ask(hook, request, operation, obj, old) for hook in hooks), return_exceptions=True
        )
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer

    # -- which webhooks -----------------------------------------------------------------------------

    def _matching(
        self, table_name: str, request: Request, operation: str, obj: Object | None, old: Object | None
    ) -> list[Hook]:
        if not self._api.store.table(table_name).keys:
            return []
        hooks = self._read(table_name)
        if not hooks or request.kind.group == GROUP:  # webhooks are not asked about webhooks
            return []
        return [hook for hook in hooks if self._matches(hook, request, operation, obj, old)]

    def _read(self, table_name: str) -> list[Hook]:
        table = self._api.store.table(table_name)
        known = self._hooks.get(table_name)
        if known is None or known[0] != table.changed_rv:
            hooks = [hook for record in table.scan() for hook in _hooks_of(record)]
            known = self._hooks[table_name] = (table.changed_rv, hooks)
        return known[1]

    def _matches(
        self, hook: Hook, request: Request, operation: str, obj: Object | None, old: Object | None
    ) -> bool:
        if not any(_rule_matches(rule, request, operation) for rule in hook.spec.get("rules") or ()):
            return False
        if not hook.namespaces.everything and not self._namespace_matches(hook, request, obj):
            return False
        if not hook.objects.everything and not any(
            hook.objects.matches((candidate.get("metadata") or {}).get("labels"))
            for candidate in (obj, old)
            if candidate is not None
        ):
            return False
        return self._conditions_hold(hook, request, operation, obj, old)

    def _namespace_matches(self, hook: Hook, request: Request, obj: Object | None) -> bool:
        if request.kind.table_name == "/namespaces":
            labels = ((obj or {}).get("metadata") or {}).get("labels")
            if obj is None:
                record = self._api.store.table("/namespaces").get("", request.name)
                labels = record.decode()["metadata"].get("labels") if record else None
            return hook.namespaces.matches(labels)
        if not request.namespace:
            return True
        record = self._api.store.table("/namespaces").get("", request.namespace)
        return record is not None and hook.namespaces.matches(record.decode()["metadata"].get("labels"))

    def _conditions_hold(
        self, hook: Hook, request: Request, operation: str, obj: Object | None, old: Object | None
    ) -> bool:
        failed: CelError | None = None
        for condition in hook.spec.get("matchConditions") or ():
            data = {
                "object": obj,
                "oldObject": old,
                "request": _request_of(request, operation, obj, old),
                "authorizer": None,
            }
            try:
                if compile_rule(condition["expression"], _CONDITION_VARIABLES).evaluate(data) is not True:
                    return False
            except CelError as error:
                failed = error
        if failed is None:
            return True
        if hook.spec.get("failurePolicy") == "Ignore":
            return False
        raise errors.forbidden(
            request.kind.group,
            request.kind.plural,
            request.name,
            f"failed to evaluate match conditions: {failed}",
        )

    # -- asking -------------------------------------------------------------------------------------

    async def _mutate_one(
        self, hook: Hook, request: Request, operation: str, obj: Object | None, old: Object | None
    ) -> Object | None:
        response = await self._ask(hook, request, operation, obj, old)
        encoded = response.get("patch")
        if not encoded or obj is None:
            return obj
        if response.get("patchType") != "JSONPatch":
            raise errors.internal(
                f'admission webhook "{hook.name}": patchType must be "JSONPatch", found {response.get("patchType")!r}'
            )
        try:
            operations = msgspec.json.decode(base64.b64decode(encoded))
        except (binascii.Error, msgspec.DecodeError) as error:
            raise errors.internal(
                f'admission webhook "{hook.name}" sent a patch that does not decode: {error}'
            ) from None
        patched = patch.json_patch(obj, operations)
        if not isinstance(patched, dict) or not isinstance(patched.get("metadata"), dict):
            raise errors.internal(f'admission webhook "{hook.name}" patched the object away')
        return patched

    async def _ask(
        self, hook: Hook, request: Request, operation: str, obj: Object | None, old: Object | None
    ) -> Object:
        """The webhook's response, when it allows; {} when it failed and that is to be ignored."""
        if request.dry_run and hook.spec.get("sideEffects") not in _NO_SIDE_EFFECTS:
            raise errors.bad_request(f'admission webhook "{hook.name}" does not support dry run')
        asked = _request_of(request, operation, obj, old)
        try:
            response = await self._call(hook, asked)
        except _Unreachable as error:
            if hook.spec.get("failurePolicy") == "Ignore":
                return {}
            raise errors.internal(f'failed calling webhook "{hook.name}": {error}') from None
        if response.get("allowed") is True:
            for warning in response.get("warnings") or ():
                request.warnings.append(str(warning))
            return response
        status = response.get("status") or {}
        explanation = status.get("message") or status.get("reason")
        text = f'admission webhook "{hook.name}" denied the request'
        text += f": {explanation}" if explanation else " without explanation"
        code = status.get("code")
        code = code if isinstance(code, int) and 400 <= code < 600 else 400
        details = dict(status["details"]) if isinstance(status.get("details"), dict) else None
        raise errors.ApiError(code, text, reason=str(status.get("reason") or ""), details=details)

    async def _call(self, hook: Hook, asked: Object) -> Object:
        config = hook.spec.get("clientConfig") or {}
        timeout_s = float(hook.spec.get("timeoutSeconds") or 10)
        url, server_name = self._target(config)
        versions = hook.spec.get("admissionReviewVersions") or ["v1"]
        version = next((name for name in versions if name in {"v1", "v1beta1"}), "v1")
        body = msgspec.json.encode(
            {"kind": "AdmissionReview", "apiVersion": f"admission.k8s.io/{version}", "request": asked}
        )
        if self._session is None:
            self._session = aiohttp.ClientSession()
        try:
            async with self._session.post(
                f"{url}{'&' if '?' in url else '?'}timeout={int(timeout_s)}s",
                data=body,
                headers={
                    "Content-Type": "application/json",
                    "Accept": "application/json",
                    "User-Agent": "kube-apiserver-admission",
                },
                ssl=self._context(config.get("caBundle") or ""),
                server_hostname=server_name,
                timeout=aiohttp.ClientTimeout(total=timeout_s),
            ) as answer:
                text = await answer.read()
                if answer.status != 200:
                    raise _Unreachable(
                        f'failed to call webhook: the server answered {answer.status} to Post "{url}": '
                        f"{text[:200].decode(errors='replace')}"
                    )
        except TimeoutError:
            raise _Unreachable(
                f'failed to call webhook: Post "{url}": context deadline exceeded (after {timeout_s:g}s)'
            ) from None
        except (aiohttp.ClientError, OSError, ssl.SSLError) as error:
            raise _Unreachable(f'failed to call webhook: Post "{url}": {error}') from None
        try:
            review = msgspec.json.decode(text)
        except msgspec.DecodeError as error:
            raise _Unreachable(f"the answer is not JSON: {error}") from None
        response = review.get("response") if isinstance(review, dict) else None
        if not isinstance(response, dict):
            raise _Unreachable(f"expected an AdmissionReview with a response, got {json_type(response)}")
        if response.get("uid") != asked["uid"]:
            raise _Unreachable(f"expected response.uid={asked['uid']!r}, got {response.get('uid')!r}")
        return response

    def _target(self, config: Object) -> tuple[str, str | None]:
        if config.get("url"):
            return str(config["url"]), None
        service = config.get("service") or {}
        namespace, name = service.get("namespace", ""), service.get("name", "")
        path, port = service.get("path") or "", service.get("port") or 443
        host = f"{name}.{namespace}.svc"
        address = self._endpoint(namespace, name, port)
        if address is None:
            raise _Unreachable(
                f'failed to call webhook: Post "https://{host}:{port}{path}": no endpoints available for service "{name}"'
            )
        return f"https://{address}/{path.lstrip('/')}", host

    def _endpoint(self, namespace: str, name: str, port: int) -> str | None:
        """`address:port` of the first endpoint behind a service's port."""
        service = self._api.store.table("/services").get(namespace, name)
        endpoints = self._api.store.table("/endpoints").get(namespace, name)
        if service is None or endpoints is None:
            return None
        ports = (service.decode().get("spec") or {}).get("ports") or []
        port_name = next((entry.get("name") for entry in ports if entry.get("port") == port), None)
        for subset in endpoints.decode().get("subsets") or ():
            for address in subset.get("addresses") or ():
                for entry in subset.get("ports") or ():
                    if entry.get("name") == port_name or len(subset["ports"]) == 1:
                        return f"{address['ip']}:{entry['port']}"
        return None

    def _context(self, bundle: str) -> ssl.SSLContext:
        context = self._contexts.get(bundle)
        if context is None:
            try:
                pem = base64.b64decode(bundle).decode() if bundle else None
                context = ssl.create_default_context(cadata=pem)
            except (binascii.Error, ssl.SSLError, UnicodeDecodeError, ValueError) as error:
                raise _Unreachable(f"unable to load root certificates: {error}") from None
            self._contexts[bundle] = context
        return context


def _hooks_of(record: Record) -> list[Hook]:
    hooks = []
    for spec in record.decode().get("webhooks") or ():
        try:
            namespaces = LabelSelector.of(spec.get("namespaceSelector") or {})
            objects = LabelSelector.of(spec.get("objectSelector") or {})
        except SelectorError:
            continue
        hooks.append(Hook(record.name, spec, namespaces, objects))
    return hooks


def _rule_matches(rule: Object, request: Request, operation: str) -> bool:
    kind = request.kind
    if not {"*", operation} & set(rule.get("operations") or ()):
        return False
    if not {"*", kind.group} & set(rule.get("apiGroups") or ()):
        return False
    versions = set(rule.get("apiVersions") or ())
    if "*" not in versions and not versions & set(kind.versions):
        return False
    scope = rule.get("scope", "*")
    if (scope == "Namespaced" and not kind.namespaced) or (scope == "Cluster" and kind.namespaced):
        return False
    for name in rule.get("resources") or ():
        resource, _, sub = name.partition("/")
        if resource in {"*", kind.plural} and (sub == request.subresource or sub == "*"):
            return True
    return False


def _request_of(request: Request, operation: str, obj: Object | None, old: Object | None) -> Object:
    """The `request` of an AdmissionReview."""
    kind = request.kind
    resource = {"group": kind.group, "version": request.version, "resource": kind.plural}
    named = {"group": kind.group, "version": request.version, "kind": kind.kind}
    meta = (obj or old or {}).get("metadata") or {}
    asked: Object = {
        "uid": str(uuid.uuid4()),
        "kind": named,
        "resource": resource,
        "requestKind": named,
        "requestResource": resource,
        "name": request.name or meta.get("name", ""),
        "operation": operation,
        "userInfo": USER,
        "object": obj,
        "oldObject": old,
        "dryRun": request.dry_run,
        "options": {
            "kind": {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions"}.get(operation, "DeleteOptions"),
            "apiVersion": "meta.k8s.io/v1",
        },
    }
    if request.namespace:
        asked["namespace"] = request.namespace
    if request.subresource:
        asked["subResource"] = asked["requestSubResource"] = request.subresource
    return asked

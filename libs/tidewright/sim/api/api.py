"""One API server without its transport: store, kinds, rules, and what runs beside requests.

`Api` is what the verbs (`reading`, `writing`, `deletion`, `subresources`) work on. It joins the rooms of
this package and holds the few things that several of them need.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

import msgspec

from tidewright.kube.podapi.fielderrors import FieldError
from tidewright.sim.api import errors
from tidewright.sim.api.admission import quota
from tidewright.sim.api.admission.webhooks import Admission
from tidewright.sim.api.apply import managed
from tidewright.sim.api.apply.typing import FieldTyping, SchemaTyping, Typing
from tidewright.sim.api.crd.conversion import convert
from tidewright.sim.api.crd.definitions import Definitions
from tidewright.sim.api.http import go_text
from tidewright.sim.api.http.request import Request
from tidewright.sim.api.kinds import schemas
from tidewright.sim.api.kinds.builtin import builtin_registry
from tidewright.sim.api.kinds.metadata import Stamps
from tidewright.sim.api.kinds.resources import Kind
from tidewright.sim.api.kinds.strategies import Strategies
from tidewright.sim.api.store import residents
from tidewright.sim.api.store.gc import Collector
from tidewright.sim.api.store.store import Record, Store
from tidewright.sim.api.verbs import patch
from tidewright.sim.api.verbs.deletion import Deletion

Object = dict[str, Any]
_HEAD = ("apiVersion", "kind", "metadata")
SYSTEM_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")


class Api:
    """The state and the rules of one API server."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.time) -> None:
        self.store = store
        self.registry = builtin_registry()
        self.stamps = Stamps(clock)
        self.strategies = Strategies(self)
        self.deletion = Deletion(self)
        self.collector = Collector(self)
        self.definitions = Definitions(self)
        self.admission = Admission(self)
        self.notes = False
        """Whether the request log is to say what the store held when something was disrupted, which costs a look at it."""
        self._next_service = 1

    # -- objects on their way in and out ---------------------------------------------------------

    def decode(
        self,
        request: Request,
        obj: Object,
        *,
        body: bytes = b"",
        touched: frozenset[str] | None = None,
        typed: bool = False,
    ) -> list[str]:
        """Check that the object is of the requested kind; returns warnings. Raises 400.

        Args:
            request: what was asked.
            obj: the object; fields that nobody knows are removed from it.
            body: the JSON that it was decoded from, when it is as it came.
            touched: the only top-level fields that differ from a stored object, which need no look otherwise.
            typed: it is a configuration that is applied: nothing in it may be unknown.
        """
        kind = request.kind
        type_meta = obj.get("apiVersion"), obj.get("kind")
        if type_meta != (request.api_version, kind.kind):
            self._settle_type(request, obj)
        meta = obj.get("metadata")
        if meta is None:
            obj["metadata"] = {}
        part = obj
        may_have_nulls = b"null" in request.body or request.body[:1] != b"{"
        if kind.custom:
            if may_have_nulls and isinstance(obj["metadata"], dict):
                schemas.settle_nulls("V1ObjectMeta", obj["metadata"])
            problems = kind.custom[request.version].problems(kind, obj)
        else:
            model = schemas.model_name(kind.group, request.version, kind.kind)
            if model is not None and may_have_nulls:
                schemas.settle_nulls(model, obj)
            part = obj if touched is None else {key: obj[key] for key in touched if key in obj}
            problems = schemas.check(model, part, body) if model is not None else None
        strictness = request.strictness
        if problems is None and not request.repeated:
            return []
        if problems is not None and problems.mistyped:
            raise _undecodable(request, problems.mistyped, obj)
        if typed and problems is not None and problems.unknown:
            from tidewright.sim.api.apply.applying import untyped

            raise untyped(
                request, obj, [f".{path}: field not declared in schema" for path in problems.unknown]
            )
        strict_errors = list(request.repeated)
        if problems is not None:
            strict_errors += [f'unknown field "{path}"' for path in problems.unknown]
        if strictness == "Strict":
            raise _undecodable(request, go_text.strict_error(strict_errors), obj)
        if problems is not None:
            problems.prune()
        if touched is not None:
            for key in touched - part.keys():
                obj.pop(key, None)
        return strict_errors if strictness == "Warn" else []

    def _settle_type(self, request: Request, obj: Object) -> None:
        kind = request.kind
        for field, expected in (("apiVersion", request.api_version), ("kind", kind.kind)):
            given = obj.get(field)
            if not given:
                if kind.custom:
                    missing = "apiVersion" if field == "apiVersion" else "Kind"
                    raise errors.bad_request(
                        f"the object provided is unrecognized (must be of type {kind.kind}): "
                        f"Object '{missing}' is missing"
                    )
                obj[field] = expected
            elif given != expected:
                raise self._of_another_type(request, obj, field, given)

    def _of_another_type(self, request: Request, obj: Object, field: str, given: Any) -> errors.ApiError:
        kind, version = request.kind, obj.get("apiVersion") or request.api_version
        name = obj.get("kind") or kind.kind
        if kind.custom or (request.verb != "patch" and field == "apiVersion" and _served(self, version)):
            expected = request.api_version if field == "apiVersion" else kind.kind
            what = "API version" if field == "apiVersion" else "kind"
            return errors.bad_request(
                f"the {what} in the data ({given}) does not match the expected {what} ({expected})"
            )
        known = field == "kind" and any(other.kind == name and not other.custom for other in self.registry)
        if known:
            package = f"{(kind.group or 'core').partition('.')[0]}.{kind.kind}"
            why = f"converting ({version.rpartition('/')[2]}.{name}) to ({package}): unknown conversion"
        else:
            scheme = "k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30"
            why = f'no kind "{name}" is registered for version "{version}" in scheme "{scheme}"'
        if request.verb == "patch":
            return _undecodable(request, why, obj)
        return errors.bad_request(
            f'{name} in version "{request.version}" cannot be handled as a {kind.kind}: {why}'
        )

    def to_version(self, kind: Kind, version: str, obj: Object) -> Object:
        """A stored object as the version that a client asked for."""
        api_version = kind.api_version(version)
        if obj.get("apiVersion") != api_version or obj.get("kind") != kind.kind:
            return convert(kind, api_version, obj)
        return obj

    def canonical(self, kind: Kind, obj: Object) -> Object:
        """The object as it is stored: apiVersion, kind and metadata first, in the stored version."""
        if kind.converts:
            obj = convert(kind, "v1" if kind.table else kind.stored_api_version, obj)
            api_version, name = obj["apiVersion"], obj["kind"]
        else:
            api_version, name = kind.stored_api_version, kind.kind
        if tuple(obj)[:3] == _HEAD and obj["apiVersion"] == api_version and obj["kind"] == name:
            return obj
        head = {"apiVersion": api_version, "kind": name, "metadata": obj["metadata"]}
        return head | {key: value for key, value in obj.items() if key not in head}

    def render(self, kind: Kind, version: str, record: Record) -> bytes:
        """The stored bytes as a version of the kind."""
        if kind.converts:
            return self.encode(convert(kind, kind.api_version(version), record.decode()))
        if not kind.custom:
            return record.raw
        api_version = kind.api_version(version)
        stored = b'{"apiVersion":"%s"' % kind.stored_api_version.encode()
        if record.raw.startswith(stored):
            if api_version == kind.stored_api_version:
                return record.raw
            return b'{"apiVersion":"%s"' % api_version.encode() + record.raw[len(stored) :]
        return self.encode(record.decode() | {"apiVersion": api_version})

    @staticmethod
    def encode(obj: Object) -> bytes:
        return msgspec.json.encode(obj)

    # -- what writes ask on their way --------------------------------------------------------------

    def check_namespace_accepts(self, kind: Kind, namespace: str, name: str) -> None:
        """Raises 404 for a namespace that is not there, 403 for one that is going."""
        record = self.store.table("/namespaces").get("", namespace)
        if record is None:
            raise errors.not_found("", "namespaces", namespace)
        if b'"deletionTimestamp"' in record.raw and "deletionTimestamp" in record.decode()["metadata"]:
            raise errors.forbidden(
                kind.group,
                kind.plural,
                name,
                f"unable to create new content in namespace {namespace} because it is being terminated",
                [
                    {
                        "reason": "NamespaceTerminating",
                        "message": f"namespace {namespace} is being terminated",
                        "field": "metadata.namespace",
                    }
                ],
            )

    async def admit(self, request: Request, operation: str, obj: Object, old: Object | None) -> Object:
        """Ask the mutating webhooks; what they changed is decoded and defaulted again."""
        changed = await self.admission.mutate(request, operation, obj, old)
        if changed is None or changed is obj:
            return obj
        self.decode(request, changed)
        self.strategies.default(request.kind, request.version, changed)
        return changed

    async def admit_validating(
        self, request: Request, operation: str, obj: Object | None, old: Object | None
    ) -> None:
        """Ask the validating webhooks."""
        await self.admission.validate(request, operation, obj, old)

    def check_quota(self, kind: Kind, new: Object, old: Object | None) -> None:
        """Raises 403 when the namespace's quotas do not allow the object."""
        quota.check(self, kind, new, old)

    def track(self, request: Request, new: Object, old: Object | None) -> None:
        """Note in managedFields who set what."""
        if request.entries is None:
            managed.track(request, new, old, self.stamps.now(), self.typing(request.kind, request.version))
        else:
            new["metadata"].pop("managedFields", None)
            if request.entries:
                new["metadata"]["managedFields"] = request.entries

    @staticmethod
    def typing(kind: Kind, version: str) -> Typing:
        """How the fields of a kind merge."""
        if kind.custom:
            return SchemaTyping(kind.custom[version].schema)
        return FieldTyping.of("", kind.kind)

    def committed(self, kind: Kind, record: Record, previous: Record | None, obj: Object) -> None:
        """Called after every write: definitions and the garbage collector follow the store."""
        if kind.table_name == "apiextensions.k8s.io/customresourcedefinitions":
            self.definitions.follow(record, obj)
        self.collector.follow(kind, record, previous, obj)
        if kind.table_name in residents.FOLLOWED and not kind.custom:
            residents.follow(self, kind, record.namespace, record.name)

    def next_cluster_ip(self) -> str:
        """A service address of 10.96.0.0/16 that no service has."""
        used = {
            (record.decode().get("spec") or {}).get("clusterIP")
            for record in self.store.table("/services").scan()
        }
        while True:
            self._next_service = self._next_service % 65_000 + 1
            address = f"10.96.{self._next_service // 256}.{self._next_service % 256}"
            if address not in used:
                return address

    # -- start ------------------------------------------------------------------------------------

    def bootstrap(self) -> None:
        """Make the namespaces that every cluster has, and serve the stored definitions."""
        kind = self.registry.named("namespaces")
        table = self.store.table("/namespaces")
        for name in SYSTEM_NAMESPACES:
            if kind is not None and table.get("", name) is None:
                from tidewright.sim.api.kinds.metadata import initialise

                obj: Object = {"metadata": {"name": name}}
                initialise(obj["metadata"], self.stamps.now(), generation=False)
                self.strategies.prepare_create(kind, "v1", obj)
                self.strategies.default(kind, "v1", obj)
                self.store.put(table, self.canonical(kind, obj))
        for record in list(table.scan()):
            residents.furnish(self, record.name)
        self.definitions.load()


def _served(api: Api, version: str) -> bool:
    """Whether any kind is served in a version such as `apps/v1`."""
    return any(kind.api_version(served) == version for kind in api.registry for served in kind.versions)


def _undecodable(request: Request, why: str, obj: Object) -> errors.ApiError:
    """400 for an object that cannot be decoded; 422, which shows the patch or the result, when a patch made it so."""
    kind = request.kind.kind
    if request.verb == "patch":
        if request.headers.get("Content-Type", "").startswith(patch.STRATEGIC):
            shown = go_text.value(msgspec.json.decode(request.body))
            why = _unconvertible(why)
        else:
            shown = msgspec.json.encode(obj).decode()
        cause = FieldError("patch", f"Invalid value: {msgspec.json.encode(shown).decode()}: {why}")
        return errors.invalid("", "", "", [cause])
    return errors.bad_request(f'{kind} in version "{request.version}" cannot be handled as a {kind}: {why}')


_MISTYPED = re.compile(r"json: cannot unmarshal (\w+).* of type (\S+)$")
_GO_NAMES = {"object": "map", "array": "slice", "number": "int64"}


def _unconvertible(why: str) -> str:
    """The words for a wrong type where a patched object is converted rather than decoded."""
    match = _MISTYPED.match(why)
    if match is None:
        return why
    given, expected = _GO_NAMES.get(match[1], match[1]), match[2]
    if expected.startswith("[]"):
        return f"cannot restore slice from {given}"
    if expected.startswith("map["):
        return f"cannot restore map from {given}"
    if "." in expected:
        return f"cannot restore struct from: {given}"
    return f"unrecognized type: {expected}"

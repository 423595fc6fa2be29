"""What a request asks for: the path taken apart, the options read, the media types agreed on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, unquote

import msgspec

from tidewright.kube import protobuf
from tidewright.kube.podapi.fielderrors import FieldError
from tidewright.sim.api import errors
from tidewright.sim.api.http import go_text
from tidewright.sim.api.kinds.resources import Kind, Registry

JSON = "application/json"
YAML = "application/yaml"
_NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})
_VERBS = {
    "GET": "get",
    "HEAD": "get",
    "POST": "create",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}


class Request(msgspec.Struct):
    """One request for resources: what it names and what it says.

    `verb` is the API verb (get, list, watch, create, update, patch, delete, deletecollection).
    """

    method: str
    path: str
    query: dict[str, str]
    headers: Mapping[str, str]
    body: bytes
    verb: str
    kind: Kind
    version: str
    namespace: str
    name: str
    subresource: str
    repeated: list[str] = []  # what a strict decoder says of fields that the body has twice
    warnings: list[str] = []  # what admission has to say besides
    entries: list[dict[str, Any]] | None = None  # managedFields as a server-side apply leaves them
    noted: dict[str, Any] = {}  # what the request log is to say of the store at that moment

    @property
    def api_version(self) -> str:
        return self.kind.api_version(self.version)

    @property
    def dry_run(self) -> bool:
        return self.query.get("dryRun", "") == "All"

    def check_options(self) -> None:
        """Raises 422 for options of a write that nobody knows."""
        if self.query.keys() & _CHECKED_OPTIONS:
            self._check_options()

    def _check_options(self) -> None:
        causes = []
        dry_run, manager = self.query.get("dryRun", ""), self.query.get("fieldManager", "")
        if dry_run not in {"", "All"}:
            message = f'Unsupported value: ["{dry_run}"]: supported values: "All"'
            causes.append(FieldError("dryRun", message, "FieldValueNotSupported"))
        if len(manager) > _LONGEST_MANAGER:
            message = f"Too long: may not be more than {_LONGEST_MANAGER} bytes"
            causes.append(FieldError("fieldManager", message, "FieldValueTooLong"))
        elif not manager.isprintable():
            message = f"Invalid value: {msgspec.json.encode(manager).decode()}: should only contain printable characters"
            causes.append(FieldError("fieldManager", message))
        if causes:
            raise errors.invalid("meta.k8s.io", _OPTIONS.get(self.verb, "DeleteOptions"), "", causes)

    @property
    def manager(self) -> str:
        """The field manager: named, or else what the user agent starts with."""
        named = self.query.get("fieldManager")
        if named:
            return named
        agent: str = self.headers.get("User-Agent", "")
        return agent.split("/", 1)[0][:128] or "unknown"

    @property
    def strictness(self) -> str:
        """How unknown and duplicate fields are treated: Ignore, Warn or Strict."""
        value = self.query.get("fieldValidation") or "Warn"
        if value not in {"Ignore", "Warn", "Strict"}:
            raise errors.invalid(
                "meta.k8s.io",
                _OPTIONS.get(self.verb, "CreateOptions"),
                "",
                [
                    FieldError(
                        "fieldValidation",
                        f'Unsupported value: "{value}": supported values: "", "Ignore", "Strict", "Warn"',
                        "FieldValueNotSupported",
                    )
                ],
            )
        return value


_CHECKED_OPTIONS = frozenset({"dryRun", "fieldManager"})
_LONGEST_MANAGER = 128  # bytes
_OPTIONS = {"create": "CreateOptions", "update": "UpdateOptions", "patch": "PatchOptions"}


def parse_query(text: str) -> dict[str, str]:
    """The query's parameters; of a repeated one the first counts."""
    parameters: dict[str, str] = {}
    for key, value in parse_qsl(text, keep_blank_values=True):
        parameters.setdefault(key, value)
    return parameters


def is_true(value: str | None) -> bool:
    return value is not None and value.lower() in {"1", "true", "t"}


def resolve(  # noqa: C901  # the parts of a path, in their order
    registry: Registry, method: str, path: str, query: dict[str, str], headers: Mapping[str, str]
) -> Request | None:
    """The resource request that a path names; None when it names no resource.

    Raises:
        ApiError: 404 for a group, version or kind that is not served; 405 for a method it has not.
    """
    parts = [unquote(part) if "%" in part else part for part in path.split("/")[1:]]
    if parts and not parts[-1]:
        parts.pop()
    if len(parts) >= 3 and parts[0] == "api":
        group, version, rest = "", parts[1], parts[2:]
    elif len(parts) >= 4 and parts[0] == "apis":
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    watching = False
    if rest[0] == "watch" and len(rest) > 1:  # the deprecated form of a watch
        watching, rest = True, rest[1:]
    namespace = ""
    if (
        rest[0] == "namespaces"
        and len(rest) > 2
        and not (len(rest) == 3 and rest[2] in _NAMESPACE_SUBRESOURCES and group == "")
    ):
        namespace, rest = rest[1], rest[2:]
    plural, name, subresource = rest[0], "", ""
    if len(rest) > 1:
        name = rest[1]
    if len(rest) > 2:
        subresource = "/".join(rest[2:])
    kind = registry.resolve(group, version, plural)
    if kind is None or (namespace and not kind.namespaced):
        # a group of our own answers for itself; what is below no such group is nobody's
        raise errors.path_not_found() if registry.built_in(group) else errors.page_not_found()
    if kind.namespaced and not namespace and name:
        raise errors.path_not_found()
    verb = _VERBS.get(method, "")
    if not name:
        if verb == "get":
            verb = "watch" if watching or is_true(query.get("watch")) else "list"
        elif verb == "delete":
            verb = "deletecollection"
    elif verb == "get" and not subresource and (watching or is_true(query.get("watch"))):
        verb = "watch"  # of one object
        query = {**query, "fieldSelector": f"metadata.name={name}"}
    if (name and verb == "create" and not subresource) or (not name and verb in {"update", "patch"}):
        raise errors.method_not_allowed("", "")
    if not subresource and verb not in kind.verbs:
        raise errors.method_not_allowed(group, plural)
    return Request(method, path, query, headers, b"", verb, kind, version, namespace, name, subresource)


class Representation(msgspec.Struct, frozen=True):
    """How an answer is to look: the whole object, a table of it or only its metadata."""

    form: str = ""  # "", Table, PartialObjectMetadata, PartialObjectMetadataList

    @property
    def table(self) -> bool:
        return self.form == "Table"


WHOLE = Representation()
ACCEPTED = (JSON, YAML, "application/vnd.kubernetes.protobuf")


def negotiate(accept: str) -> Representation:
    """The first acceptable representation that this server has. Raises 406 when there is none."""
    if not accept or accept in {JSON, "*/*"}:
        return WHOLE
    for clause in accept.split(","):
        media, *parameters = [part.strip() for part in clause.split(";")]
        if media not in {JSON, "*/*", "application/*"}:
            continue
        options = dict(parameter.partition("=")[::2] for parameter in parameters if "=" in parameter)
        form = options.get("as", "")
        if not form:
            return WHOLE
        if options.get("g") == "meta.k8s.io" and options.get("v") in {"v1", "v1beta1"}:
            return Representation(form)
    raise errors.not_acceptable((JSON, f"{JSON};stream=watch"))


_HEAD_STRUCT = (
    'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
)


def decode_body(body: bytes, content_type: str, expected: str = "") -> dict[str, Any]:
    """The object in a request's body, JSON or YAML.

    Args:
        body: as it came.
        content_type: of the request.
        expected: the kind that was to come, for the message.

    Raises:
        ApiError: 415 for another content type, 400 for text that does not parse or is no object.
    """
    media = content_type.split(";", 1)[0].strip()
    if media in {JSON, ""} or (media == "application/x-www-form-urlencoded" and body[:1] == b"{"):
        try:
            decoded = msgspec.json.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise _unrecognized(body, expected, go_text.json_trouble(body, error)) from None
    elif media in {YAML, "application/x-yaml", "text/yaml"}:
        try:
            decoded = decode_yaml(body)
        except errors.ApiError as error:
            raise _unrecognized(body, expected, error.message, json=False) from None
    elif media == protobuf.MEDIA_TYPE:
        try:
            return protobuf.decode(body)
        except protobuf.BadProtobuf as error:
            raise errors.bad_request(str(error)) from None
        except protobuf.NotKept:
            raise errors.unsupported_media_type(ACCEPTED) from None
    else:
        raise errors.unsupported_media_type(ACCEPTED)
    if decoded is None:
        return {}
    if not isinstance(decoded, dict):
        why = f"json: cannot unmarshal {json_type(decoded)} into Go value of type {_HEAD_STRUCT}"
        raise _unrecognized(body, expected, why)
    return decoded


def _unrecognized(body: bytes, expected: str, why: str, *, json: bool = True) -> errors.ApiError:
    text = f"couldn't get version/kind; json parse error: {why}" if json else why
    if expected:
        text = f"the object provided is unrecognized (must be of type {expected}): {text} ({go_text.summary(body)})"
    return errors.bad_request(text)


def decode_yaml(body: bytes) -> Any:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        loaded = yaml.load(body, loader)  # noqa: S506  # a safe loader
        if b"&" in body and _values(loaded, {}) > _MAX_YAML_VALUES:
            raise errors.bad_request("yaml: document contains excessive aliasing")
        return msgspec.json.decode(msgspec.json.encode(loaded))
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line if error.problem_mark is not None else 0
        line += 1 if isinstance(error, yaml.scanner.ScannerError) else 0
        raise errors.bad_request(f"yaml: line {line}: {error.problem}") from None
    except (yaml.YAMLError, TypeError, ValueError, RecursionError) as error:
        raise errors.bad_request(f"yaml: {error}") from None


_MAX_YAML_VALUES = 1_000_000


def _values(item: Any, known: dict[int, int]) -> int:
    """How many values an item has when every alias is written out; each is counted once."""
    if not isinstance(item, dict | list):
        return 1
    if id(item) not in known:
        known[id(item)] = _MAX_YAML_VALUES  # an item within itself never ends
        below = item.values() if isinstance(item, dict) else item
        known[id(item)] = 1 + sum(_values(child, known) for child in below)
    return known[id(item)]


def json_type(value: Any) -> str:
    """The name of a JSON value's type, as messages of the API server call it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"

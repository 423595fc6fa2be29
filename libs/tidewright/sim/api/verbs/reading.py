"""The verbs that read: get, list and watch, with the resourceVersion semantics of the API conventions.

A list answers the bytes that are stored, joined; it decodes only what a selector looks at. A limited list
carries a `continue` token with the version that it was begun at and the last key that it gave; the next
page is read as of that version (`Table.scan_at`), or, when that is no longer possible, refused with 410 and
a token that goes on with what is there now.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from tidewright.kube.podapi.fielderrors import FieldError
from tidewright.sim.api import errors
from tidewright.sim.api.http.request import Request, is_true
from tidewright.sim.api.store.store import Record, Table
from tidewright.sim.api.verbs.match import Matcher, matcher

if TYPE_CHECKING:
    from tidewright.sim.api.api import Api

_CONTINUE_EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new "
    "list without the continue parameter, or use the continue token in this response to retrieve the "
    "remainder of the results. Continuing with the provided token results in an inconsistent list - objects "
    "that were created, modified, or deleted between the time the first chunk was returned and now may show "
    "up in the list."
)
_INCONSISTENT = -1  # the version in a token that goes on with what is there now


class _Token(msgspec.Struct):
    v: str
    rv: int
    start: str

    def encode(self) -> str:
        return base64.urlsafe_b64encode(msgspec.json.encode(self)).decode().rstrip("=")

    @classmethod
    def decode(cls, text: str) -> _Token:
        try:
            token = msgspec.json.decode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), type=cls)
        except (ValueError, msgspec.DecodeError):
            raise errors.bad_request("continue key is not valid: it was not given by this API") from None
        if token.v != "meta.k8s.io/v1":
            raise errors.bad_request(
                f"continue key is not valid: server does not recognize this encoded version {token.v}"
            )
        return token


class Page(msgspec.Struct):
    """A list's answer: its records, the version it is of, and how to go on."""

    records: list[Record]
    rv: int
    next_token: str = ""
    remaining: int | None = None


def get(api: Api, request: Request) -> Record:
    _check_version(api, _version(request))
    kind = request.kind
    record = api.store.table(kind.table_name).get(request.namespace, request.name)
    if record is None:
        raise errors.not_found(kind.group, kind.plural, request.name)
    return record


def list_page(api: Api, request: Request) -> Page:
    query = request.query
    table = api.store.table(request.kind.table_name)
    selected = matcher(request.kind, query)
    limit = _whole(query, "limit")
    asked = _version(request)
    match = query.get("resourceVersionMatch", "")
    _check_list_options(query, asked, match)
    after = ""
    rv = api.store.rv
    records: Iterator[Record]
    if query.get("continue"):
        token = _Token.decode(query["continue"])
        after = token.start
        if token.rv != _INCONSISTENT:
            rv = token.rv
        try:
            records = table.scan_at(rv, request.namespace, after)
        except errors.ApiError:
            raise errors.ApiError(
                410,
                _CONTINUE_EXPIRED,
                metadata={"continue": _Token("meta.k8s.io/v1", _INCONSISTENT, after).encode()},
            ) from None
    elif asked and (match == "Exact" or (limit and match == "")):
        rv = asked
        _check_version(api, asked)
        try:
            records = table.scan_at(rv, request.namespace)
        except errors.ApiError:
            raise errors.expired("The resourceVersion for the provided list is too old.") from None
    else:
        _check_version(api, asked)
        records = _scan(table, selected, request.namespace)
    if not selected.everything:
        records = (record for record in records if selected.matches(record))
    if not limit:
        return Page(list(records), rv)
    page = list(islice(records, limit + 1))
    if len(page) <= limit:
        return Page(page, rv)
    page.pop()
    rest = table.count_at(rv, request.namespace, page[-1].key) if selected.everything else None
    return Page(page, rv, _Token("meta.k8s.io/v1", rv, page[-1].key).encode(), rest)


def _scan(table: Table, selected: Matcher, namespace: str) -> Iterator[Record]:
    if selected.name is not None and namespace:
        record = table.get(namespace, selected.name)
        return iter((record,) if record is not None else ())
    return table.scan(namespace)


def _whole(query: dict[str, str], name: str) -> int:
    text = query.get(name, "")
    if not text:
        return 0
    if not text.removeprefix("-").isdigit():
        raise errors.bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    return max(int(text), 0)


def _version(request: Request) -> int:
    """The resourceVersion asked for; 0 for unset and for "0"."""
    text = request.query.get("resourceVersion", "")
    if not text:
        return 0
    if not text.isdigit():
        why = f'Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax'
        raise errors.bad_request(f"invalid resource version: resourceVersion: {why}")
    return int(text)


def _check_version(api: Api, asked: int) -> None:
    if asked > api.store.rv:
        raise errors.ApiError(
            504,
            f"Timeout: Too large resource version: {asked}, current: {api.store.rv}",
            details={
                "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
                "retryAfterSeconds": 1,
            },
        )


def _refused(field: str, text: str, reason: str) -> errors.ApiError:
    return errors.invalid("meta.k8s.io", "ListOptions", "", [FieldError(field, text, reason)])


def _forbidden(field: str, text: str) -> errors.ApiError:
    return _refused(field, f"Forbidden: {text}", "FieldValueForbidden")


def _check_list_options(query: dict[str, str], asked: int, match: str) -> None:
    if "sendInitialEvents" in query:
        raise _forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list")
    if query.get("continue") and asked:
        raise errors.bad_request("specifying resource version is not allowed when using continue")
    if not match:
        return
    if "resourceVersion" not in query:
        raise _forbidden(
            "resourceVersionMatch", "resourceVersionMatch is forbidden unless resourceVersion is provided"
        )
    if query.get("continue"):
        raise _forbidden(
            "resourceVersionMatch", "resourceVersionMatch is forbidden when continue is provided"
        )
    if match not in {"Exact", "NotOlderThan"}:
        raise _refused(
            "resourceVersionMatch",
            f'Unsupported value: "{match}": supported values: "Exact", "NotOlderThan", ""',
            "FieldValueNotSupported",
        )
    if match == "Exact" and asked == 0:
        raise _forbidden(
            "resourceVersionMatch",
            'resourceVersionMatch "exact" is forbidden for resourceVersion "0"',
        )


class WatchOptions(msgspec.Struct):
    """What a watch asks for, checked."""

    rv: int
    from_now: bool  # resourceVersion unset or "0": begin with what exists
    bookmarks: bool
    initial: bool  # sendInitialEvents: what exists, then a bookmark that says so
    timeout_s: float


def watch_options(api: Api, request: Request, default_timeout_s: float) -> WatchOptions:
    query = request.query
    asked = _version(request)
    initial = query.get("sendInitialEvents")
    if initial is not None and is_true(initial):
        if query.get("resourceVersionMatch") != "NotOlderThan":
            raise _forbidden(
                "resourceVersionMatch",
                "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            )
        _check_version(api, asked)
    elif query.get("resourceVersionMatch"):
        raise _forbidden(
            "resourceVersionMatch",
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
        )
    timeout_s = _whole(query, "timeoutSeconds")
    return WatchOptions(
        rv=asked,
        from_now=asked == 0 and initial is None,
        bookmarks=is_true(query.get("allowWatchBookmarks")),
        initial=is_true(initial),
        timeout_s=float(timeout_s or default_timeout_s),
    )

"""The grammar of names, labels and annotations, with the API server's messages.

Each check returns what is wrong (an empty list when nothing is); the caller adds the field's path.
"""

from __future__ import annotations

import re
from functools import lru_cache

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_QUALIFIED = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_PATH_FORBIDDEN = ("/", "%")

_LABEL_MESSAGE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start "
    "and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_SUBDOMAIN_MESSAGE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_DNS1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_DNS1035_MESSAGE = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
    "character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for "
    "validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
)
_QUALIFIED_MESSAGE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_VALUE_MESSAGE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used "
    "for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_QUALIFIED_FORM = (
    "a qualified name "
    + _QUALIFIED_MESSAGE.removeprefix("name part ")
    + (" with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')")
)


def _long(limit: int) -> str:
    return f"must be no more than {limit} characters"


@lru_cache(maxsize=4096)
def label(text: str) -> tuple[str, ...]:
    """RFC 1123 label: at most 63 characters, lower case."""
    messages = [_long(63)] if len(text) > 63 else []
    return tuple(messages if _LABEL.fullmatch(text) else [*messages, _LABEL_MESSAGE])


def subdomain(text: str) -> tuple[str, ...]:
    """RFC 1123 subdomain: at most 253 characters."""
    messages = [_long(253)] if len(text) > 253 else []
    return tuple(messages if _SUBDOMAIN.fullmatch(text) else [*messages, _SUBDOMAIN_MESSAGE])


def dns1035(text: str) -> tuple[str, ...]:
    messages = [_long(63)] if len(text) > 63 else []
    return tuple(messages if _DNS1035.fullmatch(text) else [*messages, _DNS1035_MESSAGE])


def path_segment(text: str) -> tuple[str, ...]:
    """Names that only have to fit into a URL, as RBAC objects have them."""
    if text in {".", ".."}:
        return (f"may not be '{text}'",)
    return tuple(f"may not contain '{part}'" for part in _PATH_FORBIDDEN if part in text)


@lru_cache(maxsize=4096)
def qualified(key: str) -> tuple[str, ...]:
    """A label or annotation key: an optional prefix and a name."""
    prefix, slash, name = key.rpartition("/")
    messages: list[str] = []
    if slash:
        if "/" in prefix:
            return (_QUALIFIED_FORM,)
        if not prefix:
            messages.append("prefix part must be non-empty")
        else:
            messages.extend(f"prefix part {message}" for message in subdomain(prefix))
    if not name:
        messages.append("name part must be non-empty")
    elif len(name) > 63:
        messages.append("name part " + _long(63))
    if not _QUALIFIED.fullmatch(name):
        messages.append(_QUALIFIED_MESSAGE)
    return tuple(messages)


@lru_cache(maxsize=4096)
def label_value(text: str) -> tuple[str, ...]:
    messages = [_long(63)] if len(text) > 63 else []
    return tuple(messages if _VALUE.fullmatch(text) else [*messages, _VALUE_MESSAGE])


_PORT = re.compile(r"[-a-z0-9]+")
_LETTER = re.compile(r"[a-z]")
_MAX_PORT_NAME = 15


def port(text: str) -> tuple[str, ...]:
    """The name of a port: at most 15 characters, with a letter among them."""
    messages = [_long(_MAX_PORT_NAME)] if len(text) > _MAX_PORT_NAME else []
    if not _PORT.fullmatch(text):
        messages.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not _LETTER.search(text):
        messages.append("must contain at least one letter (a-z)")
    return tuple(messages)

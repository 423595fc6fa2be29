"""Texts as Go writes them: what its JSON decoder says of a broken body, and how it prints values.

People and clients know these messages from the real API server; nothing here decides anything.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

_LONGEST = 30  # bytes of a body that a message shows


def json_trouble(body: bytes, error: Exception) -> str:
    """What Go's decoder says of a body that does not parse; `error` is what ours said."""
    if isinstance(error, RecursionError):
        return "exceeded max depth"
    text = body.decode("utf-8", "replace")
    try:
        json.loads(text)
    except json.JSONDecodeError as found:
        at = found.pos + (1 if found.msg.startswith("Invalid \\") else 0)
        if at >= len(text) or found.msg.startswith("Unterminated"):
            return "unexpected end of JSON input"
        return f"invalid character {_quoted(text[at])} {_place(found.msg, text, found.pos)}"
    except RecursionError:
        return "exceeded max depth"
    return str(error)


def _place(message: str, text: str, position: int) -> str:
    if message.startswith("Expecting property name"):
        return "looking for beginning of object key string"
    if message.startswith("Expecting ':'"):
        return "after object key"
    if message.startswith("Expecting ','"):
        return "after object key:value pair" if _within(text, position) == "{" else "after array element"
    if message.startswith("Extra data"):
        return "after top-level value"
    if message.startswith("Invalid control"):
        return "in string literal"
    if message.startswith("Invalid \\"):
        return "in string escape code"
    return "looking for beginning of value"


def _within(text: str, position: int) -> str:
    """The bracket that is open at a position."""
    opened: list[str] = []
    in_string = escaped = False
    for letter in text[:position]:
        if in_string:
            in_string = escaped or letter != '"'
            escaped = letter == "\\" and not escaped
        elif letter == '"':
            in_string = True
        elif letter in "{[":
            opened.append(letter)
        elif letter in "}]" and opened:
            opened.pop()
    return opened[-1] if opened else ""


def _quoted(letter: str) -> str:
    escapes = {"'": "\\'", "\n": "\\n", "\t": "\\t", "\r": "\\r", "\\": "\\\\", "\0": "\\x00"}
    return f"'{escapes.get(letter, letter)}'"


def summary(body: bytes) -> str:
    """The beginning of a body, as messages show it."""
    if not body:
        return "<empty>"
    more = " ..." if len(body) > _LONGEST else ""
    if body[:1] == b"{":
        return body[:_LONGEST].decode("utf-8", "replace") + more
    return body[:_LONGEST].hex() + more


def value(item: Any) -> str:
    """A decoded value as Go's `%v` prints it: `map[spec:map[replicas:x]]`."""
    if isinstance(item, dict):
        return f"map[{' '.join(f'{key}:{value(item[key])}' for key in sorted(item))}]"
    if isinstance(item, list):
        return f"[{' '.join(value(entry) for entry in item)}]"
    if item is None:
        return "<nil>"
    if isinstance(item, bool):
        return "true" if item else "false"
    return str(item)


def repeated(body: bytes, decoded: Any) -> list[str]:
    """What a strict decoder says of fields that a JSON or YAML body has twice; nothing for most, in no time.

    Args:
        body: as it came.
        decoded: what a decoder that keeps the last of them made of it.
    """
    if body.startswith((b"{", b"[")):
        # what was written without blanks, in our way, comes out again only when nothing got lost
        if msgspec.json.encode(decoded) == body.rstrip():
            return []
        try:
            return [f'duplicate field "{path}"' for path in duplicates(body)]
        except ValueError:  # YAML begins like that too
            pass
    return repeated_in_yaml(body, decoded)


def repeated_in_yaml(body: bytes, decoded: Any) -> list[str]:
    """The same of a body that is read as YAML, which JSON is too: by lines instead of paths."""
    import yaml

    if body.startswith((b"{", b"[")) and msgspec.json.encode(decoded) == body.rstrip():
        return []
    try:
        root = yaml.compose(body, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError:
        return []
    messages: list[str] = []
    if root is not None:
        _walk_yaml(root, messages)
    return messages


def strict_error(messages: list[str]) -> str:
    """What a strict decoder says, all in one."""
    lines = [text for text in messages if text.startswith("line ")]
    texts = [text for text in messages if text not in lines]
    if lines:
        texts.insert(0, "\n  ".join(["yaml: unmarshal errors:", *lines]))
    return f"strict decoding error: {', '.join(texts)}"


def _walk_yaml(node: Any, messages: list[str]) -> None:
    if node.__class__.__name__ == "MappingNode":
        seen: set[str] = set()
        for key, below in node.value:
            name = str(key.value)
            if name in seen:
                messages.append(f'line {key.start_mark.line + 1}: key "{name}" already set in map')
            seen.add(name)
            _walk_yaml(below, messages)
    elif node.__class__.__name__ == "SequenceNode":
        for item in node.value:
            _walk_yaml(item, messages)


def duplicates(body: bytes) -> list[str]:
    """The paths of the fields that an object of a JSON body has twice."""
    document = json.loads(body, object_pairs_hook=_Pairs)
    paths: list[str] = []
    _walk(document, "", paths)
    return paths


class _Pairs(list[tuple[str, Any]]):
    """An object as its pairs, repeated keys and all."""


def _walk(item: Any, path: str, paths: list[str]) -> None:
    if isinstance(item, _Pairs):
        seen: set[str] = set()
        for key, below in item:
            here = f"{path}.{key}" if path else key
            if key in seen and here not in paths:
                paths.append(here)
            seen.add(key)
            _walk(below, here, paths)
    elif isinstance(item, list):
        for index, below in enumerate(item):
            _walk(below, f"{path}[{index}]", paths)

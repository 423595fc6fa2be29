"""YAML that people write, read so that what is wrong with it is one line: file, line, what is valid. Pure.

    one, many     the document, or the documents, of a text
    converted     the one document as a type; unknown fields and wrong values are told with their line

All raise `BadYaml`. Bounds hold before anything is made of a text: an alias (`*name`) counts as often as all
that it stands for, because ten lines of them make a billion values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
import yaml

T = TypeVar("T")

_PLACE = re.compile(r"^(?P<what>.*?) - at `(?:key in )?\$(?P<path>[^`]*)`$", re.DOTALL)
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+|\.\.\.)\]")
_UNKNOWN = re.compile(r"^Object contains unknown field `(.*)`$", re.DOTALL)


class Bounds(NamedTuple):
    """How much a text may be.

    Attributes:
        size: bytes.
        values: scalars, lists and mappings, each alias counted as what it stands for.
        depth: lists and mappings within each other.
    """

    size: int
    values: int
    depth: int


FROM_FILE: Final = Bounds(32 * 2**20, 2_000_000, 100)
"""Of a file that somebody names on a command line."""
FROM_CLUSTER: Final = Bounds(2**20, 50_000, 64)
"""Of a key of a ConfigMap, as long as the API server lets a whole one be."""
MAX_NUMBER: Final = 200
"""Characters of a number; one of a hundred thousand digits takes seconds to read."""
_NUMBER: Final = re.compile(r"[-+.0-9][-+.0-9_:a-fA-FxX]*")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_SMALL: Final = 2**14
"""Characters up to which the parser in Python reads a text: its messages are better, but it is slow."""
_FAST: Final[type[Any]] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class BadYaml(ValueError):
    """A text that is not what is wanted; the message is one line that names the file, the line and what is valid."""


class _Document:
    def __init__(self, value: Any, node: yaml.Node) -> None:
        self.value, self.node = value, node

    @property
    def line(self) -> int:
        return int(node_line(self.node))


def node_line(node: yaml.Node) -> int:
    """The line where a node begins, from 1."""
    return int(node.start_mark.line) + 1


def one(text: str, name: str, valid: str, bounds: Bounds = FROM_FILE) -> Any:
    """The only document of a text; None where there is nothing in it.

    Args:
        text: the YAML.
        name: of the file or option, for people.
        valid: what is expected, as in "a mapping with `groups`".
        bounds: how much it may be.
    """
    documents = _documents(text, name, valid, bounds)
    if len(documents) > 1:
        raise BadYaml(
            f"{name}, line {documents[1].line}: a second document begins before this line (`---`); "
            f"valid is one document: {valid}"
        )
    return documents[0].value if documents else None


def many(text: str, name: str, valid: str, bounds: Bounds = FROM_FILE) -> list[Any]:
    """The documents of a text, without empty ones; arguments as for `one`."""
    return [document.value for document in _documents(text, name, valid, bounds)]


def converted(
    text: str,
    name: str,
    kind: type[T],
    valid: str,
    dec_hook: Callable[[type, Any], Any] | None = None,
    *,
    prepared: Callable[[Any], Any] = lambda value: value,
) -> T:
    """The only document of a text as a type, an empty mapping where there is none; `dec_hook` is msgspec's.

    `prepared` gives the document as the type wants it, where people write it otherwise.
    """
    value = prepared(one(text, name, valid))
    try:
        return msgspec.convert({} if value is None else value, kind, dec_hook=dec_hook)
    except msgspec.ValidationError as error:
        documents = _documents(text, name, valid, FROM_FILE)
        raise BadYaml(_placed(str(error), name, kind, documents[0].node if documents else None)) from error


def _check(text: str, name: str, bounds: Bounds) -> None:  # noqa: C901  # a dispatcher by type
    """Refuse a text that is too much, without making anything of it."""
    if (size := len(text)) > bounds.size or (size := len(text.encode("utf-8", "replace"))) > bounds.size:
        raise BadYaml(f"{name}: it has {size} bytes; valid are at most {bounds.size}")
    total = 0
    open_: list[tuple[str | None, int, int]] = []  # anchor, values and depth of what began and has not ended
    anchors: dict[str, tuple[int, int]] = {}
    values = depth = 0  # of what is within the innermost that is open

    def within(line: int) -> None:
        if total + values > bounds.values:
            raise BadYaml(
                f"{name}, line {line}: more than {bounds.values} values up to here, each alias (*name) counted as all "
                "that it stands for; valid are fewer"
            )
        if len(open_) + depth > bounds.depth:
            raise BadYaml(f"{name}, line {line}: nested too deeply; valid are at most {bounds.depth} levels")

    try:
        for event in yaml.parse(text, Loader=_FAST):
            line = event.start_mark.line + 1 if event.start_mark is not None else 0
            match event:
                case yaml.CollectionStartEvent():
                    open_.append((event.anchor, values, depth))
                    if event.anchor is not None:
                        anchors.pop(event.anchor, None)  # an alias within stands for nothing yet
                    total, values, depth = total + values, 1, 0
                case yaml.CollectionEndEvent():
                    anchor, before, deepest = open_.pop()
                    if anchor is not None:
                        anchors[anchor] = (values, depth + 1)
                    total -= before
                    values, depth = values + before, max(depth + 1, deepest)
                case yaml.AliasEvent():
                    if any(anchor == event.anchor for anchor, _, _ in open_):
                        raise BadYaml(f"{name}, line {line}: alias *{event.anchor} stands for what it is in")
                    more, deeper = anchors.get(event.anchor or "", (1, 0))
                    values, depth = values + more, max(depth, deeper)
                case yaml.ScalarEvent():
                    if event.anchor is not None:
                        anchors[event.anchor] = (1, 0)
                    if event.implicit[0] and len(event.value) > MAX_NUMBER and _NUMBER.fullmatch(event.value):
                        raise BadYaml(
                            f"{name}, line {line}: a number of {len(event.value)} characters; valid are at most "
                            f"{MAX_NUMBER}, or a text in quotes"
                        )
                    values += 1
                case yaml.DocumentStartEvent():
                    anchors.clear()
            within(line)
    except yaml.YAMLError:
        return  # told by who reads it, with the place


def _documents(text: str, name: str, valid: str, bounds: Bounds) -> list[_Document]:
    _check(text, name, bounds)
    loader, documents = None, []
    try:
        loader = (yaml.SafeLoader if len(text) <= _SMALL else _FAST)(text)
        while loader.check_node():
            if (node := loader.get_node()) is None:
                break
            if (half := _half(node)) is not None:
                raise BadYaml(
                    f"{name}, line {node_line(half)}: a text has half of a character (\\ud800 to \\udfff), which nothing can write; "
                    f"valid is {valid}"
                )
            try:
                value = loader.construct_document(node)
            except (ValueError, TypeError, OverflowError) as error:  # as for a date that there is not
                raise BadYaml(f"{name}, line {node_line(node)}: {error}; valid is {valid}") from error
            if value is not None:
                documents.append(_Document(value, node))
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise BadYaml(
            f"{name}, line {line}: not YAML: character {error.character!r} is not allowed; valid is {valid}"
        ) from error
    except yaml.MarkedYAMLError as error:
        raise BadYaml(f"{name}, {described(error)}; valid is {valid}") from error
    except RecursionError as error:
        raise BadYaml(f"{name}: nested too deeply; valid is {valid}") from error
    finally:
        if loader is not None:
            loader.dispose()
    return documents


def _half(root: yaml.Node) -> yaml.Node | None:
    """The first text with a lone surrogate, which escapes can write and no encoding has."""
    waiting, seen = [root], set()
    while waiting:
        node = waiting.pop()
        if id(node) in seen:  # an alias
            continue
        seen.add(id(node))
        match node:
            case yaml.ScalarNode() if not node.value.isascii() and _SURROGATE.search(node.value):
                return node
            case yaml.SequenceNode():
                waiting += reversed(node.value)
            case yaml.MappingNode():
                waiting += (part for pair in reversed(node.value) for part in reversed(pair))
    return None


def described(error: yaml.MarkedYAMLError) -> str:
    """The line and the reason of a parser, in one line."""
    problem, context = error.problem_mark or error.context_mark, error.context_mark
    reason = " ".join(str(error.problem or error.context or "it cannot be parsed").split())
    line = f"line {problem.line + 1}: " if problem else ""
    began = (
        f" ({error.context}, which begins in line {context.line + 1})" if error.context and context else ""
    )
    return f"{line}not YAML: {reason}{began}"


def _placed(message: str, name: str, kind: Any, root: yaml.Node | None) -> str:
    """What a conversion refuses, with the line and the field, and with the fields there are for one that is not."""
    match = _PLACE.match(message)
    what, path = (match["what"], match["path"]) if match else (message, "")
    steps = [field or index for field, index in _STEP.findall(path)]
    unknown = _UNKNOWN.match(what)
    node = _node(root, [*steps, unknown[1]] if unknown else steps, of_key=unknown is not None)
    line = f", line {node_line(node)}" if node is not None else ""
    field = path.removeprefix(".")
    where = f"{name}{line}" + (f": {field}" if field else "")
    if unknown:
        known = ", ".join(sorted(_fields(kind, steps)))
        return f"{where}: field {unknown[1]!r} is not known" + (f"; valid are {known}" if known else "")
    return f"{where}: {' '.join(what.split())}"


def _node(root: yaml.Node | None, steps: list[str], *, of_key: bool = False) -> yaml.Node | None:
    """The node at a path, or the last one on the way to it; with `of_key` that of its key."""
    node = root
    for step in steps:
        if isinstance(node, yaml.SequenceNode) and step.isdigit() and int(step) < len(node.value):
            node = node.value[int(step)]
        elif isinstance(node, yaml.MappingNode):
            pair = next((pair for pair in node.value if pair[0].value == step), None)
            if pair is None:
                break
            node = pair[0] if of_key and step is steps[-1] else pair[1]
        else:
            break
    return node


def _fields(kind: Any, steps: list[str]) -> Iterator[str]:
    """The names of the fields of the type at a path."""
    info: msgspec.inspect.Type = msgspec.inspect.type_info(kind)
    for step in steps:
        info = _inner(info, step)
    for one_of in _alternatives(info):
        if isinstance(one_of, msgspec.inspect.StructType | msgspec.inspect.DataclassType):
            yield from (field.encode_name for field in one_of.fields)


def _alternatives(info: msgspec.inspect.Type) -> tuple[msgspec.inspect.Type, ...]:
    return info.types if isinstance(info, msgspec.inspect.UnionType) else (info,)


def _inner(info: msgspec.inspect.Type, step: str) -> msgspec.inspect.Type:
    for kind in _alternatives(info):
        if isinstance(kind, msgspec.inspect.StructType | msgspec.inspect.DataclassType):
            for field in kind.fields:
                if field.encode_name == step:
                    return field.type
        if isinstance(kind, msgspec.inspect.VarTupleType | msgspec.inspect.ListType):
            return kind.item_type
        if isinstance(kind, msgspec.inspect.DictType):
            return kind.value_type
    return msgspec.inspect.AnyType()

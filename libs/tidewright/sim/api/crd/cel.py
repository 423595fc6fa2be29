"""CEL: the rules of custom resources and the match conditions of webhooks.

An expression is compiled once (`compile_rule`) and evaluated over plain JSON values. The functions that
Kubernetes adds to the language (lists, regular expressions, quantities, sets) are declared here. Values are
typed by what they are, not by their schema: an expression that names a field which the schema has not
compiles, and fails when it is evaluated.
"""

from __future__ import annotations

import datetime as dt
import re
from functools import lru_cache
from itertools import pairwise
from typing import Any

from tidewright.kube import quantities
from tidewright.kube.celfunctions import declaring
from tidewright.kube.durations import parse_duration

Object = dict[str, Any]

_ESCAPES = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_RESERVED = frozenset(
    [
        "true",
        "false",
        "null",
        "in",
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
        "while",
    ]
)


class CelError(ValueError):
    """An expression that does not compile, or fails when it is evaluated."""


class CelRule:
    """One compiled expression; `optional_old` when it sees `oldSelf` as an optional value."""

    __slots__ = ("_expression", "_optional_old", "escaped", "text", "uses_old")

    def __init__(self, text: str, expression: Any, *, optional_old: bool = False) -> None:
        self.text = text
        self._expression = expression
        self._optional_old = optional_old
        self.uses_old = _OLD_SELF.search(text) is not None
        self.escaped = "__" in text  # names that CEL cannot spell are written in an escaped form

    def evaluate(self, data: Object) -> Any:
        """The plain value. Raises CelError when the evaluation fails."""
        if self._optional_old:
            data = data | {"oldSelf": [data["oldSelf"]] if "oldSelf" in data else []}
        try:
            value = self._expression.eval(data=data)
        except (RuntimeError, ValueError, TypeError) as error:
            raise CelError(_first_line(error)) from None
        if value.type().name() == "*error*" or str(value.type()) == "ERROR" or _is_error(value):
            raise CelError(_cel_message(value))
        return value.plain_value()


_OLD_SELF = re.compile(r"\boldSelf\b")
Times = tuple[tuple[str, str], ...]
"""The fields that are times or durations by their format: (name, function that makes one of the text); the name is
empty for the value itself, and lists of them have `[]` behind it."""

# An optional value cannot be handed in, so it comes as a list of one or none. Texts in quotes stay as they are.
_OPTIONAL_OLD = "(oldSelf.size() == 0 ? optional.none() : optional.of(oldSelf[0]))"
_QUOTED_OR_OLD = re.compile(r"""("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|\boldSelf\b""")


def _is_error(value: Any) -> bool:
    from cel_expr_python import cel

    return bool(value.type() == cel.Type.ERROR)


def _cel_message(value: Any) -> str:
    text = str(value.value())
    match = re.search(r'Key not found in map : "(.*?)"', text)
    return f"no such key: {match[1]}" if match else "no such overload" if "overload" in text else text


@lru_cache(maxsize=4096)
def compile_rule(
    text: str,
    variables: tuple[str, ...] = ("self", "oldSelf"),
    *,
    optional_old: bool = False,
    times: Times = (),
) -> CelRule:
    """Compile an expression over the named variables. Raises CelError with the compiler's message."""
    written = _with_times(text, times)
    if optional_old:
        written = _QUOTED_OR_OLD.sub(lambda match: match[1] or _OPTIONAL_OLD, written)
    try:
        return CelRule(text, _environment(variables).compile(written), optional_old=optional_old)
    except (RuntimeError, ValueError) as error:
        message = str(error).removeprefix("INVALID_ARGUMENT: ").removesuffix(" [INVALID_ARGUMENT]")
        raise CelError(f"compilation failed: {message.strip()}") from None


_QUOTED = r"""(?P<quoted>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')"""
_HAS = r"(?P<has>\bhas\([^()]*\))"


def _with_times(text: str, times: Times) -> str:
    """The expression with its texts that are times made into times where they are read.

    Values that are handed in cannot hold times below themselves, so they stay texts until then.
    """
    if not times:
        return text
    makers = dict(times)
    names = "|".join(
        sorted({re.escape(name.removesuffix("[]")) for name in makers if name}, key=len, reverse=True)
    )
    parts = [_QUOTED, _HAS]
    if names:
        parts.append(rf"(?P<select>\.(?P<optional>\??)(?P<name>{names})\b)(?!\s*\()")
    if "" in makers:
        parts.append(r"(?P<own>(?<![.\w])(?:self|oldSelf)\b)")

    def replace(match: re.Match[str]) -> str:
        groups = match.groupdict()
        if groups.get("own"):
            return f"{match[0]}.{makers['']}()"
        if not groups.get("select"):
            return match[0]
        name = groups["name"]
        if f"{name}[]" in makers:
            return f"{match[0]}.map(t__, t__.{makers[f'{name}[]']}())"
        if groups["optional"]:
            return f"{match[0]}.optMap(t__, t__.{makers[name]}())"
        return f"{match[0]}.{makers[name]}()"

    return re.sub("|".join(parts), replace, text)


def times_below(schema: Object) -> Times:
    """The times and durations of a schema, by their fields' names as expressions write them."""
    times: dict[str, str] = {}
    _collect_times("", schema, times)
    return tuple(sorted(times.items()))


_MAKERS = {"date-time": "tidewright_time", "date": "tidewright_time", "duration": "tidewright_duration"}


def _collect_times(name: str, schema: Any, times: dict[str, str]) -> None:
    if not isinstance(schema, dict):
        return
    if schema.get("type") == "string" and schema.get("format") in _MAKERS:
        times[name] = _MAKERS[schema["format"]]
    for key, below in (schema.get("properties") or {}).items():
        _collect_times(escape(key), below, times)
    for key in ("items", "additionalProperties"):
        _collect_times(f"{name}[]" if key == "items" and name else "[]", schema.get(key), times)


def _time(text: str) -> dt.datetime:
    moment = dt.datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)


def _duration_of(text: str) -> dt.timedelta:
    try:
        return dt.timedelta(seconds=parse_duration(text))
    except (
        ValueError
    ):  # the format also takes words (`5 minutes`): no rule has asked for the amount of one yet
        return dt.timedelta()


@lru_cache(maxsize=16)
def _environment(variables: tuple[str, ...]) -> Any:
    from cel_expr_python import cel
    from cel_expr_python.ext import ext_math, ext_optional, ext_strings

    return cel.NewEnv(
        variables=dict.fromkeys(variables, cel.Type.DYN),
        extensions=[
            ext_strings.ExtStrings(),
            ext_math.ExtMath(),
            ext_optional.ExtOptional(),
            cel.CelExtension("kubernetes", _functions(cel)),
        ],
    )


def _functions(cel: Any) -> list[Any]:
    dyn, boolean, text, integer = cel.Type.DYN, cel.Type.BOOL, cel.Type.STRING, cel.Type.INT
    anything = cel.Type.List(dyn)

    declare = declaring(cel, "rule")
    return [
        declare("tidewright_time", cel.Type.TIMESTAMP, [dyn], _time),
        declare("tidewright_duration", cel.Type.DURATION, [dyn], _duration_of),
        declare(
            "isSorted",
            boolean,
            [anything],
            lambda items: all(a <= b for a, b in pairwise(items)),
        ),
        declare("sum", dyn, [anything], sum),
        declare("min", dyn, [anything], min),
        declare("max", dyn, [anything], max),
        declare("find", text, [text, text], _find),
        declare(
            "findAll", cel.Type.List(text), [text, text], lambda value, pattern: re.findall(pattern, value)
        ),
        declare("isQuantity", boolean, [text], _is_quantity, member=False),
        declare("quantity", integer, [text], lambda value: quantities.parse(value).nanos, member=False),
        declare(
            "sets.contains", boolean, [anything, anything], lambda a, b: all(x in a for x in b), member=False
        ),
        declare(
            "sets.intersects",
            boolean,
            [anything, anything],
            lambda a, b: any(x in a for x in b),
            member=False,
        ),
        declare(
            "sets.equivalent",
            boolean,
            [anything, anything],
            lambda a, b: all(x in a for x in b) and all(x in b for x in a),
            member=False,
        ),
    ]


def _find(value: str, pattern: str) -> str:
    match = re.search(pattern, value)
    return match[0] if match else ""


def _is_quantity(value: str) -> bool:
    try:
        quantities.parse(value)
    except quantities.NotAQuantity:
        return False
    return True


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__


# -- values -------------------------------------------------------------------------------------------


def escape(name: str) -> str:
    """The name by which an expression has to call a property."""
    if name in _RESERVED:
        return f"__{name}__"
    return re.sub(r"__|[.\-/]", lambda match: _ESCAPES[match[0]], name)


def to_cel(value: Any, schema: Object, *, escaped: bool) -> Any:
    """A JSON value as expressions see it: numbers by their type, names escaped where needed."""
    if isinstance(value, dict):
        properties = schema.get("properties")
        below = schema.get("additionalProperties")
        result = {}
        for key, item in value.items():
            if properties is not None and key in properties:
                name = escape(key) if escaped else key
                result[name] = to_cel(item, properties[key], escaped=escaped)
            else:
                result[key] = to_cel(item, below, escaped=escaped) if isinstance(below, dict) else item
        return result
    if isinstance(value, list):
        items = schema.get("items")
        return [to_cel(item, items, escaped=escaped) for item in value] if isinstance(items, dict) else value
    if schema.get("type") == "number" and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return value

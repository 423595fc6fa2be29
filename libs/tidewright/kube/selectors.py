"""Label and field selectors: parsed once, matched often.

Pure: used by deciders, by the watcher and by the embedded API server. A label selector comes as the
text of a query (`app=web,tier in (a,b),!legacy`) or as the object of the APIs (`matchLabels`,
`matchExpressions`); node selector terms use the same requirements with `Gt` and `Lt`.
A field selector (`status.phase!=Running`) is a conjunction of comparisons with a path.

    LabelSelector.parse(text)       text form; the empty text selects everything
    LabelSelector.of(selector)      object form; None selects nothing, {} everything
    FieldSelector.parse(text)       text form of fields

Everything refused is a `SelectorError` whose message names the part and what would be valid.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, cast, get_args

import msgspec

Operator = Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
FieldOperator = Literal["=", "!="]

OPERATORS = frozenset(get_args(Operator))
_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_PREFIX = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_INTEGER = re.compile(r"[-+]?\d+")
_TOKEN = re.compile(r"\s*(==|!=|=|>|<|!|,|\(|\)|[^\s=!<>,()]+)")


class SelectorError(ValueError):
    """A selector that cannot be read; the message names the part that is wrong."""


class Requirement(msgspec.Struct, frozen=True):
    """One condition on a label. `values` is empty for Exists and DoesNotExist, one number for Gt and Lt."""

    key: str
    operator: Operator
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value is not None and value in self.values
            case "NotIn":
                return value is None or value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
        if value is None or not _INTEGER.fullmatch(value):
            return False
        bound = int(next(iter(self.values)))
        return int(value) > bound if self.operator == "Gt" else int(value) < bound

    def __str__(self) -> str:
        values = ",".join(sorted(self.values))
        match self.operator:
            case "In":
                return f"{self.key}={values}" if len(self.values) == 1 else f"{self.key} in ({values})"
            case "NotIn":
                return f"{self.key}!={values}" if len(self.values) == 1 else f"{self.key} notin ({values})"
            case "Exists":
                return self.key
            case "DoesNotExist":
                return f"!{self.key}"
            case "Gt":
                return f"{self.key}>{values}"
        return f"{self.key}<{values}"


class LabelSelector(msgspec.Struct, frozen=True):
    """A conjunction of requirements; `nothing` selects no object at all (an absent selector)."""

    requirements: tuple[Requirement, ...] = ()
    nothing: bool = False

    @property
    def everything(self) -> bool:
        return not self.requirements and not self.nothing

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        if self.nothing:
            return False
        present = labels or {}
        return all(requirement.matches(present) for requirement in self.requirements)

    def excludes(self, other: LabelSelector) -> bool:
        """Whether no object can be selected by both, whatever its labels.

        That is so when for one label neither any value nor its absence satisfies all that both require of it, or
        when one of them selects nothing at all. For `In`, `NotIn`, `Exists` and `DoesNotExist` that is exact; of two
        ranges by `Gt` and `Lt` it is never found.
        """
        if self.nothing or other.nothing:
            return True
        of_label: dict[str, list[Requirement]] = {}
        for requirement in (*self.requirements, *other.requirements):
            of_label.setdefault(requirement.key, []).append(requirement)
        return any(not _satisfiable(requirements) for requirements in of_label.values())

    def __str__(self) -> str:
        return ",".join(str(requirement) for requirement in self.requirements)

    @classmethod
    def parse(cls, text: str) -> LabelSelector:
        """Read the text form. Raises SelectorError."""
        return cls(tuple(_Parser(text).requirements()))

    @classmethod
    def of(cls, selector: Mapping[str, Any] | None) -> LabelSelector:
        """Read the object form (`matchLabels`, `matchExpressions`). Raises SelectorError."""
        if selector is None:
            return cls(nothing=True)
        try:
            return cls(tuple(_object_form(selector)))
        except (AttributeError, TypeError, LookupError) as error:  # nobody has looked whether it is one
            raise SelectorError(
                f"{str(selector)[:80]!r} is not a label selector: valid are matchLabels, texts by text, and matchExpressions, "
                "a list of key, operator and values"
            ) from error


def _object_form(selector: Mapping[str, Any]) -> Iterable[Requirement]:
    labels: Mapping[str, str] = selector.get("matchLabels") or {}
    for key in sorted(labels):
        yield requirement(key, "In", (labels[key],))
    for expression in selector.get("matchExpressions") or ():
        operator = expression.get("operator", "")
        if operator not in ("In", "NotIn", "Exists", "DoesNotExist"):
            raise SelectorError(f'"{operator}" is not a valid label selector operator')
        yield requirement(expression.get("key", ""), operator, expression.get("values") or ())


def _satisfiable(requirements: Sequence[Requirement]) -> bool:
    """Whether a label can be such that all these requirements of it hold."""
    if all(requirement.matches({}) for requirement in requirements):
        return True
    if any(requirement.operator == "DoesNotExist" for requirement in requirements):
        return False
    listed = [requirement.values for requirement in requirements if requirement.operator == "In"]
    if not listed:
        return True  # of all values there are, some one is not excluded
    return any(
        all(requirement.matches({requirement.key: value}) for requirement in requirements)
        for value in frozenset.intersection(*listed)
    )


def requirement(key: str, operator: str, values: Iterable[str] = ()) -> Requirement:
    """Check and build one requirement, as node selector terms and match expressions give it.

    Raises:
        SelectorError: unknown operator, wrong number of values, key or value that no label can have.
    """
    if operator not in OPERATORS:
        raise SelectorError(f'"{operator}" is not a valid operator: {", ".join(sorted(OPERATORS))}')
    value_set = frozenset(values)
    _check_key(key)
    match operator:
        case "In" | "NotIn":
            if not value_set:
                raise SelectorError(
                    f"values of {key}: for 'in', 'notin' operators, values set can't be empty"
                )
        case "Exists" | "DoesNotExist":
            if value_set:
                raise SelectorError(
                    f"values of {key}: values set must be empty for exists and does not exist"
                )
        case _:
            if len(value_set) != 1 or not _INTEGER.fullmatch(next(iter(value_set))):
                raise SelectorError(
                    f"values of {key}: for 'Gt', 'Lt' operators, exactly one integer is required"
                )
    for value in value_set:
        if len(value) > 63 or not _VALUE.fullmatch(value):
            raise SelectorError(
                f"value {value!r} of {key}: a valid label must be an empty string or consist of alphanumeric "
                "characters, '-', '_' or '.', and must start and end with an alphanumeric character"
            )
    return Requirement(key, cast("Operator", operator), value_set)


class FieldRequirement(msgspec.Struct, frozen=True):
    path: str
    operator: FieldOperator
    value: str

    def __str__(self) -> str:
        return f"{self.path}{self.operator}{self.value}"


class FieldSelector(msgspec.Struct, frozen=True):
    """A conjunction of comparisons with fields, given by their path (`spec.nodeName`)."""

    requirements: tuple[FieldRequirement, ...] = ()

    def matches(self, fields: Mapping[str, str]) -> bool:
        """Whether the fields (path to text; absent ones are empty) satisfy the selector."""
        return all(
            (fields.get(comparison.path, "") == comparison.value) == (comparison.operator == "=")
            for comparison in self.requirements
        )

    def exact(self, path: str) -> str | None:
        """The value that `path` must have, if the selector pins it."""
        for comparison in self.requirements:
            if comparison.path == path and comparison.operator == "=":
                return comparison.value
        return None

    def __str__(self) -> str:
        return ",".join(str(comparison) for comparison in self.requirements)

    @classmethod
    def parse(cls, text: str) -> FieldSelector:
        """Read the text form; backslash escapes a comma, an equals sign and itself. Raises SelectorError."""
        requirements = []
        for term in _split_terms(text):
            if not term:
                continue
            match = re.match(r"(?P<path>[^=!\\]+)(?P<op>!=|==|=)(?P<value>.*)", term, re.DOTALL)
            if match is None:
                raise SelectorError(f"invalid selector: '{term}'; can't understand '{term}'")
            operator: FieldOperator = "!=" if match["op"] == "!=" else "="
            requirements.append(FieldRequirement(match["path"], operator, _unescape(match["value"])))
        return cls(tuple(requirements))


def _split_terms(text: str) -> list[str]:
    return re.findall(r"(?:\\.|[^,\\])+", text, re.DOTALL)


def _unescape(value: str) -> str:
    bare = re.sub(r"\\[\\,=]", "", value)
    if "\\" in bare or "," in bare or "=" in bare:
        raise SelectorError(f"invalid field selector: invalid escape or unescaped character in '{value}'")
    return re.sub(r"\\(.)", r"\1", value)


def _check_key(key: str) -> None:
    prefix, slash, name = key.rpartition("/")
    if not _NAME.fullmatch(name) or (slash and (len(prefix) > 253 or not _PREFIX.fullmatch(prefix))):
        raise SelectorError(
            f"invalid label key \"{key}\": name part must consist of alphanumeric characters, '-', '_' or "
            "'.', and must start and end with an alphanumeric character"
        )


class _Parser:
    """Recursive descent over the text form: terms joined by commas."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[str] = []
        position = 0
        stripped = text.rstrip()
        while position < len(stripped):
            match = _TOKEN.match(stripped, position)
            if match is None:
                raise SelectorError(f"unable to parse requirement: cannot read {stripped[position:]!r}")
            self._tokens.append(match[1])
            position = match.end()
        self._next = 0

    def requirements(self) -> Iterable[Requirement]:
        if not self._tokens:
            return
        while True:
            yield self._requirement()
            if self._peek() is None:
                return
            self._expect(",")

    def _peek(self) -> str | None:
        return self._tokens[self._next] if self._next < len(self._tokens) else None

    def _take(self) -> str | None:
        token = self._peek()
        self._next += 1
        return token

    def _expect(self, expected: str) -> None:
        token = self._take()
        if token != expected:
            raise SelectorError(f"unable to parse requirement: found '{token or ''}' expected: '{expected}'")

    def _word(self, what: str) -> str:
        token = self._take()
        if token is None or token in {"=", "==", "!=", "!", "<", ">", ",", "(", ")"}:
            raise SelectorError(f"unable to parse requirement: found '{token or ''}', expected: {what}")
        return token

    def _requirement(self) -> Requirement:
        if self._peek() == "!":
            self._take()
            return requirement(self._word("identifier"), "DoesNotExist")
        key = self._word("identifier")
        match self._peek():
            case None | ",":
                return requirement(key, "Exists")
            case "=" | "==":
                self._take()
                return requirement(key, "In", (self._value(),))
            case "!=":
                self._take()
                return requirement(key, "NotIn", (self._value(),))
            case ">":
                self._take()
                return requirement(key, "Gt", (self._value(),))
            case "<":
                self._take()
                return requirement(key, "Lt", (self._value(),))
            case "in":
                self._take()
                return requirement(key, "In", self._values())
            case "notin":
                self._take()
                return requirement(key, "NotIn", self._values())
        raise SelectorError(
            f"unable to parse requirement: found '{self._peek()}', expected: in, notin, =, ==, !=, gt, lt"
        )

    def _value(self) -> str:
        if self._peek() in (None, ","):
            return ""
        return self._word("identifier")

    def _values(self) -> list[str]:
        self._expect("(")
        values = [""] if self._peek() in (",", ")") else [self._word("',', ')' or identifier")]
        while self._peek() == ",":
            self._take()
            values.append("" if self._peek() in (",", ")") else self._word("identifier"))
        self._expect(")")
        return values

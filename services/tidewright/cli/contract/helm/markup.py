"""Manifests with expressions of Helm in them, as templates.

Manifests are dictionaries, and Helm's templates are text. What Helm is to fill in stands in a manifest as a marked
string, which YAML writes as one quoted scalar, and `template` puts the expression in its place:

    value(e)         a scalar                                   `replicas: {{ e }}`
    some(e)          a scalar, left out where e is no text      `replicas:` and what e says
    optional(e)      a whole value, left out when e is empty    `resources:` and what e holds below it
    items(e)         an item of a list: all items of e          one quoted string each
    given(e, *xs)    items of a list that are there if e is     `{{- if e }}` around them

`CLUSTER` and `NAMESPACE` stand for two names that may be part of any text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from tidewright.cli.contract.deployment import dumped

Manifest = dict[str, Any]

CLUSTER, NAMESPACE = "cluster0stand0in", "namespace0stand0in"
"""Names that nothing else has, for places where a name is escaped or compared before it is written."""
_NAMES = {CLUSTER: "{{ $.Values.cluster }}", NAMESPACE: "{{ $.Release.Namespace }}"}
_MARKED = re.compile(r"'@(value|some|optional|items|line) (.*?) @'(?:: null)?")


def _mark(kind: str, expression: str) -> str:
    if "'" in expression:
        raise ValueError(
            f"{expression}: a single quote would end the scalar; Go's templates take double quotes"
        )
    return f"@{kind} {expression} @"


def value(expression: str) -> str:
    """A scalar."""
    return _mark("value", expression)


def some(expression: str) -> str:
    """The value of a key, a scalar; where it is empty text there is no key."""
    return _mark("some", expression)


def optional(expression: str) -> str:
    """The value of a key, of any shape; without anything in it there is no key."""
    return _mark("optional", expression)


def items(expression: str) -> str:
    """Strings in a list."""
    return _mark("items", expression)


def given(condition: str, *inner: Any) -> list[Any]:
    """Items of a list under a condition, which is what follows `{{-`: `if x`, or `range x`."""
    return [_mark("line", condition), *inner, _mark("line", "end")]


def under(condition: str, text: str) -> str:
    """Documents under a condition."""
    return f"{{{{- {condition} }}}}\n{text}{{{{- end }}}}\n"


def template(documents: Sequence[Manifest]) -> str:
    """Documents as the text of a template."""
    text = "".join(f"---\n{dumped([document], width=10_000)}" for document in documents)
    lines = [_line(line) for line in text.splitlines()]
    text = "\n".join(lines) + "\n"
    for name, expression in _NAMES.items():
        text = text.replace(name, expression)
    return text


def _line(line: str) -> str:
    found = _MARKED.search(line)
    if not found:
        return line
    kind, expression = found.groups()
    before = line[: found.start()]
    indent = " " * (len(before) - len(before.lstrip(" -")))
    match kind:
        case "value":
            return line.replace(found.group(), f"{{{{ {expression} }}}}")
        case "some":
            return f"{{{{- with {expression} }}}}\n{before}{{{{ . }}}}\n{{{{- end }}}}"
        case "items":
            return f"{{{{- range {expression} }}}}\n{before}{{{{ . | quote }}}}\n{{{{- end }}}}"
        case "line":
            return f"{{{{- {expression} }}}}"
    below = f"{{{{- toYaml . | nindent {len(indent) + 2} }}}}"
    return f"{{{{- with {expression} }}}}\n{before}{below}\n{{{{- end }}}}"

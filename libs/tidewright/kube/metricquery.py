"""Names of metric queries: what the watcher asks, and what the autoscaler waits for.

A query is named `<source>/<metric>/<selector>`: the source is `external` or `resource`, `/` and `%`
in the metric's name are percent-encoded (`nvidia.com%2Fgpu`), and the selector is in its text form
with the requirements in the order of their keys. Two objects that ask the same thing thus share one
query, one request and one fact.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, cast
from urllib.parse import quote

import msgspec

from tidewright.kube.selectors import LabelSelector, SelectorError

Source: TypeAlias = Literal["external", "resource"]

_BODIES: dict[str, tuple[Source, str]] = {
    "External": ("external", "metricName"),
    "Resource": ("resource", "name"),
}


class NotAQuery(ValueError):
    """The text names no metric query."""


class MetricQuery(msgspec.Struct, frozen=True, order=True):
    """One question to a metrics API, in one namespace.

    Attributes:
        source: which API.
        metric: name of the External metric, or of the resource (`cpu`).
        selector: text form; of series for `external`, of pods for `resource`.
    """

    source: Source
    metric: str
    selector: str

    @property
    def name(self) -> str:
        """The name of its `MetricSampled` facts."""
        metric = self.metric.replace("%", "%25").replace("/", "%2F")
        return f"{self.source}/{metric}/{self.selector}"

    @classmethod
    def parse(cls, name: str) -> MetricQuery:
        """The query of this name.

        Raises:
            NotAQuery: the name is none.
        """
        source, _, rest = name.partition("/")
        metric, slash, selector = rest.partition("/")
        if source not in ("external", "resource") or not slash or not metric:
            raise NotAQuery(f"{name!r} names no query; valid is for instance external/requests/app=web")
        return cls(cast("Source", source), metric.replace("%2F", "/").replace("%25", "%"), selector)


def selector_text(selector: Mapping[str, Any] | None) -> str:
    """The text form of a selector object, requirements in the order of their keys; empty for none.

    Raises:
        SelectorError: a requirement that cannot be read.
    """
    return ",".join(sorted(str(r) for r in LabelSelector.of(selector or {}).requirements))


MAX_NAME_BYTES = 3000
"""Of a query's name as it stands in a subject. Who sends a NATS server a line of more than 4,096 bytes loses the connection,
with everything else that goes over it.
"""


def name_bytes(name: str) -> int:
    """How long the name of a query is in a subject, where most marks stand as three bytes each."""
    return len(quote(name, safe="-_=/:,")) + 2 * (name.count(".") + name.count("~"))


MAX_METRICS = 50
"""Entries of one object that are asked for: each is a request at every interval, on behalf of whoever wrote it."""


def queries(spec: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of all queries of a WatermarkPodAutoscaler's spec, each once, in its order.

    Entries that cannot be asked (unknown type, body or name missing, selector unreadable, a name of more than
    `MAX_NAME_BYTES`) are left out, and so is what lies beyond `MAX_METRICS`: the autoscaler says what is wrong with them.
    """
    names: dict[str, None] = {}
    metrics = spec.get("metrics")
    for entry in metrics[:MAX_METRICS] if isinstance(metrics, list) else ():
        query = _query(entry)
        if query is not None and name_bytes(query.name) <= MAX_NAME_BYTES:
            names[query.name] = None
    return tuple(names)


def _query(entry: Any) -> MetricQuery | None:
    kind = entry.get("type") if isinstance(entry, dict) else None
    known = _BODIES.get(kind) if isinstance(kind, str) else None
    if known is None:
        return None
    source, key = known
    body = entry.get(source)
    if not isinstance(body, dict) or not isinstance(body.get(key), str) or not body[key]:
        return None
    try:
        return MetricQuery(source, body[key], selector_text(body.get("metricSelector")))
    except (SelectorError, AttributeError, TypeError):
        return None

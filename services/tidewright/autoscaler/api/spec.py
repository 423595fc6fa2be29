"""What the user wrote, and what the decider makes of it (sections 1.2 to 1.8, 2.2.10).

WatermarkSpec   the CRD's spec, member for member; `decode` reads it from JSON
with_defaults   the same spec with what was left out filled in
with_marks      the same spec with a missing watermark copied from the present one
problem         why a defaulted spec cannot be used, in the reference's words; empty when it can
Rules           the spec compiled: integers, queries and names, all that a pass needs
parsed          from JSON to `Rules`, whatever they say: the fold keeps that
verdict         why a spec cannot be used, from JSON
compiled        both: from JSON to `Rules` that can be used
"""

from __future__ import annotations

from collections.abc import Mapping
from sys import intern
from typing import Annotated, Any

import msgspec

from tidewright.events.acting import of_annotation
from tidewright.kube.metricquery import (
    MAX_METRICS,
    MAX_NAME_BYTES,
    MetricQuery,
    Source,
    name_bytes,
    selector_text,
)
from tidewright.kube.quantities import NotAQuantity, Quantity, QuantityText, parse, printed
from tidewright.kube.recommendation import metric_name
from tidewright.kube.selectors import SelectorError

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]

MAX_NAME = 253
"""Characters of the longest name that an object may have; more is not asked for."""
LIFECYCLE = "wpa.datadoghq.com/lifecycle-control.enabled"
"""Annotation: a DatadogMonitor of the object's own name is a gate (section 2.2)."""

DEFAULT_ALGORITHM = "absolute"
DEFAULT_TOLERANCE = "100m"
DEFAULT_UP_FACTOR = "50"
DEFAULT_DOWN_FACTOR = "20"
DEFAULT_UP_WINDOW_S = 60
DEFAULT_DOWN_WINDOW_S = 300
DEFAULT_MIN_REPLICAS = 1
DEFAULT_MODULO = 1


class InvalidSpec(ValueError):
    """The spec cannot be used; the message is what the user reads in condition and object event."""


class _Wire(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """A part of the API: absent members have the API's zero value; unknown ones are ignored."""


class TargetReference(_Wire):
    """What is scaled: anything with a scale subresource, in the object's own namespace."""

    kind: str = ""
    name: str = ""
    api_version: str = ""


class LabelRequirement(_Wire):
    key: str = ""
    operator: str = ""
    values: list[str] = []


class Selector(_Wire):
    """A label selector as the API has it."""

    match_labels: dict[str, str] = {}
    match_expressions: list[LabelRequirement] = []


class ExternalMetric(_Wire):
    metric_name: str = ""
    metric_selector: Selector | None = None
    high_watermark: QuantityText | None = None
    low_watermark: QuantityText | None = None


class ResourceMetric(_Wire):
    name: str = ""
    metric_selector: Selector | None = None
    high_watermark: QuantityText | None = None
    low_watermark: QuantityText | None = None


class MetricEntry(_Wire):
    """One metric; the body is the member named like the type."""

    type: str = ""
    external: ExternalMetric | None = None
    resource: ResourceMetric | None = None


class RecommenderSpec(_Wire):
    """An HTTP service that is asked for the replica count."""

    url: str = ""
    settings: dict[str, str] = {}
    target_type: str = ""
    high_watermark: QuantityText | None = None
    low_watermark: QuantityText | None = None
    tls_config: dict[str, Any] | None = None


class WatermarkSpec(_Wire):
    """`spec` of a WatermarkPodAutoscaler."""

    scale_target_ref: TargetReference = msgspec.field(default_factory=TargetReference)
    metrics: list[MetricEntry] = []
    recommender: RecommenderSpec | None = None
    min_replicas: Int32 | None = None
    max_replicas: Int32 = 0
    algorithm: str = ""
    tolerance: QuantityText = "0"
    tolerate_zero: bool = False
    dry_run: bool = False
    scale_up_limit_factor: QuantityText | None = None
    scale_down_limit_factor: QuantityText | None = None
    upscale_forbidden_window_seconds: Int32 = 0
    downscale_forbidden_window_seconds: Int32 = 0
    upscale_delay_above_watermark_seconds: Int32 = 0
    downscale_delay_below_watermark_seconds: Int32 = 0
    replica_scaling_absolute_modulo: Int32 | None = None
    converge_towards_watermark: str = ""
    min_available_replica_percentage: Int32 = 0
    readiness_delay_seconds: Int32 = 0


def decode(spec: Mapping[str, Any]) -> WatermarkSpec:
    """Read the JSON form; `null` counts as absent.

    Raises:
        InvalidSpec: a member of the wrong type; the message names it.
    """
    try:
        return msgspec.convert(_without_nulls(spec), WatermarkSpec)
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at `$")
        path = where.rstrip("`")
        raise InvalidSpec(f"spec{path}: {what[:1].lower()}{what[1:]}") from error


def _without_nulls(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_nulls(member) for key, member in value.items() if member is not None}
    if isinstance(value, list):
        return [_without_nulls(member) for member in value]
    return value


def with_defaults(spec: WatermarkSpec) -> WatermarkSpec:
    """The spec with what was left out filled in (1.7).

    A tolerance of 0 cannot be told from an absent one, and takes the default; a limit factor of 0
    is a value, and stays.
    """
    return msgspec.structs.replace(
        spec,
        min_replicas=DEFAULT_MIN_REPLICAS if spec.min_replicas is None else spec.min_replicas,
        algorithm=spec.algorithm or DEFAULT_ALGORITHM,
        tolerance=spec.tolerance if _quantity("tolerance", spec.tolerance).milli else DEFAULT_TOLERANCE,
        scale_up_limit_factor=_or(spec.scale_up_limit_factor, DEFAULT_UP_FACTOR),
        scale_down_limit_factor=_or(spec.scale_down_limit_factor, DEFAULT_DOWN_FACTOR),
        upscale_forbidden_window_seconds=spec.upscale_forbidden_window_seconds or DEFAULT_UP_WINDOW_S,
        downscale_forbidden_window_seconds=spec.downscale_forbidden_window_seconds or DEFAULT_DOWN_WINDOW_S,
        replica_scaling_absolute_modulo=(
            DEFAULT_MODULO
            if spec.replica_scaling_absolute_modulo is None
            else spec.replica_scaling_absolute_modulo
        ),
    )


def missing_defaults(spec: Mapping[str, Any]) -> dict[str, str | int]:
    """The members that defaulting fills in, under their names in the API.

    Raises:
        InvalidSpec: as `decode`.
    """
    stored = decode(spec)
    before, after = msgspec.to_builtins(stored), msgspec.to_builtins(with_defaults(stored))
    return {key: value for key, value in after.items() if before.get(key) != value}


def _or(value: QuantityText | None, default: str) -> QuantityText:
    return default if value is None else value


def _quantity(field: str, text: QuantityText) -> Quantity:
    try:
        return parse(text)
    except NotAQuantity as error:
        raise InvalidSpec(f"spec.{field}: {error}") from error


def with_marks(spec: WatermarkSpec) -> WatermarkSpec:
    """The spec with a missing watermark of a metric copied from the present one (2.2.10)."""
    return msgspec.structs.replace(spec, metrics=[_with_marks(entry) for entry in spec.metrics])


def _with_marks(entry: MetricEntry) -> MetricEntry:
    changes: dict[str, Any] = {}
    for member in ("external", "resource"):
        body: ExternalMetric | ResourceMetric | None = getattr(entry, member)
        if body is not None:
            high, low = body.high_watermark, body.low_watermark
            changes[member] = msgspec.structs.replace(
                body,
                high_watermark=low if high is None else high,
                low_watermark=high if low is None else low,
            )
    return msgspec.structs.replace(entry, **changes)


def go_map(labels: Mapping[str, str]) -> str:
    """Labels as the reference prints them: `map[a:1 b:2]`."""
    return f"map[{' '.join(f'{key}:{labels[key]}' for key in sorted(labels))}]"


def problem(spec: WatermarkSpec, *, namespace: str, name: str) -> str:
    """Why this (defaulted) spec cannot be used; empty when it can (1.8).

    Raises:
        InvalidSpec: a quantity that is none.
    """
    target = spec.scale_target_ref
    if not target.kind or not target.name:
        return (
            f"the Spec.ScaleTargetRef should be populated, currently Kind:{target.kind} and/or "
            f"Name:{target.name} are not set properly"
        )
    for field, text in (("kind", target.kind), ("name", target.name), ("apiVersion", target.api_version)):
        if len(text) > MAX_NAME:
            return f"spec.scaleTargetRef.{field} has {len(text)} characters: expected {MAX_NAME} at most"
    if spec.min_replicas is None or spec.max_replicas < spec.min_replicas:
        return (
            "watermark pod autoscaler requires the minimum number of replicas to be configured and "
            "inferior to the maximum"
        )
    return _factor_problem(spec) or _metrics_problem(spec, namespace=namespace, name=name)


def _factor_problem(spec: WatermarkSpec) -> str:
    tolerance = _quantity("tolerance", spec.tolerance)
    if not 0 <= tolerance.milli <= 1000:
        return (
            "tolerance should be set as a quantity between 0 and 1, currently set to : "
            f"{printed(spec.tolerance)}, which is {tolerance.milli / 10:.0f}%"
        )
    if spec.scale_up_limit_factor is None or spec.scale_down_limit_factor is None:
        return "scaleuplimitfactor and scaledownlimitfactor can't be nil, make sure the WPA spec is defaulted"
    up = _quantity("scaleUpLimitFactor", spec.scale_up_limit_factor)
    if up.milli < 0:
        return (
            "scaleuplimitfactor should be set as a positive quantity, currently set to : "
            f"{printed(spec.scale_up_limit_factor)}, which could yield a {up.milli / 1000:.0f}% growth"
        )
    down = _quantity("scaleDownLimitFactor", spec.scale_down_limit_factor)
    if not 0 <= down.milli < 100_000:
        return (
            "scaledownlimitfactor should be set as a quantity between 0 and 100 (exc.), currently set to : "
            f"{printed(spec.scale_down_limit_factor)}, which could yield a {down.milli / 1000:.0f}% decrease"
        )
    return ""


def _metrics_problem(spec: WatermarkSpec, *, namespace: str, name: str) -> str:
    if spec.recommender is not None and spec.metrics:
        return "recommender and metrics can't be set at the same time, please choose one"
    if len(spec.metrics) > MAX_METRICS:
        return _too_many(spec)
    for index, entry in enumerate(spec.metrics):
        body: ExternalMetric | ResourceMetric | None
        match entry.type:
            case "External":
                body, title = entry.external, entry.external.metric_name if entry.external else ""
            case "Resource":
                body, title = entry.resource, entry.resource.name if entry.resource else ""
            case _:
                return f"incorrect metric.Type: '{entry.type}'"
        if body is None:
            return f"metric.{entry.type} is nil while metric.Type is '{entry.type}'"
        if body.high_watermark is None and body.low_watermark is None:
            return (
                f"watermarks are not set correctly, removing the WPA {namespace}/{name} from the Reconciler"
            )
        if body.metric_selector is None:
            return f"missing Labels for the {entry.type} metric {title}"
        where = f"metrics[{index}].{entry.type.lower()}"
        marks = [
            _quantity(f"{where}.{member}", mark).milli
            for member, mark in (("highWatermark", body.high_watermark), ("lowWatermark", body.low_watermark))
            if mark is not None
        ]
        if len(marks) == 2 and marks[0] < marks[1]:
            return (
                f"low WaterMark of {entry.type} metric {title}{{{go_map(body.metric_selector.match_labels)}}} "
                "has to be strictly inferior to the High Watermark"
            )
    return ""


def _too_many(spec: WatermarkSpec) -> str:
    return f"metrics has {len(spec.metrics)} entries; at most {MAX_METRICS} are asked for"


class Marks(msgspec.Struct, frozen=True):
    """The two watermarks in milli, raw and with the tolerance applied (2.8)."""

    low: int
    high: int
    low_adjusted: int
    high_adjusted: int

    @classmethod
    def of(cls, low: int, high: int, tolerance: int) -> Marks:
        """All in milli; the margins are truncated toward zero."""
        return cls(low, high, low - _truncated(low * tolerance), high + _truncated(high * tolerance))


def _truncated(product: int) -> int:
    return product // 1000 if product >= 0 else -(-product // 1000)


class Metric(msgspec.Struct, frozen=True):
    """One metric of the spec, compiled.

    Attributes:
        name: External metric name, or resource.
        display: the name with its labels, as conditions and object events show it.
        query: name of the samples that it reads.
    """

    source: Source
    name: str
    display: str
    query: str
    selector: str
    labels: tuple[tuple[str, str], ...]
    marks: Marks


class Recommender(msgspec.Struct, frozen=True):
    """The recommender of the spec, compiled; a mark that is not set is None."""

    name: str
    url: str
    low: int | None
    high: int | None


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """The spec, compiled: all that a pass needs of it. Quantities are in milli.

    Attributes:
        target_key: what identifies the target in its namespace: `<group>/<kind>/<name>`; the
            version of its API does not matter.
        min_replicas: 0 when it is not set.
        up_factor: percent of the present count that one decision may add; 0 disables upscaling.
    """

    target_kind: str
    target_name: str
    target_api_version: str
    target_key: str
    metrics: tuple[Metric, ...] = ()
    recommender: Recommender | None = None
    min_replicas: int = 0
    max_replicas: int = 0
    average: bool = False
    tolerance: int = 0
    tolerate_zero: bool = False
    dry_run: bool = False
    up_factor: int = 0
    down_factor: int = 0
    up_window_s: int = 0
    down_window_s: int = 0
    up_delay_s: int = 0
    down_delay_s: int = 0
    modulo: int = 1
    converge: str = ""
    min_available_percent: int = 0
    readiness_delay_s: int = 0


def target_key(api_version: str, kind: str, name: str) -> str:
    """What identifies a scaled object within a namespace; versions of one group are the same."""
    group, slash, _ = api_version.rpartition("/")
    return f"{group if slash else ''}/{kind}/{name}"


def rules(spec: WatermarkSpec) -> Rules:
    """Compile a spec as it is; defaults and missing marks are the caller's to fill in.

    Raises:
        InvalidSpec: a quantity or a selector that cannot be read.
    """
    target = spec.scale_target_ref
    tolerance = _quantity("tolerance", spec.tolerance).milli
    return Rules(
        target_kind=intern(target.kind),
        target_name=target.name,
        target_api_version=intern(target.api_version),
        target_key=target_key(target.api_version, target.kind, target.name),
        metrics=tuple(_metric(entry, index, tolerance) for index, entry in enumerate(spec.metrics)),
        recommender=None if spec.recommender is None else _recommender(spec.recommender),
        min_replicas=spec.min_replicas or 0,
        max_replicas=spec.max_replicas,
        average=spec.algorithm == "average",
        tolerance=tolerance,
        tolerate_zero=spec.tolerate_zero,
        dry_run=spec.dry_run,
        up_factor=_quantity("scaleUpLimitFactor", spec.scale_up_limit_factor or "0").milli,
        down_factor=_quantity("scaleDownLimitFactor", spec.scale_down_limit_factor or "0").milli,
        up_window_s=spec.upscale_forbidden_window_seconds,
        down_window_s=spec.downscale_forbidden_window_seconds,
        up_delay_s=spec.upscale_delay_above_watermark_seconds,
        down_delay_s=spec.downscale_delay_below_watermark_seconds,
        modulo=max(1, spec.replica_scaling_absolute_modulo or 1),
        converge=spec.converge_towards_watermark,
        min_available_percent=spec.min_available_replica_percentage,
        readiness_delay_s=spec.readiness_delay_seconds,
    )


def _metric(entry: MetricEntry, index: int, tolerance: int) -> Metric:
    source: Source
    body: ExternalMetric | ResourceMetric
    if entry.type == "External" and entry.external is not None:
        source, name, body = "external", entry.external.metric_name, entry.external
    elif entry.type == "Resource" and entry.resource is not None:
        source, name, body = "resource", entry.resource.name, entry.resource
    else:
        raise InvalidSpec(f"spec.metrics[{index}]: the body of type {entry.type!r} is missing or unknown")
    where = f"metrics[{index}].{source}"
    wire = Selector() if body.metric_selector is None else body.metric_selector
    try:
        selector = selector_text(msgspec.to_builtins(wire))
    except SelectorError as error:
        raise InvalidSpec(f"spec.{where}.metricSelector: {error}") from error
    low = _quantity(f"{where}.lowWatermark", _or(body.low_watermark, "0")).milli
    high = _quantity(f"{where}.highWatermark", _or(body.high_watermark, "0")).milli
    query = MetricQuery(source, name, selector).name
    if (size := name_bytes(query)) > MAX_NAME_BYTES:
        raise InvalidSpec(
            f"spec.{where}: its name and selector have {size} bytes as they are asked for: expected {MAX_NAME_BYTES} at most"
        )
    return Metric(
        source=source,
        name=name,
        display=f"{name}{{{go_map(wire.match_labels)}}}",
        query=query,
        selector=selector,
        labels=tuple(sorted(wire.match_labels.items())),
        marks=Marks.of(low, high, tolerance),
    )


def _recommender(spec: RecommenderSpec) -> Recommender:
    def mark(member: str, text: QuantityText | None) -> int | None:
        return None if text is None else _quantity(f"recommender.{member}", text).milli

    return Recommender(
        name=metric_name(msgspec.to_builtins(spec)),
        url=spec.url,
        low=mark("lowWatermark", spec.low_watermark),
        high=mark("highWatermark", spec.high_watermark),
    )


def parsed(spec: Mapping[str, Any]) -> Rules:
    """From the stored JSON to rules, whatever they say: decode, default, fill in marks, compile.

    Raises:
        InvalidSpec: it cannot be read, or has more metrics than are ever looked at.
    """
    defaulted = with_defaults(decode(spec))
    if len(defaulted.metrics) > MAX_METRICS:
        raise InvalidSpec(_too_many(defaulted))
    return rules(with_marks(defaulted))


def laid_over(rules: Rules, annotations: Mapping[str, str]) -> Rules:
    """Rules of a spec as the object's annotations change them."""
    if of_annotation(annotations).mode == "dry-run":
        rules = msgspec.structs.replace(rules, dry_run=True)
    return rules


def verdict(spec: Mapping[str, Any], *, namespace: str, name: str) -> str:
    """Why a stored spec cannot be used, as the user reads it; empty when it can."""
    try:
        compiled(spec, namespace=namespace, name=name)
    except InvalidSpec as error:
        return str(error)
    return ""


def compiled(spec: Mapping[str, Any], *, namespace: str, name: str) -> Rules:
    """From the stored JSON to rules: decode, default, validate, fill in marks, compile.

    Raises:
        InvalidSpec: the spec cannot be used; the message is what the user reads.
    """
    defaulted = with_defaults(decode(spec))
    text = problem(defaulted, namespace=namespace, name=name)
    if text:
        raise InvalidSpec(text)
    return rules(with_marks(defaulted))

"""Forecasts of an object's load: what a pass looks at, what is recorded of them, and what is said."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

import msgspec

from tidewright.autoscaler.api.spec import Rules
from tidewright.autoscaler.forecast import bounds, memory, price, season
from tidewright.autoscaler.forecast.asked import (
    ANNOTATION,
    BY_PRICE,
    DEFAULT_CONFIDENCE,
    OFF,
    Asked,
    BadForecast,
    asked,
    goes_on,
    selects,
)
from tidewright.autoscaler.forecast.bounds import LEARNING, NO_RHYTHM, OFTEN_WRONG, UNPAID
from tidewright.autoscaler.forecast.learnt import adopted
from tidewright.autoscaler.forecast.load import MOST_METRICS, digest, shares
from tidewright.autoscaler.forecast.memory import Season
from tidewright.autoscaler.forecast.price import Band, Price
from tidewright.autoscaler.forecast.season import Expected
from tidewright.autoscaler.policy import Policy
from tidewright.autoscaler.state import Autoscaler, Forecast
from tidewright.autoscaler.tell.messages import NORMAL, WARNING, Message
from tidewright.events.autoscaler import RecordForecast
from tidewright.events.base import Because, ObjectRef, Scalar
from tidewright.kube.selectors import SelectorError

EVERY_S = 86400
"""What is known is recorded once a day."""
SOON_S = 3600
"""And for other marks or bounds alone once in so long."""
INVALID, STANDING = "InvalidForecast", "Forecast"
"""Reasons of object events."""
BY_ITS_PRICE = "ConfidenceByPrice"
"""Which confidence is followed, and what it would have come to."""
UNMEASURED = "Unmeasured"
STANDINGS = {
    UNMEASURED: "the forecast takes no part: nothing was measured of the object's metrics since it was asked for",
    LEARNING: "the forecast takes no part yet: it is learning",
    OFTEN_WRONG: "the forecast is muted: its upper bound held less often than its confidence asks for",
    NO_RHYTHM: "the forecast is muted: it is no better than the values of now, there is no rhythm in the load",
    UNPAID: "the forecast takes no part: of late no confidence would have been worth its price (a quarter less time above the high watermark, for 4 % more replica-hours at most, and not on the way to more than 5 %)",
    "": "the forecast takes part",
}


def expected(scaler: Autoscaler, rules: Rules, policy: Policy, now: float) -> Sequence[Expected | None]:
    """What the load of each metric will be; None for those that nothing, or nothing recent, is known of."""
    forecast = scaler.forecast
    if forecast is None or wanted(scaler, policy)[0] is None:
        return ()
    return [_expected(forecast, metric.query, now) for metric in rules.metrics[:MOST_METRICS]]


def _expected(forecast: Forecast, query: str, now: float) -> Expected | None:
    known = forecast.seasons.get(digest(query))
    if known is None or now - known.at > forecast.lead_s:
        return None
    return season.ahead(known, lead_s=forecast.lead_s, confidence=bounds.sure(known, forecast.confidence))


def wanted(scaler: Autoscaler, policy: Policy) -> tuple[Asked | None, str]:
    """What is asked for an object, and why that cannot be read."""
    text, where = _written(scaler, policy)
    if text is None or scaler.rules is None:
        return None, ""
    if not scaler.rules.metrics:  # of all that a selector means, some have none
        return (
            None,
            "" if scaler.asks is None else f"{where}: the object has no metrics that could be forecast",
        )
    try:
        return asked(text), ""
    except BadForecast as error:
        return None, f"{where}: {error}"


def _written(scaler: Autoscaler, policy: Policy) -> tuple[str | None, str]:
    """What is asked for an object, as it was written, and where: in its annotation, else in the configuration."""
    if scaler.asks is not None:
        return None if scaler.asks.strip() == OFF else scaler.asks, f"annotation {ANNOTATION}"
    if not policy.forecast or policy.forecast_selector is None:
        return None, ""
    try:
        selected = selects(policy.forecast_selector, scaler.labels)
    except SelectorError:  # told of the configuration; who is selected stays so
        selected = scaler.forecast is not None
    return policy.forecast if selected else None, "setting forecast of the configuration"


def recorded(
    scaler: Autoscaler, target: ObjectRef, policy: Policy, at: float, *, again: bool = False
) -> Iterator[RecordForecast]:
    """What is to be recorded of an object's forecast; `again`: because its fact was said again."""
    asks, _ = wanted(scaler, policy)
    known = scaler.forecast
    if asks is None:
        # What was learnt outlives a slip of the pen, also one in the spec.
        if known is not None and _written(scaler, policy)[0] is None:
            yield RecordForecast(at=at, target=target)
        return
    seasons = {} if known is None else _in_use(scaler, known)
    as_before = known is None or (known.lead_s, known.confidence) == (asks.lead_s, asks.confidence)
    given = _given(scaler, target, policy, asks, at)
    zone_before = asks.zone if known is None else known.zone
    counted = bands(scaler.rules) if asks.confidence == BY_PRICE else {}
    if (
        known is None
        or given
        or again
        or not as_before
        or zone_before != asks.zone
        or at - known.recorded_at >= EVERY_S
        or _is_to_be_priced(known, counted, at)
    ):
        if known is not None and not goes_on(asks, known.lead_s, known.confidence):
            seasons = _unlearnt(seasons)
        seasons = {key: memory.zoned(learnt, asks.zone) for key, learnt in seasons.items()} | given
        if asks.confidence == BY_PRICE:
            before = -1.0 if known is None or not known.confidence else known.confidence
            # by days of the clock: a record for another reason puts off the next, and is not to put off this
            another_day = known is None or at // EVERY_S != known.recorded_at // EVERY_S
            seasons |= {key: Season(zone=asks.zone) for key in counted if key not in seasons}
            seasons = _priced(seasons, counted, before, another_day, given)
        yield RecordForecast(
            at=at,
            target=target,
            lead_s=asks.lead_s,
            confidence=asks.confidence,
            zone=asks.zone,
            seasons=msgspec.to_builtins(seasons),
            because=tuple(_why(scaler, seasons)),
        )


def bands(rules: Rules | None) -> dict[str, Band]:
    """What the count by the rules goes by, for each metric of which replicas share the load."""
    found: dict[str, Band] = {}
    for metric in () if rules is None else rules.metrics[:MOST_METRICS]:
        marks = metric.marks
        if rules is None or marks.high <= 0 or marks.low < 0 or not shares(rules, metric):
            continue
        found[digest(metric.query)] = Band(
            marks.low, marks.high, marks.low_adjusted, marks.high_adjusted, rules.min_replicas, rules.max_replicas,
            rules.up_factor, rules.down_factor, rules.up_window_s, rules.down_window_s, rules.modulo,
            {"highwatermark": -rules.modulo, "lowwatermark": rules.modulo}.get(rules.converge, 0),
        )  # fmt: skip
    return found


def _is_to_be_priced(known: Forecast, counted: dict[str, Band], at: float) -> bool:
    """Whether something is to be counted that is not, or by something else, or it is known for the first time which confidence is worth its price.

    By something else soon, and not at once: others move bounds, and marks, every few minutes.
    """
    for key, band in counted.items():
        found = known.seasons.get(key)
        of = None if found is None else found.price
        if of is None or (of.followed < 0 and price.is_known(of)):
            return True
        if of.band != band and at - known.recorded_at >= SOON_S:
            return True
    return False


def _priced(
    seasons: dict[str, Season],
    counted: dict[str, Band],
    before: float,
    another_day: bool,
    given: Container[str],
) -> dict[str, Season]:
    """Seasons with what is to be counted of them, and with the confidence that is worth its price; until that is known, the one of before.

    What was counted by other marks or bounds stays, for they may be changed twice a day, and it fades; of a model that was learnt by other marks it does not.
    """
    found = {key: msgspec.structs.replace(known, price=None) for key, known in seasons.items()}
    for key, band in counted.items():
        known = seasons[key]
        of = known.price
        if of is None:
            of = price.begun(band, DEFAULT_CONFIDENCE if key in given and known.judged else before)
        elif key in given and not price.is_alike(of.band, band):
            of = price.begun(band, of.followed)
        else:
            follow = price.is_known(of) and (another_day or of.followed < 0)
            of = msgspec.structs.replace(
                of,
                band=band,
                followed=price.to_follow(of) if follow else of.followed,
                aged=of.aged or list(price.NONE_AGED),
            )
        found[key] = msgspec.structs.replace(known, price=of)
    return found


def _why(scaler: Autoscaler, seasons: dict[str, Season]) -> Iterator[Because]:
    """What the confidence that is followed would have come to, of each metric of which that is known."""
    for metric in () if scaler.rules is None else scaler.rules.metrics[:MOST_METRICS]:
        known = seasons.get(digest(metric.query))
        of = None if known is None else known.price
        if of is not None and of.followed >= 0 and of.runs:
            yield Because(rule=BY_ITS_PRICE, values=figures(metric.display, of))


def figures(display: str, of: Price) -> dict[str, Scalar]:
    """What is said of a price."""
    left, more = price.came_to(of, of.followed)
    found: dict[str, Scalar] = {
        "metric": display, "confidence": of.followed, "days": round(of.seconds / 86400, 1),
        "above_s": of.runs[0].above_s, "left": round(left, 4), "more": round(more, 4),
    }  # fmt: skip
    if of.aged:
        found["coming"] = round(price.comes_to(of, of.followed), 4)
    return found


def _given(
    scaler: Autoscaler, target: ObjectRef, policy: Policy, asks: Asked, at: float
) -> dict[str, Season]:
    """What the configuration knows better of the metrics that the spec has."""
    model = (
        policy.forecast_models.get(f"{target.namespace}/{target.name}") if policy.forecast_models else None
    )
    if model is None:
        return {}
    known = {} if scaler.forecast is None else scaler.forecast.seasons
    in_spec = _keys(scaler)
    return {key: found for key, found in adopted(model, asks, known, at).items() if key in in_spec}


def _keys(scaler: Autoscaler) -> dict[str, None]:
    """The digests of the metrics that are forecast, in their order."""
    metrics = () if scaler.rules is None else scaler.rules.metrics[:MOST_METRICS]
    return dict.fromkeys(digest(metric.query) for metric in metrics)


def _in_use(scaler: Autoscaler, known: Forecast) -> dict[str, Season]:
    """What is known of the metrics that the spec still has."""
    return {key: known.seasons[key] for key in _keys(scaler) if key in known.seasons}


def _unlearnt(seasons: dict[str, Season]) -> dict[str, memory.Season]:
    """The profiles without the errors: those of another lead, or for another confidence, say nothing."""
    copies = msgspec.convert(msgspec.to_builtins(seasons), dict[str, Season])
    for copy in copies.values():
        season.unlearn(copy)
        copy.price = None
    return copies


def messages(scaler: Autoscaler, policy: Policy) -> Iterator[Message]:
    """What is said on the object: that what is asked for cannot be read, or how its forecast stands."""
    _, problem = wanted(scaler, policy)
    if problem:
        yield Message(WARNING, INVALID, problem)
    elif scaler.forecast is not None:
        yield Message(NORMAL, STANDING, STANDINGS[standing(scaler.forecast)])


def standing(forecast: Forecast) -> str:
    """Why forecasts of an object take no part; empty when those of a metric do."""
    mutes = [
        bounds.mute(known, bounds.sure(known, forecast.confidence))
        for known in forecast.seasons.values()
        if known.unit
    ]
    return "" if "" in mutes else mutes[0] if mutes else UNMEASURED


def followed(forecast: Forecast) -> float:
    """How often the bound of the first metric is to hold; 0 where nothing is known of one."""
    for known in forecast.seasons.values():
        return bounds.sure(known, forecast.confidence)
    return 0.0

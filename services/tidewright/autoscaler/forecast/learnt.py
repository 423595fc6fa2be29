"""Models that were learnt elsewhere, from a log or a file, and are given by the configuration: who opts in does not start blind. Pure."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from tidewright.autoscaler.forecast import bounds, memory, price, season
from tidewright.autoscaler.forecast.asked import BY_PRICE, MOST_LEAD_S, Asked, goes_on
from tidewright.autoscaler.forecast.memory import Season
from tidewright.autoscaler.forecast.price import Band
from tidewright.events.base import JsonObject

MOST_MODELS = 50
"""Of a configuration: with these it stays below the size that a ConfigMap may have."""


class Model(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is known of the load of an object, and what it was learnt for.

    Attributes:
        lead_s: how far ahead its forecasts were judged; `confidence` how often their bounds were to hold, 0 for as often as is worth its price.
        seasons: by the digest of the metric's query.
    """

    lead_s: float
    confidence: float
    seasons: dict[str, Season] = {}


def learn(loads: Iterable[tuple[float, int]], asks: Asked, band: Band | None = None) -> Season:
    """What is to be known of a load, from (time in seconds, milli) in the order of their times; by the band it is counted what confidences cost."""
    known = Season(
        zone=asks.zone, price=price.begun(band) if band is not None and asks.confidence == BY_PRICE else None
    )
    for at, load in loads:
        season.add(known, at, load, lead_s=asks.lead_s, confidence=bounds.sure(known, asks.confidence))
    if known.price is not None and price.is_known(known.price):
        known.price.followed = price.worth(known.price)
    known.issued, known.came = [], None
    if known.ripple is not None:
        known.ripple = known.ripple.learnt()
    return known


def models(given: object) -> tuple[dict[str, Model], list[str]]:
    """The models of a configuration by `namespace/name` of their object, and what in it is not used."""
    if not isinstance(given, dict):
        return {}, ["write what `tidewright forecast learn` writes, a model per namespace/name"]
    found: dict[str, Model] = {}
    wrong: list[str] = []
    for name in sorted(given, key=str):
        value = given[name]
        if len(found) >= MOST_MODELS:
            wrong.append(f"{name}: more than {MOST_MODELS} models, which is the most")
            break
        try:
            model = msgspec.convert(value, Model)
        except msgspec.ValidationError as error:
            wrong.append(f"{name}: {error}")
            continue
        if not (0 < model.lead_s <= MOST_LEAD_S and 0 <= model.confidence < 1):
            wrong.append(
                f"{name}: lead_s={model.lead_s}, confidence={model.confidence}: above 0 up to {MOST_LEAD_S}, and from 0 to below 1, are possible"
            )
            continue
        problems = [
            f"{name}: {digest}: {text}"
            for digest, known in model.seasons.items()
            if (text := memory.problem(known))
        ]
        if problems:
            wrong += problems
        else:
            found[str(name)] = model
    return found, wrong


def adopted(model: Model, asks: Asked, known: dict[str, Season], now: float) -> dict[str, Season]:
    """The seasons of a model that replace what is known: those of which less, and not enough, has been seen yet.

    They are moved to within a week before now, so that gaps and the age of what was seen are as if learnt just before.
    """
    as_asked = goes_on(asks, model.lead_s, model.confidence)
    found: dict[str, Season] = {}
    for digest, learnt in model.seasons.items():
        seen = memory.days(known[digest]) if digest in known else -1.0
        if seen < min(bounds.LEAST_DAYS, memory.days(learnt)):
            found[digest] = copy = memory.zoned(memory.moved(learnt, now), asks.zone)
            if not as_asked:
                season.unlearn(copy)
            if not as_asked or asks.confidence != BY_PRICE:
                copy.price = None
    return found


def as_data(model: Model) -> JsonObject:
    """A model as a configuration has it."""
    data: JsonObject = msgspec.to_builtins(model)
    return data

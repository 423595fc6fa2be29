"""What an object asks for: `tidewright.dev/forecast: "lead=10m,confidence=0.9"`; or what is asked for it by its labels.

Behind that may stand `zone=` with a rule of local time (`zone`): by it a rhythm keeps its hours when clocks are changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import msgspec

from tidewright.autoscaler.forecast.zone import BadZone, zone_of
from tidewright.kube.durations import format_duration, parse_duration
from tidewright.kube.selectors import LabelSelector

ANNOTATION = "tidewright.dev/forecast"
BY_PRICE = 0.0
"""The confidence of who names none: the one that is worth its price (`price`)."""
DEFAULT_CONFIDENCE = 0.35
"""That of bounds while none is known to be: below the middle, where most of a rise comes in time for few replica-hours."""
LEAST_LEAD_S, MOST_LEAD_S = 60, 6 * 3600
LEAST_CONFIDENCE, MOST_CONFIDENCE = 0.05, 0.99
EXAMPLE = "lead=10m,confidence=0.9"
ZONE = "zone="
OFF = "off"
"""What an object writes in its annotation that wants no forecast, although the configuration selects it."""


class BadForecast(ValueError):
    """What is asked for cannot be read; the message says what would be valid."""


class Asked(msgspec.Struct, frozen=True):
    """How far ahead, in seconds, how often the upper bound is to hold, and by which local time days and weeks are (`zone`; empty: UTC)."""

    lead_s: float
    confidence: float = BY_PRICE
    zone: str = ""


@lru_cache(maxsize=1024)
def asked(text: str) -> Asked:
    """Read what is asked for.

    Raises:
        BadForecast: it is not of the form of `EXAMPLE`, or out of bounds.
    """
    values: dict[str, str] = {}
    text, zoned, zone = text.partition(ZONE)  # the last, for it has commas of its own
    for part in text.rstrip(", ").split(",") if zoned else text.split(","):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or key not in ("lead", "confidence") or key in values:
            raise BadForecast(f"{part.strip()!r} is not understood: write for instance {EXAMPLE}")
        values[key] = value
    if "lead" not in values:
        raise BadForecast(f"it does not say how far ahead: write for instance {EXAMPLE}")
    return Asked(_lead(values["lead"]), _confidence(values.get("confidence")), _zone(zone) if zoned else "")


def goes_on(asks: Asked, lead_s: float, confidence: float) -> bool:
    """Whether how wrong forecasts of a lead and a confidence were says something of what is asked: for the same lead, and as sure.

    Who asked for the confidence of bounds of which none is known to be worth its price has asked for as much before.
    """
    return asks.lead_s == lead_s and (
        asks.confidence == confidence or (asks.confidence == BY_PRICE and confidence == DEFAULT_CONFIDENCE)
    )


@lru_cache(maxsize=64)
def selector_of(text: str) -> LabelSelector:
    """The selector of the configuration; the empty text selects every object.

    Raises:
        SelectorError: it cannot be read.
    """
    return LabelSelector.parse(text)


def selects(text: str, labels: Mapping[str, str]) -> bool:
    """Whether the configuration's selector means an object with these labels.

    Raises:
        SelectorError: it cannot be read.
    """
    return selector_of(text).matches(labels)


def _lead(text: str) -> float:
    try:
        lead_s = parse_duration(text)
    except ValueError as error:
        raise BadForecast(f"lead: {error}") from error
    if not LEAST_LEAD_S <= lead_s <= MOST_LEAD_S:
        raise BadForecast(
            f"lead={text}: from {format_duration(LEAST_LEAD_S)} to {format_duration(MOST_LEAD_S)} is possible"
        )
    return lead_s


def _zone(text: str) -> str:
    try:
        zone_of(text.strip())
    except BadZone as error:
        raise BadForecast(str(error)) from error
    return text.strip()


def _confidence(text: str | None) -> float:
    if text is None:
        return BY_PRICE
    try:
        confidence = float(text)
    except ValueError as error:
        raise BadForecast(f"confidence={text}: is no number, write for instance 0.9") from error
    if not LEAST_CONFIDENCE <= confidence <= MOST_CONFIDENCE:  # also of what is no number
        raise BadForecast(f"confidence={text}: from {LEAST_CONFIDENCE} to {MOST_CONFIDENCE} is possible")
    return confidence

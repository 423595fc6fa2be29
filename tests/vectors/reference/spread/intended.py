"""By which of the intended differences the original's answer to a case becomes ours.

The case must be the original's: the model without a difference answers as it expects. And all that ours answers must
be explained: with the differences the model gives exactly that. Anything else is no intention.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from tests.vectors.reference.spread.cases import RUN, NotModelled
from tests.vectors.reference.spread.ways import ORIGINAL, TAGS, Ways
from tests.vectors.reference.switches import smallest
from tests.vectors.spread_cluster import UID, Cluster
from tests.vectors.spread_compare import compare
from tests.vectors.suite import Case
from tidewright.events.base import JsonObject

UID_PLACEHOLDER = "<uid>"


def plain(answer: JsonObject) -> JsonObject:
    """An answer as a case would say it."""
    text = msgspec.json.encode(answer).decode().replace(UID, UID_PLACEHOLDER)
    said: JsonObject = msgspec.json.decode(text)
    return said


def answered(case: Case, ways: Ways = ORIGINAL) -> JsonObject:
    """What the model answers that follows these differences. Raises NotModelled."""
    return plain(RUN[case["event"]["type"]](Cluster(case), case["event"], ways))


def intended(case: Case, ours: JsonObject) -> tuple[str, ...]:
    """The differences, a smallest set of them; none when they do not explain what ours answers."""
    expected: JsonObject = case["expected"]
    try:
        if case["event"]["type"] not in RUN or compare(expected, answered(case)):
            return ()
    except NotModelled:
        return ()

    def explains(ways: Ways) -> bool:
        return not compare(_asked_for(answered(case, ways), expected), ours)

    return smallest(TAGS, explains)


def _asked_for(answer: JsonObject, expected: JsonObject) -> JsonObject:
    """What an answer says of that which a case asks for."""
    asked: dict[str, Any] = {key: answer[key] for key in expected if key in answer}
    status = expected.get("status")
    if isinstance(status, Mapping) and isinstance(answer.get("status"), Mapping):
        asked["status"] = {key: answer["status"].get(key) or {} for key in status}
    for key in ("error", "fault", "generatedUid"):  # absent where there is none, asked for or not
        asked.pop(key, None)
        if answer.get(key) is not None:
            asked[key] = answer[key]
    return asked

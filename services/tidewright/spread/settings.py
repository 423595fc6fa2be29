"""The service's part of the configuration: what in it is not used."""

from __future__ import annotations

import msgspec

from tidewright.events.base import JsonObject
from tidewright.kube.nearest import nearest
from tidewright.spread.state import Settings

NAME = "spread"
"""Of the part."""


def problems(data: JsonObject) -> tuple[str, ...]:
    """What in a `ConfigSet` is not used, and what would be; one value of the wrong type, and none of them is."""
    valid = Settings.__struct_encode_fields__
    wrong = [
        f"{key}: not a setting of spread; {nearest(key, valid)}" for key in sorted(set(data) - set(valid))
    ]
    try:
        msgspec.convert(data, Settings)
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at `$.")
        wrong.append(f"{where.rstrip('`')}: {what[:1].lower()}{what[1:]}; all settings of before stay")
    return tuple(wrong)

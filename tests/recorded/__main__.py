"""Write the golden snapshots of state versions that have none yet, the inputs of this version, and the count of decisions when there is none."""

from __future__ import annotations

import asyncio

import msgspec

from tests.recorded.ended import (
    DECISIONS,
    INPUTS,
    SERVICES,
    SNAPSHOTS,
    as_stored,
    folded,
    given_inputs,
    golden,
    redecided,
    the_log,
)
from tidewright.asking.service_state import inputs_of
from tidewright.asking.services import load
from tidewright.events.version import __version__


async def write() -> None:
    """Write what is missing."""
    SNAPSHOTS.mkdir(exist_ok=True)
    for service in SERVICES:
        version = load(service).state_version
        if version in golden()[service.name]:
            continue
        path = SNAPSHOTS / f"{service.name}-v{version}.json"
        path.write_bytes(as_stored(await folded(service)))
        print(f"written: {path.name}")
    if not DECISIONS.exists():
        recorded, _ = await redecided()
        DECISIONS.write_bytes(msgspec.json.format(msgspec.json.encode(recorded), indent=1) + b"\n")
        print(f"written: {DECISIONS.name}")
    given = given_inputs()
    if __version__ not in given:
        given[__version__] = {s.name: inputs_of(s, load(s), the_log()).today for s in SERVICES}
        INPUTS.write_bytes(msgspec.json.format(msgspec.json.encode(given), indent=1) + b"\n")
        print(f"written: version {__version__} in {INPUTS.name}")


asyncio.run(write())

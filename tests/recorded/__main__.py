"""Write the golden snapshots of state versions that have none yet, and the count of decisions when there is none."""

from __future__ import annotations

import asyncio

import msgspec

from tests.recorded.ended import DECISIONS, SERVICES, SNAPSHOTS, as_stored, folded, golden, redecided
from tidewright.asking.services import load


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


asyncio.run(write())

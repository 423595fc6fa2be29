"""Exports written from what is in memory."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tidewright.log.export import ExportWriter, Manifest
from tidewright.log.reader import Record
from tidewright.log.snapshots import Snapshot


def write_export(
    path: Path, manifest: Manifest, snapshots: Iterable[Snapshot], records: Iterable[Record]
) -> int:
    """Write a whole export from what is in memory; returns the number of records."""
    with ExportWriter(path, manifest) as writer:
        for snapshot in snapshots:
            writer.snapshot(snapshot)
        for record in records:
            writer.record(record)
    return writer.records

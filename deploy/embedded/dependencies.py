"""What the embedded distribution depends on: `requirements.in`, and Tidewright of the very same version."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class Dependencies(MetadataHookInterface):
    """Fills in `project.dependencies`."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the dependencies to the metadata."""
        lines = (Path(self.root) / "requirements.in").read_text().splitlines()
        others = [name for line in lines if (name := line.partition("#")[0].strip())]
        metadata["dependencies"] = [f"tidewright=={metadata['version']}", *others]

"""Fixtures of the shard tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.e2e.conftest import Cluster
from tests.e2e.shards.world import Workers


@pytest.fixture
async def workers(cluster: Cluster, namespace: str, tmp_path: Path) -> AsyncIterator[Workers]:
    """Starts workers as processes, and ends those that still run."""
    made = Workers(cluster, namespace, tmp_path)
    yield made
    await made.end()

"""Commands that are run within a test set up logging for a stream that ends with the test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture(autouse=True)
def logs_as_before() -> Iterator[None]:
    """Logging as it is without a command."""
    yield
    structlog.reset_defaults()

"""Which CustomResourceDefinitions are ours to change. Pure.

Only what we created carries the annotation: our manifests have it, and nothing that we write afterwards adds it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

CRD_VERSION: Final = "tidewright.dev/crd-version"
"""On every CRD that we create: a number that grows whenever our manifest of it changes."""


def is_ours(definition: Mapping[str, Any]) -> bool:
    """Whether we created a CRD."""
    return CRD_VERSION in ((definition.get("metadata") or {}).get("annotations") or {})


def crd_version(definition: Mapping[str, Any]) -> int | None:
    """Which of our manifests it was made of, >= 0; None when it is not ours, or says no number."""
    text = ((definition.get("metadata") or {}).get("annotations") or {}).get(CRD_VERSION)
    return int(text) if isinstance(text, str) and text.isascii() and text.isdigit() else None

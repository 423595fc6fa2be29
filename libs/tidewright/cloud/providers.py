"""The providers by name: what `--cloud NAME=ADDRESS` means.

A new provider is one module with the interface of `provider`, and one line in `PROVIDERS`.
"""

from __future__ import annotations

from collections.abc import Callable

from tidewright.cloud.provider import Provider
from tidewright.cloud.simulated.client import SimulatedProvider

PROVIDERS: dict[str, Callable[[str], Provider]] = {"simulated": SimulatedProvider}
"""Name to what makes the provider from its address. Making one opens nothing."""


def provider_of(text: str) -> Provider:
    """The provider in `NAME=ADDRESS`, for instance `simulated=http://127.0.0.1:8080`.

    Raises:
        ValueError: no such provider, or no address; the message says what would be valid.
    """
    name, given, address = text.partition("=")
    make = PROVIDERS.get(name)
    if make is None or not given or not address:
        known = ", ".join(sorted(PROVIDERS))
        raise ValueError(
            f"cloud {text!r}: write NAME=ADDRESS, NAME one of {known}, as in simulated=http://127.0.0.1:8080"
        )
    return make(address)

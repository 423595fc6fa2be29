"""Draws from delay distributions: the same seed and name always give the same delay. Pure."""

from __future__ import annotations

import hashlib
import math
import statistics

from tidewright.sim.options import Delay

_Z95 = statistics.NormalDist().inv_cdf(0.95)


def uniform(seed: int, name: str) -> float:
    """A number in (0, 1) that depends on seed and name alone."""
    digest = hashlib.blake2b(f"{seed}/{name}".encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "big") + 0.5) / 2**64


def draw(delay: Delay, seed: int, name: str) -> float:
    """A delay in log seconds, >= 0."""
    if delay.kind == "fixed":
        return delay.a_s
    chance = uniform(seed, name)
    if delay.kind == "uniform":
        return delay.a_s + chance * (delay.b_s - delay.a_s)
    if delay.kind == "exponential":
        return -delay.a_s * math.log(1.0 - chance)
    if delay.a_s == 0:
        return 0.0
    sigma = math.log(delay.b_s / delay.a_s) / _Z95
    return delay.a_s * math.exp(sigma * statistics.NormalDist().inv_cdf(chance))

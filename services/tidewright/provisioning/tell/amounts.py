"""Amounts of resources and prices, for people. Pure."""

from __future__ import annotations


def amount_text(name: str, amount: int) -> str:
    """An amount of a resource for people: cores, binary units, or a count."""
    if name == "cpu":
        return f"{amount / 1000:g} cores"
    if name in ("memory", "ephemeral-storage"):
        for unit, size in (("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20)):
            if amount >= size:
                return f"{amount / size:.4g} {unit}B"
        return f"{amount} B"
    return str(amount)

"""Words as a sentence begins, and as a whole one. Pure."""

from __future__ import annotations


def capital(text: str) -> str:
    """With a capital in front."""
    return f"{text[:1].upper()}{text[1:]}"


def full(text: str) -> str:
    """A whole sentence."""
    return f"{capital(text)}."

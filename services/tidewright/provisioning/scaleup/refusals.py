"""What a refusal said last of a shape, in one text that the state keeps: `GROUP=REASON;GROUP=REASON`.

It is compared whole: another text is another refusal. For people it is read again.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidewright.events.provisioning import GroupVerdict


def signature(verdicts: Iterable[GroupVerdict]) -> str:
    """What a refusal says, for telling whether it changed."""
    return ";".join(f"{verdict.group}={verdict.reason}" for verdict in verdicts)


def reasons_in(signature: str) -> list[tuple[str, str]]:
    """Groups and their reasons, as such a text has them."""
    parts = (part.partition("=") for part in signature.split(";") if part)
    return [(group, reason) for group, _, reason in parts]

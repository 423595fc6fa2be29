"""Which spread takes a new pod (specification, 2.2, 2.10).

spread_for    the spread; None: the pod goes in untouched
Refused       the pod is refused, with the code the API server gets
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from tidewright.kube.customworkloads import BadApiVersion, Whitelist
from tidewright.kube.selectors import SelectorError
from tidewright.kube.workloadspreads.sharing import selected
from tidewright.kube.workloadspreads.spec import Spread
from tidewright.spread.match.matching import (
    Forbidden,
    NotFound,
    Reader,
    could_lead_to,
    group_kind,
    owner_matches,
)
from tidewright.spread.match.pods import Owner, Pod

RefusedBecause = Literal["NotFound", "InvalidPatch", "Unreadable", "Unavailable"]


class Refused(Exception):
    """The request is refused: `code` and `reason` go to the API server."""

    def __init__(self, reason: RefusedBecause, message: str, code: int = 500) -> None:
        super().__init__(message)
        self.reason = reason
        self.code = code


def spread_for(pod: Pod, spreads: Iterable[Spread], whitelist: Whitelist, read: Reader) -> Spread | None:
    """The spread that takes a new pod; None: the pod goes in untouched.

    Raises:
        Refused: an owner is not there yet, and may lead to a spread's target [Q-5].
    """
    owner = pod.owner
    if not pod.active or owner is None:
        return None
    try:
        if not whitelist.known(group_kind(owner)):
            return None
    except BadApiVersion:
        return None
    for spread in spreads:
        if not spread.deleting and spread.target is not None and _takes(spread, pod, owner, whitelist, read):
            return spread
    return None


def _takes(spread: Spread, pod: Pod, owner: Owner, whitelist: Whitelist, read: Reader) -> bool:
    if spread.target is None:
        return False
    try:
        return owner_matches(spread.target, owner, whitelist, read) and selected(
            spread.target_filter, pod.labels
        )
    except NotFound as error:
        if not could_lead_to(spread.target, owner, whitelist):
            return False
        raise Refused("NotFound", f"owner {owner.kind} {owner.name}: {error}") from error
    except (Forbidden, BadApiVersion, SelectorError):
        return False

"""A plan carried out: which orders go out when, what their outcomes mean, what is taken back. Spec 3.9, [B3].

Orders are absolute sizes, so a repeat changes nothing and a late answer is recognised. One group after
the other by default (the first error stops the rest), or all at once.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tidewright.kube.keys import NO_REQUEST, RequestKey
from tidewright.provisioning.group_ids import NodeGroupId
from tidewright.provisioning.scaleup.plans import Target

WAITING, ORDERED, APPLIED, FAILED, SKIPPED = "waiting", "ordered", "applied", "failed", "skipped"


BLAMELESS = frozenset({"Conflict", "Superseded", "DryRun"})
"""Reasons of a refusal that say nothing against the group: the cloud was only seen late."""


MOST_CONFLICTS = 3
"""How often in a row a request is tried again at once because sizes were not as seen."""


class Step(msgspec.Struct, kw_only=True):
    """One group's order.

    Attributes:
        decision: id of the order, once it is on the log.
        status: `waiting`, `ordered`, `applied`, `failed`, `skipped`.
    """

    group: NodeGroupId
    from_size: int
    size: int
    status: str = WAITING
    decision: str = ""
    error: str = ""
    reason: str = ""


class Execution(msgspec.Struct, kw_only=True):
    """A plan under way.

    Attributes:
        plan: its name.
        request: empty for pending pods.
        all_or_nothing: one failure takes back what the others ordered.
        reverted: what was ordered has been taken back.
        short: instances of its groups that could not be created, or never came.
    """

    plan: str
    steps: list[Step] = []
    request: RequestKey = NO_REQUEST
    request_uid: str = ""
    all_or_nothing: bool = False
    parallel: bool = False
    ordered_at: float = 0.0
    reverted: bool = False
    short: int = 0

    @property
    def over(self) -> bool:
        return all(step.status in (APPLIED, FAILED, SKIPPED) for step in self.steps)

    @property
    def failed(self) -> list[Step]:
        return [step for step in self.steps if step.status in (FAILED, SKIPPED)]

    @property
    def seen_late(self) -> bool:
        """It failed for no other reason than that a size was not as the decision saw it."""
        refused = [step for step in self.steps if step.status == FAILED]
        return bool(refused) and all(step.reason == "Conflict" for step in refused)

    @property
    def error(self) -> str:
        """The errors in one text."""
        texts = sorted({step.error for step in self.steps if step.status == FAILED and step.error})
        if not texts:
            return ""
        return texts[0] if len(texts) == 1 else f"{texts[0]} ...and other errors: {'; '.join(texts[1:])}"


def begin(
    plan: str,
    targets: Sequence[Target],
    *,
    at: float,
    parallel: bool,
    request: RequestKey = NO_REQUEST,
    request_uid: str = "",
    all_or_nothing: bool = False,
) -> Execution:
    return Execution(
        plan=plan,
        steps=[Step(group=t.group, from_size=t.from_size, size=t.size) for t in targets],
        request=request,
        request_uid=request_uid,
        all_or_nothing=all_or_nothing,
        parallel=parallel,
        ordered_at=at,
    )


def due(execution: Execution) -> list[Step]:
    """The orders that go out now."""
    waiting = [step for step in execution.steps if step.status == WAITING]
    if execution.parallel:
        return waiting
    if any(step.status == ORDERED for step in execution.steps):
        return []
    return waiting[:1]


def answered(
    execution: Execution, group: NodeGroupId, *, applied: bool, error: str = "", reason: str = ""
) -> None:
    """Take in one order's outcome. A late or repeated one changes nothing."""
    for step in execution.steps:
        if step.group == group and step.status in (WAITING, ORDERED):
            step.status = APPLIED if applied else FAILED
            step.error, step.reason = error, reason
    if not applied and not execution.parallel:
        for step in execution.steps:
            if step.status == WAITING:
                step.status = SKIPPED


def stopped(execution: Execution) -> None:
    """No further order goes out: the request was deleted."""
    for step in execution.steps:
        if step.status == WAITING:
            step.status = SKIPPED


def reverts(execution: Execution) -> list[Step]:
    """What has to be taken back: everything that was ordered, when an all-or-nothing plan failed."""
    if not execution.all_or_nothing or not execution.over or not execution.failed or execution.reverted:
        return []
    return [step for step in execution.steps if step.status == APPLIED]


def unfulfilled(size: int, from_size: int, arrived: int, current_target: int) -> int:
    """The target size that takes back an order as far as its nodes have not come.

    Args:
        size: what was ordered.
        from_size: the target before.
        arrived: nodes of the group that exist now.
        current_target: the target now.
    """
    missing = max(0, min(size - from_size, size - arrived))
    return max(current_target - missing, arrived, 0)

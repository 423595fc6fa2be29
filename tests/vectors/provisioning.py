"""`provisioning.json`: each kind of case is events for the decider or a call of its own functions, and a comparison.

Where a case says that its expectation follows
from a defect of the reference and gives ours (`expected_ours`), ours is what is compared.

provisioning_world      what a case says in the decider's terms, and what it expects
provisioning_requests   the life of requests
provisioning_readers    a request's object and those who go by it: its pods, bookings, Kueue
provisioning_scaleup    from pods to one plan
provisioning_groups     the state of groups
provisioning_scaledown  what keeps nodes, and which go; `_plans`: in whole passes; `_ours`: the same without as-reference
provisioning_clouds     what providers make of what their clouds say
provisioning_told       what is told to the decider as events, and answered by its decisions
provisioning_life       a played cluster around the whole decider
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.vectors import (
    provisioning_clouds,
    provisioning_groups,
    provisioning_readers,
    provisioning_requests,
    provisioning_scaledown,
    provisioning_scaledown_ours,
    provisioning_scaledown_plans,
    provisioning_scaleup,
    provisioning_told,
)
from tests.vectors.reference import provisioning as reference
from tests.vectors.reference import scaledown
from tests.vectors.suite import Case, Result, Suite, Verdict

KINDS = (
    provisioning_requests.KINDS
    | provisioning_readers.KINDS
    | provisioning_scaleup.KINDS
    | provisioning_groups.KINDS
    | provisioning_told.KINDS
    | provisioning_scaledown.KINDS
    | provisioning_scaledown_plans.KINDS
    | provisioning_clouds.KINDS
)


def cases(content: Any) -> Sequence[Case] | None:
    found = content.get("cases") if isinstance(content, dict) else content
    if not isinstance(found, list) or not found or not all(isinstance(c, dict) for c in found):
        return None
    known = any(c.get("kind") in KINDS for c in found)
    return found if known else None


def run(case: Case) -> Result:
    kind = case["kind"]
    check = KINDS.get(kind)
    if check is None:
        return Result(case["name"], kind, Verdict.NOT_COVERED)
    found = check(case)
    if found and kind == "provreq-pickup" and provisioning_requests.accepted_since(case):
        return Result(case["name"], kind, Verdict.PASSED, intended=("provreq-accepted-since",))
    verdict = Verdict.FAILED if found else Verdict.PASSED
    tag = kind if kind in reference.TAGS | scaledown.TAGS else ""
    return Result(case["name"], kind, verdict, tuple(found), reference=tag)


SUITE = Suite("provisioning", cases, run, provisioning_scaledown_ours.lines)

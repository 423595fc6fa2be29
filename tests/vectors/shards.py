"""Adapter of `shard-manager-vectors/1`: the cases of the shard manager's specification, section 6.

One function per group: `shard_configured` (what a configuration means), `shard_passes` (what a manager does
with its pods), `shard_sets` (native mode), `handover_traces` (the hand-over's own).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.vectors import shard_configured, shard_passes, shard_sets
from tests.vectors.suite import Case, Result, Suite, Verdict, differences

SCHEMA = "shard-manager-vectors/"
IN_TWO = frozenset({"scan", "config", "validation", "leader"})
"""Groups whose cases are two: what the original does, and what ours does."""
COMPAT_ELSEWHERE = {"config": "configuration-read", "validation": "configuration-read", "gate": "gate-ranges"}
"""Groups whose cases, as far as they are about the original, it alone explains, and the tag that says why."""
GROUPS = {**shard_configured.GROUPS, **shard_passes.GROUPS, **shard_sets.GROUPS}


def _cases(content: Any) -> Sequence[Case] | None:
    if not isinstance(content, Mapping) or not str(content.get("schema", "")).startswith(SCHEMA):
        return None
    product = content.get("defaults", {}).get("product_defaults")
    cases: list[Case] = []
    for case in content["cases"]:
        whole = {**case, "product_defaults": product, "native": False}
        native = case["expect"].get("native")
        if case["group"] not in IN_TWO or native is None:
            cases.append(whole)
            continue
        compat = {k: v for k, v in case["expect"].items() if k != "native"}
        cases.append({**whole, "expect": compat})
        cases.append({**whole, "expect": {"native": native}, "native": True})
    return cases


def _reference(case: Case) -> str:
    """The tag that says why a case is not the product's; empty for one that is."""
    if case["group"] == "scan":
        return "pass-native" if case["native"] else ""
    if case["group"] == "leader" and "managers" in case["given"]:
        return "pass-two-managers"
    if case["native"]:
        return ""
    if case["group"] == "leader" and "release_on_cancel" in case["expect"]:
        return "release-on-cancel"
    if case["group"] == "leader" and "env" in case["given"]:
        return "identity"
    if case["group"] == "labels" and "retention_hours" in case["given"]:
        return "collection"
    return COMPAT_ELSEWHERE.get(case["group"], "")


def _run(case: Case) -> Result:
    group = GROUPS.get(case["group"])
    if group is None:
        return Result(case["id"], case["group"], Verdict.NOT_COVERED)
    expected = dict(case["expect"])
    try:
        found = group(case["given"], expected, case)
    except Exception as error:  # noqa: BLE001 - a case that breaks the code is a failed case
        return Result(case["id"], case["group"], Verdict.FAILED, (f"{type(error).__name__}: {error}",))
    expected.pop("invariant", None)
    wrong = tuple(differences(expected, found))
    scanned = wrong and case["group"] == "scan" and not case["native"]
    intended = shard_passes.intended(case, expected, found) if scanned else ()
    wrong = () if intended else wrong
    verdict = Verdict.FAILED if wrong else Verdict.PASSED
    part = " (native)" if case["native"] else ""
    name = f"{case['id']}{part} {case['title']}"
    return Result(name, case["group"], verdict, wrong, _reference(case), intended=intended)


SUITE = Suite(name="shard manager", cases=_cases, run=_run)

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
GROUPS = {**shard_configured.GROUPS, **shard_passes.GROUPS, **shard_sets.GROUPS}


def _cases(content: Any) -> Sequence[Case] | None:
    if not isinstance(content, Mapping) or not str(content.get("schema", "")).startswith(SCHEMA):
        return None
    product = content.get("defaults", {}).get("product_defaults")
    return [{**case, "product_defaults": product} for case in content["cases"]]


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
    return Result(
        f"{case['id']} {case['title']}", case["group"], Verdict.FAILED if wrong else Verdict.PASSED, wrong
    )


SUITE = Suite(name="shard manager", cases=_cases, run=_run)

"""The cases of the watermark autoscaler, through the decider where a case is a whole pass, or else its own functions.

A case runs in every mode that applies to it, and passes when all of them agree: strictly always, by
default unless it pins down a defect that is fixed by default (its `defect`, or one of its tags).

watermark_cases    what a case says in the decider's terms, and back
watermark_stages   the stages that exercise one rule
watermark_pass     the stages that make a whole pass
watermark_decided  a case as events through the decider
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tests.vectors import watermark_pass, watermark_stages
from tests.vectors.suite import Case, Result, Suite, Verdict, differences
from tests.vectors.watermark_cases import Found, canonical, pods, rules_of
from tidewright.autoscaler.api import spec
from tidewright.autoscaler.policy import Policy

STAGES = watermark_stages.STAGES | watermark_pass.STAGES

REFERENCE = {"log_attributes": "log-attributes"}
"""Stages that run code of `reference/`, and under which tag."""

KEPT_BY_DEFAULT = frozenset(f"D{n}" for n in (6, 16, 19, 20, 23, 25, 26, 27, 29, 30, 31))
"""Entries of section 9 whose "do" column says "keep"."""

STRICT_TAGS = frozenset(
    (
        "untolerated-zero",
        "fault",
        "cpu-never-counted",
        "observed-zero",
        "failed-while-out-of-bounds",
        "first-pass",
        "no-metrics",
        "no-bounds",
        "lifecycle",
        "skip-events",
        "defaulted",
        "non-finite",
    )
)
"""Tags of generated cases that a corrected implementation decides otherwise."""

STRICT = Policy(strict=True, stale_after_s=0)
DEFAULT = Policy(stale_after_s=0)


def modes(case: Case) -> list[Policy]:
    """The policies under which the case must come out as expected."""
    defect = case.get("defect")
    fixed = (defect is not None and defect not in KEPT_BY_DEFAULT) or STRICT_TAGS & set(case.get("tags", ()))
    return [STRICT] if fixed or _shows_d4(case) else [STRICT, DEFAULT]


def _shows_d4(case: Case) -> bool:
    """Whether a pod that became ready too soon after its start would be ignored for good.

    The cases of the reference's own suite carry no mark for it.
    """
    inputs = case["inputs"]
    delay_s = case["spec"].get("readinessDelaySeconds", 0)
    resources = {(m.get("resource") or {}).get("name") for m in case["spec"].get("metrics") or ()}
    return "cpu" in resources | {inputs.get("resource")} and any(
        pod.ready in ("True", "Unknown")
        and pod.started_at is not None
        and pod.ready_changed_at < pod.started_at + delay_s <= inputs["now"]
        for pod in pods(case)
    )


_OUTSIDE_TEXTS = (
    (re.compile(r"&LabelSelector\{.*?,\}(?=: )"), "<selector>"),
    (re.compile(r"unable to get the number of ready pods across all namespaces for [^:]*: "), ""),
    (re.compile(r"Operation cannot be fulfilled on [^:]*: "), ""),
    (re.compile(r".*scale not found", re.DOTALL), "scale not found"),
    (re.compile(r"(datadogmonitors\.datadoghq\.com|DatadogMonitor\S*) .*not found"), "<monitor> not found"),
)
"""What the cases do not give the means to repeat: the reference's own printing of selectors, the
selector of the scale, and the words of the API server."""


def _comparable(value: Any, selectors: Sequence[str] = ()) -> Any:
    """The same with texts of the outside made alike, and with numbers that equal themselves."""
    if isinstance(value, str):
        for pattern, text in _OUTSIDE_TEXTS:
            value = pattern.sub(text, value)
        for selector in selectors:
            value = value.replace(f"/{selector}: ", "/<selector>: ")
        return value
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else f"{value:+}".replace("inf", "Inf")
    if isinstance(value, Mapping):
        return {
            k: (canonical(v) if k == "defaulted_spec" else _comparable(v, selectors))
            for k, v in value.items()
        }
    return [_comparable(member, selectors) for member in value] if isinstance(value, list | tuple) else value


def _expected(case: Case) -> Found:
    """What is compared: of a pass that the reference abandoned, only that we see why."""
    expected: Found = dict(case["expected"])
    if case["stage"] == "pass" and "fault" in expected:
        expected = {key: expected[key] for key in ("fault", "calculations") if key in expected}
    return expected


MEMBERS = frozenset(("name", "stage", "spec", "inputs", "expected"))


def cases(content: Any) -> Sequence[Case] | None:
    """The cases of a file in which elements have stages and specs, as these do."""
    if not isinstance(content, list) or not all(isinstance(case, dict) for case in content):
        return None
    return content if any(case.keys() >= MEMBERS for case in content) else None


def _selectors(case: Case) -> list[str]:
    try:
        return [metric.selector for metric in rules_of(case["spec"]).metrics]
    except spec.InvalidSpec:
        return []


def run(case: Case) -> Result:
    """Run one case in every mode that applies."""
    name, stage = str(case.get("name", "without a name")), str(case.get("stage", ""))
    exercise = STAGES.get(stage)
    if exercise is None:
        return Result(name, stage, Verdict.NOT_COVERED)
    if missing := sorted(MEMBERS - case.keys()):
        return Result(name, stage, Verdict.FAILED, (f"the case has no {', '.join(missing)}",))
    found: list[str] = []
    for policy in modes(case):
        mode = "strict" if policy.strict else "default"
        try:
            actual = _comparable(exercise(case, policy), _selectors(case))
        except Exception as error:  # noqa: BLE001 - a case that crashes has failed, and says how
            found.append(f"{mode}: {error!r}")
            continue
        found += [f"{mode}: {d}" for d in differences(_comparable(_expected(case)), actual)]
    verdict = Verdict.FAILED if found else Verdict.PASSED
    return Result(name, stage, verdict, tuple(found), reference=REFERENCE.get(stage, ""))


SUITE = Suite("watermark autoscaler", cases, run)

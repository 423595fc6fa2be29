"""`tidewright plan ws`: where pods would land, and what a change of a spread would do."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from tidewright.asking.answers.form import builtins
from tidewright.asking.answers.planning import SpreadPlan
from tidewright.asking.errors import BadInput
from tidewright.asking.manifests import all_documents, known_fields
from tidewright.asking.namespaces import meant
from tidewright.asking.opening import FromFile, opened
from tidewright.asking.options import AskedLogOptions, Output, emit
from tidewright.asking.planning import answer_of_spread, spread_on
from tidewright.asking.point_in_time import moment_of
from tidewright.asking.tables import plain, table
from tidewright.kube.customworkloads import Whitelist
from tidewright.kube.workloadspreads.spec import GROUP, KIND, BadSpread, Spread, parse
from tidewright.spread.api import validation
from tidewright.spread.match.matching import NotFound
from tidewright.spread.tell import planning
from tidewright.spread.tell.planning import Plan


def ws(
    *,
    file: Annotated[Path, Parameter(name=["--filename", "-f"], help="Manifest of the WorkloadSpread.")],
    replicas: Annotated[int, Parameter(help="Pods that its workload wants.")],
    namespace: Annotated[
        str,
        Parameter(
            name=["--namespace", "-n"],
            help="Its namespace, unless the manifest says so; the kubeconfig's by default.",
        ),
    ] = "",
    now: Annotated[
        bool, Parameter(negative="", help="Start from the pods that are there, as the log has them.")
    ] = False,
    log: AskedLogOptions | None = None,
    log_file: FromFile = None,
    output: Output = "table",
) -> int:
    """Where so many pods would land, and with --now (or --log) what the change would do to those there."""
    if replicas < 0:
        raise BadInput(f"--replicas {replicas}: 0 or more")
    obj = _read(file, meant(namespace))
    spread = _checked(file, obj)

    async def run() -> tuple[Plan, SpreadPlan]:
        async with opened(log, log_file) as source:
            moment = await moment_of(source, "")
            plan = await spread_on(source, spread, obj.get("spec") or {}, replicas, moment)
            return plan, answer_of_spread(source, moment, spread, plan)

    if now or log_file is not None:
        plan, told = asyncio.run(run())
    else:
        plan = planning.landing(spread, replicas)
        told = answer_of_spread(None, None, spread, plan)
    emit(
        builtins(told), output, lambda: plain(as_text(spread, plan)),
        names=lambda: (f"workloadspread/{told.name}",),
    )  # fmt: skip
    return 0


def _read(file: Path, namespace: str) -> dict[str, Any]:
    """The one WorkloadSpread of a manifest."""
    documents = all_documents(file, f"-f {file}", f"a manifest of kind {KIND}")
    spreads = [d for d in documents if isinstance(d, dict) and d.get("kind") == KIND]
    if len(spreads) != 1:
        raise BadInput(f"-f {file}: holds {len(spreads)} objects of kind {KIND}, one is expected")
    obj: dict[str, Any] = spreads[0]
    if not str(obj.get("apiVersion", "")).startswith(f"{GROUP}/"):
        raise BadInput(f"-f {file}: apiVersion is {obj.get('apiVersion')!r}: {GROUP}/v1alpha1 or v1beta1")
    known_fields(obj, f"-f {file}")
    metadata = {"namespace": namespace, **(obj.get("metadata") or {})}
    return {**obj, "metadata": metadata}


def _checked(file: Path, obj: dict[str, Any]) -> Spread:
    """The spread, if the API would take it; what only a cluster knows is not asked."""

    def nothing(api_version: str, kind: str, name: str) -> dict[str, Any]:
        raise NotFound(f"{api_version} {kind} {name}")

    around = validation.Surroundings(Whitelist(), (), nothing)
    try:
        wrong = [error for error in validation.errors(obj, around) if "whitelist" not in str(error)]
        spread = parse(obj)
    except BadSpread as error:
        raise BadInput(f"-f {file}: {error}") from error
    if wrong:
        raise BadInput(f"-f {file}: {'; '.join(map(str, wrong))}")
    return spread


def as_text(spread: Spread, plan: Plan) -> str:
    """For people."""
    name = f"{spread.namespace}/{spread.name}"
    lines = [f"WorkloadSpread {name} at {plan.replicas} replicas"]
    there = any(row.now for row in plan.rows)
    rows = [
        (
            row.subset or "(no subset)",
            "" if not row.subset else "unlimited" if row.limit is None else str(row.limit),
            *([str(row.now)] if there else []),
            str(row.then),
        )
        for row in plan.rows
    ]
    columns = ("SUBSET", "LIMIT", *(["NOW"] if there else []), "THEN")
    lines += [f"  {line}" for line in table(columns, rows, cut=False, numbers=True).splitlines()]
    for subset, count in plan.surplus.items():
        lines.append(
            f"{subset} is over its limit by {count}: they stay until the workload shrinks or is rolled out."
        )
    if plan.leaving:
        lines.append(f"These leave, first one first: {', '.join(plan.leaving)}.")
    if plan.costs:
        lines.append(f"The deletion cost of {plan.costs} pods changes.")
    return "\n".join(lines)

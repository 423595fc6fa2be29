"""What every question is answered with on the command line, beside its schema in `proto/answers`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tidewright.asking.answers.table import ANSWERS
from tidewright.cli import main
from tidewright.cli.answers import COMMANDS

ROOT = Path(__file__).parents[3]
LOG = str(ROOT / "tests" / "recorded" / "chaos.twlog")
SCHEMAS = ROOT / "proto" / "answers"

SPREAD = """
apiVersion: apps.kruise.io/v1alpha1
kind: WorkloadSpread
metadata: {name: new, namespace: team-0}
spec:
  targetRef: {apiVersion: apps/v1, kind: Deployment, name: app-0}
  subsets:
  - {name: a, maxReplicas: 2, requiredNodeSelectorTerm: {matchExpressions: [{key: zone, operator: In, values: [a]}]}}
  - {name: b}
"""
REQUEST = """
apiVersion: autoscaling.x-k8s.io/v1
kind: ProvisioningRequest
metadata: {name: new, namespace: team-0}
spec:
  provisioningClassName: best-effort-atomic-scale-up.autoscaling.x-k8s.io
  podSets: [{podTemplateRef: {name: new}, count: 3}]
---
apiVersion: v1
kind: PodTemplate
metadata: {name: new, namespace: team-0}
template: {spec: {containers: [{name: c, resources: {requests: {cpu: "1", memory: 1Gi}}}]}}
"""
SCALER = """
apiVersion: datadoghq.com/v1alpha1
kind: WatermarkPodAutoscaler
metadata: {name: tried, namespace: team-0}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: app-0}
  minReplicas: 1
  maxReplicas: 30
  metrics:
  - {type: External, external: {metricName: requests, metricSelector: {}, highWatermark: "20", lowWatermark: "12"}}
"""
ASKED: dict[str, list[list[str]]] = {
    "backtest.suggest": [["backtest", "--suggest", "-n", "team-0"]],
    "backtest.wpa": [
        ["backtest", "wpa", "-f", "{folder}/scaler.yaml", "--metrics", "{folder}/load.csv", "--sweep", "tolerance=0,100m"],
    ],
    "get": [["get"], ["get", "--at", "seq:400"]],
    "list": [
        ["get", kind, "-A", "--at", at] for kind in ("wpa", "nodegroup", "ws", "shs", "pr") for at in ("seq:700", "seq:3000")
    ],
    "explain": [
        ["explain", "wpa/app-1", "-n", "team-1"],
        ["explain", "wpa/app-0", "-n", "team-0", "--at", "seq:3000"],
        ["explain", "nodegroup/asked", "--at", "seq:700"],
        ["explain", "shs/shards", "-n", "team-0"],
    ],
    "events": [["events"]],
    "state": [["state", "wpa/app-1", "-n", "team-1"], ["state", "nodegroup/asked"], ["state", "shs/shards", "-n", "team-0"]],
    "series": [["series", "wpa/app-1", "-n", "team-1", "--since", "7d"], ["series", "nodegroup/asked", "--since", "7d"]],
    "compare": [["compare", "wpa", "-A"]],
    "verify": [["verify"], ["verify", "--service", "spread"]],
    "diff": [["diff"], ["diff", "--config", "autoscaler={folder}/config.yaml"]],
    "plan.scale-down": [["plan", "scale-down", "--state", LOG], ["plan", "scale-down", "--state", LOG, "--at", "seq:3000"]],
    "plan.provisioning": [["plan", "provisioning", "-f", "{folder}/request.yaml", "--state", LOG]],
    "plan.ws": [
        ["plan", "ws", "-f", "{folder}/spread.yaml", "--replicas", "5"],
        ["plan", "ws", "-f", "{folder}/spread.yaml", "--replicas", "5", "--now"],
    ],
}  # fmt: skip
"""Commands by the question that they ask."""

TIMES = frozenset(
    {"at", "since", "until", "heldUntil", "lastChange", "from", "to", "begun", "ended", "mostMissingAt"}
)
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
LIKE_A_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d")
AS_RECORDED = frozenset({"event", "values", "headers", "state"})
"""Members that hold what is on the log, in its own form."""

COUNTS = frozenset(
    (
        "sequence", "objects", "decisions", "differences", "times", "writtenByUs", "nodes", "pods", "fromNodes", "toNodes",
        "maxNodes", "limitPods", "nowPods", "thenPods", "replicas", "changedCosts", "leftOut", "messages", "events",
        "checkpoints", "undecided", "setAside", "keys", "history", "commits", "unknown", "goneOnFrom", "samples", "scaleUps",
        "scaleDowns", "total", "nodesOrdered", "nodesRemoved", "nodesDrained", "podsEvicted", "removalsUndone", "speed",
        "generation", "slot", "epoch", "keyspace", "slots", "moved", "shards", "seed", "count", "struck", "status", "probability", "confidence", "created", "bound", "ended", "mostPending",
    )
)  # fmt: skip
"""Numbers of things, by what they are called."""
OF_A_METRIC = frozenset(
    {"value", "low", "high", "from", "to", "lowWatermark", "highWatermark", "leastLoad", "mostLoad"}
)
"""Amounts whose unit is that of the metric, or of the line that they stand in."""
UNIT = re.compile(r"(Seconds|PerSecond|Hours|Micro|Milli|Permille|Bytes|Replicas)$")


def answers(words: list[str], folder: Path, capsys: pytest.CaptureFixture[str]) -> list[Any]:
    """What a command prints for programs; of `events` one answer a line."""
    (folder / "spread.yaml").write_text(SPREAD)
    (folder / "request.yaml").write_text(REQUEST)
    (folder / "config.yaml").write_text("enforce_bounds_without_metrics: true\n")
    (folder / "scaler.yaml").write_text(SCALER)
    (folder / "load.csv").write_text(
        "\n".join(["timestamp,value", *(f"{60 * n},{n % 90}" for n in range(200))])
    )
    given = [word.format(folder=folder) for word in words]
    if not {"--state", "--metrics"} & set(given):
        given += ["--log", LOG] if given[0] != "diff" else [LOG]
    assert main.run([*given, "-o", "json"]) in (0, 1), capsys.readouterr().err
    said = capsys.readouterr().out
    return [json.loads(line) for line in said.splitlines()] if words[0] == "events" else [json.loads(said)]


def test_every_question_is_asked() -> None:
    assert ASKED.keys() == ANSWERS.keys()
    assert not ANSWERS.keys() & COMMANDS.keys()
    assert ANSWERS.keys() | COMMANDS.keys() == {path.stem for path in SCHEMAS.glob("*.json")}


@pytest.mark.parametrize("question", ASKED)
def test_every_answer_is_what_its_schema_says(
    question: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    validator = jsonschema.Draft202012Validator(json.loads((SCHEMAS / f"{question}.json").read_text()))
    for words in ASKED[question]:
        found = answers(words, tmp_path, capsys)
        assert found
        for answer in found:
            assert next((f"{e.json_path}: {e.message}" for e in validator.iter_errors(answer)), "") == "", (
                words
            )
            assert not [(path, value) for path, value in times(answer) if not TIME.fullmatch(value)]


def times(value: Any, path: str = "$") -> Iterator[tuple[str, str]]:
    """The times of an answer, and where they stand; what is on the log has its own form."""
    if isinstance(value, dict):
        for name, member in value.items():
            if name in AS_RECORDED:
                continue
            if isinstance(member, str) and name in TIMES and LIKE_A_TIME.match(member):
                yield f"{path}.{name}", member
            yield from times(member, f"{path}.{name}")
    elif isinstance(value, list):
        for n, member in enumerate(value):
            yield from times(member, f"{path}[{n}]")


@pytest.mark.parametrize("question", ANSWERS | COMMANDS)
def test_an_amount_has_its_unit_in_its_name(question: str) -> None:
    schema = json.loads((SCHEMAS / f"{question}.json").read_text())
    unknown = {name for name, member in members(schema) if is_a_number(member)} - COUNTS - OF_A_METRIC
    assert not {name for name in unknown if not UNIT.search(name)}
    assert not [name for name, _ in members(schema) if "_" in name or name[0].isupper()]


def members(node: Any) -> Iterator[tuple[str, Any]]:
    """All members of the objects of a schema."""
    if isinstance(node, dict):
        properties = node.get("properties")
        if isinstance(properties, dict):
            yield from properties.items()
        for value in node.values():
            yield from members(value)
    elif isinstance(node, list):
        for value in node:
            yield from members(value)


def is_a_number(member: Any) -> bool:
    """Whether a member is one, or may be."""
    those = [member, *member.get("anyOf", ())]
    return any(one.get("type") in ("number", "integer") for one in those)

"""Every YAML file that a command takes: several documents, garbage and no file are one line each."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tidewright.asking.errors import BadInput
from tidewright.cli import main
from tidewright.cli.backtest.manifest import put
from tidewright.cli.diff import configuration
from tidewright.cli.plan.manifests import read
from tidewright.cli.plan.ws import _read as read_spread
from tidewright.cli.shards.adopting import read_configuration
from tidewright.cli.shards.looking import _from_file
from tidewright.cli.sim.clusters import read_metrics

Reads = Callable[[Path], object]

ONE_DOCUMENT: dict[str, Reads] = {
    "diff --config": lambda path: configuration([f"autoscaler={path}"]),
    "shards plan --filename": lambda path: _from_file(path, None),  # type: ignore[arg-type]  # it is read first
    "shards adopt": lambda path: read_configuration([path], "shop", "b"),
    "sim --metrics": read_metrics,
}
RUN: dict[str, list[str]] = {
    "up --node-groups": ["up", "--data", "{folder}/d", "--node-groups"],
    "sim --metrics": ["sim", "up", "--metrics"],
    "sim --cloud": ["sim", "up", "--cloud"],
    "backtest": ["backtest", "wpa", "--metrics", "{folder}/none.csv", "-f"],
    "plan ws": ["plan", "ws", "--replicas", "3", "-f"],
}


@pytest.mark.parametrize("reads", ONE_DOCUMENT.values(), ids=ONE_DOCUMENT)
def test_a_second_document_is_told_with_its_line(reads: Reads, tmp_path: Path) -> None:
    path = tmp_path / "it.yaml"
    path.write_text("{}\n---\nb: 2\n")
    with pytest.raises(BadInput) as refused:
        reads(path)
    assert f"{path}, line 3: a second document begins" in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("reads", [*ONE_DOCUMENT.values(), lambda path: read(path, "x")])
def test_what_is_no_text_or_not_there_is_told(reads: Reads, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"it\.yaml: cannot be read: No such file"):
        reads(tmp_path / "it.yaml")
    (tmp_path / "it.yaml").write_bytes(b"a: \xff")
    with pytest.raises(BadInput, match=r"it\.yaml: cannot be read: it is no text in UTF-8"):
        reads(tmp_path / "it.yaml")


@pytest.mark.parametrize("command", RUN.values(), ids=RUN)
def test_the_command_ends_with_one_line(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "it.yaml"
    path.write_text("a: 1\n b: [\n")
    assert main.run([*(part.format(folder=tmp_path) for part in command), str(path)]) == 2
    said = capsys.readouterr().err
    assert f"{path}, line 2: not YAML" in said
    assert said.count("\n") == 1
    assert not (tmp_path / "d").exists()


def test_a_swept_value_that_is_no_yaml_is_told() -> None:
    with pytest.raises(BadInput, match=r"--sweep tolerance=.*line 1: not YAML"):
        put({}, "tolerance", "[")


TYPOS: dict[str, tuple[Reads, str, str]] = {
    "plan provisioning": (
        lambda path: read(path, "x"),
        "{apiVersion: autoscaling.x-k8s.io/v1, kind: ProvisioningRequest, metadata: {name: r}, spec: {podsets: []}}",
        "ProvisioningRequest r: spec has no field 'podsets'; did you mean podSets?",
    ),
    "plan provisioning, a template": (
        lambda path: read(path, "x"),
        "{apiVersion: v1, kind: PodTemplate, metadata: {name: t}, template: {spec: {container: []}}}",
        "PodTemplate t: template.spec has no field 'container'; did you mean containers?",
    ),
    "plan ws": (
        lambda path: read_spread(path, "x"),
        "{apiVersion: apps.kruise.io/v1alpha1, kind: WorkloadSpread, metadata: {name: w}, spec: {subset: []}}",
        "WorkloadSpread w: spec has no field 'subset'; did you mean subsets?",
    ),
    "shards plan": (
        lambda path: _from_file(path, None),  # type: ignore[arg-type]  # it is read first
        "{apiVersion: shards.tidewright.dev/v1alpha1, kind: ShardSet, metadata: {name: s}, spec: {keyspace: {slot: 64}}}",
        "ShardSet s: spec.keyspace has no field 'slot'; did you mean slots?",
    ),
    "diff --config": (
        lambda path: configuration([f"autoscaler={path}"]),
        "{stale_after: 60}",
        "stale_after: not a setting of the autoscaler; did you mean stale_after_s?",
    ),
    "diff --config, of provisioning": (
        lambda path: configuration([f"provisioning={path}"]),
        "{max-nodes-totl: 60}",
        "max-nodes-totl: not a setting of provisioning; did you mean max-nodes-total?",
    ),
}


@pytest.mark.parametrize(("reads", "text", "said"), TYPOS.values(), ids=TYPOS)
def test_a_field_that_nobody_knows_is_refused_with_the_object_and_what_was_meant(
    reads: Reads, text: str, said: str, tmp_path: Path
) -> None:
    path = tmp_path / "it.yaml"
    path.write_text(text)
    with pytest.raises(BadInput) as refused:
        reads(path)
    assert str(refused.value).endswith(said)
    assert str(path) in str(refused.value)


def test_a_configuration_is_that_of_the_part_that_the_service_reads(tmp_path: Path) -> None:
    path = tmp_path / "it.yaml"
    path.write_text("managers: []")
    assert configuration([f"shard-manager={path}"]) == {"shardmanager": {"managers": []}}
    with pytest.raises(BadInput, match="'shardmanger' configures nobody; did you mean shard-manager"):
        configuration([f"shardmanger={path}"])


def test_an_object_without_a_namespace_is_of_that_of_the_kubeconfig(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    context = {"name": "here", "context": {"cluster": "c", "namespace": "team"}}
    (tmp_path / "config").write_text(json.dumps({"current-context": "here", "contexts": [context]}))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    path = tmp_path / "it.yaml"
    path.write_text(
        "apiVersion: apps.kruise.io/v1alpha1\nkind: WorkloadSpread\nmetadata: {name: web}\nspec:\n"
        "  targetRef: {apiVersion: apps/v1, kind: Deployment, name: web}\n  subsets: [{name: a, maxReplicas: 2}, {name: b}]\n"
    )
    for given, meant in (([], "team"), (["-n", "other"], "other")):
        assert main.run(["plan", "ws", "-f", str(path), "--replicas", "3", "-o", "json", *given]) == 0
        assert json.loads(capsys.readouterr().out)["namespace"] == meant

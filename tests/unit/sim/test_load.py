"""Recordings: rows become nodes and pods, and a broken row is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidewright.sim.load import (
    NODE_COLUMNS,
    POD_COLUMNS,
    LoadError,
    LoadOptions,
    node_of,
    pod_of,
    read_nodes,
    read_pods,
)

PODS = f"{','.join(POD_COLUMNS)}\nlate,6000,1024,1,460,V100|A10,LS,Running,90,190,100\nnever,500,64,0,0,,BE,Failed,10,30,\n"


def test_pods_come_in_order_of_creation_with_what_they_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "pods.csv"
    path.write_text(PODS, encoding="utf-8")
    first, second = read_pods(path)
    assert (first.name, first.run_s, first.failed) == ("never", 20.0, True)
    assert (second.name, second.run_s, second.models) == ("late", 90.0, ("A10", "V100"))
    requests = pod_of(second, LoadOptions(pods=path))["spec"]["containers"][0]["resources"]["requests"]
    assert requests == {"cpu": "6000m", "memory": "1024Mi", "nvidia.com/gpu": "1"}
    shared = pod_of(second, LoadOptions(pods=path, gpu_shares=True))
    assert shared["spec"]["containers"][0]["resources"]["requests"]["sim.tidewright.dev/gpu-milli"] == "460"


def test_nodes_carry_their_gpus_and_model(tmp_path: Path) -> None:
    path = tmp_path / "nodes.csv"
    path.write_text(f"{','.join(NODE_COLUMNS)}\nn1,64000,2048,2,P100\n", encoding="utf-8")
    node = node_of(read_nodes(path)[0], LoadOptions(pods=path), 0.0)
    assert node["status"]["capacity"] == {
        "cpu": "64000m",
        "memory": "2048Mi",
        "pods": "110",
        "nvidia.com/gpu": "2",
    }
    assert node["metadata"]["labels"]["sim.tidewright.dev/gpu-model"] == "P100"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sn,cpu_milli\n", "line 1: column 'memory_mib' is missing"),
        (f"{','.join(NODE_COLUMNS)}\nn1,lots,2048,0,\n", "line 2: column cpu_milli: 'lots' is no number"),
        (f"{','.join(NODE_COLUMNS)}\nn1,1\n", "line 2: 5 columns expected"),
    ],
)
def test_a_broken_recording_is_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "nodes.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(LoadError) as refused:
        read_nodes(path)
    assert message in str(refused.value)

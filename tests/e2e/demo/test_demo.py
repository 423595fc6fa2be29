"""The demo, run as a user would: on a short load, and its story of nodes at twice its speed."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import psutil
import pytest

from tests.e2e.conftest import tidewright

pytestmark = pytest.mark.timeout(400)
WITHIN_S = 360.0
"""Wall seconds: on a very busy machine everything takes a minute to come up, and the story is begun once more."""


async def test_it_scales_up_and_down_explains_both_and_leaves_nothing_behind(tmp_path: Path) -> None:
    load = tmp_path / "load.csv"
    values = [100] * 4 + [900] * 8 + [80] * 8
    load.write_text(
        "timestamp,value\n" + "".join(f"{1_700_000_000 + 600 * i},{v}\n" for i, v in enumerate(values))
    )
    process = await asyncio.create_subprocess_exec(
        *tidewright("demo", "--metrics", str(load), "--speed", "750", "--data", str(tmp_path / "d"), "-o", "json"),
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    async with asyncio.timeout(WITHIN_S):
        out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    summary = json.loads(out)
    assert summary["decisions"]["scaleUps"] > 0
    assert summary["decisions"]["scaleDowns"] > 0
    for key, up in (("scaleUp", True), ("scaleDown", False)):
        explained = summary[key]
        assert (explained["to"] > explained["from"]) is up
        assert explained["outcome"] == "applied"
        assert any("watermark" in sentence for sentence in explained["explanation"])
    replicas = [point["value"] for point in summary["replicas"]]
    assert max(replicas) > replicas[-1]
    assert (tmp_path / "d" / "nats" / "jetstream").is_dir()
    assert str(tmp_path / "d") == summary["log"]["folder"]
    assert b"replicas" in err  # the live lines
    left = [p for p in psutil.process_iter() if str(tmp_path) in " ".join(_command(p))]
    assert left == []


async def test_nodes_follow_pods_and_what_that_saved_is_said(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *tidewright("demo", "--story", "nodes", "--speed", "240", "--data", str(tmp_path / "d"), "-o", "json"),
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    async with asyncio.timeout(WITHIN_S):
        out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    summary = json.loads(out)
    decisions, saved = summary["decisions"], summary["saved"]
    assert decisions["nodesOrdered"] > 0
    assert decisions["nodesRemoved"] > 0
    nodes = [point["value"] for point in summary["nodes"]]
    assert max(nodes) > nodes[-1]
    for key in ("scaleUp", "scaleDown"):
        assert summary[key]["explanation"]
    assert 0 < saved["paid"]["nodeHours"] < saved["standing"]["nodeHours"]
    assert 0 < saved["paid"]["priceMicro"] < saved["standing"]["priceMicro"]
    assert b"remove" in err  # the live lines
    left = [p for p in psutil.process_iter() if str(tmp_path) in " ".join(_command(p))]
    assert left == []


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []

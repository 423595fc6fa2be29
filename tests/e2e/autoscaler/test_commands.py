"""kubectl and its plugin on WatermarkPodAutoscalers."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.e2e.autoscaler.world import World, shell, wants

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.usefixtures("running")]

BIN = Path(sys.executable).parent


async def kubectl(world: World, *arguments: str, body: str | None = None) -> tuple[int, str, str]:
    """The real kubectl, in the world's namespace; plugins are found beside it."""
    path = f"PATH={BIN}{os.pathsep}{os.environ['PATH']}"
    config = f"KUBECONFIG={world.cluster.kubeconfig}"
    return await shell("env", path, config, str(BIN / "kubectl"), *arguments, body=body)


async def test_get_shows_the_columns_of_the_reference(world: World) -> None:
    await world.deployment()
    world.measure(14)
    wpa = await world.autoscaler()
    # Facts about pods come on their own: the first pass may know of one of them that is ready, and say 14.
    await world.until(
        wpa,
        lambda w: (
            w.get("status", {}).get("currentMetrics", [{}])[0].get("external", {}).get("currentValue") == "7"
        ),
    )
    code, out, error = await kubectl(world, "get", "wpa", "-n", world.namespace)
    assert (code, error) == (0, "")
    header, row = out.splitlines()
    assert header.split("   ")[0] == "NAME"
    for column in ("SCALING ACTIVE", "CONDITION", "VALUE", "HIGH WATERMARK", "LOW WATERMARK", "DRY-RUN"):
        assert column in header
    assert row.split()[:2] == ["web", "True"]
    assert "7" in row.split()


async def test_the_plugin_lists_switches_and_restores_dry_runs(world: World, tmp_path: Path) -> None:
    target = await world.deployment()
    world.measure(60)
    for name, dry in (("one", True), ("web", True)):
        await world.autoscaler(name, dryRun=dry)
    where = ("-n", world.namespace)
    named = f"WatermarkPodAutoscaler '{world.namespace}/web' dry-run option"
    code, out, _ = await kubectl(world, "wpa", "dry-run", "list", "web", *where)
    assert (code, out) == (0, f"{named} is: true\n")
    code, saved, _ = await kubectl(world, "wpa", "dry-run", "list", "--all", "-o", "csv", *where)
    assert saved == f"{world.namespace},one,enabled\n{world.namespace},web,enabled\n"
    await world.delete(f"{world.autoscalers}/one")
    code, out, _ = await kubectl(world, "wpa", "dry-run", "disable", "web", *where)
    assert (code, out) == (0, f"{named} is now false\n")
    await world.until(target, wants(6))
    # From a pipe; what is gone, odd or the same is said or skipped.
    body = saved + f"{world.namespace},web\n{world.namespace},web,perhaps\n"
    code, out, error = await kubectl(world, "wpa", "dry-run", "revert", body=body)
    assert (code, out) == (0, f"{named} is now true\n")
    assert "no matching WatermarkPodAutoscaler intance" in error
    assert "line 3: 2 columns" in error
    assert "line 4: 'perhaps' is neither enabled nor disabled: taken as enabled" in error
    assert (await world.get(f"{world.autoscalers}/web"))["spec"]["dryRun"] is True


async def test_the_plugin_refuses_what_it_cannot_mean(world: World) -> None:
    where = ("-n", world.namespace)
    code, _, error = await kubectl(world, "wpa", "dry-run", "list", *where)
    assert (code, error) == (2, "error: the watermarkpodautoscaler name or label-selector is required\n")
    code, _, error = await kubectl(world, "wpa", "dry-run", "enable", "-l", "a=b", *where)
    assert (code, error) == (1, "error: no matching WatermarkPodAutoscaler intance\n")
    code, _, error = await kubectl(world, "wpa", "dry-run", "revert", "-f", "nowhere.csv")
    assert code == 2
    assert "nowhere.csv" in error

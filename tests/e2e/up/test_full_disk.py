"""A disk that fills below everything, and has room again: nobody starts anything, and everything goes on."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import io
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.e2e.conftest import tidewright
from tests.e2e.pipeline.test_pipeline import DEPLOYMENT, LABELS, World, autoscaler, ready
from tests.e2e.up.test_up import CONFIG_MAPS, Up, start
from tests.waiting import text_of, until
from tidewright.kube.client import Kube
from tidewright.kube.errors import KubeError
from tidewright.log.connection import Log, Message
from tidewright.log.disk import no_space
from tidewright.log.errors import LogUnavailable

__all__ = ["start"]

METRIC = "shop.requests"
WITHIN_S = 90.0
"""What surely is enough on any machine; half a minute is what is promised."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small disk of the test's own."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if not sys.platform.startswith("linux"):
        pytest.skip("a small disk is made of a tmpfs, which is Linux's")
    command = ["mount", "-t", "tmpfs", "-o", "size=96m", "tmpfs", str(folder)]
    try:
        made = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        pytest.skip(f"nothing can be mounted here: {error}")
    if made.returncode:
        pytest.skip(f"nothing may be mounted here: {made.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(disk: Path) -> None:
    """Take every byte that is left, as another program would."""
    with (disk / "others").open("ab", buffering=0) as file:
        for size in (1 << 20, 1 << 12, 1):
            with contextlib.suppress(OSError):
                while file.write(b"\0" * size) == size:
                    pass
        with pytest.raises(OSError, match="No space left") as refused:
            _write_on(file)
        assert refused.value.errno == errno.ENOSPC


def _write_on(file: io.FileIO) -> None:
    while True:  # others may have given some room back meanwhile
        file.write(b"\0" * (1 << 13))


def free(disk: Path) -> None:
    (disk / "others").unlink()


def http(url: str, body: Any = None) -> tuple[int, dict[str, str], str]:
    """Status, headers and text of an answer; a hanging one fails the test."""
    data = None if body is None else msgspec.json.encode(body)
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"} if data else {})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, dict(answer.headers), answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, dict(error.headers), error.read().decode()


async def until_there(holds: Callable[[], bool]) -> None:
    """Wait for what blocks while it looks."""
    await until(lambda: asyncio.to_thread(holds), what=text_of(holds), within_s=WITHIN_S, every_s=0.2)


async def run(*arguments: str) -> tuple[int, str]:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *tidewright(*arguments), stdout=pipe, stderr=asyncio.subprocess.STDOUT
    )
    out, _ = await process.communicate()
    return process.returncode or 0, out.decode()


async def test_everything_says_so_and_goes_on_by_itself(start: Callable[..., Any], disk: Path) -> None:
    data = disk / "data"
    words = no_space(data).partition(":")[0]
    up: Up = await start("--services", "watcher,autoscaler,actuator", data=data)
    await up.ready()
    push = up.said(r"POST (\S+)")
    readyz = push.replace("/v1/metrics", "/readyz")
    sample = {"metric": METRIC, "namespace": "default", "labels": LABELS, "value": 60.0}
    async with await Kube.connect(Path(up.said(r"export KUBECONFIG=(\S+)"))) as kube:
        world = World(kube, "default")
        await world.make(world.deployments, DEPLOYMENT)
        await world.make(world.autoscalers, autoscaler(METRIC, upscaleForbiddenWindowSeconds=1))
        await world.until(f"{world.deployments}/web", ready(2))
        await until_there(lambda: 'used":1' in http(push, sample)[2].replace(" ", ""))
        await world.until(f"{world.deployments}/web", lambda d: d["spec"]["replicas"] == 6)

        fill(disk)
        # Straight away, and some more, so that the server meets the end of its disk.
        await until(
            lambda: asyncio.to_thread(http, readyz),
            lambda answer: answer[0] == 503 and words in answer[2],
            within_s=WITHIN_S,
            every_s=0.2,
        )
        for _ in range(3):
            status, headers, said = await asyncio.to_thread(http, push, sample)
            assert status == 503
            assert int(headers["Retry-After"]) > 0
            assert words in said
        for name in ("a", "b"):
            body = msgspec.json.encode({"metadata": {"name": name}, "data": {"x": "y" * 10_000}})
            with pytest.raises(KubeError, match="no space left on") as refused:
                await kube.request("POST", CONFIG_MAPS, body=body)
            assert refused.value.status == 503
        await up.until(lambda: any(words in str(line.get("event")) for line in up.lines))
        code, said = await run("export", str(disk / "copy.twlog"), "--data", str(data))
        assert code == 69, said
        assert "no space left on" in said
        assert said.count("\n") == 1

        free(disk)
        await until_there(lambda: http(readyz)[0] == 200)
        await until_there(lambda: http(push, {**sample, "value": 100.0})[0] == 200)
        await world.until(f"{world.deployments}/web", lambda d: d["spec"]["replicas"] == 10)
        await kube.request("POST", CONFIG_MAPS, body=body)
    assert await up.end() == 0
    code, said = await run("verify", "--data", str(data))
    assert code == 0, said

    again: Up = await start("--services", "watcher", data=data)
    await again.ready()
    async with await Kube.connect(data / "kubeconfig") as kube:
        found = msgspec.json.decode((await kube.request("GET", CONFIG_MAPS)).body)
        names = {item["metadata"]["name"] for item in found["items"]}
        assert "b" in names
        assert "a" not in names
    assert await again.end() == 0


async def test_a_server_that_met_the_end_of_its_disk_is_started_again(
    start: Callable[..., Any], disk: Path
) -> None:
    """By an append that did not ask the disk before; the server takes none any more until it is started again."""
    data = disk / "data"
    up: Up = await start("--services", "watcher", data=data)
    await up.ready()
    readyz = up.said(r"POST (\S+)").replace("/v1/metrics", "/readyz")
    async with await Log.connect(up.said(r"log +(\S+),"), "local", timeout_s=2.0) as unasked:
        message = Message(unasked.subjects.config("x"), b"x" * 10_000)
        fill(disk)
        with pytest.raises(LogUnavailable, match="did not answer"):
            await unasked.commit([message])
        await up.until(lambda: any("no space left on device" in str(line.get("event")) for line in up.lines))
        free(disk)
        with pytest.raises(LogUnavailable, match="did not answer"):
            await unasked.commit([message])  # still: there is room, and it does not look again
        await up.until(lambda: _restarted(up))
        await until_there(lambda: http(readyz)[0] == 200)
        await until(lambda: not unasked.unable)
        assert (await unasked.commit([message])).count == 1
    assert await up.end() == 0


def _restarted(up: Up) -> bool:
    return any(
        line.get("event") == "program ended, starting it again" and line.get("program") == "nats"
        for line in up.lines
    )


async def test_a_start_on_a_full_disk_is_refused_in_one_line(start: Callable[..., Any], disk: Path) -> None:
    fill(disk)
    up: Up = await start("--services", "watcher", data=disk / "data")
    assert await up.ended() == 69
    assert len(up.words) == 1
    assert f"error: {no_space(disk / 'data')}" in up.words[0]

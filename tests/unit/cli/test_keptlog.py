"""The log of a data folder, asked whether a supervisor runs on it or not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.nats_server import EmbeddedServer
from tidewright.asking.errors import BadInput
from tidewright.asking.opening import opened
from tidewright.asking.options import AskedLogOptions, LogOptions
from tidewright.cli.datafolder import DataFolder
from tidewright.log.connection import Log, Message

CLUSTER = "harbour"


async def leave_a_log(folder: Path, *clusters: str) -> None:
    """What a run leaves: a log for each cluster, with one message on it."""
    server = EmbeddedServer(folder / "nats")
    url = await server.start()
    for cluster in clusters:
        async with await Log.connect(url, cluster, timeout_s=10.0) as log:
            await log.ensure(4)
            await log.commit([Message(log.subjects.config("x"), b"{}")])
    await server.stop()


async def test_a_log_is_asked_while_nothing_runs_and_let_go_of_afterwards(tmp_path: Path) -> None:
    await leave_a_log(tmp_path, CLUSTER)
    async with opened(AskedLogOptions(data=tmp_path), None) as source:
        assert source.subjects.cluster == CLUSTER  # nobody named it: there is one log
        assert source.slots == 4
        assert await source.bounds() == (1, 1)
        # A second question at the same time is answered by the same server.
        async with opened(AskedLogOptions(data=tmp_path, cluster=CLUSTER), None) as second:
            assert await second.bounds() == (1, 1)
    DataFolder.open(tmp_path, "up").close()  # nobody holds it any more
    server = EmbeddedServer(tmp_path / "nats")  # and no server is on the store
    await server.start()
    await server.stop()


async def test_a_log_is_asked_of_the_server_that_runs_on_the_folder(tmp_path: Path) -> None:
    await leave_a_log(tmp_path, CLUSTER)
    supervisor = DataFolder.open(tmp_path, "up")
    server = EmbeddedServer(tmp_path / "nats", port=supervisor.port("nats", None))
    await server.start()
    try:
        async with opened(AskedLogOptions(data=tmp_path), None) as source:
            assert await source.bounds() == (1, 1)
        assert server.pid  # it still runs: it is not ours to stop
        async with await Log.connect(server.url, CLUSTER, timeout_s=10.0) as log:
            assert await log.bounds() == (1, 1)
    finally:
        await server.stop()
        supervisor.close()


async def test_a_cluster_that_is_not_there_is_named_with_those_that_are(tmp_path: Path) -> None:
    await leave_a_log(tmp_path, "east", "west")
    for wanted in (AskedLogOptions(data=tmp_path), AskedLogOptions(data=tmp_path, cluster="south")):
        with pytest.raises(BadInput, match="valid are east, west"):
            async with opened(wanted, None):
                pass
    async with opened(AskedLogOptions(data=tmp_path, cluster="west"), None) as source:
        assert source.subjects.cluster == "west"


@pytest.mark.parametrize(
    ("nats", "said"), [(LogOptions.nats, "no log is kept there"), ("nats://127.0.0.1:1", "give one of them")]
)
async def test_what_cannot_be_asked_is_refused_and_nothing_is_made(
    nats: str, said: str, tmp_path: Path
) -> None:
    folder = tmp_path / "none"
    with pytest.raises(BadInput, match=said):
        async with opened(AskedLogOptions(data=folder, nats=nats), None):
            pass
    assert not folder.exists()

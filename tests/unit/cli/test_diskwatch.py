"""The disk below a data folder: when it is said to be full, and when the log's server is started again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import structlog

from tidewright.cli.diskwatch import AGAIN_S, DiskWatch, Watched, judged, limit_for
from tidewright.log.disk import Space

MB = 1 << 20
SMALL = Space(Path("/data"), 100 * MB, 50 * MB)
"""Of which 10 MB are kept free."""
LATER_S = 1000.0


def left(free_mb: float) -> Space:
    return replace(SMALL, free=int(free_mb * MB))


@pytest.mark.parametrize(
    ("before", "free_mb", "full", "news"),
    [
        (False, 50, False, False),
        (False, 10, False, False),
        (False, 9.9, True, True),
        (True, 9.9, True, False),
        (True, 12, True, False),  # not back and forth at the brink
        (True, 12.5, False, True),
    ],
)
def test_it_is_full_below_what_is_kept_free(before: bool, free_mb: float, full: bool, news: bool) -> None:
    seen = judged(Watched(full=before), left(free_mb), LATER_S)
    assert (seen.full, seen.news) == (full, news)


def test_a_large_disk_is_not_kept_free_by_its_tenth() -> None:
    assert Space(Path("/"), 10**12, 0).kept_free == 64 * MB
    assert Space(Path("/"), 10**12, 65 * MB).full == ""


def test_a_broken_server_is_started_again_once_there_is_room() -> None:
    broken = Watched(broken=True)
    assert not judged(broken, left(1), LATER_S).restart
    assert judged(broken, left(50), LATER_S).restart
    assert not judged(replace(broken, started_s=LATER_S - AGAIN_S / 2), left(50), LATER_S).restart
    assert not judged(Watched(), left(50), LATER_S).restart


def test_the_limit_is_below_the_disks_end_and_follows_it() -> None:
    assert limit_for(left(50), used=20 * MB) == 60 * MB  # 10 MB before the end
    assert limit_for(left(0), used=20 * MB) == 10 * MB
    assert limit_for(left(0), used=0) > 0  # 0 would be no limit
    tight = Watched(limit=25 * MB, used=20 * MB)
    assert judged(tight, left(60), LATER_S).restart  # given when others had the disk
    assert not judged(tight, left(14), LATER_S).restart  # it would gain nothing
    assert not judged(replace(tight, used=5 * MB), left(60), LATER_S).restart  # not needed yet


def test_it_says_so_once_and_has_the_server_start_again_after_what_it_heard(tmp_path: Path) -> None:
    watch, starts = DiskWatch(tmp_path, tmp_path), list[int]()

    def restart() -> None:
        starts.append(1)
        watch.started(0, LATER_S)

    watch.restart = restart
    watch.started(limit=60 * MB, now_s=0.0)
    watch.heard("[1] 2026/01/01 [INF] Server is ready")
    with structlog.testing.capture_logs() as said:
        watch.look(left(50), LATER_S)
        watch.heard("[1] 2026/01/01 [ERR] Critical write error: write x.blk: no space left on device")
        for free_mb in (0, 0, 50, 50):
            watch.look(left(free_mb), LATER_S)
    assert [line["event"] for line in said] == [
        f"no space left on {tmp_path}: make room on that disk",
        "there is space again, going on",
        "starting the log's server again",
    ]
    assert starts == [1]

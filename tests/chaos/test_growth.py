"""What a soak is judged by: who takes ever more is found, and who only goes up and down is not."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree as ET

from tests.chaos import growth
from tests.chaos.growth import MEBIBYTE, Followed, Sample, Table

END_S = 3600.0


def samples(name: str, memory: Callable[[float], float], disk: Callable[[float], float] = lambda _: 0) -> list[Sample]:  # fmt: skip
    """One every ten seconds; sizes in MiB by the share of the run that has passed."""
    return [
        Sample(at_s, name, 1, int(memory(at_s / END_S) * MEBIBYTE), int(disk(at_s / END_S) * MEBIBYTE))
        for at_s in range(0, int(END_S), 10)
    ]


def test_what_grows_for_as_long_as_it_runs_is_found() -> None:
    [memory] = growth.judged(samples("leaks", lambda passed: 100 + 200 * passed), END_S)
    assert (memory.what, memory.flat) == ("memory", False)
    assert "GROWS" in memory.told()


def test_what_grows_first_and_then_goes_up_and_down_is_flat() -> None:
    found = growth.judged(
        samples("works", lambda passed: min(100 + 400 * passed, 200) + 20 * (passed * 100 % 2)), END_S
    )
    assert [one.flat for one in found] == [True]


def test_a_process_that_is_killed_now_and_then_is_judged_by_the_most_that_it_took() -> None:
    saw = samples("killed", lambda passed: 80 + 300 * (passed % 0.1))
    assert [one.flat for one in growth.judged(saw, END_S)] == [True]
    leak_at_the_end = samples("late", lambda passed: 80 if passed < 0.9 else 300)
    assert [one.flat for one in growth.judged(leak_at_the_end, END_S)] == [False]


def test_the_disk_of_who_has_one_is_judged_for_itself() -> None:
    found = growth.judged(samples("server", lambda _: 100, lambda passed: 2000 * passed), END_S)
    assert [(one.what, one.flat) for one in found] == [("memory", True), ("disk", False)]


def test_who_was_not_there_in_one_of_the_two_quarters_is_not_judged() -> None:
    early = [s for s in samples("gone", lambda passed: 1000 * passed) if s.at_s < 0.7 * END_S]
    assert growth.judged(early, END_S) == []


def test_samples_are_in_the_file_when_they_are_taken() -> None:
    file = io.StringIO()
    Table(file).add([Sample(5.0, "autoscaler 1", 7, 1000, 0)])
    [row] = csv.DictReader(io.StringIO(file.getvalue()))
    assert row == {"at_s": "5.0", "name": "autoscaler 1", "pid": "7", "memory": "1000", "disk": "0"}


def test_a_process_and_its_folder_are_looked_at(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "block").write_bytes(b"x" * 100_000)
    gone = 2**22  # no system has a process of that number
    [sample] = growth.look(1.0, [Followed("me", os.getpid(), tmp_path), Followed("gone", gone)])
    assert (sample.name, sample.pid) == ("me", os.getpid())
    assert sample.memory > MEBIBYTE
    assert sample.disk >= 100_000


def test_the_picture_has_a_panel_for_each_process_and_a_mark_for_each_kill() -> None:
    taken = samples("nats-0", lambda _: 100, lambda _: 10) + samples("a<b", lambda _: 50)
    drawn = ET.fromstring(growth.drawn(taken, {"nats-0": [60.0, 120.0]}, END_S))
    texts = [text.text or "" for text in drawn.iter("{http://www.w3.org/2000/svg}text")]
    titles = [text for text in texts if "at most" in text]
    assert titles == [
        "a<b: memory, at most 50 MiB",
        "nats-0: memory, at most 100 MiB",
        "nats-0: disk, at most 10 MiB",
    ]
    assert len(list(drawn.iter("{http://www.w3.org/2000/svg}polyline"))) == 3
    assert len(list(drawn.iter("{http://www.w3.org/2000/svg}line"))) == 4

"""How benchmarks are run: each in a process of its own."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.bench.__main__ import measured
from tests.bench.figures import Bench


def test_a_benchmark_keeps_nothing_where_its_user_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "python"
    program.write_text(
        "#!/bin/sh\n"
        f'echo "$XDG_STATE_HOME\n$XDG_CACHE_HOME" >> {tmp_path}/folders\n'
        'for last; do :; done\necho "[]" > "$last"\n'
    )
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    bench = Bench("a bench", lambda size: [])
    assert measured(bench, "small") == measured(bench, "small") == []
    folders = (tmp_path / "folders").read_text().split()
    assert len(set(folders)) == 4
    assert not {os.environ["XDG_STATE_HOME"], os.environ["XDG_CACHE_HOME"]} & set(folders)

"""A plain command looks for garbage neither on its way nor at its end: that took a tenth of an answer's time."""

from __future__ import annotations

import subprocess
import sys

_WATCHED = """
import atexit, gc, sys
looked = []
gc.callbacks.append(lambda phase, info: looked.append(phase))
atexit.register(lambda: print("looked", len(looked), "kept", gc.get_freeze_count() > 1000, file=sys.stderr))
from tidewright.cli import garbage
looked.clear()  # what the interpreter's start and this program did
sys.argv = ["tidewright", *sys.argv[1:]]
from tidewright.cli.main import main
main()
"""


def test_a_command_looks_for_no_garbage_and_says_all_it_has_to_say() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _WATCHED, "explain", "--help"],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "looked 0 kept True\n")
    assert "--decision" in done.stdout


def test_the_exit_code_of_a_mistake_is_handed_on() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _WATCHED, "explane"], check=False, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    assert "did you mean explain?" in done.stderr

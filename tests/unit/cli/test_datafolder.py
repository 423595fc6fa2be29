"""The data folder: one supervisor at a time, the same ports again, and nothing of others ever cleared."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tidewright.asking.errors import BadInput, Unavailable
from tidewright.cli import datafolder, foldermark, main
from tidewright.cli.datafolder import DataFolder
from tidewright.cli.foldermark import MARK, Whose
from tidewright.sim.nats_server import configuration


def contents(path: Path) -> dict[str, bytes]:
    return {str(p.relative_to(path)): p.read_bytes() if p.is_file() else b"" for p in path.rglob("*")}


def left_by_an_earlier_version(path: Path) -> None:
    (path / "nats" / "jetstream").mkdir(parents=True)
    (path / "nats" / "nats-server.conf").write_text(
        configuration(path / "nats", "127.0.0.1", 1, sync_always=False, max_store_bytes=None)
    )
    (path / "cluster").mkdir()
    (path / "cluster" / "objects.journal").write_text("x")
    (path / "lock").write_text("4711\n")
    (path / "ports.json").write_text(json.dumps({"nats": 20_001}))
    (path / "kubeconfig").touch()


def test_it_has_one_supervisor_and_keeps_its_ports(tmp_path: Path) -> None:
    first = DataFolder.open(tmp_path / "d", "up")
    port = first.port("nats", None)
    with pytest.raises(Unavailable, match="in use by process"):
        DataFolder.open(tmp_path / "d", "up")
    first.close()
    again = DataFolder.open(tmp_path / "d", "up")
    assert again.port("nats", None) == port
    again.close()


def test_fresh_names_what_it_takes_away_and_takes_nothing_else(tmp_path: Path) -> None:
    DataFolder.open(tmp_path, "up").close()
    (tmp_path / "nats" / "jetstream").mkdir(parents=True)
    (tmp_path / "nats" / "jetstream" / "1.blk").write_bytes(b"x" * 2_000_000)
    (tmp_path / "ports.json").write_text("{}")
    (tmp_path / "mine.txt").touch()
    said: list[str] = []
    folder = DataFolder.open(tmp_path, "up", fresh=True, say=said.append)
    assert not datafolder.keeps_log(folder.path)
    assert (tmp_path / "mine.txt").exists()
    assert said == [f"removing what an earlier run left in {tmp_path}: nats/ (2.0 MB), ports.json"]
    folder.close()


@pytest.mark.parametrize(
    "made",
    [
        {"cluster/values.yaml": "mine", "nats/chart.tgz": "mine"},
        {"notes.txt": "mine"},
        {"lock": "a database's"},
        {MARK: "an unrelated file"},
        {"nats/nats-server.conf": "port: 4222"},
    ],
)
@pytest.mark.parametrize("fresh", [False, True])
def test_a_folder_of_somebody_else_is_refused_and_stays_as_it_is(
    made: dict[str, str], fresh: bool, tmp_path: Path
) -> None:
    for name, text in made.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    before = contents(tmp_path)
    with pytest.raises(BadInput, match=r"not Tidewright's.*--data"):
        DataFolder.open(tmp_path, "up", fresh=fresh)
    assert contents(tmp_path) == before


def test_a_demo_clears_nothing_that_is_not_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    foreign = tmp_path / "charts"
    (foreign / "cluster").mkdir(parents=True)
    (foreign / "cluster" / "values.yaml").write_text("mine")
    before = contents(foreign)
    for command in (["demo"], ["up", "--fresh"]):
        assert main.run([*command, "--data", str(foreign)]) == 2
        assert "is not Tidewright's" in capsys.readouterr().err
    kept = tmp_path / "kept"
    DataFolder.open(kept, "up").close()
    assert main.run(["demo", "--data", str(kept)]) == 2
    assert "is kept by `tidewright up`" in capsys.readouterr().err
    assert contents(foreign) == before


def test_what_an_earlier_version_left_is_gone_on_with_and_marked(tmp_path: Path) -> None:
    left_by_an_earlier_version(tmp_path)
    before = contents(tmp_path)
    with pytest.raises(BadInput, match="start once without --fresh"):
        DataFolder.open(tmp_path, "up", fresh=True)
    with pytest.raises(BadInput, match="remove yourself"):
        DataFolder.open(tmp_path, "demo", fresh=True)
    assert contents(tmp_path) == before
    folder = DataFolder.open(tmp_path, "up")
    assert datafolder.keeps_log(folder.path)
    folder.close()
    assert foldermark.made_by(tmp_path) == "up"
    DataFolder.open(tmp_path, "up", fresh=True, say=lambda text: None).close()
    assert not (tmp_path / "cluster").exists()


@pytest.mark.parametrize(
    ("stranger", "named"),
    [("notes.txt", "notes.txt"), ("cluster/values.yaml", "cluster/"), ("nats/chart.tgz", "nats/")],
)
def test_where_something_else_is_beside_it_the_folder_is_used_and_never_marked(
    stranger: str, named: str, tmp_path: Path
) -> None:
    left_by_an_earlier_version(tmp_path)
    (tmp_path / stranger).write_text("mine")
    for _ in range(2):
        DataFolder.open(tmp_path, "up").close()
        with pytest.raises(BadInput, match=rf"holds {named}.*remove yourself"):
            DataFolder.open(tmp_path, "up", fresh=True)
    assert foldermark.whose(tmp_path) is Whose.MIXED
    assert (tmp_path / stranger).read_text() == "mine"


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "disk"
    elsewhere.mkdir()
    (elsewhere / "precious").touch()
    data = tmp_path / "data"
    DataFolder.open(data, "up").close()
    (data / "nats").symlink_to(elsewhere)
    (data / "ports.json").write_text("{}")
    with pytest.raises(BadInput, match=f"link to {elsewhere}"):
        DataFolder.open(data, "up", fresh=True)
    assert (elsewhere / "precious").exists()
    assert (data / "ports.json").exists()  # all or nothing
    DataFolder.open(data, "up").close()  # and nobody holds it


def test_a_demos_folder_becomes_that_of_up_when_it_goes_on_there(tmp_path: Path) -> None:
    DataFolder.open(tmp_path, "demo", fresh=True).close()
    DataFolder.open(tmp_path, "demo", fresh=True).close()
    DataFolder.open(tmp_path, None).close()  # to ask its log
    assert foldermark.made_by(tmp_path) == "demo"
    DataFolder.open(tmp_path, "up").close()
    with pytest.raises(BadInput, match="kept by `tidewright up`"):
        DataFolder.open(tmp_path, "demo", fresh=True)


def test_the_users_own_folder_may_hold_those_of_demos(tmp_path: Path) -> None:
    (tmp_path / "demo" / "nats").mkdir(parents=True)
    (tmp_path / "demos" / "x").mkdir(parents=True)
    DataFolder.open(tmp_path, "up", fresh=True).close()
    assert (tmp_path / "demo" / "nats").exists()
    assert foldermark.made_by(tmp_path) == "up"


def test_demos_have_a_folder_for_each_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    here = datafolder.of_demos()
    assert here.parent == datafolder.default() / "demos"
    monkeypatch.setattr(datafolder, "__file__", "/elsewhere/a/b/c/d/datafolder.py")
    assert datafolder.of_demos() != here

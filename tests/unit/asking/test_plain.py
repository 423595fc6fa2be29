"""What a plain question means: the stack that runs, the kubeconfig's namespace, an object in two words."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path

import pytest

from tidewright.asking import running
from tidewright.asking.errors import BadInput
from tidewright.asking.namespaces import meant
from tidewright.asking.objects import kind_of, spoken
from tidewright.asking.options import AskedLogOptions, LogOptions
from tidewright.asking.running import Running, announced, located, stacks
from tidewright.cli import main

LOG = Path(__file__).parents[2] / "recorded" / "chaos.twlog"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)


def stack(pid: int, cluster: str = "local", made_by: str = "up") -> Running:
    return Running(
        nats=f"nats://127.0.0.1:{pid}", cluster=cluster, data=f"/data/{pid}", made_by=made_by, pid=pid
    )


def test_a_stack_is_found_while_it_runs_and_no_longer() -> None:
    assert located(LogOptions()) == LogOptions()
    with announced(stack(7001, "here")):
        assert stacks() == [stack(7001, "here")]
        assert located(LogOptions()) == LogOptions(nats="nats://127.0.0.1:7001", cluster="here")
        asked = located(AskedLogOptions(trust=Path("root.pub")))
        assert asked == AskedLogOptions(nats="nats://127.0.0.1:7001", cluster="here", trust=Path("root.pub"))
    assert stacks() == []
    assert located(LogOptions()) == LogOptions()


def test_what_one_that_was_killed_left_behind_says_nothing() -> None:
    with announced(stack(7001)):
        left = (running.folder() / "7001.json").read_bytes()
    (running.folder() / "7001.json").write_bytes(left)
    (running.folder() / "7002.json").write_bytes(b"no json")
    assert stacks() == []


def test_who_names_a_log_is_not_led_elsewhere() -> None:
    with announced(stack(7001, "here")):
        for named in (
            LogOptions(nats="nats://elsewhere:4222"), LogOptions(cluster="there"), AskedLogOptions(data=Path("x")),
        ):  # fmt: skip
            assert located(named) == named
        assert located(LogOptions(cluster="here")).nats == "nats://127.0.0.1:7001"


def test_up_goes_before_a_demo_and_of_several_one_is_to_be_named() -> None:
    with ExitStack() as held:
        held.enter_context(announced(stack(7001, "demo", "demo")))
        assert located(LogOptions()).cluster == "demo"
        held.enter_context(announced(stack(7002)))
        assert located(LogOptions()).nats == "nats://127.0.0.1:7002"
        held.enter_context(announced(stack(7003)))
        with pytest.raises(BadInput, match="--data /data/7002, --data /data/7003"):
            located(LogOptions())


def test_a_folder_that_cannot_be_written_to_is_no_reason_not_to_run(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file")
    with announced(stack(7001)):
        assert stacks() == []


def kubeconfig(path: Path, **namespaces: str) -> Path:
    contexts = [
        {"name": name, "context": {"cluster": "c", **({"namespace": space} if space else {})}}
        for name, space in namespaces.items()
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"current-context": next(iter(namespaces)), "contexts": contexts}))
    return path


def test_the_namespace_is_that_of_the_kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert meant("") == "default"
    kubeconfig(tmp_path / ".kube" / "config", first="shop", second="other", third="")
    assert (meant(""), meant("mine")) == ("shop", "mine")
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path / "named", only="elsewhere")))
    assert meant("") == "elsewhere"
    config = tmp_path / ".kube" / "config"
    assert meant("", config) == "shop"
    assert (meant("", config, "second"), meant("", config, "third"), meant("", config, "no")) == (
        "other", "default", "default",
    )  # fmt: skip
    for broken in ("- a list", "{", "contexts: 1\ncurrent-context: x", "\x00"):
        config.write_text(broken)
        assert meant("", config) == "default"


def test_an_object_is_named_in_one_word_or_two() -> None:
    assert spoken(["wpa/shop"]) == spoken(["wpa", "shop"]) == "wpa/shop"
    for words in ([], ["wpa", "a", "b"], ["wpa/a", "b"]):
        with pytest.raises(BadInput, match="KIND/NAME or KIND NAME"):
            spoken(words)


@pytest.mark.parametrize("command", ["explain", "state", "get"])
def test_two_words_are_answered_as_one(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kubeconfig(tmp_path / ".kube" / "config", here="team-1")
    asked = ([command, "wpa/app-5", "-n", "team-1"], [command, "wpa", "app-5"])
    answers = []
    for words in asked:
        assert main.run([*words, "--log", str(LOG), "-o", "json"]) == 0
        answers.append(capsys.readouterr().out)
    assert answers[0] == answers[1]
    assert json.loads(answers[0])


@pytest.mark.parametrize(
    ("typed", "kind"),
    [
        ("WPA", "watermarkpodautoscaler"), ("wpas", "watermarkpodautoscaler"), ("nodegroups", "nodegroup"), ("pods", "pod"),
        ("capacitybuffers", "capacitybuffer"), ("priorityclasses", "priorityclass"), ("podtemplates", "podtemplate"),
        ("metrics", "metric"), ("intance", "intance"), ("bus", "bus"),
    ],
)  # fmt: skip
def test_a_kind_may_be_short_or_plural(typed: str, kind: str) -> None:
    assert kind_of(typed) == kind


def test_a_kind_that_there_is_not_is_named_with_the_one_that_may_be_meant(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main.run(["explain", "deploymnt/x", "-n", "team-0", "--log", str(LOG)]) == 2
    assert "'deploymnt' is no kind that a service knows (did you mean deployment?)" in capsys.readouterr().err
    assert main.run(["explain", "deployments/x", "-n", "team-0", "--log", str(LOG)]) == 2
    assert "no kind" not in capsys.readouterr().err

"""Who acts, as the command line has it; and what the first line of `up` says of it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tidewright.asking.errors import BadInput
from tidewright.cli.crds.installing import Outcome
from tidewright.cli.modeflags import ModeFlags, arguments
from tidewright.cli.stack import StackOptions
from tidewright.cli.up import _acting
from tidewright.watcher.modes import OperatorModes


@pytest.mark.parametrize(
    ("flags", "default", "wanted"),
    [
        (ModeFlags(), None, None),
        (ModeFlags(), "shadow", OperatorModes(mode="shadow")),
        (ModeFlags(mode="enforce"), "shadow", OperatorModes()),
        (ModeFlags(enforce=("autoscaler,spread",)), "enforce",
         OperatorModes(mode="shadow", services={"autoscaler": "enforce", "spread": "enforce"})),
        (ModeFlags(act_in="team=a"), None, OperatorModes(namespaces="team=a")),
        (ModeFlags(act_in="team=a"), "shadow", OperatorModes(mode="shadow", namespaces="team=a")),
        (ModeFlags(mode="enforce", regardless=("spread", "autoscaler")), None,
         OperatorModes(regardless=("spread", "autoscaler"))),
    ],
)  # fmt: skip
def test_flags_say_who_acts(flags: ModeFlags, default: Any, wanted: OperatorModes | None) -> None:
    assert flags.wanted(default) == wanted


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (ModeFlags(enforce=("scaler",)), "'scaler' is no service that decides: valid are autoscaler, "),
        (ModeFlags(act_in="=a"), "is no label selector"),
        (ModeFlags(mode="enforce", enforce=("spread",)), "not with --mode enforce"),
    ],
)
def test_flags_that_cannot_be_meant_so_are_refused(flags: ModeFlags, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        flags.wanted()


@pytest.mark.parametrize(
    "wanted",
    [
        OperatorModes(),
        OperatorModes(mode="shadow"),
        OperatorModes(mode="shadow", services={"spread": "enforce"}, namespaces="a=b"),
    ],
)
def test_modes_come_back_from_their_arguments(wanted: OperatorModes) -> None:
    given = arguments(wanted)
    flags = ModeFlags(
        mode=given[given.index("--mode") + 1] if "--mode" in given else None,  # type: ignore[arg-type]  # a literal
        enforce=(given[given.index("--enforce") + 1],) if "--enforce" in given else (),
        act_in=given[given.index("--act-in") + 1] if "--act-in" in given else "",
    )
    assert flags.wanted() == wanted


def first_line(*, crds: tuple[str, ...] = (), **options: Any) -> str:
    found: Any = SimpleNamespace(
        options=StackOptions(data=Path("data"), **options),
        crds=[Outcome(name, "created", "it was missing") for name in crds],
    )
    return _acting(found)[0]


def test_the_first_line_says_what_changes_in_the_cluster_and_how_to_go_on() -> None:
    theirs = Path("kubeconfig")
    assert first_line().startswith("Tidewright is up: watcher, ")
    assert first_line(kubeconfig=theirs) == (
        "Tidewright is up in SHADOW: it decides, and writes nothing to this cluster; --mode enforce has it act, "
        "--enforce SERVICES some."
    )
    assert "nothing to this cluster but the CustomResourceDefinition named below;" in first_line(
        kubeconfig=theirs, crds=("a",)
    )
    assert first_line(kubeconfig=theirs, modes=OperatorModes()) == (
        "Tidewright is up and ACTS on this cluster; --mode shadow has it decide only."
    )
    some = first_line(kubeconfig=theirs, modes=OperatorModes(mode="shadow", services={"spread": "enforce"}))
    assert some == (
        "Tidewright is up: spread acts. autoscaler, provisioning and shard-manager are in SHADOW: what is decided "
        "there writes nothing to this cluster; --mode enforce has all act."
    )


def test_who_acts_beside_a_cluster_is_told_that_an_incumbent_holds_it_back_and_how_to_see_it() -> None:
    def told(*regardless: str) -> bool:
        acts = OperatorModes(mode="shadow", services={"spread": "enforce"}, regardless=regardless)
        found: Any = SimpleNamespace(
            options=StackOptions(data=Path("data"), kubeconfig=Path("k"), modes=acts), crds=[]
        )
        return any("events --for incumbent/spread" in line for line in _acting(found))

    assert told()
    assert not told("spread")


def test_in_the_embedded_cluster_all_act_and_in_another_one_nobody_does() -> None:
    assert StackOptions(data=Path("data")).wanted_modes == OperatorModes()
    for elsewhere in ({"kubeconfig": Path("k")}, {"context": "c"}, {"in_cluster": True}):
        assert StackOptions(data=Path("data"), **elsewhere).wanted_modes.mode == "shadow"

"""Lists of what is decided on: their rows from last words, over a recorded log and made up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from contextlib import aclosing
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest

from tidewright.asking import listing
from tidewright.asking.answers.form import builtins, stamp
from tidewright.asking.answers.listing import KindList, ListedObject, ObjectList
from tidewright.asking.answers.table import ANSWERS
from tidewright.asking.errors import BadInput
from tidewright.asking.exported import ExportedLog
from tidewright.asking.point_in_time import Moment, moment_of
from tidewright.asking.services import BY_NAME, SERVICES, Service, load
from tidewright.asking.tables import plain, table
from tidewright.cli import get, main
from tidewright.events import provisioning as p
from tidewright.events.autoscaler import HoldReplicas, WatermarkPodAutoscalerObserved
from tidewright.events.base import Because, Decision, ObjectRef
from tidewright.events.decisions import Concluded, PatchObject, ScaleWorkload, SetStatus
from tidewright.events.spread import WorkloadSpreadObserved
from tidewright.host.fold.explainer import Reference
from tidewright.host.fold.lister import Lister, Row, Words
from tidewright.kube.times import seconds
from tidewright.log.export import ExportFile
from tidewright.log.reader import Record

LOG = Path(__file__).parents[2] / "recorded" / "chaos.twlog"
T = TypeVar("T")


def of_log(question: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(question)


def source() -> ExportedLog:
    return ExportedLog(ExportFile(LOG))


def at(text: str = "") -> Moment:
    return of_log(moment_of(source(), text))


def rows(kind: str, text: str = "", **narrower: str) -> list[ListedObject]:
    return list(of_log(listing.listed(source(), kind, at(text), **narrower)).items)


def lister(service: str) -> Lister:
    found = listing.lister_of(BY_NAME[service])
    assert found is not None
    return found


def row(service: str, words: Words, now: float = 1000.0) -> Row:
    return lister(service).row(words, now)


@pytest.mark.parametrize("service", [s for s in SERVICES if s.explainer], ids=lambda s: s.name)
def test_every_decider_lists_its_own_kinds_and_says_little_of_what_it_does_not_know(service: Service) -> None:
    own = listing.lister_of(service)
    assert own is not None
    assert service.lists
    assert service.lists <= service.explains
    decider = load(service)
    assert service.lists <= decider.kinds
    assert own.row(Words(Reference("unknown", "shop", "x"), None), 1.0).held_until is None


def test_the_kinds_are_listed_with_their_counts() -> None:
    found = of_log(listing.kinds(source(), at()))
    counts = {item.kind: item.objects for item in found.items}
    assert counts["watermarkpodautoscaler"] == len(rows("watermarkpodautoscaler")) == 6
    assert counts["nodegroup"] == 1
    assert counts["shardset"] == 1
    assert {item.kind: item.services for item in found.items}["pod"] == ("shard-manager", "spread")


def test_a_scale_is_a_change_until_the_status_says_that_it_is_done() -> None:
    moving = {item.name: item for item in rows("watermarkpodautoscaler", "seq:3100", namespace="team-1")}
    assert set(moving) == {"app-1", "app-3", "app-5"}
    assert (moving["app-1"].now, moving["app-1"].wanted) == ("2", "4")
    assert moving["app-1"].last_change == stamp(1770012124.4798756)
    done = {item.name: item for item in rows("watermarkpodautoscaler", namespace="team-1")}
    assert (done["app-1"].now, done["app-1"].wanted, done["app-1"].why) == (
        "4",
        "4",
        "between the watermarks",
    )
    assert rows("watermarkpodautoscaler", namespace="team-1", name="app-3") == [done["app-3"]]


def test_a_workload_is_listed_with_who_scaled_it_and_what_is_gone_is_not_listed() -> None:
    assert {item.why for item in rows("deployment", namespace="team-1")} == {
        "scaled by wpa/app-1", "scaled by wpa/app-3", "scaled by wpa/app-5",
    }  # fmt: skip
    pods = rows("pod", namespace="team-0")
    assert pods
    assert all(item.now for item in pods)


def test_what_nothing_is_decided_about_is_refused_with_what_can_be_listed() -> None:
    with pytest.raises(BadInput, match="did you mean watermarkpodautoscaler"):
        listing.listable("watermarkpodautoscalr")


def test_answers_read_back_as_what_they_are() -> None:
    kinds, objects = of_log(listing.kinds(source(), at())), of_log(listing.listed(source(), "shardset", at()))
    assert msgspec.convert(builtins(kinds), KindList) == kinds
    assert msgspec.convert(builtins(objects), ObjectList) == objects
    assert builtins(objects)["items"][0]["lastDecision"].startswith("shard-manager.")
    assert set(ANSWERS.values()) >= {KindList, ObjectList}


def conditions(**stated: str) -> list[dict[str, str]]:
    since = "1970-01-01T00:15:00Z"
    return [
        {"type": t, "status": status, "lastTransitionTime": since, "message": f"{t} says so."}
        for t, status in stated.items()
    ]


METRIC = {
    "type": "External",
    "external": {"metricName": "rps", "highWatermark": "100", "lowWatermark": "60"},
}


def with_value(value: str) -> dict[str, Any]:
    """A status with a value of `METRIC`, and conditions of a value within its marks."""
    return {
        "currentMetrics": [{"type": "External", "external": {"metricName": "rps", "currentValue": value}}],
        "conditions": conditions(AboveHighWatermark="False", BelowLowWatermark="False", ScalingActive="True"),
    }


def wpa(**spec: Any) -> WatermarkPodAutoscalerObserved:
    target = {"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"}
    return WatermarkPodAutoscalerObserved(
        at=900.0, namespace="shop", name="web", spec={"scaleTargetRef": target, **spec}
    )


def decided(*decisions: Decision, fact: Any = None) -> Words:
    return Words(Reference("watermarkpodautoscaler", "shop", "web"), fact or wpa(), decisions)


def status(**fields: Any) -> SetStatus:
    return SetStatus(
        at=950.0, target=ObjectRef(api_version="v1", kind="WatermarkPodAutoscaler", name="web"), status=fields
    )


def test_the_window_and_the_delay_hold_what_the_value_asks_for() -> None:
    told = status(
        currentReplicas=3, desiredReplicas=3, lastScaleTime="1970-01-01T00:14:00Z",
        conditions=conditions(AboveHighWatermark="True"),
    )  # fmt: skip
    window, delay = (
        wpa(upscaleForbiddenWindowSeconds=300),
        wpa(upscaleForbiddenWindowSeconds=10, upscaleDelayAboveWatermarkSeconds=120),
    )
    assert row("autoscaler", decided(told, fact=window)).held_until == 840 + 300
    assert row("autoscaler", decided(told, fact=delay)).held_until == 900 + 120
    assert row("autoscaler", decided(told, fact=delay), now=1020.0).held_until is None
    assert row("autoscaler", decided(told, fact=window)).why == "above the high watermark"


def test_a_forbidden_window_is_nothing_wrong() -> None:
    found = conditions(AboveHighWatermark="True", AbleToScale="False")
    told = status(currentReplicas=3, desiredReplicas=3, conditions=found)
    assert row("autoscaler", decided(told)).wrong
    for condition in found:
        condition["reason"] = "BackoffUpscale"
    waiting = row("autoscaler", decided(status(currentReplicas=3, desiredReplicas=3, conditions=found)))
    assert (waiting.wrong, waiting.why) == (False, "above the high watermark")


def test_what_is_wrong_is_said_before_where_the_value_is() -> None:
    told = status(
        currentReplicas=3,
        desiredReplicas=3,
        conditions=conditions(BelowLowWatermark="True", ScalingActive="False"),
    )
    assert row("autoscaler", decided(told)).why == "ScalingActive says so"
    limited = status(conditions=conditions(BelowLowWatermark="True", ScalingLimited="True", DryRun="True"))
    assert row("autoscaler", decided(limited)).why == "ScalingLimited says so (dry run)"


def test_the_scale_of_another_on_the_same_target_is_not_ours() -> None:
    scale = ScaleWorkload(
        at=960.0, target=ObjectRef(api_version="v1", kind="Deployment", name="web"), replicas=9, from_replicas=3,
        owner="WatermarkPodAutoscaler/shop/other", because=(Because(rule="Measured"),),
    )  # fmt: skip
    told = status(currentReplicas=3, desiredReplicas=3)
    assert row("autoscaler", decided(scale, told)).wanted == "3"
    ours = msgspec.structs.replace(scale, owner="WatermarkPodAutoscaler/shop/web")
    assert row("autoscaler", decided(ours, told)).wanted == "9"
    assert row("autoscaler", decided(msgspec.structs.replace(ours, shadow=True), told)).wanted == "3"


def test_what_is_held_back_is_not_told_as_undecided() -> None:
    """In shadow nothing is written, so no status says what was decided."""
    scale = ScaleWorkload(
        at=960.0, target=ObjectRef(api_version="v1", kind="Deployment", name="web"), replicas=9, from_replicas=3,
        owner="WatermarkPodAutoscaler/shop/web", because=(Because(rule="Measured"),), shadow=True,
    )  # fmt: skip
    held = row("autoscaler", decided(scale))
    assert (held.now, held.wanted, held.why) == ("3", "9", "decided, and held back (shadow)")
    spread, pod = (
        WorkloadSpreadObserved(at=900.0, namespace="shop", name="web"),
        ObjectRef(api_version="v1", kind="Pod", name="a"),
    )
    for decision, why in (
        (PatchObject(at=950.0, target=pod, patch={}, shadow=True), "decided, and held back (shadow)"),
        (PatchObject(at=950.0, target=pod, patch={}), "decided, and not written yet"),
    ):
        assert row("spread", decided(decision, fact=spread)).why == why
    assert row("spread", decided(fact=spread)).why == "nothing is decided yet"
    # What is decided about a request does not lie at the request.
    request = p.ProvisioningRequestObserved(at=900.0, namespace="shop", name="web")
    assert (
        row("provisioning", decided(fact=request)).why
        == "nothing is written on it; explain says what is decided"
    )
    left = HoldReplicas(at=950.0, target=pod, replicas=2, reason="PodsNotReady", shadow=True)
    held = row("autoscaler", decided(left))
    assert (held.now, held.wanted, held.why) == ("2", "2", "pods not ready")


def test_of_what_is_held_back_the_last_word_counts_and_not_the_last_scale() -> None:
    """Somebody else has scaled the target meanwhile, and nothing is to be done any more."""
    scale = ScaleWorkload(
        at=940.0, target=ObjectRef(api_version="v1", kind="Deployment", name="web"), replicas=4, from_replicas=2,
        owner="WatermarkPodAutoscaler/shop/web", because=(Because(rule="Measured"),), shadow=True,
        concluded=Concluded(status=with_value("300")),
    )  # fmt: skip
    within = HoldReplicas(
        at=960.0, target=ObjectRef(api_version="v1", kind="WatermarkPodAutoscaler", name="web"), replicas=6,
        reason="WithinWatermarks", concluded=Concluded(status=with_value("100")),
    )  # fmt: skip
    fact = wpa(metrics=[METRIC], upscaleForbiddenWindowSeconds=300)
    thought, over = decided(scale, fact=fact), decided(within, scale, fact=fact)
    held = row("autoscaler", over)
    assert (held.now, held.wanted, held.why, held.changed_at) == ("6", "6", "within watermarks", None)
    assert row("autoscaler", thought).wanted == "4"
    assert [[m.value for m in lister("autoscaler").measured(words)] for words in (thought, over)] == [
        [300.0],
        [100.0],
    ]
    window = msgspec.structs.replace(
        within, replicas=2, reason="UpscaleForbiddenWindow",
        concluded=Concluded(
            status={"lastScaleTime": "1970-01-01T00:15:40Z", "conditions": conditions(AboveHighWatermark="True")}
        ),
    )  # fmt: skip
    waits = row("autoscaler", decided(window, scale, fact=fact))
    assert (waits.now, waits.wanted, waits.why) == ("2", "2", "above the high watermark")
    assert (waits.held_until, waits.changed_at) == (940 + 300, None)
    blind = Concluded(status={"conditions": conditions(ScalingActive="False", DryRun="True")})
    wrong = row("autoscaler", decided(msgspec.structs.replace(within, concluded=blind), fact=fact))
    assert (wrong.wrong, wrong.why) == (True, "ScalingActive says so (dry run)")


def test_a_group_shows_what_is_there_and_what_was_ordered() -> None:
    group = p.NodeGroupObserved(
        at=900.0, namespace="", name="g", min_size=1, max_size=9, target_size=3,
        instances=(p.Instance(id="a", state="running"), p.Instance(id="b", state="creating")),
    )  # fmt: skip
    target = ObjectRef(api_version="v1", kind="NodeGroup", name="g")
    order = p.IncreaseNodeGroup(at=950.0, target=target, size=5, from_size=3, plan="p")
    thought = row("provisioning", decided(msgspec.structs.replace(order, shadow=True), fact=group))
    assert (thought.now, thought.wanted, thought.changed_at) == ("1", "3", None)
    assert thought.why == "would be ordered to 5 (shadow), between 1 and 9"
    report = p.ReportClusterStatus(
        at=950.0,
        target=ObjectRef(api_version="v1", kind="ConfigMap", name="s"),
        text="",
        digest="",
        statuses={"scaleUp/g": "Backoff"},
    )
    asked = Reference("nodegroup", "", "g")
    assert row("provisioning", Words(asked, group)).now == "1"
    assert row("provisioning", Words(asked, group, (order,))).wanted == "5"
    earlier = msgspec.structs.replace(order, at=800.0)
    assert row("provisioning", Words(asked, group, (earlier,))).wanted == "3"
    assert row("provisioning", Words(asked, group, (), (report,))).why == "left alone after a failure"
    assert row("provisioning", Words(asked, group)).why == "between 1 and 9"


def test_room_that_is_kept_is_kept_until_its_time() -> None:
    request = p.ProvisioningRequestObserved(
        at=900.0, namespace="shop", name="r",
        status={
            "conditions": conditions(Accepted="True", Provisioned="True"),
            "provisioningClassDetails": {"reservation": "1970-01-01T01:00:00Z"},
        },
    )  # fmt: skip
    asked = Reference("provisioningrequest", "shop", "r")
    assert row("provisioning", Words(asked, request)).held_until == 3600
    assert row("provisioning", Words(asked, request), now=3600.0).held_until is None
    waits = msgspec.structs.replace(
        request, status={"conditions": conditions(Accepted="True", Provisioned="False")}
    )
    assert row("provisioning", Words(asked, waits)) == Row(
        now="Accepted", wanted="Provisioned", why="Provisioned says so", changed_at=900.0
    )


class Grown(ExportedLog):
    """A log that ends at a sequence, and grows by what lies behind."""

    def __init__(self, ends: int) -> None:
        super().__init__(ExportFile(LOG))
        self.begins: int = ends

    async def last(self, patterns: Any, up_to: int = 0) -> list[Record]:
        return await super().last(patterns, min(up_to or self.begins, self.begins))

    async def follow(self, pattern: str = "", after: int = 0) -> AsyncGenerator[Record, None]:
        async with aclosing(super().records(pattern, after)) as records:
            async for record in records:
                yield record


def test_watching_ends_with_the_rows_that_a_list_has_then() -> None:
    async def seen() -> dict[str, ListedObject]:
        log = Grown(3000)
        begun = await listing.listed(log, "watermarkpodautoscaler", Moment(3000, 0.0), namespace="team-1")
        last = {item.name: item for item in begun.items}
        async with aclosing(listing.watched(log, begun, namespace="team-1")) as changes:
            async for item, _ in changes:
                assert item != last[item.name]
                last[item.name] = item
        return last

    without_windows = {"held_until": None}
    now = {item.name: item for item in rows("watermarkpodautoscaler", namespace="team-1")}
    watched = of_log(seen())
    assert {n: msgspec.structs.replace(i, **without_windows) for n, i in watched.items()} == {
        n: msgspec.structs.replace(i, **without_windows) for n, i in now.items()
    }


HOSTILE = "a\x1b]0;owned\x07\x1b[31mred\u202ecod\r\n[bold]x"


def test_what_a_terminal_would_obey_is_written_out() -> None:
    assert plain(HOSTILE) == "a\\x1b]0;owned\\x07\\x1b[31mred\\u202ecod\\x0d\n[bold]x"
    shown = table(["NAME", "WHY"], [[HOSTILE, "x"]])
    assert len(shown.splitlines()) == 2
    assert "\x1b" not in shown
    assert "[bold]x" in shown


@pytest.mark.parametrize("form", ["table", "wide", "json", "yaml", "name"])
def test_every_form_is_printed(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (
        ["get"],
        ["get", "wpa", "-A"],
        ["get", "wpa", "app-5", "-n", "team-1"],
        ["get", "wpa/app-5", "-n", "team-1"],
    ):
        assert main.run([*words, "--log", str(LOG), "-o", form]) == 0
        printed = capsys.readouterr().out
        assert ("watermarkpodautoscaler" if words == ["get"] else "app-5") in printed
    assert main.run(["get", "wpa", "nobody", "--log", str(LOG), "-o", form]) == 2


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("explain", ("explain", "wpa/app-5", "-n", "team-1")),
        ("explain", ("explain", "nodegroup/asked", "--at", "seq:700")),
        ("state", ("state", "shs/shards", "-n", "team-0")),
        ("verify", ("verify", "--service", "spread")),
        ("list", ("get", "wpa", "-A")),
        ("get", ("get",)),
    ],
)
def test_what_a_command_prints_for_programs_is_what_the_schema_of_its_question_says(
    question: str, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    main.run([*words, "--log", str(LOG), "-o", "json"])
    printed = capsys.readouterr().out
    answer = msgspec.json.decode(printed, type=ANSWERS[question], strict=True)
    assert msgspec.json.decode(msgspec.json.encode(answer)) == msgspec.json.decode(printed)


def test_what_is_watched_stands_below_the_list_and_is_told_where_another_row_is_seen(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = of_log(listing.listed(source(), "watermarkpodautoscaler", at(), namespace="team-1"))
    shown = get._ShownList(found, "table", "team-1", spaces=True)
    now = seconds(found.at)
    shown.print(now)
    first = found.items[0]
    shown.print_one(msgspec.structs.replace(first, last_decision="autoscaler.1.2.3", measured=()), now)
    shown.print_one(msgspec.structs.replace(first, wanted="77"), now + 60)
    header, *rows_, last = capsys.readouterr().out.splitlines()
    assert len(rows_) == len(found.items)  # of the first change nothing is to be seen
    place = header.index("WHY")
    assert last[place:].startswith(first.why)
    assert "-> 77" in last
    assert last.endswith("ago")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("cb", "-n", "nowhere"),
            "no capacitybuffer is known in namespace nowhere; -A shows those of every namespace",
        ),
        (("cb", "-A"), "no capacitybuffer is known"),
        (
            ("nodes",),
            "no node that anything was decided about is there; `tidewright explain node/NAME` says what is known of one",
        ),
    ],
)
def test_a_list_of_nothing_says_where_nothing_is(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["get", *words, "--log", str(LOG)]) == 0
    printed = capsys.readouterr()
    assert (printed.out, printed.err.strip()) == ("", said)

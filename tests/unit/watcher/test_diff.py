from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidewright.events.base import Fact, JsonObject
from tidewright.events.facts import (
    NodeGone,
    NodeObserved,
    PodGone,
    PodObserved,
    ResourceFact,
    ShapeGone,
    ShapeObserved,
)
from tidewright.kube.kinds import BY_NAME
from tidewright.kube.projection.reading import Malformed
from tidewright.watcher.diff import Diff, digest_of

AT = 100.0


def pod(name: str, *, uid: str = "u", phase: str = "Running", cpu: str = "1", version: str = "1") -> bytes:
    return msgspec.json.encode(
        {
            "metadata": {"name": name, "namespace": "shop", "uid": uid, "resourceVersion": version},
            "spec": {"containers": [{"resources": {"requests": {"cpu": cpu}}}]},
            "status": {"phase": phase},
        }
    )


def types(facts: list[Fact]) -> list[str]:
    return [type(fact).__name__ for fact in facts]


def test_a_new_pod_is_said_after_its_shape() -> None:
    assert types(Diff(BY_NAME["pod"]).seen(pod("a"), AT)) == ["ShapeObserved", "PodObserved"]


def test_a_shape_is_said_once() -> None:
    diff = Diff(BY_NAME["pod"])
    diff.seen(pod("a"), AT)
    assert types(diff.seen(pod("b"), AT)) == ["PodObserved"]


def test_an_unchanged_projection_says_nothing() -> None:
    diff = Diff(BY_NAME["pod"])
    diff.seen(pod("a"), AT)
    assert diff.seen(pod("a", version="2"), AT + 1) == []
    assert diff.unchanged == 1


def test_a_changed_projection_is_said() -> None:
    diff = Diff(BY_NAME["pod"])
    diff.seen(pod("a"), AT)
    assert types(diff.seen(pod("a", phase="Failed"), AT)) == ["PodObserved"]


def test_a_deletion_is_said_once_with_the_uid() -> None:
    diff = Diff(BY_NAME["pod"])
    diff.seen(pod("a"), AT)
    assert diff.deleted(pod("a"))[0] == PodGone(at=0.0, namespace="shop", name="a", uid="u")
    assert diff.deleted(pod("a")) == []


def test_another_object_of_the_same_name_ends_the_first() -> None:
    diff = Diff(BY_NAME["pod"])
    diff.seen(pod("a", uid="one"), AT)
    gone, now = diff.seen(pod("a", uid="two"), AT)
    assert isinstance(gone, PodGone)
    assert isinstance(now, PodObserved)
    assert (gone.uid, now.uid) == ("one", "two")


def test_what_a_list_does_not_show_is_gone() -> None:
    diff = Diff(BY_NAME["pod"])
    for name in "cab":
        diff.seen(pod(name), AT)
    diff.list_started()
    assert diff.seen(pod("b"), AT) == []
    assert [fact.name for fact in diff.list_done() if isinstance(fact, PodGone)] == ["a", "c"]
    assert diff.list_done() == []


def test_what_was_said_before_the_start_is_not_said_again_and_is_missed_when_gone() -> None:
    first = Diff(BY_NAME["pod"])
    said = [msgspec.structs.replace(fact, at=50.0) for fact in first.seen(pod("a"), AT)]
    second = Diff(BY_NAME["pod"])
    for fact in said:
        second.said(fact)
    second.said(msgspec.structs.replace(said[1], name="b", refresh=True))
    second.list_started()
    assert second.seen(pod("a"), AT) == []
    assert types(second.list_done()) == ["PodGone"]


def test_what_could_not_be_read_is_said_again_or_that_it_is_gone() -> None:
    diff = Diff(BY_NAME["pod"])
    for name, uid in (("a", ""), ("b", "v")):
        diff.unread("shop", name, uid)
    diff.list_started()
    assert types(diff.seen(pod("a"), AT)) == ["ShapeObserved", "PodObserved"], (
        "and not as another pod than before"
    )
    assert diff.list_done() == [PodGone(at=0.0, namespace="shop", name="b", uid="v")]


def test_a_shape_that_could_not_be_read_is_said_again_for_a_pod_that_could() -> None:
    first = Diff(BY_NAME["pod"])
    shape, said = first.seen(pod("a"), AT)
    second = Diff(BY_NAME["pod"])
    second.said(msgspec.structs.replace(said, at=50.0))
    assert second.seen(pod("a"), AT) == [shape]
    assert second.seen(pod("a"), AT) == []


def test_shapes_that_could_not_be_read_are_said_again_or_that_they_are_gone() -> None:
    (shape, _) = Diff(BY_NAME["pod"]).seen(pod("a"), AT)
    assert isinstance(shape, ShapeObserved)
    diff = Diff(BY_NAME["pod"])
    for digest in (shape.digest, "of-another-form"):
        diff.unread_shape("shop", digest)
    diff.list_started()
    assert diff.seen(pod("a"), AT)[0] == shape
    assert diff.list_done() == [ShapeGone(at=0.0, digest="of-another-form", namespace="shop")]
    assert diff.list_done() == []


def test_a_shape_that_could_not_be_read_stands_as_long_as_a_pod_that_was_said_has_it() -> None:
    said = Diff(BY_NAME["pod"]).seen(pod("a"), AT)[1]
    assert isinstance(said, PodObserved)
    diff = Diff(BY_NAME["pod"])
    diff.said(said)
    diff.unread_shape("shop", said.shape)
    diff.list_started()
    with pytest.raises(Malformed):
        diff.seen(b'{"metadata":{"name":"a","namespace":"shop","uid":"u-a"},"spec":7}', AT)
    assert diff.list_done() == []


def test_a_shape_is_gone_with_its_last_pod_and_told_again_before_the_next() -> None:
    diff = Diff(BY_NAME["pod"])
    shape, *_ = diff.seen(pod("a"), AT)
    diff.seen(pod("b"), AT)
    assert isinstance(shape, ShapeObserved)
    gone = ShapeGone(at=0.0, digest=shape.digest, namespace="shop")
    assert types(diff.deleted(pod("a"))) == ["PodGone"]
    assert diff.deleted(pod("b"))[1:] == [gone]
    assert types(diff.seen(pod("a"), AT)) == ["ShapeObserved", "PodObserved"]
    assert types(diff.seen(pod("a", cpu="2"), AT)) == ["ShapeObserved", "PodObserved", "ShapeGone"]


def test_a_shape_whose_end_was_not_said_is_gone_once_a_list_has_shown_all_pods() -> None:
    diff = Diff(BY_NAME["pod"])
    diff.said(ShapeObserved(at=1.0, digest="d", namespace="shop"))
    diff.list_started()
    diff.seen(pod("a"), AT)
    assert diff.list_done() == [ShapeGone(at=0.0, digest="d", namespace="shop")]
    assert "d" not in diff.due_shapes(AT + 1, 10)


def test_a_last_word_gone_is_remembered_as_gone() -> None:
    diff = Diff(BY_NAME["node"])
    diff.said(NodeObserved(at=1.0, name="n", uid="u"))
    diff.said(NodeGone(at=2.0, name="n", uid="u"))
    diff.list_started()
    assert diff.list_done() == []


def test_a_malformed_object_is_not_gone() -> None:
    diff = Diff(BY_NAME["pod"])
    diff.seen(pod("a"), AT)
    diff.list_started()
    with pytest.raises(Malformed):
        diff.seen(pod("a", cpu="lots"), AT)
    assert diff.list_done() == []
    assert diff.malformed == 1


def test_the_oldest_words_are_due_first() -> None:
    diff = Diff(BY_NAME["pod"])
    diff.seen(pod("b"), 10.0)
    diff.seen(pod("a"), 20.0)
    diff.seen(pod("c"), 30.0)
    assert diff.due(25.0, 10) == [("shop", "b"), ("shop", "a")]
    assert diff.due(25.0, 1) == [("shop", "b")]
    [digest] = diff.due_shapes(25.0, 10)
    assert diff.shapes[digest] == ("shop", 10.0)
    diff.refreshed(PodObserved(at=40.0, namespace="shop", name="b", refresh=True))
    diff.refreshed(ShapeObserved(at=40.0, digest=digest, namespace="shop", refresh=True))
    assert diff.due(25.0, 10) == [("shop", "a")]
    assert diff.due_shapes(25.0, 10) == []


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["Running", "Failed", "gone"])), max_size=30),
    st.integers(0, 30),
)
def test_stopping_and_reading_back_changes_nothing(steps: list[tuple[str, str]], cut: int) -> None:
    """A process that reads its last words back goes on exactly as one that never stopped."""

    def feed(diff: Diff, name: str, phase: str) -> list[Fact]:
        return diff.deleted(pod(name)) if phase == "gone" else diff.seen(pod(name, phase=phase), AT)

    straight, log = Diff(BY_NAME["pod"]), list[Fact]()
    for step in steps[:cut]:
        log += feed(straight, *step)
    restarted = Diff(BY_NAME["pod"])
    for fact in log:
        restarted.said(msgspec.structs.replace(fact, at=7.0))
    for step in steps[cut:]:
        assert feed(restarted, *step) == feed(straight, *step)


def test_the_digest_is_of_what_is_said_not_when() -> None:
    fact = NodeObserved(at=1.0, name="n")
    assert digest_of(fact) == digest_of(NodeObserved(at=2.0, name="n", refresh=True))
    assert digest_of(fact) != digest_of(NodeObserved(at=1.0, name="m"))


# -- statuses that we wrote ----------------------------------------------------------------------------


def scaler(
    count: int, *writers: tuple[str, str], spec: JsonObject | None = None, uid: str = "u", version: str = "1"
) -> bytes:
    """A WatermarkPodAutoscaler whose status says a count; `writers` are those of statuses, with their times."""
    managed = [{"manager": who, "subresource": "status", "time": time} for who, time in writers]
    return msgspec.json.encode(
        {
            "metadata": {
                "name": "a", "namespace": "shop", "uid": uid, "resourceVersion": version, "managedFields": managed,
            },
            "spec": spec or {},
            "status": {"currentReplicas": count},
        }
    )  # fmt: skip


def counts(facts: list[Fact]) -> list[object]:
    return [fact.status["currentReplicas"] for fact in facts if isinstance(fact, ResourceFact)]


OURS, LATER = ("tidewright", "2026-01-01T00:00:01Z"), "2026-01-01T00:00:02Z"


def followed() -> Diff:
    diff = Diff(BY_NAME["watermarkpodautoscaler"])
    assert counts(diff.seen(scaler(1), AT)) == [1]
    return diff


def test_a_status_that_we_wrote_is_kept_back_and_said_once_as_it_is_by_then() -> None:
    diff = followed()
    assert diff.seen(scaler(2, OURS), AT) == []
    assert diff.seen(scaler(3, OURS), AT) == []
    assert counts(diff.late(AT)) == [3]
    assert diff.late(AT) == []
    assert diff.seen(scaler(3, OURS), AT) == []
    assert not diff.kept_back


@pytest.mark.parametrize(
    "writers",
    [
        [],
        [("manager", LATER)],
        [OURS, ("manager", LATER)],
        [OURS, ("manager", OURS[1])],
    ],
    ids=["nobody says", "another one", "another one since", "another one in the same second"],
)
def test_a_status_that_may_be_anothers_is_said_at_once(writers: list[tuple[str, str]]) -> None:
    diff = followed()
    assert counts(diff.seen(scaler(2, *writers), AT)) == [2]
    assert diff.late(AT) == []


def test_what_another_one_wrote_before_us_keeps_nothing_from_being_kept_back() -> None:
    diff = followed()
    assert diff.seen(scaler(2, ("manager", OURS[1]), ("tidewright", LATER)), AT) == []


def test_another_change_is_said_at_once_with_the_status() -> None:
    diff = followed()
    diff.seen(scaler(2, OURS), AT)
    assert counts(diff.seen(scaler(3, OURS, spec={"maxReplicas": 9}), AT)) == [3]
    assert diff.late(AT) == []


def test_another_object_of_the_name_is_said_at_once() -> None:
    assert types(followed().seen(scaler(1, OURS, uid="v"), AT)) == [
        "WatermarkPodAutoscalerGone",
        "WatermarkPodAutoscalerObserved",
    ]


def test_of_what_is_gone_nothing_is_said_late() -> None:
    diff = followed()
    diff.seen(scaler(2, OURS), AT)
    assert types(diff.deleted(scaler(2, OURS))) == ["WatermarkPodAutoscalerGone"]
    assert diff.late(AT) == []


def test_a_status_that_is_again_what_was_said_is_not_said() -> None:
    diff = followed()
    diff.seen(scaler(2, OURS), AT)
    assert diff.seen(scaler(1, OURS), AT) == []
    assert diff.late(AT) == []


def test_a_list_keeps_nothing_back() -> None:
    diff = followed()
    diff.seen(scaler(2, OURS), AT)
    diff.list_started()
    assert counts(diff.seen(scaler(2, OURS), AT)) == [2]
    diff.list_done()
    assert diff.late(AT) == []


def test_what_was_said_before_the_start_is_known_without_its_status() -> None:
    before = followed().seen(scaler(2), AT)
    diff = Diff(BY_NAME["watermarkpodautoscaler"])
    for fact in before:
        diff.said(fact)
    assert diff.seen(scaler(3, OURS), AT) == []
    assert counts(diff.late(AT)) == [3]


@pytest.mark.parametrize("managed", [b"7", b'[{"manager":3,"subresource":"status"}]', b"null", b"[null]"])
def test_writers_that_cannot_be_read_are_nobody(managed: bytes) -> None:
    raw = scaler(2).replace(b'"managedFields":[]', b'"managedFields":' + managed)
    assert managed in raw
    assert counts(followed().seen(raw, AT)) == [2]


def test_statuses_of_other_kinds_are_said_at_once() -> None:
    diff = Diff(BY_NAME["shardset"])
    diff.seen(scaler(1), AT)
    assert counts(diff.seen(scaler(2, OURS), AT)) == [2]

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.actuator.effects import deployment, job, patch, said, scale, status
from tidewright.actuator.plan import Job, Plan, Rank, leaves, rank, supersedes
from tidewright.events.base import ObjectRef
from tidewright.events.decisions import DeleteObject, Effect, EvictPod, PatchObject
from tidewright.events.provisioning import DeleteInstances, MarkNode
from tidewright.kube.taints import DELETION_CANDIDATE, TO_BE_DELETED


def test_scale_up_goes_first_and_measured_status_last() -> None:
    plan = Plan()
    effects: list[Effect] = [
        status(1, "a", urgent=False),
        status(1, "b"),
        said("x", "c"),
        scale(1, 2, "d"),
        patch({"x": 1}, "e"),
        scale(2, 1, "f"),
    ]
    for seq, effect in enumerate(effects):
        plan.add(job(seq, effect))
    order = [started.effect.target.name for _ in effects if (started := plan.next())]
    assert order == ["f", "e", "d", "c", "b", "a"]


def test_one_target_is_taken_in_order_whatever_the_rank() -> None:
    plan = Plan()
    first, second = job(1, status(1)), job(2, scale(3, 2))
    plan.add(first)
    plan.add(second)
    assert plan.next() == first
    assert plan.next() is None
    plan.done(first)
    assert plan.next() == second
    assert plan.next() is None


@given(
    st.lists(
        st.tuples(st.sampled_from(("present", "absent", "event", "next", "done")), st.sampled_from("ab"))
    )
)
def test_marks_that_wait_or_run_are_counted(steps: list[tuple[str, str]]) -> None:
    plan = Plan()
    running: list[Job] = []
    open_marks: set[int] = set()
    for seq, (step, name) in enumerate(steps):
        if step == "next":
            running += [started] if (started := plan.next()) else []
        elif step == "done" and running:
            plan.done(ended := running.pop())
            open_marks.discard(ended.seq)
        elif step == "event":
            plan.add(job(seq, said("x", name)))
        elif step in ("present", "absent"):
            target = ObjectRef(api_version="v1", kind="Node", name=name)
            effect = MarkNode(at=1.0, target=target, key=TO_BE_DELETED, present=step == "present")
            marking = job(seq, effect)
            open_marks -= {waiting.seq for waiting, _ in plan.add(marking)}
            open_marks.add(seq)
            assert plan.alike(marking) == len(open_marks)


def test_object_events_do_not_wait_for_their_target() -> None:
    plan = Plan()
    plan.add(job(1, status(1)))
    plan.add(job(2, said("x")))
    assert {started.seq for _ in range(2) if (started := plan.next())} == {1, 2}


def test_versions_of_a_group_are_the_same_target() -> None:
    plan = Plan()
    for seq, version in enumerate(("g/v1", "g/v2")):
        target = ObjectRef(api_version=version, kind="K", name="n")
        plan.add(job(seq, DeleteObject(at=1.0, target=target)))
    assert plan.next() is not None
    assert plan.next() is None


def test_a_later_wish_supersedes_one_that_waits() -> None:
    plan = Plan()
    plan.add(job(1, scale(5, 3)))
    [(waiting, by)] = plan.add(job(2, scale(8, 3)))
    assert (waiting.seq, by.seq) == (1, 2)
    assert len(plan) == 1
    started = plan.next()
    assert started is not None
    assert started.seq == 2


def test_a_running_one_is_superseded_only_when_it_asks() -> None:
    plan = Plan()
    first, second = job(1, scale(5, 3)), job(2, scale(8, 3))
    plan.add(first)
    assert plan.next() == first
    assert plan.superseding(first) is None
    assert plan.add(second) == []
    assert plan.superseding(first) == second


def test_only_the_same_aspect_of_the_same_object_is_superseded() -> None:
    assert supersedes(scale(8, 3), scale(5, 3))
    assert not supersedes(scale(5, 3), scale(5, 3))
    assert not supersedes(scale(8, 3, uid="b"), scale(5, 3, uid="a"))
    assert not supersedes(status(1), scale(5, 3))
    assert supersedes(status(2), status(1))
    assert not supersedes(status(1), status(1))
    assert supersedes(patch({"a": {"b": 2}}), patch({"a": {"b": 1}}))
    assert not supersedes(patch({"a": {"c": 2}}), patch({"a": {"b": 1}}))
    assert not supersedes(patch({"a": 2}, expect={"/a": 1}), patch({"a": 1}))
    assert not supersedes(said("b"), said("a"))


def test_a_status_that_names_its_decision_supersedes_the_same_one_of_another() -> None:
    first, second = (
        msgspec.structs.replace(status(1), id=name, stamp=("decision",)) for name in ("one", "two")
    )
    assert supersedes(second, first)
    assert not supersedes(first, first)


def test_a_stamp_may_lie_as_deep_as_somebody_has_it() -> None:
    """Decisions are planned before anything of them is tried: what is raised there ends the process, each time that it is started."""
    first, second = (
        msgspec.structs.replace(status(1), id=name, stamp=("m",) * 100_000) for name in ("one", "two")
    )
    assert supersedes(second, first)


def test_the_leaves_of_a_patch() -> None:
    assert leaves({"a": {"b": 1, "c": {}}, "d": None}) == {("a", "b"), ("a", "c"), ("d",)}


def test_deleting_ranks_with_scaling_down() -> None:
    assert rank(DeleteObject(at=1.0, target=deployment())) == Rank.SCALE_DOWN


def test_a_node_that_is_ready_to_go_waits_behind_no_evictions() -> None:
    pod = ObjectRef(api_version="v1", kind="Pod", namespace="shop", name="web")
    group = ObjectRef(api_version="cloud/v1", kind="NodeGroup", name="pool")
    gone = rank(DeleteInstances(at=1.0, target=group, instances=("i",)))
    assert Rank.CHANGE < gone < rank(EvictPod(at=1.0, target=pod))


@given(
    st.lists(
        st.tuples(
            st.sampled_from("abc"), st.integers(0, 3), st.booleans(), st.sampled_from(["", "run", "end"])
        ),
        max_size=25,
    )
)
def test_every_job_runs_or_is_superseded_once_and_in_order_per_lane(
    wishes: list[tuple[str, int, bool, str]],
) -> None:
    plan = Plan()
    overtaken: list[int] = []
    running: list[Job] = []
    begun: list[Job] = []

    def start() -> bool:
        started = plan.next()
        if started is not None:
            running.append(started)
            begun.append(started)
        return started is not None

    for seq, (name, value, event, step) in enumerate(wishes):
        effect: Effect = said(f"m{seq}", name) if event else scale(value, 9, name)
        overtaken += [waiting.seq for waiting, _ in plan.add(job(seq, effect))]
        if step == "run":
            start()
        elif step == "end" and running:
            plan.done(running.pop())
    while len(plan):
        while start():
            pass
        plan.done(running.pop(0))
    assert sorted([started.seq for started in begun] + overtaken) == list(range(len(wishes)))
    for lane in {started.lane for started in begun}:
        order = [started.seq for started in begun if started.lane == lane]
        assert order == sorted(order)


def test_what_a_node_says_to_people_goes_last() -> None:
    node = ObjectRef(api_version="v1", kind="Node", name="n0")
    remark = PatchObject(at=1.0, target=node, patch={"metadata": {"annotations": {"a": "b"}}})
    assert rank(remark) == Rank.MEASURED_STATUS


def test_a_node_that_is_to_take_pods_again_goes_before_what_makes_the_cluster_smaller() -> None:
    node = ObjectRef(api_version="v1", kind="Node", name="n0", uid="u")
    mark = MarkNode(at=1.0, target=node, key=TO_BE_DELETED, present=True, drain="a")
    back = msgspec.structs.replace(mark, present=False)
    assert (rank(back), rank(mark)) == (Rank.SCALE_UP, Rank.SCALE_DOWN)
    assert supersedes(back, mark)
    assert not supersedes(mark, mark)
    assert not supersedes(msgspec.structs.replace(back, key=DELETION_CANDIDATE), mark)

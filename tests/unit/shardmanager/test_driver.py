"""Native mode with pods that the manager starts itself: injected slots, rollouts, resizes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from tests.unit.shardmanager.cluster import Cluster, Pod
from tests.unit.shardmanager.test_fold import document, owned, work
from tidewright.events.decisions import CreateObject, DeleteObject, PatchObject
from tidewright.events.outcomes import Rejected
from tidewright.events.shards import ChangeRollout, SlotLabelsScanned, UnlabelledObject
from tidewright.sharding.keyspace import parse_runs
from tidewright.shardmanager.propeller.worker import parse_args
from tidewright.shardmanager.shardset.spec import GENERATION_ANNOTATION, SLOTS_ANNOTATION


def spec(
    replicas: int, *, injector: str = "propeller", strategy: str = "ranges", **rollout: Any
) -> dict[str, Any]:
    return {
        "keyspace": {"slots": 32, "hash": "fnv1a32", "slotLabel": "shard-key"},
        "workers": {
            "driver": "pods",
            "injector": injector,
            "replicas": replicas,
            "template": {"name": "orders-template", "container": "orders"},
        },
        "assignment": {"strategy": strategy},
        "handover": {"mode": "drain" if injector == "dynamic" else "restart"},
        "rollout": {"minReady": "2s", **rollout},
    }


def template(cluster: Cluster, version: str, **container: Any) -> None:
    cluster.template(version, name="orders-template", container="orders", **container)


def started(replicas: int = 3, **more: Any) -> Cluster:
    cluster = Cluster()
    template(cluster, "1")
    cluster.shard_set(spec(replicas, **more))
    cluster.run()
    settle(cluster)
    return cluster


def slots(pod: Pod) -> set[int]:
    return set(parse_runs(pod.annotations.get(SLOTS_ANNOTATION, "")))


def told(pods: Iterable[Pod]) -> list[int]:
    return sorted(slot for pod in pods for slot in slots(pod))


def settle(cluster: Cluster, rounds: int = 200) -> None:
    """Let pods end, start and become ready, second by second, and watch that no slot is told twice."""
    for _second in range(rounds):
        seen = told(cluster.pods.values())
        assert len(seen) == len(set(seen)), "two pods were told one slot"
        leaving = [n for n, p in cluster.pods.items() if p.deleting_at is not None]
        if leaving and cluster.now - (cluster.pods[leaving[0]].deleting_at or 0.0) >= 3.0:
            cluster.vanish(leaving[0])
        cluster.run(*(n for n, p in cluster.pods.items() if p.phase == "Pending" and p.deleting_at is None))
        cluster.advance(1.0)


def test_every_slot_is_told_to_exactly_one_pod_and_owned_by_it() -> None:
    cluster = started()
    assert told(cluster.pods.values()) == list(range(32))
    args = cluster.pods["orders-1"].manifest["spec"]["containers"][0]["args"]
    assert args[0] == "--x"
    values = {int(v) for r in parse_args(args).requirements for v in r.values}
    assert values == slots(cluster.pods["orders-1"])
    assert {r.owner.partition("#")[0] for r in document(cluster).slots} == set(cluster.pods)


def test_workers_have_a_lock_name_with_the_name_of_the_set() -> None:
    cluster = started()
    args = cluster.pods["orders-2"].manifest["spec"]["containers"][0]["args"]
    assert parse_args(args).lock_name == "orders-leader-2"


def test_a_new_template_is_rolled_out_one_pod_at_a_time() -> None:
    cluster = started()
    uids = {n: p.uid for n, p in cluster.pods.items()}
    template(cluster, "2", image="new")
    order: list[str] = []
    for _second in range(60):
        leaving = [n for n, p in cluster.pods.items() if p.deleting_at is not None]
        not_ready = [n for n, p in cluster.pods.items() if not p.ready or p.deleting_at is not None]
        assert len(not_ready) <= 1
        order += [n for n in leaving if n not in order]
        cluster.vanish()
        cluster.run(*(n for n, p in cluster.pods.items() if p.phase == "Pending"))
        cluster.advance(1.0)
    assert order == ["orders-0", "orders-1", "orders-2"]
    assert all(cluster.pods[n].uid != uid for n, uid in uids.items())
    changes = [d.state for d in cluster.decided if isinstance(d, ChangeRollout)]
    assert changes == ["started", "complete", "started", "complete"]


def test_a_late_answer_about_an_earlier_pod_lets_the_one_that_has_its_name_now_be_ready() -> None:
    cluster = started()
    first = cluster.pods["orders-0"].uid
    cluster.late = lambda effect: isinstance(effect, DeleteObject) and effect.target.uid == first
    template(cluster, "2", image="new")
    settle(cluster, 20)
    assert cluster.pods["orders-0"].uid != first
    (answer,) = cluster.unanswered
    cluster.deliver(answer)
    assert not cluster.state.pods["ns"]["orders-0"].deleting
    settle(cluster, 60)
    assert [d.state for d in cluster.decided if isinstance(d, ChangeRollout)][-1] == "complete"


def test_a_new_version_of_the_same_template_restarts_nobody() -> None:
    cluster = started()
    template(cluster, "2")
    settle(cluster, 20)
    assert not any(isinstance(d, DeleteObject) for d in cluster.decided)


def test_the_next_pod_waits_until_the_last_one_has_been_ready_for_long_enough() -> None:
    cluster = started(minReady="30s")
    cluster.advance(60.0)
    template(cluster, "2", image="new")
    cluster.vanish()
    cluster.run()
    cluster.advance(29.0)
    assert not any(p.deleting_at for p in cluster.pods.values())
    cluster.advance(2.0)
    assert cluster.pods["orders-1"].deleting_at is not None


def test_a_rollout_without_progress_pauses_and_what_is_lost_comes_back_as_it_was() -> None:
    cluster = started(progressDeadline="60s")
    good = cluster.pods["orders-2"].annotations[GENERATION_ANNOTATION]
    template(cluster, "2", image="broken")
    cluster.vanish()
    cluster.advance(120.0)  # the new orders-0 never becomes ready
    assert "paused" in [d.state for d in cluster.decided if isinstance(d, ChangeRollout)]
    assert cluster.pods["orders-1"].deleting_at is None
    cluster.vanish("orders-2")
    assert cluster.pods["orders-2"].annotations[GENERATION_ANNOTATION] == good


def test_automatic_rollback_returns_to_the_last_good_template() -> None:
    cluster = started(progressDeadline="60s", rollback="auto")
    good = cluster.pods["orders-0"].annotations[GENERATION_ANNOTATION]
    template(cluster, "2", image="broken")
    cluster.vanish()
    cluster.advance(70.0)
    settle(cluster, 60)
    assert cluster.pods["orders-0"].annotations[GENERATION_ANNOTATION] == good
    assert cluster.pods["orders-0"].ready


def test_a_canary_holds_until_it_is_approved() -> None:
    cluster = started(canary=1)
    template(cluster, "2", image="new")
    settle(cluster, 40)
    new = [n for n, p in cluster.pods.items() if p.manifest["spec"]["containers"][0].get("image") == "new"]
    assert new == ["orders-0"]
    cluster.shard_set(spec(3, canary=1, approved=True), generation=2)
    settle(cluster, 60)
    assert all(p.manifest["spec"]["containers"][0].get("image") == "new" for p in cluster.pods.values())


def test_undo_returns_to_the_template_before() -> None:
    cluster = started()
    template(cluster, "2", image="new")
    settle(cluster, 5)
    cluster.shard_set(spec(3, undo=True), generation=2)
    settle(cluster, 60)
    assert not any("image" in p.manifest["spec"]["containers"][0] for p in cluster.pods.values())


@pytest.mark.parametrize("strategy", ["ranges", "sticky"])
@pytest.mark.parametrize(("before", "after"), [(4, 8), (8, 5), (3, 4), (1, 3), (5, 1)])
def test_a_resize_never_tells_a_slot_to_two_pods_and_ends_complete(
    before: int, after: int, strategy: str
) -> None:
    cluster = started(before, strategy=strategy)
    cluster.shard_set(spec(after, strategy=strategy), generation=2)
    settle(cluster)
    assert sorted(cluster.pods) == [f"orders-{i}" for i in range(after)]
    assert told(cluster.pods.values()) == list(range(32))
    assert {r.owner.partition("#")[0] for r in document(cluster).slots} == set(cluster.pods)


def test_sticky_resizes_restart_only_donors_and_newcomers() -> None:
    cluster = started(4, strategy="sticky")
    table = {n: slots(p) for n, p in cluster.pods.items()}
    cluster.shard_set(spec(5, strategy="sticky"), generation=2)
    settle(cluster)
    moved = sum(len(before - slots(cluster.pods[n])) for n, before in table.items())
    assert moved == 6  # 32 slots over 5: the minimum
    assert all(slots(cluster.pods[n]) <= before for n, before in table.items())


def test_a_pod_stuck_in_termination_keeps_its_slots_and_is_reported() -> None:
    cluster = started()
    cluster.pods["orders-1"].deleting_at = cluster.now
    cluster.run("orders-0")
    cluster.submit(cluster.fact("orders-1"))
    cluster.advance(301.0)
    assert len(cluster.pods) == 3
    stuck = next(c for c in cluster.status["conditions"] if c["type"] == "Stuck")
    assert stuck["status"] == "True"
    assert "orders-1" in stuck["message"]


def test_a_pod_that_ended_is_replaced() -> None:
    cluster = started()
    cluster.fail("orders-1", "Succeeded")
    assert cluster.pods["orders-1"].deleting_at is not None
    cluster.vanish()
    assert cluster.pods["orders-1"].phase == "Pending"


def test_a_stranger_under_a_name_of_the_set_is_left_alone_and_reported() -> None:
    cluster = Cluster()
    cluster.add_pod("orders-1", labels={"app": "orders"})
    template(cluster, "1")
    cluster.shard_set(spec(3))
    settle(cluster, 10)
    assert cluster.pods["orders-1"].deleting_at is None
    stuck = next(c for c in cluster.status["conditions"] if c["type"] == "Stuck")
    assert "orders-1" in stuck["message"]


def test_a_template_with_a_sharding_flag_of_its_own_is_refused() -> None:
    cluster = Cluster()
    cluster.template(
        "1", name="orders-template", container="orders", args=["--propeller.include-shard-key-label=3"]
    )
    cluster.shard_set(spec(3))
    assert cluster.pods == {}
    stuck = next(c for c in cluster.status["conditions"] if c["type"] == "Stuck")
    assert "--propeller.include-shard-key-label" in stuck["message"]


def test_dynamic_pods_are_drained_before_they_are_replaced() -> None:
    cluster = started(2, injector="dynamic", strategy="sticky")
    for name, pod in cluster.pods.items():
        cluster.member(name, pod.uid)
    while work(cluster):
        pass
    first = cluster.pods["orders-0"].uid
    template(cluster, "2", image="new")
    assert cluster.pods["orders-0"].deleting_at is None
    assert f"orders-0#{first}" in owned(cluster)
    cluster.advance(0.1)
    while work(cluster):
        pass
    assert f"orders-0#{first}" not in owned(cluster)
    assert cluster.pods["orders-0"].deleting_at is not None


def test_folding_the_log_again_gives_the_same_state() -> None:
    cluster = started(3, strategy="sticky")
    cluster.shard_set(spec(5, strategy="sticky"), generation=2)
    settle(cluster, 30)
    assert cluster.replayed() == cluster.state


def test_a_pod_that_was_made_and_is_not_seen_yet_is_not_made_again() -> None:
    cluster = Cluster()
    cluster.lag = True
    cluster.deliver(cluster.template_fact("1", "orders-template", "orders"))
    cluster.deliver(cluster.set_fact(spec(3)))
    created = [d for d in cluster.decided if isinstance(d, CreateObject)]
    assert [d.target.name for d in created] == ["orders-0", "orders-1", "orders-2"]
    cluster.lag = False
    cluster.catch_up()
    assert len([d for d in cluster.decided if isinstance(d, CreateObject)]) == 3


def test_a_second_creation_that_is_refused_after_the_pod_was_seen_is_no_trouble(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A watcher that was away for longer than the wait: the pod is asked for again, and was there all along."""
    cluster = Cluster()
    cluster.lag = True
    cluster.deliver(cluster.template_fact("1", "orders-template", "orders"))
    cluster.deliver(cluster.set_fact(spec(1)))
    act = cluster._act
    with monkeypatch.context() as patch:  # the actuator takes its time
        patch.setattr(cluster, "_act", lambda d: [] if isinstance(d, CreateObject) else act(d))
        cluster.advance(65.0)
    again = [d for d in cluster.decided if isinstance(d, CreateObject)][1]
    cluster.lag = False
    cluster.catch_up()
    cluster.run()
    settle(cluster, 5)
    cluster.deliver(Rejected(at=cluster.now, decision=again.id, reason="Conflict", message="exists already"))
    assert {c["type"]: c["status"] for c in cluster.status["conditions"]}["Stuck"] == "False"


def test_a_foreign_pod_with_the_name_of_a_shard_is_said_and_never_deleted() -> None:
    """It carries nothing that would make it known to the manager: all that tells is the refusal."""
    cluster = Cluster()
    template(cluster, "1")
    foreign = cluster.add_pod("orders-1")
    cluster.shard_set(spec(3))
    cluster.run("orders-0", "orders-2")
    cluster.advance(65.0)
    tried = [d for d in cluster.decided if isinstance(d, CreateObject) and d.target.name == "orders-1"]
    assert 2 <= len(tried) <= 8  # now and then, not at every event
    assert cluster.pods["orders-1"] is foreign
    stuck = next(c for c in cluster.status["conditions"] if c["type"] == "Stuck")
    assert (stuck["status"], stuck["reason"]) == ("True", "EffectRefused")
    assert "orders-1" in stuck["message"]
    cluster.vanish("orders-1")
    cluster.advance(11.0)
    cluster.run()
    settle(cluster, 20)
    assert told(cluster.pods.values()) == list(range(32))


def test_objects_without_a_slot_label_get_it_and_those_that_a_user_spoiled_too() -> None:
    order = {"group": "shop.io", "kind": "Order", "key": "{name}"}
    cluster = Cluster()
    template(cluster, "1")
    cluster.shard_set({**spec(1), "source": {"customResource": order}})
    cluster.run()
    lacking = [
        UnlabelledObject(namespace="ns", name="wf_1", uid="u1"),
        UnlabelledObject(namespace="ns", name="child", uid="u2", parent="wf_1", parent_uid="u1"),
        UnlabelledObject(namespace="ns", name="a", uid="u3", value="99"),
    ]
    scanned = SlotLabelsScanned(
        at=cluster.now, namespace="ns", name="orders", api_version="shop.io/v1", kind="Order",
        label="shard-key", objects=tuple(lacking),
    )  # fmt: skip
    decided = [d for d in cluster.submit(scanned) if isinstance(d, PatchObject)]
    assert {d.target.name: d.patch["metadata"]["labels"]["shard-key"] for d in decided} == {
        "wf_1": "4", "child": "4", "a": "12",
    }  # fmt: skip
    assert decided[2].expect == {"/metadata/labels/shard-key": "99"}
    assert decided[0].expect == {"/metadata/labels/shard-key": None}
    unlabelled = next(c for c in cluster.status["conditions"] if c["type"] == "Unlabelled")
    assert unlabelled["status"] == "True"
    assert "2 without shard-key: ns/wf_1, ns/child" in unlabelled["message"]
    assert "no slot (99), set by somebody else" in unlabelled["message"]
    cluster.advance(30.0)
    assert (
        len([d for d in cluster.decided if isinstance(d, PatchObject)]) == 3
    )  # each is asked for once a look
    cluster.submit(msgspec.structs.replace(scanned, at=cluster.now, objects=()))
    unlabelled = next(c for c in cluster.status["conditions"] if c["type"] == "Unlabelled")
    assert unlabelled["status"] == "False"
    assert cluster.replayed() == cluster.state


def test_a_template_that_does_not_schedule_is_paused_and_the_others_keep_their_slots() -> None:
    cluster = started(3, progressDeadline="60s")
    template(cluster, "2", image="too-big")
    for _second in range(90):
        for name in [n for n, p in cluster.pods.items() if p.deleting_at is not None]:
            cluster.vanish(name)
        cluster.advance(1.0)  # the new pod stays Pending
    pending = [n for n, p in cluster.pods.items() if p.phase == "Pending"]
    assert len(pending) <= 1  # one at a time: the others were not touched
    conditions = {c["type"]: c for c in cluster.status["conditions"]}
    assert conditions["RolloutPaused"]["status"] == "True"
    running = {n for n, p in cluster.pods.items() if p.phase == "Running"}
    owners = {r.owner.partition("#")[0] for r in document(cluster).slots if r.owner}
    assert running <= owners
    seen = told(cluster.pods.values())
    assert len(seen) == len(set(seen))


def test_a_first_template_that_does_not_schedule_leaves_no_silent_orphans() -> None:
    cluster = Cluster()
    template(cluster, "1", image="too-big")
    cluster.shard_set(spec(2, progressDeadline="60s"))
    cluster.advance(120.0)
    conditions = {c["type"]: c for c in cluster.status["conditions"]}
    assert conditions["Ready"]["status"] == "False"
    assert conditions["RolloutPaused"]["status"] == "True"


def test_a_paused_rollout_goes_on_when_it_is_asked_to() -> None:
    cluster = started(2, progressDeadline="60s")
    template(cluster, "2", image="slow")
    cluster.vanish()
    cluster.advance(70.0)
    conditions = {c["type"]: c for c in cluster.status["conditions"]}
    assert conditions["RolloutPaused"]["status"] == "True"
    assert cluster.status["rollout"]["state"] == "Paused"
    cluster.shard_set(spec(2, progressDeadline="60s", resumes=1), generation=2)
    settle(cluster, 60)
    assert cluster.status["rollout"]["state"] == "Complete"
    assert cluster.status["rollout"]["template"] == "2"


def test_a_stuck_pod_is_said_and_removed_by_force_only_where_that_is_allowed() -> None:
    for allowed in (False, True):
        cluster = Cluster()
        template(cluster, "1")
        wanted = spec(2, injector="dynamic", strategy="sticky")
        wanted["handover"] |= {"fenceAfter": "30s", "allowForceDelete": allowed}
        cluster.shard_set(wanted)
        cluster.run()
        cluster.pods["orders-1"].deleting_at = cluster.now
        cluster.submit(cluster.fact("orders-1"))
        cluster.advance(40.0)
        stuck = next(c for c in cluster.status["conditions"] if c["type"] == "Stuck")
        assert stuck["reason"] == "ShardStuck"
        forced = [d for d in cluster.decided if isinstance(d, DeleteObject) and d.grace_period_s == 0]
        assert [d.target.name for d in forced] == (["orders-1"] if allowed else [])


def test_doubling_leaves_every_key_with_its_worker_also_where_workers_are_told() -> None:
    cluster = started(3, injector="slots-env", strategy="sticky")
    before = {name: slots(pod) for name, pod in cluster.pods.items()}
    wanted = spec(3, injector="slots-env", strategy="sticky")
    cluster.shard_set({**wanted, "keyspace": {**wanted["keyspace"], "slots": 64}}, generation=2)
    settle(cluster, 120)
    assert told(cluster.pods.values()) == list(range(64))
    for name, pod in cluster.pods.items():
        assert {slot % 32 for slot in slots(pod)} == before[name]
        assert slots(pod) == before[name] | {slot + 32 for slot in before[name]}
    assert cluster.replayed() == cluster.state


def test_a_keyspace_in_ranges_is_not_doubled_because_that_would_move_keys() -> None:
    cluster = started(3)
    wanted = spec(3)
    cluster.shard_set({**wanted, "keyspace": {**wanted["keyspace"], "slots": 64}}, generation=2)
    said = next(c["message"] for c in cluster.status["conditions"] if c["type"] == "InvalidSpec")
    assert "with the strategy ranges a doubling would move keys, expected sticky" in said
    assert told(cluster.pods.values()) == list(range(32))

"""Compat mode: the propeller manager's fleet, driven by events."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.unit.shardmanager.cluster import Cluster
from tidewright.events.base import Decision
from tidewright.events.decisions import CreateObject, DeleteObject, HoldLease
from tidewright.events.facts import PodGone
from tidewright.events.shards import RecordPass
from tidewright.kube.times import rfc3339_micro
from tidewright.shardmanager.propeller.config import KOZMO as BRAND
from tidewright.shardmanager.propeller.config import ShardConfig, defaults
from tidewright.shardmanager.propeller.config_hash import LEGACY_BASE, config_hash
from tidewright.shardmanager.propeller.pods import pod_manifest

KOZMO = "kozmo"


def fleet(count: int = 3, **more: str) -> dict[str, Any]:
    return {
        "namespace": KOZMO,
        "config": {"manager": {"shard": {"type": "Hash", "shard-count": count}, **more}},
    }


def names(decisions: list[Decision], kind: type[CreateObject] | type[DeleteObject]) -> list[str]:
    return [d.target.name for d in decisions if isinstance(d, kind)]


def last_pass(cluster: Cluster) -> RecordPass:
    return next(d for d in reversed(cluster.decided) if isinstance(d, RecordPass))


def warnings(cluster: Cluster) -> list[Any]:
    return [because.values["message"] for because in last_pass(cluster).because]


LOCK = "propeller-leader"


def elected(count: int = 3, **election: Any) -> dict[str, Any]:
    """A fleet whose managers elect."""
    entry = fleet(count)
    section = {"enabled": True, "lock-config-map": {"Name": LOCK}, **election}
    entry["config"]["propeller"] = {"leader-election": section}
    return entry


def renewed(cluster: Cluster, holder: str = "original-0") -> None:
    """An original manager renews its lock."""
    now = rfc3339_micro(cluster.now)
    cluster.leases[LOCK] = {"spec": {"holderIdentity": holder, "renewTime": now, "leaseDurationSeconds": 15}}


@pytest.fixture
def running() -> Cluster:
    """A fleet of three that is up."""
    cluster = Cluster(KOZMO)
    cluster.configure(fleet())
    cluster.template()
    cluster.run()
    return cluster


def pods(count: int, start: int = 0) -> list[str]:
    return [f"kozmopropeller-{i}" for i in range(start, count)]


def test_all_pods_are_created_as_soon_as_configuration_and_template_are_known() -> None:
    cluster = Cluster(KOZMO)
    assert names(cluster.configure(fleet()), CreateObject) == []
    assert names(cluster.template(), CreateObject) == pods(3)
    assert last_pass(cluster).created == 3


def test_a_healthy_fleet_gives_no_decisions_but_the_next_scan(running: Cluster) -> None:
    before = len(running.decided)
    running.advance(35.0)
    kinds = {type(d).__name__ for d in running.decided[before:]}
    assert kinds <= {"SetTimer", "RecordPass"}
    assert sum(isinstance(d, RecordPass) for d in running.decided[before:]) <= 1


def test_a_missing_pod_comes_back_at_once_and_not_at_the_next_scan(running: Cluster) -> None:
    at = running.now
    running.vanish("kozmopropeller-1")
    assert "kozmopropeller-1" in running.pods
    assert running.now == at


def test_a_failed_pod_is_deleted_and_made_again_when_it_is_gone(running: Cluster) -> None:
    running.fail("kozmopropeller-2")
    assert running.pods["kozmopropeller-2"].deleting_at is not None
    running.vanish()
    assert running.pods["kozmopropeller-2"].phase == "Pending"


@pytest.mark.parametrize("phase", ["Succeeded", "Unknown", "Pending"])
def test_other_phases_are_left_alone(running: Cluster, phase: str) -> None:
    running.fail("kozmopropeller-2", phase)
    running.advance(60.0)
    assert running.pods["kozmopropeller-2"].deleting_at is None


def test_a_changed_template_replaces_all_pods_at_once(running: Cluster) -> None:
    decided = running.template("11")
    assert names(decided, DeleteObject) == pods(3)
    running.vanish()
    assert {p.annotations["podTemplateResourceVersion"] for p in running.pods.values()} == {"11"}


def test_a_changed_count_replaces_the_fleet_and_removes_the_surplus(running: Cluster) -> None:
    decided = running.configure(fleet(2))
    assert names(decided, DeleteObject) == pods(3)
    running.vanish()
    assert sorted(running.pods) == pods(2)
    running.configure(fleet(5))
    running.vanish()
    assert sorted(running.pods) == pods(5)


def test_a_changed_count_says_what_it_moves(running: Cluster) -> None:
    running.configure(fleet(4))
    running.run()
    [told] = last_pass(running).because
    assert told.values["message"] == (
        "from 3 to 4 shards all 3 pods are replaced and 17 of 32 shard keys change their shard, where 8 would do; "
        "shard keys 24 to 31 have two pods until the old ones are gone"
    )


def test_a_fleet_made_by_the_original_is_adopted_without_a_write_with_either_hash() -> None:
    for base in (64, LEGACY_BASE):
        cluster = Cluster(KOZMO)
        shard = ShardConfig(shard_count=3)
        for name in pods(3):
            cluster.add_pod(
                name,
                labels={"app": "kozmopropeller"},
                annotations={
                    "podTemplateResourceVersion": "10",
                    "shardConfigHash": config_hash(shard, base),
                },
            )
        decided = [*cluster.template(), *cluster.configure(fleet())]
        assert names(decided, CreateObject) == names(decided, DeleteObject) == []
        assert last_pass(cluster).adopted == 3


def test_an_adopted_pod_that_was_told_other_slots_is_reported_and_replaced_in_turn() -> None:
    cluster = Cluster(KOZMO)
    cluster.template()
    config = msgspec.structs.replace(defaults(BRAND), shard=ShardConfig(shard_count=3))
    for index, told in enumerate((0, 2, 1)):
        manifest = pod_manifest(
            config,
            cluster.state.templates[f"{KOZMO}/kozmopropeller-template"].template,
            "10",
            told,
            namespace=KOZMO,
        )
        annotations = manifest["metadata"]["annotations"]
        cluster.add_pod(
            f"kozmopropeller-{index}",
            labels={"app": "kozmopropeller"},
            annotations=annotations,
            manifest=manifest,
        )
    decided = cluster.configure(fleet())
    assert names(decided, DeleteObject) == ["kozmopropeller-1"]
    assert last_pass(cluster).drifted == ("kozmopropeller-1", "kozmopropeller-2")
    assert next(d for d in decided if isinstance(d, DeleteObject)).because[0].rule == "ArgsDrift"
    cluster.vanish()
    before = len(cluster.decided)
    cluster.run()
    assert names(cluster.decided[before:], DeleteObject) == []
    cluster.advance(11.0)
    assert names(cluster.decided[before:], DeleteObject) == ["kozmopropeller-2"]
    cluster.vanish()
    cluster.run()
    before = len(cluster.decided)
    cluster.advance(31.0)
    assert names(cluster.decided[before:], DeleteObject) == []
    assert last_pass(cluster).drifted == ()
    assert cluster.replayed() == cluster.state


def test_arguments_that_a_webhook_changes_on_our_own_pods_restart_nobody(running: Cluster) -> None:
    for pod in running.pods.values():
        pod.manifest["spec"]["containers"][0]["args"].append("--injected")
        running.submit(running.fact(pod.name))
    running.advance(31.0)
    assert all(pod.deleting_at is None for pod in running.pods.values())


def test_foreign_pods_are_reported_and_never_deleted(running: Cluster) -> None:
    running.add_pod("kozmopropeller-7d9c8-xyz", labels={"app": "kozmopropeller"})
    running.advance(30.0)
    assert "kozmopropeller-7d9c8-xyz" in running.pods
    assert running.pods["kozmopropeller-7d9c8-xyz"].deleting_at is None
    assert last_pass(running).foreign == ("kozmopropeller-7d9c8-xyz",)


def test_a_stranger_under_a_managed_name_is_never_deleted() -> None:
    cluster = Cluster(KOZMO)
    cluster.add_pod("kozmopropeller-1", labels={"app": "kozmopropeller"})
    cluster.configure(fleet())
    cluster.template()
    cluster.advance(60.0)
    assert sorted(cluster.pods) == pods(3)
    assert cluster.pods["kozmopropeller-1"].deleting_at is None
    assert last_pass(cluster).foreign == ("kozmopropeller-1",)


def test_a_failed_deletion_ends_the_pass_and_the_next_scan_goes_on(running: Cluster) -> None:
    running.refuse = lambda effect: (
        "etcdserver: request timed out" if isinstance(effect, DeleteObject) else ""
    )
    running.template("11")
    assert last_pass(running).error == "failed to create pod(s) [etcdserver: request timed out]"
    assert last_pass(running).running is None
    running.refuse = lambda _effect: ""
    running.advance(11.0)
    running.vanish()
    assert {p.annotations["podTemplateResourceVersion"] for p in running.pods.values()} == {"11"}


def test_one_failed_creation_holds_up_no_other_and_is_retried_at_the_next_scan() -> None:
    cluster = Cluster(KOZMO)
    cluster.refuse = lambda effect: "exceeded quota" if effect.target.name.endswith("-1") else ""
    cluster.configure(fleet())
    cluster.template()
    assert sorted(cluster.pods) == ["kozmopropeller-0", "kozmopropeller-2"]
    expected = "failed to create pod(s) [\nfailed to create pod 'kozmopropeller-1' [exceeded quota]]"
    assert last_pass(cluster).error == expected
    cluster.refuse = lambda _effect: ""
    cluster.advance(10.5)
    assert sorted(cluster.pods) == pods(3)


def test_without_its_template_nothing_is_repaired_and_nothing_is_touched(running: Cluster) -> None:
    running.template_gone()
    running.vanish("kozmopropeller-0")
    assert sorted(running.pods) == pods(3, 1)
    assert "failed to retrieve pod template" in last_pass(running).error
    running.template()
    assert sorted(running.pods) == pods(3)


def test_a_template_without_the_container_creates_nothing_and_says_so() -> None:
    cluster = Cluster(KOZMO)
    cluster.configure(fleet())
    cluster.template(container="other")
    assert cluster.pods == {}
    assert "container 'kozmopropeller' not found in podtemplate, " in last_pass(cluster).error


def test_facts_that_lag_behind_the_answers_do_not_make_pods_twice() -> None:
    cluster = Cluster(KOZMO)
    cluster.configure(fleet())
    cluster.template()
    cluster.lag = True
    cluster.vanish("kozmopropeller-0")
    assert names(cluster.decided, CreateObject) == pods(3)
    cluster.deliver(cluster.held.popleft())
    assert "kozmopropeller-0" in cluster.pods
    assert len(cluster.held) == 1  # the fact of the new pod is still on its way
    cluster.deliver(
        PodGone(at=cluster.now, namespace=KOZMO, name="kozmopropeller-0", uid="uid-1")
    )  # a late word about the old one
    cluster.configure(fleet(3, **{"scan-interval": "5s"}))
    cluster.catch_up()
    creations = names(cluster.decided, CreateObject)
    assert creations.count("kozmopropeller-0") == 2
    assert sorted(cluster.pods) == pods(3)


def test_a_late_answer_about_an_earlier_pod_says_nothing_of_the_one_that_has_its_name_now(
    running: Cluster,
) -> None:
    running.late = lambda effect: isinstance(effect, DeleteObject) and effect.target.uid == "uid-1"
    running.template("11")
    running.vanish("kozmopropeller-0")
    running.configure(fleet(2))
    running.vanish()
    assert sorted(running.pods) == pods(2)
    running.template("12")
    (answer,) = running.unanswered
    running.deliver(answer)
    running.vanish()
    versions = {pod.annotations["podTemplateResourceVersion"] for pod in running.pods.values()}
    assert (sorted(running.pods), versions) == (pods(2), {"12"})


def test_a_refused_configuration_leaves_the_fleet_as_it_was(running: Cluster) -> None:
    running.configure(fleet(33))
    assert sorted(running.pods) == pods(3)
    assert not any(p.deleting_at for p in running.pods.values())
    assert last_pass(running).refused
    assert warnings(running) == [TOO_MANY]
    assert last_pass(running).error == ""
    running.vanish("kozmopropeller-1")
    assert sorted(running.pods) == pods(3)


TOO_MANY = "configured ShardCount (33) is larger than available keyspace size (32)"


def test_a_refused_configuration_interrupts_neither_the_pass_under_way_nor_the_lock() -> None:
    cluster = Cluster(KOZMO)
    cluster.configure(elected())
    cluster.template()
    cluster.run()
    lock, held = cluster.state.fleets["kozmo/kozmopropeller"].lock, dict(cluster.leases)
    cluster.template("11")  # all pods are on their way out
    current = cluster.state.fleets["kozmo/kozmopropeller"].current
    before = len(cluster.decided)
    cluster.configure({**fleet(4), "brand": "other"})
    [record] = cluster.decided[before:]
    assert isinstance(record, RecordPass)
    fleet_now = cluster.state.fleets["kozmo/kozmopropeller"]
    assert (fleet_now.lock, fleet_now.current, cluster.leases) == (lock, current, held)
    cluster.vanish()
    assert {p.annotations["podTemplateResourceVersion"] for p in cluster.pods.values()} == {"11"}
    assert sorted(cluster.pods) == pods(3)


def test_a_configuration_that_is_put_right_is_in_force_with_the_record_of_that(running: Cluster) -> None:
    running.configure(fleet(33))
    running.configure(fleet(34))
    assert "(34)" in warnings(running)[0]
    decided = running.configure(fleet(2))
    assert isinstance(decided[0], RecordPass)
    assert not decided[0].refused
    assert names(decided, DeleteObject) == pods(3)
    running.vanish()
    assert sorted(running.pods) == pods(2)


def test_a_configuration_that_is_taken_back_leaves_no_trace_but_two_records(running: Cluster) -> None:
    before = len(running.decided)
    running.configure(fleet(33))
    running.configure(fleet(33))  # said again
    running.configure(fleet())
    assert [type(d) for d in running.decided[before:]] == [RecordPass, RecordPass]
    assert warnings(running) == []


def test_what_is_refused_from_the_first_is_said_once_and_acted_upon_when_it_is_put_right() -> None:
    cluster = Cluster(KOZMO)
    cluster.configure(fleet(33))
    cluster.template()
    cluster.advance(60.0)
    assert [d.error for d in cluster.decided if isinstance(d, RecordPass)] == [TOO_MANY]
    cluster.configure(fleet(34))
    assert "(34)" in last_pass(cluster).error
    cluster.configure(fleet())
    assert sorted(cluster.pods) == pods(3)
    assert last_pass(cluster).error == ""


def test_before_its_template_is_there_the_last_configuration_counts_whatever_came_before() -> None:
    cluster = Cluster(KOZMO)
    cluster.configure(fleet())
    cluster.configure(fleet(33))
    cluster.template()
    assert not cluster.pods
    assert last_pass(cluster).error == TOO_MANY


def test_owner_references_are_those_of_the_managers_own_pod() -> None:
    cluster = Cluster(KOZMO)
    entry = fleet(1) | {"environment": {"POD_NAME": "m-0", "POD_NAMESPACE": KOZMO}}
    cluster.configure(entry)
    cluster.template()
    assert cluster.pods == {}
    assert "failed to get pod 'm-0' in namespace 'kozmo'" in last_pass(cluster).error
    cluster.add_pod("m-0")
    assert "kozmopropeller-0" in cluster.pods


def test_of_two_managers_for_one_application_the_second_stays_passive() -> None:
    cluster = Cluster(KOZMO)
    cluster.configure(fleet(3), fleet(4))
    cluster.template()
    cluster.run()
    cluster.advance(60.0)
    assert sorted(cluster.pods) == pods(3)
    assert warnings(cluster) == ["a second manager with another configuration generation stays passive"]


def test_folding_the_log_again_gives_the_same_state(running: Cluster) -> None:
    running.template("11")
    running.vanish()
    running.configure(fleet(5))
    running.advance(25.0)
    assert running.replayed() == running.state


def test_two_managers_at_once_do_not_undo_each_other(running: Cluster) -> None:
    """The other one has another configuration: it deletes our pods and makes its own."""
    theirs = {"podTemplateResourceVersion": "10", "shardConfigHash": "1"}
    running.vanish("kozmopropeller-1")
    running.vanish("kozmopropeller-1")  # it deletes what we have just made
    for _pass in range(3):
        running.pods.pop("kozmopropeller-1", None)
        running.add_pod("kozmopropeller-1", labels={"app": "kozmopropeller"}, annotations=theirs)
    before = len(running.decided)
    running.advance(30.0)
    running.fail("kozmopropeller-2")
    running.advance(5.0)
    assert (
        names(running.decided[before:], DeleteObject) == names(running.decided[before:], CreateObject) == []
    )
    assert "another manager" in last_pass(running).error
    running.advance(60.0)  # it makes no more: it is taken for stopped
    assert last_pass(running).error == ""
    running.vanish()
    running.run()
    assert {p.annotations["shardConfigHash"] for p in running.pods.values()} == {config_hash(ShardConfig())}
    assert running.replayed() == running.state


def test_a_changed_configuration_makes_no_rival_of_ourselves(running: Cluster) -> None:
    running.lag = True
    running.configure(fleet(4))
    running.lag = False
    running.catch_up()
    running.vanish()
    running.run()
    assert sorted(running.pods) == pods(4)
    assert last_pass(running).error == ""


def test_a_fleet_whose_managers_elect_is_made_under_the_lock_which_is_renewed() -> None:
    cluster = Cluster(KOZMO)
    cluster.configure(elected())
    cluster.template()
    cluster.run()
    assert sorted(cluster.pods) == pods(3)
    held = cluster.leases[LOCK]["spec"]
    assert held["holderIdentity"].startswith("tidewright-shard-manager_")
    for _ in range(12):  # one who looks at any time sees it renewed within the original's renew deadline
        before, decided = cluster.leases[LOCK]["spec"]["renewTime"], len(cluster.decided)
        cluster.advance(10.0)
        assert cluster.leases[LOCK]["spec"]["renewTime"] > before
        assert sum(isinstance(d, HoldLease) for d in cluster.decided[decided:]) <= 3
    assert cluster.leases[LOCK]["spec"]["leaseTransitions"] == 0


def test_nothing_is_written_while_an_original_renews_its_lock_and_all_when_it_stopped() -> None:
    cluster = Cluster(KOZMO)
    renewed(cluster)
    cluster.configure(elected())
    cluster.template()
    for _ in range(20):
        cluster.advance(4.0)
        renewed(cluster)
    assert not cluster.pods
    assert "standing by: original-0 holds lease kozmo/propeller-leader" in last_pass(cluster).error
    cluster.advance(14.0)
    assert not cluster.pods, "its lease has not run out"
    cluster.advance(8.0)
    cluster.run()
    assert sorted(cluster.pods) == pods(3)
    assert cluster.leases[LOCK]["spec"]["leaseTransitions"] == 1
    assert last_pass(cluster).error == ""


def test_an_old_stamp_of_another_clock_takes_no_lock() -> None:
    cluster = Cluster(KOZMO)
    for n in range(20):
        behind = rfc3339_micro(1000.0 + n)
        cluster.leases[LOCK] = {"spec": {"holderIdentity": "original-0", "renewTime": behind}}
        cluster.configure(elected()) if n == 0 else cluster.advance(5.0)
        cluster.template()
    assert not cluster.pods


def test_a_lock_that_is_free_is_taken_at_once() -> None:
    cluster = Cluster(KOZMO)
    renewed(cluster, holder="")
    cluster.configure(elected())
    cluster.template()
    assert sorted(cluster.pods) == pods(3)


def test_a_lost_lock_ends_what_is_under_way() -> None:
    cluster = Cluster(KOZMO)
    cluster.configure(elected())
    cluster.template()
    cluster.run()
    renewed(cluster, "thief")
    cluster.advance(6.0)
    before = len(cluster.decided)
    cluster.vanish("kozmopropeller-1")
    cluster.fail("kozmopropeller-2")
    assert (
        names(cluster.decided[before:], CreateObject) == names(cluster.decided[before:], DeleteObject) == []
    )
    assert "thief" in last_pass(cluster).error


def test_without_an_answer_the_lock_counts_until_the_renew_deadline() -> None:
    cluster = Cluster(KOZMO)
    cluster.configure(elected())
    cluster.template()
    cluster.run()
    cluster.refuse = lambda effect: "no answer" if isinstance(effect, HoldLease) else ""
    cluster.advance(16.0)
    cluster.vanish("kozmopropeller-1")
    assert "kozmopropeller-1" not in cluster.pods
    assert last_pass(cluster).error == "standing by: lease kozmo/propeller-leader is not held: no answer"
    cluster.refuse = lambda effect: ""
    cluster.advance(6.0)
    assert "kozmopropeller-1" in cluster.pods


def test_a_fleet_that_is_given_back_leaves_its_lock_free() -> None:
    cluster = Cluster(KOZMO)
    cluster.configure(elected())
    cluster.template()
    cluster.run()
    cluster.configure()
    assert cluster.leases[LOCK]["spec"]["holderIdentity"] == ""
    before = len(cluster.decided)
    cluster.advance(60.0)
    assert not any(isinstance(d, HoldLease) for d in cluster.decided[before:])


@pytest.mark.parametrize(
    ("election", "said"),
    [
        ({"enabled": "perhaps"}, "propeller.leader-election.enabled is 'perhaps'"),
        ({"lease-duration": "soon"}, "propeller.leader-election.lease-duration cannot be read"),
        ({"renew-deadline": "20s"}, "each is to be longer than the one before"),
    ],
)
def test_an_election_that_cannot_be_read_is_refused_by_its_key(election: dict[str, Any], said: str) -> None:
    cluster = Cluster(KOZMO)
    cluster.template()
    cluster.configure(elected(**election))
    assert said in last_pass(cluster).error
    assert not cluster.pods


def test_the_environment_goes_before_the_file_in_the_election_too() -> None:
    cluster = Cluster(KOZMO)
    cluster.template()
    entry = elected()
    entry["environment"] = {
        "PROPELLER.LEADER_ELECTION.LOCK_CONFIG_MAP.NAME": "another-lock",
        "PROPELLER.LEADER_ELECTION.RENEW_DEADLINE": "30s",
    }
    cluster.configure(entry)
    assert "renew-deadline 30 s" in last_pass(cluster).error
    entry["environment"]["PROPELLER.LEADER_ELECTION.LEASE_DURATION"] = "60s"
    cluster.configure(entry)
    cluster.run()
    assert set(cluster.leases) == {"another-lock"}
    entry["environment"]["PROPELLER.LEADER_ELECTION.ENABLED"] = "false"
    cluster.configure(entry)
    assert cluster.leases["another-lock"]["spec"]["holderIdentity"] == ""

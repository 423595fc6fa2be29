"""Native mode: shard sets with workers that follow the assignment."""

from __future__ import annotations

from typing import Any

from tests.unit.shardmanager.cluster import Cluster
from tidewright.events.base import Decision
from tidewright.events.decisions import PatchObject
from tidewright.events.shards import ChangeAssignment, ReportShards, SizeShards
from tidewright.sharding.document import Document, SlotState, replay
from tidewright.sharding.keyspace import runs

SPEC: dict[str, Any] = {"keyspace": {"slots": 32}}


def entries(decisions: list[Decision]) -> list[str]:
    return [d.entry.kind for d in decisions if isinstance(d, ChangeAssignment)]


def document(cluster: Cluster) -> Document:
    return cluster.state.sets["ns/orders"].document


def owned(cluster: Cluster) -> dict[str, int]:
    found: dict[str, int] = {}
    for record in document(cluster).slots:
        found[record.owner] = found.get(record.owner, 0) + 1
    return found


def started(*members: str, **spec: Any) -> Cluster:
    """A set with members, each with incarnation 1, that own everything."""
    cluster = Cluster()
    cluster.shard_set({**SPEC, **spec})
    for name in members:
        cluster.member(name, "1")
    for _round in range(20):
        if not work(cluster):
            break
    return cluster


def work(cluster: Cluster, *silent: str) -> bool:
    """Every worker does what the document asks of it, at once; True when somebody had to do something."""
    busy = False
    for record in document(cluster).members:
        name, _hash, incarnation = record.partition("#")
        if name in silent:
            continue
        slots = document(cluster).slots
        prepared = [s for s, r in enumerate(slots) if r.incoming == record]
        stopped = [
            {"slot": s, "epoch": r.epoch, "checkpoint": f"at-{s}"}
            for s, r in enumerate(slots)
            if r.owner == record and r.state is SlotState.DRAINING
        ]
        busy |= bool(prepared or stopped)
        acting = [s for s, r in enumerate(slots) if r.owner == record and r.state is SlotState.OWNED]
        cluster.member(name, incarnation, prepared=runs(prepared), stopped=stopped, acting=runs(acting))
    return busy


def condition(cluster: Cluster, kind: str) -> str:
    return str(next(c["status"] for c in cluster.status["conditions"] if c["type"] == kind))


def test_the_first_member_is_given_everything_and_nobody_waits() -> None:
    cluster = started("a")
    assert owned(cluster) == {"a#1": 32}
    assert {r.epoch for r in document(cluster).slots} == {1}
    assert condition(cluster, "Ready") == "True"


def test_without_members_the_orphans_are_named() -> None:
    cluster = Cluster()
    cluster.shard_set(SPEC)
    assert condition(cluster, "Orphaned") == "True"
    report = next(d for d in cluster.decided if isinstance(d, ReportShards))
    assert (report.reason, report.message) == ("UnownedSlots", "slots 0-31 have no owner")


def test_a_second_member_gets_its_share_by_prepare_drain_grant() -> None:
    cluster = started("a")
    cluster.member("b", "1")
    while work(cluster):
        pass
    assert owned(cluster) == {"a#1": 16, "b#1": 16}
    kinds = entries(cluster.decided)
    assert kinds.index("offer") < kinds.index("drain") < kinds.index("release") < len(kinds)
    moved = [r for r in document(cluster).slots if r.owner == "b#1"]
    assert {r.epoch for r in moved} == {2}
    assert {r.checkpoint for r in moved} == {
        f"at-{s}" for s in range(32) if document(cluster).slots[s].owner == "b#1"
    }


def test_a_slot_stays_owned_until_its_owner_has_acknowledged() -> None:
    cluster = started("a")
    cluster.member("b", "1")
    work(cluster, "a")  # b prepares, a does not answer
    states = {r.state for r in document(cluster).slots if r.incoming}
    assert states == {SlotState.DRAINING}
    assert {r.owner for r in document(cluster).slots} == {"a#1"}


def test_an_acknowledgement_of_an_older_epoch_counts_for_nothing() -> None:
    cluster = started("a")
    cluster.member("b", "1")
    work(cluster, "a")
    slot = document(cluster).moving[0]
    cluster.member("a", "1", stopped=[{"slot": slot, "epoch": 0, "checkpoint": ""}])
    assert document(cluster).slots[slot].owner == "a#1"


def test_a_target_that_falls_silent_while_preparing_is_forgotten_and_nobody_noticed() -> None:
    cluster = started("a")
    cluster.member("b", "1")
    assert document(cluster).moving
    for _renewal in range(5):
        cluster.advance(5.0)
        cluster.member("a", "1")
    assert owned(cluster) == {"a#1": 32}
    assert not document(cluster).moving
    assert {r.epoch for r in document(cluster).slots} == {1}


def test_a_member_that_falls_silent_loses_its_slots_after_its_lease_was_taken() -> None:
    cluster = started("a", "b")
    at = cluster.now
    gaps = []
    while owned(cluster) != {"b#1": 32}:
        cluster.advance(1.0)
        cluster.member("b", "1")
        gaps.append(cluster.now - at)
        assert gaps[-1] < 30
    assert 17 <= gaps[-1] <= 19
    taken = [d for d in cluster.decided if isinstance(d, PatchObject)]
    assert [d.target.name for d in taken] == ["orders-a-1"]
    assert entries(cluster.decided).count("force") == 1


def test_a_lease_is_not_taken_from_a_member_that_renewed_unseen() -> None:
    cluster = started("a", "b")
    cluster.lag = True
    cluster.member("a", "1")  # it renews, and nobody hears of it
    cluster.lag = False
    cluster.advance(16.9)
    cluster.member("b", "1")
    cluster.advance(0.2)
    assert any(isinstance(d, PatchObject) for d in cluster.decided)
    assert owned(cluster) == {"a#1": 16, "b#1": 16}
    cluster.catch_up()
    assert entries(cluster.decided)[-1] == "recover"
    assert owned(cluster) == {"a#1": 16, "b#1": 16}


def test_a_member_that_releases_its_lease_is_replaced_at_once() -> None:
    cluster = started("a", "b")
    cluster.member("a", "1", released=True)
    assert owned(cluster) == {"b#1": 32}


def test_a_deleted_record_frees_nothing_before_its_lease_has_run_out() -> None:
    cluster = started("a", "b")
    cluster.member_gone("orders-a-1")
    assert owned(cluster) == {"a#1": 16, "b#1": 16}
    for _second in range(18):
        cluster.advance(1.0)
        cluster.member("b", "1")
    assert owned(cluster) == {"b#1": 32}


def test_a_restarted_worker_is_another_member() -> None:
    cluster = started("a", "b")
    cluster.member("a", "2")
    assert set(document(cluster).members) == {"a#1", "a#2", "b#1"}
    for _second in range(20):
        cluster.advance(1.0)
        cluster.member("a", "2")
        cluster.member("b", "1")
    while work(cluster):
        pass
    assert owned(cluster) == {"a#2": 16, "b#1": 16}


def test_a_leaving_member_hands_over_before_it_goes() -> None:
    cluster = started("a", "b")
    cluster.member("a", "1", leaving=True)
    while work(cluster):
        pass
    assert owned(cluster) == {"b#1": 32}
    assert "force" not in entries(cluster.decided)


def test_a_worker_that_never_acknowledges_loses_its_lease_and_all_its_slots() -> None:
    cluster = started("a", "b")
    cluster.member("c", "1")
    for _second in range(80):
        cluster.advance(1.0)
        work(cluster, "a")
        if "a#1" not in document(cluster).members:
            break
        cluster.member("a", "1")  # it renews, and does nothing else
    assert "a#1" not in owned(cluster)
    reasons = {d.reason for d in cluster.decided if isinstance(d, ReportShards)}
    assert "DrainOverdue" in reasons


def test_a_worker_whose_lease_was_taken_does_not_come_back_under_the_same_incarnation() -> None:
    cluster = started("a", "b")
    for _second in range(20):
        cluster.advance(1.0)
        cluster.member("b", "1")
    cluster.member("a", "1")
    assert set(document(cluster).members) == {"b#1"}


def test_no_more_slots_move_at_a_time_than_allowed() -> None:
    cluster = started("a", handover={"maxConcurrentSlots": 4})
    cluster.member("b", "1")
    assert len(document(cluster).moving) == 4
    most = 0
    while work(cluster):
        most = max(most, len(document(cluster).moving))
    assert most == 4
    assert owned(cluster) == {"a#1": 16, "b#1": 16}


def test_pins_and_weights_are_followed() -> None:
    cluster = started("a", "b", workers={"weights": {"b": 3}}, assignment={"pins": {"0": "b"}})
    assert owned(cluster) == {"a#1": 8, "b#1": 24}
    assert document(cluster).slots[0].owner == "b#1"
    cluster.shard_set({**SPEC, "assignment": {"pins": {"0": "a"}}}, generation=2)
    while work(cluster):
        pass
    assert document(cluster).slots[0].owner == "a#1"


def test_frozen_sets_start_no_move_but_replace_what_is_lost() -> None:
    cluster = started("a", assignment={"frozen": True})
    cluster.member("b", "1")
    assert owned(cluster) == {"a#1": 32}
    assert not document(cluster).moving
    cluster.member("a", "1", released=True)
    assert owned(cluster) == {"b#1": 32}


def test_doubling_the_keyspace_changes_no_owner() -> None:
    cluster = started("a", "b", "c")
    before = [(r.owner, r.epoch) for r in document(cluster).slots]
    cluster.shard_set({"keyspace": {"slots": 64}}, generation=2)
    assert [(r.owner, r.epoch) for r in document(cluster).slots] == before + before
    while work(cluster):
        pass
    assert [(r.owner, r.epoch) for r in document(cluster).slots] == before + before  # and it stays so
    assert cluster.replayed() == cluster.state


def test_other_changes_of_the_keyspace_are_refused_with_the_reason() -> None:
    cluster = started("a")
    for slots in (128, 33, 16):
        cluster.shard_set({"keyspace": {"slots": slots}}, generation=2)
        assert condition(cluster, "InvalidSpec") == "True"
        assert len(document(cluster).slots) == 32
    cluster.shard_set(SPEC, generation=3)
    assert condition(cluster, "InvalidSpec") == "False"


def test_two_members_that_claim_one_slot_raise_an_alarm() -> None:
    cluster = started("a", "b")
    cluster.member("a", "1", acting="0-31")
    cluster.member("b", "1", acting="3")
    assert condition(cluster, "DoublyClaimed") == "True"


def test_load_moves_slots_away_from_the_busiest_member() -> None:
    cluster = started("a", "b")
    mine = [s for s, r in enumerate(document(cluster).slots) if r.owner == "a#1"]
    cluster.advance(1.0)
    for _second in range(40):
        cluster.advance(1.0)
        cluster.member("a", "1", load={str(s): 10 for s in mine})
        cluster.member("b", "1", load={str(s): 1 for s in range(32) if s not in mine})
        if document(cluster).moving:
            break
    moving = document(cluster).moving
    assert moving
    assert set(moving) <= set(mine)
    assert len(moving) <= 8
    while work(cluster):
        pass
    assert owned(cluster)["a#1"] == 16 - len(moving)


def test_auto_sizing_grows_at_once_and_says_why() -> None:
    cluster = started("a", autosize={"min": 1, "max": 8, "capacity": 100, "target": 0.7})
    cluster.member("a", "1", load={"0": 400}, prepared="")
    cluster.advance(61.0)
    cluster.member("a", "1", load={"0": 400})
    sized = [d for d in cluster.decided if isinstance(d, SizeShards)]
    assert sized
    assert sized[0].recommended == 6
    assert sized[0].shards == 2  # at most doubling a minute
    assert sized[0].because[0].values["load"] == 400.0


def test_the_ledger_rebuilds_the_document() -> None:
    cluster = started("a", "b", "c")
    cluster.member("b", "1", released=True)
    cluster.member("d", "1")
    while work(cluster):
        pass
    ledger = [d.entry for d in cluster.decided if isinstance(d, ChangeAssignment)]
    assert replay(ledger) == document(cluster)
    published, kept = cluster.document, document(cluster)
    assert [(r.owner, r.epoch, r.state) for r in published.slots] == [
        (r.owner, r.epoch, r.state) for r in kept.slots
    ]


def test_folding_the_log_again_gives_the_same_state() -> None:
    cluster = started("a", "b")
    for _second in range(25):
        cluster.advance(1.0)
        cluster.member("b", "1")
    cluster.member("c", "1")
    while work(cluster):
        pass
    assert cluster.replayed() == cluster.state


def test_a_wrong_spec_is_named_field_by_field() -> None:
    cluster = Cluster()
    cluster.shard_set({"keyspace": {"slots": 33}, "workers": {"driver": "magic"}, "colour": "blue"})
    message = next(c["message"] for c in cluster.status["conditions"] if c["type"] == "InvalidSpec")
    assert "spec.keyspace.slots is 33: expected a power of two" in message
    assert "spec.workers.driver is 'magic'" in message
    assert "spec.colour is not a field" in message


def test_a_move_is_made_once_and_the_slot_is_then_like_any_other() -> None:
    cluster = started("a", "b")
    mine = next(s for s, r in enumerate(document(cluster).slots) if r.owner == "a#1")
    spec = {**SPEC, "assignment": {"moves": {str(mine): "b"}}}
    cluster.shard_set(spec, generation=2)
    while work(cluster):
        pass
    assert document(cluster).slots[mine].owner == "b#1"
    assert owned(cluster) == {"a#1": 15, "b#1": 17}
    moved = [d.entry for d in cluster.decided if isinstance(d, ChangeAssignment) and d.entry.kind == "offer"]
    assert (moved[-1].slots, moved[-1].cause) == (str(mine), "operator")
    cluster.shard_set({**spec, "workers": {"weights": {"a": 31}}}, generation=3)
    while work(cluster):
        pass
    assert owned(cluster) == {"a#1": 31, "b#1": 1}  # the move of generation 2 is not made again
    assert cluster.replayed() == cluster.state


def test_a_move_waits_while_the_set_is_frozen() -> None:
    cluster = started("a", "b")
    mine = next(s for s, r in enumerate(document(cluster).slots) if r.owner == "a#1")
    cluster.shard_set({**SPEC, "assignment": {"moves": {str(mine): "b"}, "frozen": True}}, generation=2)
    assert not document(cluster).moving
    cluster.shard_set({**SPEC, "assignment": {"moves": {str(mine): "b"}}}, generation=3)
    assert document(cluster).moving == [mine]


def test_a_pin_to_nobody_is_said_and_troubles_no_slot() -> None:
    cluster = started("a", assignment={"pins": {"0": "ghost"}})
    assert condition(cluster, "PinUnmet") == "True"
    assert condition(cluster, "Ready") == "True"
    cluster.member("ghost", "1")
    while work(cluster):
        pass
    assert condition(cluster, "PinUnmet") == "False"
    assert document(cluster).slots[0].owner == "ghost#1"


STATEFUL: dict[str, Any] = {"driver": "statefulset", "template": {"name": "web"}}


def test_a_stateful_set_grows_at_once_and_shrinks_when_its_last_ordinals_are_empty_handed() -> None:
    cluster = started("web-0", "web-1", "web-2", workers={**STATEFUL, "replicas": 3})
    assert condition(cluster, "Stuck") == "True"  # nobody has seen the StatefulSet yet
    cluster.stateful_set("web", 3)
    assert condition(cluster, "Stuck") == "False"
    cluster.shard_set({**SPEC, "workers": {**STATEFUL, "replicas": 5}}, generation=2)
    assert cluster.state.replicas["ns/web"] == 5
    cluster.shard_set({**SPEC, "workers": {**STATEFUL, "replicas": 1}}, generation=3)
    assert cluster.state.replicas["ns/web"] == 3  # 3 and 4 never joined
    while work(cluster):
        assert cluster.state.replicas["ns/web"] > 1 or set(owned(cluster)) == {"web-0#1"}
    assert cluster.state.replicas["ns/web"] == 1
    assert owned(cluster) == {"web-0#1": 32}
    assert "force" not in entries(cluster.decided)
    assert cluster.replayed() == cluster.state

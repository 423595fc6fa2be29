"""Every decision of the shard manager worth telling is told in full sentences."""

from __future__ import annotations

import msgspec

from tests.unit.shardmanager.cluster import Cluster
from tests.unit.shardmanager.test_driver import settle, spec, template
from tests.unit.shardmanager.test_fold import started, work
from tidewright.host.fold.explainer import Reference
from tidewright.shardmanager.tell.explaining import EXPLAINER

ORDERS = Reference("shardset", "ns", "orders")


def told(cluster: Cluster, asked: Reference) -> list[str]:
    found: list[str] = []
    for decision in cluster.decided:
        if EXPLAINER.concerns(decision, asked):
            said = EXPLAINER.sentences(decision)
            assert said, f"nothing is said of {decision}"
            assert all((s.endswith(".") and s[0].isupper()) or s[0].islower() for s in said)
            EXPLAINER.facts(cluster.state, decision)
            found += said
            found += EXPLAINER.opposite(cluster.state, decision)
    return found


def test_a_crash_is_told_with_its_numbers_and_what_would_have_prevented_it() -> None:
    cluster = started("a", "b")
    for _second in range(20):
        cluster.advance(1.0)
        cluster.member("b", "1")
    while work(cluster):
        pass
    said = "\n".join(told(cluster, ORDERS))
    assert "a joined with weight 1." in said
    assert "a#1 was not seen to renew its lease for 15 s and the margin of 2 s." in said
    assert "A renewal within 17 s of the one before would have kept the lease." in said
    assert "b became the owner of slots" in said
    assert "the lease of its owner before had run out and was taken" in said
    standing = EXPLAINER.standing(cluster.state, ORDERS, cluster.now)
    assert standing[0] == "Of 32 slots 32 have an owner: b 32."


def test_a_rollout_and_its_pods_are_told() -> None:
    cluster = Cluster()
    template(cluster, "1")
    cluster.shard_set(spec(2))
    cluster.run()
    settle(cluster, 20)
    template(cluster, "2", image="new")
    settle(cluster, 60)
    said = told(cluster, ORDERS)
    assert "There was no pod for shard 0." in said
    assert "Pod orders-0 was made from an earlier template, or told other slots." in said
    assert any(s.startswith("The rollout is complete") for s in said)
    places = EXPLAINER.told(cluster.state, ORDERS).decisions
    assert Reference("pod", "ns", "orders-1") in places


def test_auto_sizing_is_told_with_the_load_that_would_have_changed_nothing() -> None:
    cluster = started("a", autosize={"min": 1, "max": 8, "capacity": 100, "target": 0.7})
    cluster.member("a", "1", load={"0": 400})
    cluster.advance(61.0)
    cluster.member("a", "1", load={"0": 400})
    said = told(cluster, ORDERS)
    assert "From 1 to 2 shards; the load calls for 6." in said
    assert "A load between 63 and 77 would have kept 1 shards." in said


def test_a_fleet_of_the_propeller_manager_is_told() -> None:
    cluster = Cluster("kozmo")
    cluster.configure({"namespace": "kozmo", "config": {"manager": {"shard": {"shard-count": 2}}}})
    cluster.template()
    cluster.run()
    asked = Reference("podtemplate", "kozmo", "kozmopropeller-template")
    assert any("made 2" in s for s in told(cluster, asked))
    assert "2 shards (Hash)" in EXPLAINER.standing(cluster.state, asked, cluster.now)[0]


def test_a_fleet_that_elects_names_the_leases_of_its_shards() -> None:
    cluster = Cluster("kozmo")
    lock = {"lease-duration": "15s", "lock-config-map": {"namespace": "kozmo", "name": "manager"}}
    election = {"propeller": {"leader-election": {"enabled": True, **lock}}}
    cluster.configure(
        {"namespace": "kozmo", "config": {"manager": {"shard": {"shard-count": 5}}, **election}}
    )
    cluster.template()
    cluster.run()
    asked = Reference("podtemplate", "kozmo", "kozmopropeller-template")
    said = EXPLAINER.standing(cluster.state, asked, cluster.now)
    leases = ", ".join(f"kozmo/propeller-leader-{index}" for index in range(3))
    assert f"Its shards elect by the leases {leases} and 2 more." in said


def test_what_is_not_known_gives_no_sentence_and_no_error() -> None:
    cluster = started("a")
    nowhere = Reference("shardset", "ns", "ghost")
    assert EXPLAINER.standing(cluster.state, nowhere, cluster.now) == []
    assert EXPLAINER.told(cluster.state, nowhere).decisions == (nowhere,)


def test_the_state_of_a_set_its_pods_and_its_template_is_told_with_what_belongs_to_it() -> None:
    cluster = Cluster()
    template(cluster, "1")
    cluster.shard_set(spec(2))
    cluster.run()
    settle(cluster, 20)
    told_of = EXPLAINER.aggregate(cluster.state, ORDERS)
    assert told_of is not None
    assert msgspec.to_builtins(told_of["set"], str_keys=True)["sized"] == 2
    pod = Reference("pod", "ns", "orders-1")
    assert (EXPLAINER.aggregate(cluster.state, pod) or {})["set"] == "orders"
    assert EXPLAINER.standing(cluster.state, pod, cluster.now) == ["It is shard 1 of ShardSet orders."]
    (name,) = (key.removeprefix("ns/") for key in cluster.state.templates)
    made_from = EXPLAINER.aggregate(cluster.state, Reference("podtemplate", "ns", name))
    assert made_from == {"template": cluster.state.templates[f"ns/{name}"], "fleets": {}}
    assert EXPLAINER.aggregate(cluster.state, Reference("shardset", "ns", "others")) is None


def test_a_member_is_told_what_it_owns_and_until_when() -> None:
    cluster = started("a", "b")
    shard_set = cluster.state.sets["ns/orders"]
    member = next(m for m in shard_set.members.values() if m.name == "b")
    asked = Reference("shardmember", "ns", member.record)
    said = EXPLAINER.standing(cluster.state, asked, cluster.now)
    assert said[0] == "It is member b of ShardSet orders, with weight 1."
    assert said[1].startswith("It owns slots ")
    assert (
        said[2]
        == f"Its lease may be taken in {member.expires_at(shard_set.spec) - cluster.now:.0f} s unless it renews."
    )
    assert (EXPLAINER.aggregate(cluster.state, asked) or {})["set"] == "orders"

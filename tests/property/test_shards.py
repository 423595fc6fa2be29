"""Properties of sharding (specification, section 2.2). Test names carry the property's id."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.property.other_policy import assert_state_of_the_log_alone
from tests.unit.shardmanager.cluster import Cluster
from tests.vectors.reference.fence import Fence, StaleEpoch
from tidewright.events.decisions import CreateObject, DeleteObject, Effect
from tidewright.sharding.document import SlotState
from tidewright.sharding.keyspace import parse_runs, runs, shard_ranges, slot_of
from tidewright.sharding.lease import LeaseTimes
from tidewright.sharding.member import Activate, Drain, Member, NotOwner, Phase, Prepare
from tidewright.shardmanager.propeller.config import WILDCARD, ShardConfig, ShardMapping, ShardType
from tidewright.shardmanager.propeller.config_hash import accepted_hashes
from tidewright.shardmanager.propeller.strategy import shard_args, slots
from tidewright.shardmanager.propeller.validation import findings
from tidewright.shardmanager.propeller.worker import owners, parse_args
from tidewright.shardmanager.shardset.assignment.assign import assign

sizes = st.sampled_from([2**power for power in range(5, 16)])
ids = st.from_regex(r"[a-z0-9]([a-z0-9]{0,5}[a-z0-9])?", fullmatch=True)


@pytest.mark.parametrize("size", [32, 64])
def test_p1_ranges_tile_the_small_keyspaces_for_every_count(size: int) -> None:
    for count in range(1, size + 1):
        check_tiles(size, count)


@given(sizes, st.data())
def test_p1_ranges_tile(size: int, data: st.DataObject) -> None:
    check_tiles(size, data.draw(st.integers(1, size)))


def check_tiles(size: int, count: int) -> None:
    parts = shard_ranges(size, count)
    assert parts[0].start == 0
    assert parts[-1].stop == size
    assert all(a.stop == b.start for a, b in itertools.pairwise(parts))
    lengths = [len(part) for part in parts]
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[0] - lengths[-1] <= 1


@st.composite
def configurations(draw: st.DrawFn) -> ShardConfig:
    """Valid ones only."""
    kind = draw(st.sampled_from(list(ShardType)))
    if kind is ShardType.HASH:
        return ShardConfig(shard_count=draw(st.integers(1, 32)))
    named = draw(st.lists(ids, min_size=1, max_size=8, unique=True))
    cuts = sorted(draw(st.sets(st.integers(1, len(named)), max_size=4)) | {len(named)})
    mappings = [ShardMapping(tuple(named[a:b])) for a, b in itertools.pairwise([0, *cuts])]
    if draw(st.booleans()):
        mappings.insert(draw(st.integers(0, len(mappings))), ShardMapping((WILDCARD,)))
    return ShardConfig(type=kind, per_shard_mapping=tuple(mappings))


labels = st.fixed_dictionaries(
    {},
    optional={
        "shard-key": st.one_of(st.integers(-2, 40).map(str), st.sampled_from(["01", "", "x"])),
        "project": ids,
        "domain": ids,
        "termination-status": st.just("running"),
    },
)


@given(configurations(), labels)
def test_p2_one_owner_through_the_real_arguments(config: ShardConfig, label_set: dict[str, str]) -> None:
    assert not [f for f in findings(config) if f.refused(native=True)]
    workers = [parse_args(shard_args(config, index)) for index in range(config.pod_count)]
    found = owners(workers, label_set)
    if config.type is ShardType.HASH:
        legal = label_set.get("shard-key") in {str(key) for key in range(32)}
        assert len(found) == int(legal)
        return
    label = config.type.value.lower()
    named = {value for mapping in config.per_shard_mapping for value in mapping.ids} - {WILDCARD}
    if any(WILDCARD in mapping.ids for mapping in config.per_shard_mapping):
        assert len(found) == 1
    else:
        assert len(found) == int(label_set.get(label) in named)


@given(configurations())
def test_p3_arguments_say_exactly_what_a_shard_is_for(config: ShardConfig) -> None:
    for index in range(config.pod_count):
        worker = parse_args(["--config", "x", *shard_args(config, index)])
        assert worker.lock_name == f"propeller-leader-{index}"
        values = [value for r in worker.requirements for value in r.values]
        if config.type is ShardType.HASH:
            assert values == [str(key) for key in slots(config, index)]
        elif config.per_shard_mapping[index].ids == (WILDCARD,):
            others = [m for i, m in enumerate(config.per_shard_mapping) if i != index]
            assert values == [value for m in others for value in m.ids]
        else:
            assert values == list(config.per_shard_mapping[index].ids)


@given(st.lists(configurations(), min_size=2, max_size=12))
def test_p5_different_configurations_have_different_hashes(configs: list[ShardConfig]) -> None:
    meanings: dict[str, ShardConfig] = {}
    for config in configs:
        for value in accepted_hashes(config):
            known = meanings.setdefault(value, config)
            assert (known.type, known.per_shard_mapping) == (config.type, config.per_shard_mapping)
            assert config.type is not ShardType.HASH or known.shard_count == config.shard_count


@st.composite
def tables(draw: st.DrawFn) -> tuple[int, list[str | None], dict[str, int], dict[int, str]]:
    size = draw(st.integers(1, 80))
    members = [f"m{i}" for i in range(draw(st.integers(1, 9)))]
    weights = {m: draw(st.integers(1, 5)) for m in members}
    before = draw(st.lists(st.sampled_from([*members, "gone", None]), min_size=size, max_size=size))
    pins = draw(st.dictionaries(st.integers(0, size - 1), st.sampled_from([*members, "gone"]), max_size=2))
    return size, before, weights, pins


@given(tables())
def test_p12_only_what_must_move_moves_and_a_second_run_moves_nothing(
    table: tuple[int, list[str | None], dict[str, int], dict[int, str]],
) -> None:
    size, before, weights, _pins = table
    made = assign(size, before, weights)
    held = Counter(owner for owner in before if owner in weights)
    assert len(made.moved) == sum(max(0, held[m] - quota) for m, quota in made.quota.items())
    assert all(before[slot] not in weights for slot in made.filled)
    again = assign(size, made.table, weights)
    assert (again.table, again.moved, again.filled) == (made.table, (), ())


@given(tables())
def test_p14_every_share_is_within_one_of_the_exact_one(
    table: tuple[int, list[str | None], dict[str, int], dict[int, str]],
) -> None:
    size, before, weights, pins = table
    made = assign(size, before, weights, pins)
    total = sum(weights.values())
    assert sum(made.quota.values()) == size
    assert all(abs(made.quota[m] - size * w / total) < 1 for m, w in weights.items())
    assert all(owner in weights for owner in made.table)
    for slot, member in pins.items():
        assert made.table[slot] == member or member not in weights
    if not pins:
        assert Counter(made.table) == Counter({m: q for m, q in made.quota.items() if q})


@given(st.integers(1, 200), st.integers(1, 40))
def test_p13_a_join_moves_its_share_to_the_newcomer_and_a_leave_only_the_leavers(
    size: int, count: int
) -> None:
    members = [f"m{i:02}" for i in range(count)]
    balanced = assign(size, [None] * size, dict.fromkeys(members, 1)).table
    joined = assign(size, balanced, dict.fromkeys([*members, "new"], 1))
    assert len(joined.moved) <= -(-size // (count + 1))
    assert {joined.table[slot] for slot in joined.moved} <= {"new"}
    if count > 1:
        left = assign(size, balanced, dict.fromkeys(members[1:], 1))
        assert left.moved == ()
        assert set(left.filled) == {s for s, m in enumerate(balanced) if m == members[0]}


@given(
    st.text(max_size=30), sizes.filter(lambda size: size < 32768), st.sampled_from(["fnv1a32", "blake2b64"])
)
def test_p15_doubling_splits_slots_and_never_mixes_them(key: str, size: int, name: Any) -> None:
    assert slot_of(key, 2 * size, name) % size == slot_of(key, size, name)


@given(st.sets(st.integers(0, 300)))
def test_runs_are_read_back(found: set[int]) -> None:
    assert parse_runs(runs(found)) == sorted(found)


@given(st.lists(st.integers(0, 9), min_size=1))
def test_p11_a_sink_never_accepts_an_epoch_below_the_highest(epochs: list[int]) -> None:
    fence = Fence()
    accepted: list[int] = []
    for epoch in epochs:
        try:
            fence.accept(7, epoch)
        except StaleEpoch:
            assert epoch < max(accepted)
        else:
            accepted.append(epoch)
    assert accepted == sorted(accepted)


SPOILED: list[dict[str, Any]] = [
    {"config": {"manager": {"shard": {"shard-count": 33}}}},
    {"config": {"manager": {"shard": {"type": "Project"}}}},
    {"config": {"manager": {"scan-interval": "10ms"}}},
    {"config": {"manager": {"pod-template-namespace": "elsewhere"}}},
    {"config": {"propeller": {"leader-election": {"enabled": "perhaps"}}}},
    {"brand": "other"},
    {"colour": "blue"},
]
"""Entries that are refused, each for a reason of its own."""


class Fleet(RuleBasedStateMachine):
    """P7, P16: a propeller fleet under failures, refusals, lagging facts, resizes and a manager that is away."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster = Cluster("kozmo")
        self.count, self.version = 3, 10
        self.configure(3)
        self.cluster.template("10")

    @rule(count=st.integers(1, 6))
    def configure(self, count: int) -> None:
        self.count = count
        self.cluster.configure(
            {"namespace": "kozmo", "config": {"manager": {"shard": {"shard-count": count}}}}
        )

    @rule(spoiled=st.sampled_from(SPOILED), twice=st.booleans())
    def misconfigure(self, spoiled: dict[str, Any], twice: bool) -> None:
        """A bad edit changes nothing that runs."""
        self.cluster.configure(*[{"namespace": "kozmo", "config": {}, **spoiled}] * (1 + twice))

    @rule()
    def change_template(self) -> None:
        self.version += 1
        self.cluster.template(str(self.version))

    @rule(data=st.data(), phase=st.sampled_from(["Failed", "Running", "Running"]))
    def pod_changes(self, data: st.DataObject, phase: str) -> None:
        alive = sorted(n for n, p in self.cluster.pods.items() if p.phase != "Failed")
        if alive:
            name = data.draw(st.sampled_from(alive))
            if phase == "Failed":
                self.cluster.fail(name)
            else:
                self.cluster.run(name)

    @rule()
    def terminated_pods_go(self) -> None:
        self.cluster.vanish()

    @rule(data=st.data())
    def node_is_lost(self, data: st.DataObject) -> None:
        if self.cluster.pods:
            self.cluster.vanish(data.draw(st.sampled_from(sorted(self.cluster.pods))))

    @rule(refused=st.sampled_from(["", "create", "delete", "-0", "-1"]))
    def api_refuses(self, refused: str) -> None:
        def refuse(effect: Effect) -> str:
            kinds = {"create": CreateObject, "delete": DeleteObject}
            hit = (
                isinstance(effect, kinds[refused])
                if refused in kinds
                else effect.target.name.endswith(refused)
            )
            return "refused" if refused and hit else ""

        self.cluster.refuse = refuse

    @rule(seconds=st.sampled_from([1.0, 5.0, 11.0]))
    def time_passes(self, seconds: float) -> None:
        self.cluster.advance(seconds)

    @rule(lag=st.booleans())
    def facts_lag(self, lag: bool) -> None:
        self.cluster.lag = lag
        if not lag:
            self.cluster.catch_up()

    @invariant()
    def only_managed_names_exist(self) -> None:
        assert all(name.startswith("kozmopropeller-") for name in self.cluster.pods)

    def teardown(self) -> None:
        cluster = self.cluster
        cluster.lag = False
        cluster.catch_up()
        cluster.refuse = lambda _effect: ""
        for _pass in range(4):
            cluster.advance(10.5)
            cluster.vanish()
            cluster.run()
        expected = [f"kozmopropeller-{i}" for i in range(self.count)]
        assert sorted(cluster.pods) == expected
        assert all(p.phase == "Running" and p.deleting_at is None for p in cluster.pods.values())
        found = {p.annotations["podTemplateResourceVersion"] for p in cluster.pods.values()}
        assert found == {str(self.version)}
        before = len(cluster.decided)
        cluster.advance(60.0)
        assert not [d for d in cluster.decided[before:] if isinstance(d, CreateObject | DeleteObject)]  # P6
        assert_state_of_the_log_alone(cluster.recorded)


TIMES = LeaseTimes(duration_s=6.0, renew_interval_s=2.0, safety_margin_s=1.5, skew_margin_s=1.0)
NAMES = ("a", "b", "c")


class Handover(RuleBasedStateMachine):
    """P8, P9, P10, P11: members that crash, stall, are cut off and come back, and a manager that lags.

    The members are the library's, the manager is the decider; between them lies a document that each
    member sees when it looks, and never sooner. The clock is one, and stands still while nobody waits.
    """

    def __init__(self) -> None:
        super().__init__()
        self.cluster = Cluster()
        self.processes: dict[str, Member] = {}
        self.cut_off: set[str] = set()
        self.draining: dict[str, list[Drain]] = {}
        self.started: Counter[str] = Counter()
        self.fence = Fence()
        self.epochs: dict[int, tuple[int, str]] = {}

    @initialize(concurrent=st.sampled_from([4, 64]))
    def create(self, concurrent: int) -> None:
        self.cluster.shard_set(
            {
                "keyspace": {"slots": 32},
                "membership": {
                    "leaseDuration": "6s",
                    "renewInterval": "2s",
                    "safetyMargin": "1.5s",
                    "skewMargin": "1s",
                },
                "handover": {
                    "prepareTimeout": "8s",
                    "drainTimeout": "4s",
                    "drainHardTimeout": "8s",
                    "maxConcurrentSlots": concurrent,
                },
            }
        )
        for name in NAMES[:2]:
            self.start(name)
            self.look(name)

    def start(self, name: str) -> None:
        """A process starts, perhaps while an earlier one of its name still runs somewhere, cut off."""
        if name in self.processes and name not in self.cut_off:
            return
        old = self.processes.pop(name, None)
        if old is not None:
            self.processes[f"{name}~{old.incarnation}"] = old
            self.cut_off.add(f"{name}~{old.incarnation}")
        self.started[name] += 1
        self.cut_off.discard(name)
        self.processes[name] = Member(
            name=name,
            incarnation=str(self.started[name]),
            times=TIMES,
            renewed_at=self.cluster.now,
        )
        self.draining[name] = []
        self.report(name)

    def crash(self, name: str) -> None:
        self.processes.pop(name, None)
        self.cut_off.discard(name)

    def partition(self, name: str) -> None:
        if name in self.processes:
            self.cut_off.add(name)

    def heal(self, name: str) -> None:
        self.cut_off.discard(name)

    def look(self, name: str) -> None:
        """A member observes the document, and begins what it asks for."""
        member = self.processes.get(name)
        if member is None or name in self.cut_off or not self.cluster.status:
            return
        for task in member.observe(self.cluster.document):
            match task:
                case Prepare(slot=slot):
                    member.prepared(slot)
                case Activate(slot=slot, epoch=epoch):
                    try:
                        self.fence.accept(slot, epoch)
                    except StaleEpoch:
                        continue
                    member.activated(slot, epoch)
                case Drain():
                    self.draining[name].append(task)

    def finish(self, name: str) -> None:
        """A member has finished what was in flight in its draining slots."""
        member = self.processes.get(name)
        if member is not None:
            for task in self.draining[name]:
                member.drained(task.slot, task.epoch, f"{member.id}@{self.cluster.now}")
            self.draining[name] = []

    def report(self, name: str, leaving: bool = False) -> None:
        """A member renews and reports."""
        member = self.processes.get(name)
        if member is None or name in self.cut_off:
            return
        member.tick(self.cluster.now)
        record = f"orders-{member.name}-{member.incarnation}"
        if self.cluster.members.get(record, {"spec": {}})["spec"].get("taken"):
            member.fence()
        if member.fenced:
            return
        sent_at = self.cluster.now
        prepared = [s for s, h in member.holdings.items() if h.phase is Phase.PREPARED]
        stopped = [
            {"slot": a.slot, "epoch": a.epoch, "checkpoint": a.checkpoint} for a in member.acknowledgements()
        ]
        self.cluster.member(
            member.name,
            member.incarnation,
            prepared=runs(prepared),
            stopped=stopped,
            acting=runs(member.acting()),
            leaving=leaving,
        )
        member.renewed(sent_at, self.cluster.now)

    @rule(name=st.sampled_from(NAMES), what=st.sampled_from(["look", "finish", "report", "work", "leave"]))
    def one_steps(self, name: str, what: str) -> None:
        if what in ("look", "work"):
            self.look(name)
        if what in ("finish", "work"):
            self.finish(name)
        if what in ("report", "work", "leave"):
            self.report(name, leaving=what == "leave")

    @rule(order=st.permutations(NAMES), what=st.sampled_from(["look", "finish", "report", "work"]))
    def everybody_steps(self, order: list[str], what: str) -> None:
        for name in order:
            self.one_steps(name, what)

    @rule(
        name=st.sampled_from(NAMES),
        what=st.sampled_from(["start", "start", "crash", "partition", "heal", "heal", "release"]),
    )
    def something_happens(self, name: str, what: str) -> None:
        getattr(self, what)(name)

    def release(self, name: str) -> None:
        """A member ends in good order: it stops, then says so."""
        member = self.processes.get(name)
        if member is not None and name not in self.cut_off and not member.fenced:
            member.fence()
            self.cluster.member(member.name, member.incarnation, released=True, stopped=[], acting="")
            del self.processes[name]

    @rule(seconds=st.sampled_from([0.2, 1.0, 2.0, 5.0, 8.0]))
    def time_passes(self, seconds: float) -> None:
        self.cluster.advance(seconds)

    @rule(lag=st.booleans())
    def manager_lags(self, lag: bool) -> None:
        self.cluster.lag = lag
        if not lag:
            self.cluster.catch_up()

    @invariant()
    def p8_no_two_members_may_act_on_a_slot(self) -> None:
        acting: dict[int, str] = {}
        for member in self.processes.values():
            for slot in member.acting():
                try:
                    epoch = member.guard(slot, self.cluster.now)
                except NotOwner:
                    continue
                assert slot not in acting, f"{member.id} and {acting[slot]} both act on slot {slot}"
                acting[slot] = member.id
                assert self.fence.accepts(slot, epoch)

    @invariant()
    def p10_epochs_grow_with_every_owner(self) -> None:
        shard_set = self.cluster.state.sets.get("ns/orders")
        for slot, record in enumerate(shard_set.document.slots if shard_set else ()):
            epoch, owner = self.epochs.get(slot, (0, ""))
            assert record.epoch >= epoch
            if record.owner and record.owner != owner:
                assert record.epoch > epoch or not owner
                self.epochs[slot] = (record.epoch, record.owner)

    def teardown(self) -> None:
        """P9: with one healthy member every slot has an owner that acts, within the stated bound."""
        if not self.cluster.state.sets:
            return
        self.manager_lags(False)
        self.cut_off = {n for n in self.cut_off if n not in NAMES}
        for name in NAMES:
            member = self.processes.get(name)
            if member is None or member.fenced or self.cluster.now >= TIMES.act_until(member.renewed_at):
                self.crash(name)
                self.start(name)
        for _second in range(60):
            for name in NAMES:
                self.look(name)
                self.finish(name)
                self.report(name)
            self.cluster.advance(0.5)
            self.p8_no_two_members_may_act_on_a_slot()
        document = self.cluster.state.sets["ns/orders"].document
        assert all(r.state is SlotState.OWNED for r in document.slots)
        live = {m.id: m for n, m in self.processes.items() if n in NAMES}
        for slot, record in enumerate(document.slots):
            live[record.owner].guard(slot, self.cluster.now)
        assert sorted(Counter(r.owner for r in document.slots).values()) == [10, 11, 11]
        assert self.cluster.replayed() == self.cluster.state
        assert_state_of_the_log_alone(self.cluster.recorded)


def walk(machine: Handover, seed: int, steps: int) -> None:
    """A long random walk: the machine's own search prefers short ones."""
    draw = random.Random(seed)
    machine.create(concurrent=draw.choice([4, 64]))
    for _step in range(steps):
        name, order = draw.choice(NAMES), draw.sample(NAMES, 3)
        match draw.choices(["one", "all", "happens", "time", "lag"], [60, 12, 7, 16, 5])[0]:
            case "one":
                machine.one_steps(name, draw.choice(["look", "finish", "report", "report", "leave"]))
            case "all":
                machine.everybody_steps(order, draw.choice(["look", "finish", "report", "work"]))
            case "happens":
                kinds = ["start", "start", "crash", "partition", "heal", "heal", "release"]
                machine.something_happens(name, draw.choice(kinds))
            case "time":
                machine.time_passes(draw.choice([0.2, 0.2, 1.0, 1.0, 2.0, 5.0, 8.0]))
            case "lag":
                machine.manager_lags(draw.choice([True, False, False]))
        machine.p8_no_two_members_may_act_on_a_slot()
        machine.p10_epochs_grow_with_every_owner()
    machine.teardown()


@pytest.mark.parametrize("seed", range(16))
def test_p8_p9_p10_hold_on_long_walks(seed: int) -> None:
    walk(Handover(), seed, steps=200)


bounded = settings(
    max_examples=25,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
TestP7AFleetConverges = Fleet.TestCase
TestP7AFleetConverges.settings = bounded
TestP8HandoverIsSafe = Handover.TestCase
TestP8HandoverIsSafe.settings = bounded

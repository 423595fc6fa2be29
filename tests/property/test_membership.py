"""Replicas come, go, die, are cut off and have wrong clocks: one writer per slot, nothing lost, nothing doubled.

Real hosts over simulated time (`tests.property.replicas`); hypothesis draws what happens and when.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable
from functools import partial

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.property.replicas import NAMESPACES, SLOTS, VirtualLoop, World
from tests.unit.host.counting import COUNTING
from tidewright.events import registry
from tidewright.host.fold.order import Fold
from tidewright.host.loop.membership import rendezvous, shares
from tidewright.log import checkpoint as checkpoints
from tidewright.log import envelope
from tidewright.log.commit_pacing import Pace
from tidewright.log.subjects import Slot, Subjects

EVERY = tuple(Slot(str(i)) for i in range(SLOTS))
SUBJECTS = Subjects("sim")

steps = st.lists(
    st.tuples(
        st.sampled_from(("join", "skewed", "stop", "kill", "cut", "heal", "say", "say")),
        st.integers(0, 10),
        st.floats(0.0, 4.0),
    ),
    min_size=3,
    max_size=25,
)


@pytest.fixture(autouse=True)
def simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hosts' clocks are the loop's, and what they would do in threads they do at once."""

    class Clock:
        @staticmethod
        def monotonic() -> float:
            try:
                return asyncio.get_running_loop().time()
            except RuntimeError:
                return 0.0

        time = monotonic

    async def at_once(function: Callable[..., object], *arguments: object) -> object:
        return function(*arguments)

    for module in ("host", "commit", "firing"):
        monkeypatch.setattr(f"tidewright.host.loop.{module}.time", Clock)
    # By the machine's clock as much would be committed a second as the machine is fast.
    monkeypatch.setattr("tidewright.host.loop.host.Pace", partial(Pace, Clock.monotonic))
    monkeypatch.setattr("asyncio.to_thread", at_once)


def simulate(main: Callable[[World], Awaitable[None]], seed: int) -> None:
    async def run() -> None:
        world = World(seed)
        try:
            await main(world)
        finally:
            await world.close()

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(run())


def expect_exactly_once(world: World) -> None:
    """The decisions of each slot are those of its facts, byte for byte, in order, each once."""
    recorded: dict[str, list[bytes]] = defaultdict(list)
    folds = {slot: Fold(COUNTING, slot) for slot in EVERY}
    wanted: dict[str, list[bytes]] = defaultdict(list)
    for record in world.stream.records:
        slot = SUBJECTS.slot_token(record.subject)
        match SUBJECTS.class_token(record.subject):
            case "fact":
                step = folds[slot].step(record.seq, record.body, registry.decode(record.body))
                wanted[slot] += [decided.body for decided in step]
            case "decision":
                recorded[slot].append(record.body)
    assert recorded == {slot: bodies for slot, bodies in wanted.items() if bodies}


def expect_one_writer(world: World) -> None:
    """Epochs only grow, each has one writer, and what is decided lies before a checkpoint of its own writer."""
    epoch: dict[str, int] = {}
    owner: dict[tuple[str, int], str] = {}
    waiting: dict[str, list[str]] = defaultdict(list)
    for record in world.stream.records:
        slot = SUBJECTS.slot_token(record.subject)
        match SUBJECTS.class_token(record.subject):
            case "decision":
                waiting[slot].append(record.headers[envelope.INCARNATION])
            case "checkpoint":
                found = checkpoints.decode(record.body)
                assert found.epoch >= epoch.get(slot, 0), f"{slot} at {record.seq}"
                epoch[slot] = found.epoch
                assert owner.setdefault((slot, found.epoch), found.incarnation) == found.incarnation
                assert set(waiting.pop(slot, [])) <= {found.incarnation}, f"{slot} at {record.seq}"


def everything_owned(world: World) -> bool:
    """Each slot is owned by the one whose it is, and by nobody else."""
    names = {r.name for r in world.replicas}
    return all(r.slots == shares(r.name, names, EVERY) for r in world.replicas)


def all_decided(world: World) -> bool:
    """Every owner has folded everything that was said."""
    last = max((r.seq for r in world.stream.records if ".fact." in r.subject), default=0)
    return all(o.committed >= last or not o.dirty for r in world.replicas for o in r.host.owned.values()) and all(
        o.read >= last for r in world.replicas for o in r.host.owned.values()
    )  # fmt: skip


@given(steps, st.integers(0, 2**32))
@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_whatever_happens_each_decision_is_recorded_once_by_the_one_owner(
    script: list[tuple[str, int, float]], seed: int
) -> None:
    async def main(world: World) -> None:
        world.join()
        for act, which, wait_s in script:
            chosen = world.replicas[which % len(world.replicas)] if world.replicas else None
            match act:
                case "join" | "skewed" if len(world.replicas) < 5:
                    world.join(world.draw.choice((0.7, 1.3)) if act == "skewed" else 1.0)
                case "stop" if chosen:
                    await world.stop(chosen)
                case "kill" if chosen:
                    await world.kill(chosen)
                case "cut" if chosen:
                    chosen.link.cut = True
                case "heal" if chosen:
                    chosen.link.cut = False
                case "say":
                    world.say(1 + which)
            await asyncio.sleep(wait_s)
        for replica in world.replicas:
            replica.link.cut = False
        if not world.replicas:
            world.join()
        world.say(10)
        await world.until(lambda: everything_owned(world) and all_decided(world))
        await asyncio.sleep(3.0)
        expect_one_writer(world)
        expect_exactly_once(world)
        assert everything_owned(world)

    simulate(main, seed)


@given(st.integers(0, 2**32))
@settings(
    max_examples=10,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_a_new_replica_takes_only_the_slots_that_it_wins(seed: int) -> None:
    async def main(world: World) -> None:
        for _ in range(2):
            world.join()
        await world.until(lambda: everything_owned(world))
        epochs = {s: o.epoch for r in world.replicas for s, o in r.host.owned.items()}
        world.join()
        names = {r.name for r in world.replicas}
        won = {s for s in EVERY if rendezvous(s, names) == world.replicas[-1].name}
        await world.until(lambda: everything_owned(world))
        after = {s: o.epoch for r in world.replicas for s, o in r.host.owned.items()}
        assert {s for s in EVERY if after[s] != epochs[s]} == won

    simulate(main, seed)


@given(st.integers(0, 2**32), st.sampled_from((("kill", 5.0), ("stop", 1.0))))
@settings(
    max_examples=20,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_slots_are_taken_over_in_time(seed: int, end: tuple[str, float]) -> None:
    act, within_s = end

    async def main(world: World) -> None:
        for _ in range(3):
            world.join()
        world.say(len(NAMESPACES) * 3)
        await world.until(lambda: everything_owned(world) and all_decided(world))
        await asyncio.sleep(world.draw.uniform(0.0, 1.0))
        ending = asyncio.create_task((world.kill if act == "kill" else world.stop)(world.replicas[0]))
        await asyncio.sleep(0)
        assert await world.until(lambda: everything_owned(world)) < within_s
        await ending

    simulate(main, seed)

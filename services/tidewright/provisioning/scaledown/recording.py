"""What is recorded of a part of a pass, and what passes have of it: nothing else goes from one to the next."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tidewright.events.provisioning import PausedNode, TrackUnneededNodes, UnneededNode
from tidewright.kube.keys import ObjectKey, PodKey
from tidewright.provisioning.index.index import Index
from tidewright.provisioning.scaledown import passes
from tidewright.provisioning.scaledown.choosing import choose
from tidewright.provisioning.scaledown.going.timers import wait_s
from tidewright.provisioning.scaledown.live import LiveScene
from tidewright.provisioning.scaledown.scene import Removable
from tidewright.provisioning.settings import Settings
from tidewright.provisioning.state import State, Unneeded

WAITS = PodKey(ObjectKey("/"))
"""In place of the pod that has to complete, where it is only known that there is one."""
PARALLEL = "MaxScaleDownParallelism"
"""Of a node that could go but for those that are going."""


def memory_of(state: State, settings: Settings, now: float) -> passes.Memory:
    """What passes before have recorded."""
    places: dict[str, Mapping[PodKey, str]] = {name: node.moves for name, node in state.unneeded.items()}
    return passes.Memory(
        unneeded={name: node.since for name, node in state.unneeded.items()},
        interval_s=settings.scan_interval_s,
        places=places,
        hints={pod: place for moves in places.values() for pod, place in moves.items()}
        if settings.as_reference
        else {},
        before=state.scan.before,
    )


def overdue(
    scene: LiveScene, plan: passes.PassPlan, settings: Settings, now: float, *, cools: bool
) -> dict[str, tuple[float, str]]:
    """Unneeded nodes to when their time is over, and what keeps those now of which it is; empty of those that go."""
    going = {leaver.name for leaver in plan.going}
    found: dict[str, tuple[float, str]] = {}
    for name, since in plan.memory.unneeded.items():
        node = scene.cards.cards[name].node
        due = since + wait_s(node, scene.groups[node.group], settings)
        kept = due <= now and name not in going
        reason = plan.waiting.get(name) or (passes.DELAYED if cools else PARALLEL)
        found[name] = (due, reason if kept else "")
    return found


def not_reached(plan: passes.PassPlan) -> list[str]:
    """Candidates that a pass did not get to, since enough nodes were found."""
    reached = plan.unneeded.keys() | plan.refused.keys()
    return sorted(name for name in plan.candidates if name not in reached) if plan.limited else []


def record_of(
    state: State,
    plan: passes.PassPlan,
    late: Mapping[str, tuple[float, str]],
    now: float,
    skipped: Collection[str] = (),
) -> list[TrackUnneededNodes]:
    """What is recorded of a part of a pass; nothing when it found what was known. `late`: where that is recorded, see `overdue`."""
    places, since = plan.memory.places, plan.memory.unneeded
    fresh: list[UnneededNode] = []
    for name, removal in plan.unneeded.items():
        known = state.unneeded.get(name)
        before = (known.due, known.delayed) if known is not None else (None, "")
        due, reason = late.get(name, before)
        delayed = reason or before[1]
        if (
            known is None
            or known.since != since[name]
            or known.waits is not bool(removal.waits)
            or known.risky is not removal.risky
            or (known.moves is not places[name] and known.moves != places[name])
            or known.due != due
            or known.delayed != delayed
        ):
            entry = Unneeded(
                since[name], dict(places[name]), bool(removal.waits), removal.risky, due, delayed
            )
            fresh.append(_entry(name, entry))
    # What a part of a pass has not reached is as it was.
    unreached = set(plan.candidates) - set(plan.refused) if plan.more else set()
    needed = sorted(name for name in state.unneeded if name not in plan.unneeded and name not in unreached)
    paused = [
        PausedNode(
            node=name,
            until=plan.memory.recheck_at[name],
            reason=refusal.reason,
            pod=refusal.pod,
            pod_reason=refusal.pod_reason,
        )
        for name, refusal in sorted(plan.refused.items())
    ]
    known_skipped = state.scan.skipped
    newly = tuple(name for name in skipped if name not in known_skipped)
    reached = () if plan.more else tuple(sorted(known_skipped.keys() - set(skipped)))
    goes_on = plan.more is not (state.scan.before is not None)
    if not (fresh or needed or paused or newly or reached or goes_on):
        return []
    begun_with = state.scan.before if state.scan.before is not None else len(state.unneeded)
    return [
        TrackUnneededNodes(
            at=now,
            unneeded=tuple(fresh),
            needed=tuple(needed),
            paused=tuple(paused),
            before=begun_with if plan.more else 0,
            more=plan.more,
            skipped=newly,
            reached=reached,
        )
    ]


def _entry(name: str, entry: Unneeded) -> UnneededNode:
    return UnneededNode(
        node=name,
        since=entry.since,
        moves={str(pod): place for pod, place in entry.moves.items()},
        waits=entry.waits,
        risky=entry.risky,
        due=entry.due,
        delayed=entry.delayed,
    )


def recorded_plan(state: State, index: Index, now: float) -> passes.PassPlan:
    """What goes now, and why the rest waits, by what passes have recorded: nothing is simulated."""
    scene = LiveScene.of(state, index, now)
    there = {name: node for name, node in state.unneeded.items() if name in scene.cards.cards}
    plan = passes.PassPlan(
        candidates=[],
        uses={},
        unneeded={
            name: Removable(
                node=name,
                moves=node.moves,
                own=tuple(node.moves),
                waits=(WAITS,) if node.waits else (),
                risky=node.risky,
            )
            for name, node in there.items()
        },
        refused={},
        memory=passes.Memory(unneeded={name: node.since for name, node in there.items()}),
    )
    choose(scene, plan)
    return plan

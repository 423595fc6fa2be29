"""Why a node stays, or goes: since when nobody needs it, what keeps it, what would let it go, where its pods would go. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping

from tidewright.kube.keys import PodKey
from tidewright.kube.times import readable
from tidewright.provisioning.consolidation import budgets, modes, protection
from tidewright.provisioning.consolidation.arrivals import came
from tidewright.provisioning.consolidation.kept import GIVEN_UP_REST_S, MOVED_REST_S
from tidewright.provisioning.consolidation.trials import NOTHING_CHEAPER, amount, named
from tidewright.provisioning.evaluate import room_of
from tidewright.provisioning.index.index import Index
from tidewright.provisioning.index.indexing import index_of
from tidewright.provisioning.scaledown import passes
from tidewright.provisioning.scaledown.candidates import eligible
from tidewright.provisioning.scaledown.cards import Card
from tidewright.provisioning.scaledown.drain.budgets import Allowance
from tidewright.provisioning.scaledown.drain.rules import CONTROLLER_NOT_FOUND, mirrored, of_daemons
from tidewright.provisioning.scaledown.going import timers, whole
from tidewright.provisioning.scaledown.going.cooldown import cool_at
from tidewright.provisioning.scaledown.lately import last_of
from tidewright.provisioning.scaledown.live import EXPECTED, LiveScene, cards_of
from tidewright.provisioning.scaledown.recording import recorded_plan
from tidewright.provisioning.scaledown.scene import GroupTraits, Refusal
from tidewright.provisioning.scaledown.simulation.removal import NO_PLACE
from tidewright.provisioning.settings import Settings
from tidewright.provisioning.state import Paused, State
from tidewright.provisioning.tell import room, without_place

PODS = {
    CONTROLLER_NOT_FOUND: "the controller that made it is not there: with it, or without the pod, the node could go",
    "MinReplicasReached": "its controller has fewer replicas than min-replica-count",
    "NotReplicated": "no controller would make it anew: with one, or with the annotation "
    'cluster-autoscaler.kubernetes.io/safe-to-evict: "true", it could be moved',
    "UnmovableKubeSystemPod": "it is a young pod of kube-system: once it is older than "
    "blocking-system-pod-distruption-timeout, or under a disruption budget, it could be moved",
    "NotSafeToEvictAnnotation": 'its annotation cluster-autoscaler.kubernetes.io/safe-to-evict is "false"',
    "LocalStorageRequested": "it has data on the node: named in the annotation "
    "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes, its volumes would not keep it",
    "NotEnoughPdb": "a disruption budget has nothing left for it: when that allows a disruption again, the node can go",
    "HeldBack": "its namespace is held back, by the modes in force or since another controller is at work there: "
    "nothing in it is evicted",
    protection.POD_PROTECTED: f"it is used, and the pod has the annotation {protection.DO_NOT_DISRUPT}: consolidation leaves both alone",
    protection.MOVED: f"it came here from a node that was removed less than {MOVED_REST_S:.0f} s ago: consolidation does not move it again so soon",
    protection.SEVERAL_BUDGETS: "several disruption budgets cover it: the API server evicts no such pod",
    "UnexpectedError": "the watcher has not told yet what rules about removing it ask for",
}
"""Why a pod keeps its node, and what would let it go."""
NOT_REACHED = "NotReached"
"""Of a node that a pass did not get to."""
SCALE_DOWN_OFF, UNHEALTHY = "ScaleDownDisabled", "ClusterUnhealthy"
MAX_PARALLELISM = "MaxParallelism"
"""Of a node that could go but for those that are going."""
NODES = {
    eligible.NOT_UNDERUTILIZED: "More of it is asked for than its threshold (scale-down-utilization-threshold, with GPUs scale-down-gpu-utilization-threshold): "
    "with that or less it would be looked at whether its pods fit elsewhere.",
    NOT_REACHED: "The pass did not get to it, since enough others were found: a later one does.",
    SCALE_DOWN_OFF: "Nothing is removed: scale-down-enabled is false.",
    UNHEALTHY: "Too many nodes are not ready (ok-total-unready-count, max-total-unready-percentage): nothing is removed until they are.",
    MAX_PARALLELISM: "It goes when fewer nodes are being removed: max-scale-down-parallelism, max-drain-parallelism.",
    timers.NOT_UNNEEDED: "Nobody has needed it for less than scale-down-unneeded-time, or what its group has instead.",
    timers.NOT_UNREADY: "It is not ready, and nobody has needed it for less than scale-down-unready-time, or what its group has instead.",
    eligible.NOT_AUTOSCALED: "No group of the cloud has it: it is never removed.",
    eligible.AT_MINIMUM: "Its group is at its minimum: with a smaller min it could go.",
    eligible.BEING_DELETED: "It is being deleted, or has not started yet.",
    eligible.DISABLED: f'Its annotation {eligible.SCALE_DOWN_DISABLED} is "true".',
    eligible.UNREADY_DISABLED: "It is not ready, and scale-down-unready-enabled is false.",
    eligible.SHARED: "Another node has its spec.providerID, too: which of them the instance is, is not known, and neither is removed before one is gone.",
    eligible.UNEXPECTED: "How much of it is used cannot be told: it does not say what it has, or the watcher is of before.",
    NO_PLACE: "Its pods do not all fit on other nodes.",
    timers.LIMIT: "Without it the cluster would be below cores-total, memory-total or gpu-total.",
    whole.ATOMIC_FAILED: "Its group goes as a whole, and other nodes of it stay.",
    passes.DELAYED: "Nodes of its group came or went just now (scale-down-delay-type-local).",
    protection.NODE_PROTECTED: f'It is used, and its annotation {protection.DO_NOT_DISRUPT} is "true": consolidation leaves it alone.',
    protection.YOUNG: f"It is used, and younger than {protection.YOUNG_S:.0f} s: consolidation leaves it alone.",
    protection.ROUNDS: f"It is used: a round of consolidation {protection.ROUNDS_S:.0f} s later has to agree.",
    protection.AFTER: "It is used, and a pod has come to it or left it within consolidate-after: consolidation leaves it alone.",
    protection.TOOK: f"It is used, and room for a request or a buffer was put on it less than {protection.YOUNG_S:.0f} s ago: consolidation leaves it alone.",
    NOTHING_CHEAPER: "Its pods do not all fit on other nodes, and nodes that hold them do not cost enough less.",
    budgets.EXHAUSTED: "It goes when consolidation-budgets allow one more of its group to go.",
    whole.WAITS_FOR_POD: 'A pod on it has to complete first (safe-to-evict: "on-completion").',
}
"""Why a node stays."""


def of_node(state: State, name: str) -> list[str]:
    """Sentences about one node, as things are now."""
    index = index_of(state)
    if not state.scan.told or name not in state.nodes:
        return []
    if not index.settings.scale_down:
        return [NODES[SCALE_DOWN_OFF]]
    if replaced := _replaced(state, name):
        return replaced
    card = cards_of(state, index, state.now).cards[name]
    entry = state.unneeded.get(name)
    if entry is None:
        return _needed(state, index, name, card)
    sentences = [f"Nobody needs it since {readable(entry.since)} UTC{_moving(entry.moves)}."]
    group = state.groups.get(card.node.group)
    if group is None:
        return sentences
    plan = recorded_plan(state, index, state.now)
    reason = plan.waiting.get(name)
    if reason in (timers.NOT_UNNEEDED, timers.NOT_UNREADY):
        wait = timers.wait_s(card.node, passes_group(state, index, name), index.settings)
        return [*sentences, f"It goes at {readable(entry.since + wait)} UTC at the earliest."]
    if reason:
        said = NODES.get(reason, f"It stays for now: {reason}.")
        return [*sentences, _until(state, index, name, reason, said)]
    cool = cool_at(last_of(state), index.settings)
    if cool > state.now and not index.settings.delay_local:  # with these only groups wait for their own
        return [*sentences, f"Nothing goes before {readable(cool)} UTC, since nodes were ordered or removed."]
    if all(leaver.name != name for leaver in plan.going):
        return [*sentences, NODES[MAX_PARALLELISM]]
    return [*sentences, "It goes with the next pass."]


def _until(state: State, index: Index, name: str, reason: str, said: str) -> str:
    """What keeps a node from going, and until when at least, where that is known."""
    settings, group = index.settings, state.nodes[name].group
    if reason in (protection.AFTER, protection.TOOK):
        _, until = protection.rest_of_node(state.consolidating, name, settings, since=None, now=state.now)
        if math.isinf(until):
            return "It is used, and consolidate-after is Never: consolidation leaves it alone."
        return f"{said.removesuffix('.')}, until {readable(until)} UTC at least."
    if reason == budgets.EXHAUSTED:
        for_what = budgets.UNDERUTILISED if name in index_of(state).busy else budgets.EMPTY
        if closed := _closed(state, settings, group, for_what):
            return f"It stays: {closed}."
    return said


def _closed(state: State, settings: Settings, group: str, reason: str) -> str:
    """How budgets let no node of a group go for a reason, however few are away; empty where they let one."""
    given = budgets.of_group(settings.consolidation_budgets, group)
    size = sum(node.group == group for node in state.nodes.values())
    shut = [each for each in budgets.REASONS if not budgets.left(given, each, size, 0, state.now)]
    if reason not in shut:
        return ""
    which = "" if len(shut) > 1 else "empty " if reason == budgets.EMPTY else "used "
    opens = budgets.opens(given, reason, size, state.now)
    until = f"until {readable(opens)} UTC" if opens is not None else "now"
    return f"consolidation-budgets let no {which}node of group {group} go {until}"


def _replaced(state: State, name: str) -> list[str]:
    """What is said of a node that is being replaced, or came for that; nothing of any other."""
    fresh = came(state)
    for replacement in state.consolidating.replacements:
        if name not in replacement.nodes and name not in fresh[replacement.decision]:
            continue
        others, nodes = named(replacement.groups), ", ".join(replacement.nodes)
        if name not in replacement.nodes:
            return [
                f"It was ordered to replace {nodes}, by {replacement.decision}: until that is over it stays."
            ]
        price = f"{amount(replacement.after_micro)} instead of {amount(replacement.before_micro)} an hour"
        whole = f"{nodes} {'is' if len(replacement.nodes) == 1 else 'are'} being replaced by {others}, by {replacement.decision}: {price}."
        if name in replacement.begun:
            return [whole]
        return [
            whole,
            f"It goes when they stand and its pods fit there; that is given up at {readable(replacement.until)} UTC.",
        ]
    for proposal in state.consolidating.proposals:
        if name not in proposal.nodes:
            continue
        whole = f"{', '.join(proposal.nodes)} could be replaced by {named(proposal.groups)} for less"
        since = f"as rounds have found since {readable(proposal.since)} UTC"
        return [f"{whole}, {since}; that is ordered when they go on to agree."]
    return []


def passes_group(state: State, index: Index, name: str) -> GroupTraits:
    """The group of a node as passes see it."""
    scene = LiveScene.of(state, index, state.now)
    return scene.groups[state.nodes[name].group]


def _needed(state: State, index: Index, name: str, card: Card) -> list[str]:
    paused = state.paused.get(name)
    if card.reason == eligible.NOT_UNDERUTILIZED and card.use is not None:
        return [f"It is used: {_used(card, passes_group(state, index, name), index.settings)}."]
    if card.reason == protection.YOUNG:
        old = readable(state.nodes[name].created_at + protection.YOUNG_S)
        return [f"{NODES[card.reason].removesuffix('.')}, until {old} UTC at least."]
    if card.reason:
        return [NODES.get(card.reason, f"It stays: {card.reason}.")]
    if paused is not None and paused.holds(state.scan, state.now):
        said = refusal_sentence(Refusal(paused.reason, paused.pod, paused.pod_reason))
        if paused.reason == NO_PLACE and (which := without_place.of_node(state, index, name)):
            said = f"{said.removesuffix('.')}: {which}"
        if paused.reason == NO_PLACE and (closed := _replacing_closed(state, index, card.node.group)):
            said = f"{said.removesuffix('.')}. {closed}"
        if resting := _replaced_in_vain(state, name):
            said = f"{said.removesuffix('.')}. {resting}"
        if paused.reason == NOTHING_CHEAPER and (which := _not_together(state, index)):
            said = f"{said} {which}"
        if paused.pod and paused.pod not in state.pods:
            said = f"{said.removesuffix('.')}; that pod is gone."
        return [f"{said} {_again(state, paused)}"]
    group = state.groups.get(card.node.group)
    if group is not None and group.target <= group.min_size:
        return [NODES[eligible.AT_MINIMUM]]
    if name in room_of(state, state.now).needed:
        kept = room.keepers(state, name)
        return [
            f"It stays, since room on it is kept for {' and '.join(kept)}."
            if kept
            else refusal_sentence(EXPECTED)
        ]
    return ["Whether somebody needs it is looked at with the next pass."]


def _replacing_closed(state: State, index: Index, group: str) -> str:
    """What is said where a node could be replaced but for the budgets of its group, which let none go however few are away."""
    settings = index.settings
    if modes.mode_of(settings.consolidation, group) != modes.REPLACE:
        return ""
    closed = _closed(state, settings, group, budgets.UNDERUTILISED)
    return f"Whether it could be replaced for less is not looked at: {closed}." if closed else ""


def _replaced_in_vain(state: State, name: str) -> str:
    """What is said of a node whose replacement was given up, and that rests."""
    given_up = state.consolidating.given_up.get(name)
    if given_up is None or given_up + GIVEN_UP_REST_S <= state.now:
        return ""
    again = readable(given_up + GIVEN_UP_REST_S)
    return f"That it be replaced was given up at {readable(given_up)} UTC: it is not tried again before {again} UTC."


def _not_together(state: State, index: Index) -> str:
    """What is said of nodes for which nothing cheaper was found alone, where disruption budgets keep them from being replaced together."""
    alone = [
        name
        for name, paused in state.paused.items()
        if paused.reason == NOTHING_CHEAPER and not paused.pod and name in state.nodes
    ]
    if len(alone) < 2:
        return ""
    scene = LiveScene.of(state, index, state.now)
    allowance = Allowance(scene.budgets)
    leave = Counter(
        key
        for name in alone
        for pod in scene.pods(name)
        if not (of_daemons(pod) or mirrored(pod))
        for key in allowance.covering(pod)
    )
    short = [
        f"{key} lets {allowance.left(key)} of {pods}"
        for key, pods in sorted(leave.items())
        if pods > allowance.left(key)
    ]
    if not short:
        return ""
    return f"It is one of {len(alone)} such nodes, which are not all replaced together: of the pods on them disruption budget {' and '.join(short)} go."


def _again(state: State, paused: Paused) -> str:
    """When a node is tried again that stays."""
    at = readable(paused.until)
    if paused.changes != state.scan.changes:
        return f"It is looked at again at {at} UTC."
    earliest = f", {at} UTC at the earliest" if paused.until > state.now else ""
    return f"It is looked at again when something changes{earliest}."


def _used(card: Card, group: GroupTraits, settings: Settings) -> str:
    use = card.use
    limit = eligible.threshold(card.node, group, settings)
    ratio = use.ratio if use is not None else 0.0
    return (
        f"{ratio * 100:.0f} % of its {use.resource if use is not None else ''} is asked for; "
        f"with {limit * 100:.0f} % or less it would be looked at whether its pods fit elsewhere"
    )


def refusal_sentence(refusal: Refusal) -> str:
    """Why a node was found to stay."""
    if refusal == EXPECTED:
        return "Room on it is booked, or pods that wait or are to come need it."
    if refusal.pod:
        why = PODS.get(refusal.pod_reason, refusal.pod_reason)
        return f"Pod {refusal.pod} keeps it ({refusal.pod_reason}): {why}."
    return NODES.get(refusal.reason, f"It stays: {refusal.reason}.")


def _moving(moves: Mapping[PodKey, str]) -> str:
    if not moves:
        return ": no pod on it would have to move"
    return f": its pods would go to {places(moves.values())}"


def places(names: Iterable[str]) -> str:
    """Nodes with the number of pods that go there, the ones with the most first."""
    counted = sorted(Counter(names).items(), key=lambda item: (-item[1], item[0]))
    said = [f"{name} ({pods})" for name, pods in counted[:10]]
    return ", ".join([*said, *([f"{len(counted) - 10} more"] if len(counted) > 10 else [])])

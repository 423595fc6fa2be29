"""Why the pods of a node do not all fit on others: which of them find no room, and where the most of it is missing the least. Pure.

Looked at as a pass does: nodes that nobody needs are gone, with their pods where they would go, and room that is kept is taken.
"""

from __future__ import annotations

import numpy as np

from tidewright.kube.podshape import PODS, PodShape
from tidewright.provisioning.evaluate import room_of
from tidewright.provisioning.index.index import Index
from tidewright.provisioning.scaledown import passes
from tidewright.provisioning.scaledown.drain.budgets import Allowance
from tidewright.provisioning.scaledown.live import LiveScene, cards_of
from tidewright.provisioning.scaledown.recording import memory_of
from tidewright.provisioning.scaledown.simulation.placing import Destinations
from tidewright.provisioning.state import State
from tidewright.provisioning.tell import room
from tidewright.provisioning.tell.amounts import amount_text

NAMED = 3
"""Pods that are named."""


def of_node(state: State, index: Index, name: str) -> str:
    """A sentence; empty where all of them would find room now."""
    settings, now = index.settings, state.now
    cards = cards_of(state, index, now)
    scene = LiveScene(state, index, cards, room_of(state, now), now)
    unneeded = [cards.cards[other].node for other in state.unneeded if other in cards.cards and other != name]
    destinations = passes.Pass(scene, unneeded, memory_of(state, settings, now), settings, now).destinations
    row = destinations.grid.rows.get(name)
    movers = scene.sorted_pods(name, settings, Allowance(()), now).movers
    if row is None or not movers:
        return ""
    for pod in movers:
        destinations.lift(pod.shape, row)
    without = []
    for pod in sorted(movers, key=lambda pod: -pod.priority):
        target = destinations.search(pod.shape, row)
        if target is None:
            without.append(pod)
        else:
            destinations.put(pod.shape, target)
    if not without:
        return ""
    first = without[0]
    others = [pod.key for pod in without if pod.shape.digest == first.shape.digest][:NAMED]
    more = f" and {len(without) - len(others)} more" if len(without) > len(others) else ""
    asks = " and ".join(
        _amount(resource, amount)
        for resource, amount in sorted(first.shape.requests.items())
        if amount and resource != PODS
    )
    finds = "find" if len(without) > 1 else "finds"
    pods = f"{len(without)} of its {len(movers)} pods {finds}" if len(movers) > 1 else "its only pod finds"
    return f"{pods} no room: {', '.join(others)}{more}{f' (asks for {asks})' if asks else ''}; {_nearest(state, destinations, first.shape, row)}."


def _nearest(state: State, destinations: Destinations, shape: PodShape, ghost: int) -> str:
    """The node that lacks the least for a pod, and what it lacks."""
    grid = destinations.grid
    allowed = destinations.mask(shape) & destinations.open
    allowed[ghost] = False
    if not allowed.any():
        return "by its own terms, or by theirs (labels, taints, ports, cordons), it may be on none of the other nodes that take pods"
    short = np.zeros(len(allowed))
    for resource, amount in shape.requests.items():
        if amount > 0:
            column = grid.free.get(resource)
            free = column if column is not None else np.zeros(len(allowed), dtype=np.int64)
            short = np.maximum(short, (amount - free) / amount)
    rows = [row for row in destinations.grid.order().tolist() if allowed[row]]
    row = min(rows, key=lambda row: float(short[row]))
    lacks = []
    for resource, amount in sorted(shape.requests.items()):
        column = grid.free.get(resource)
        left = max(0, int(column[row])) if column is not None else 0
        if amount > left:
            lacks.append(_amount(resource, left))
    view = grid.views[row]
    node = view.name if view is not None else ""
    if not lacks:
        return "where there would be room its terms about other pods keep it away"
    kept = room.keepers(state, node)
    beside = f" beside {' and '.join(kept)}" if kept else ""
    return f"{node}, which is the nearest to it, has {' and '.join(lacks)} free{beside}"


def _amount(resource: str, amount: int) -> str:
    text = amount_text(resource, amount)
    return text if resource == "cpu" else f"{text} {'' if text == str(amount) else 'of '}{resource}"

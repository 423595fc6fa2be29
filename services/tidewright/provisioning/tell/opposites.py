"""What would have let a node of some group hold a pod: one amount at a time, tried with the estimator itself. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from tidewright.kube.podshape import PodShape
from tidewright.provisioning.cluster.view import look
from tidewright.provisioning.index.indexing import index_of
from tidewright.provisioning.index.resolving import shape_of
from tidewright.provisioning.pack.templates import Template, fits_reason
from tidewright.provisioning.state import State
from tidewright.provisioning.tell import folding
from tidewright.provisioning.tell.amounts import amount_text

NAMED = 3
"""Amounts that are named per shape, the nearest first."""


def smaller_pods(state: State, digests: Iterable[str]) -> list[str]:
    """For each shape that no group's node ever holds: what a pod could ask for at most, group by group."""
    index = index_of(state)
    view = look(state, index, state.now)
    templates = {
        name: group.group.template
        for name, group in sorted(view.groups.items())
        if group.group.template is not None
    }
    sentences: dict[str, None] = {}
    for digest in dict.fromkeys(digests):
        shape = shape_of(state, index, digest)
        if not all(fits_reason(shape, template) for template in templates.values()):
            continue  # some group holds one: it is not the size that counts
        alike: dict[tuple[float, str], list[str]] = {}
        for name, too_much, least in _per_group(shape, templates.items()):
            alike.setdefault((too_much, least), []).append(name)
        for (_, least), names in sorted(alike.items())[:NAMED]:
            sentences[f"{least}, a pod would fit on a new node of {folding.named(names)}."] = None
    return list(sentences)


def _per_group(
    shape: PodShape, templates: Iterable[tuple[str, Template]]
) -> Iterator[tuple[str, float, str]]:
    """Groups where one amount decides: their names, how much of the request is too much, and what would not be."""
    for name, template in templates:
        free = template.free()
        asks = shape.requests_at(template.view.stock)
        short = [r for r, amount in sorted(asks.items()) if amount > free.get(r, 0)]
        if len(short) != 1 or not (room := free.get(short[0], 0)):
            continue
        resource = short[0]
        fitting = msgspec.structs.replace(shape, requests={**shape.requests, resource: room})
        if fits_reason(fitting, template):
            continue
        asked = shape.requests[resource]
        least = f"With {resource} at {amount_text(resource, room)} or less instead of {amount_text(resource, asked)}"
        yield name, (asked - room) / asked, least

"""Shapes as placement sees them, from what facts and requests have told: read once, and kept in the index.

shape_of(...)   a shape by its digest, one that is pinned to a domain of a topology too
seat_of(...)    the same for pods that are on a node: what they claim is taken there already
resolved(...)   a shape that nobody has told of yet, with what its claims come to
"""

from __future__ import annotations

import msgspec

from tidewright.events.base import JsonObject
from tidewright.kube.podshape import PODS, PodShape
from tidewright.kube.podspecs import of_fields
from tidewright.kube.selectors import Requirement
from tidewright.provisioning.index.claims import has_claims
from tidewright.provisioning.index.index import Index
from tidewright.provisioning.state import ShapeFields, State


def pinned_digest(digest: str, key: str, value: str) -> str:
    """Names a shape whose nodes all have one value of a label."""
    return f"{digest}@{key}={value}"


def domain_of(digest: str) -> str:
    """The value that a shape is pinned to; empty for one that is not."""
    return digest.partition("@")[2].partition("=")[2]


def shape_of(state: State, index: Index, digest: str) -> PodShape:
    """A shape by its digest; one that no fact has told of holds nothing and goes nowhere."""
    shape = index.shapes.get(digest)
    if shape is None:
        plain, pinned, domain = digest.partition("@")
        if pinned:
            key, _, value = domain.partition("=")
            base = shape_of(state, index, plain)
            index.pinned.setdefault(plain, set()).add(digest)
            shape = msgspec.structs.replace(
                base,
                digest=digest,
                selector=(*base.selector, Requirement(key, "In", frozenset({value}))),
            )
        else:
            fields = state.shapes.get(digest)
            if fields is None:
                return PodShape(digest=digest, error="its shape has not been told")
            shape = told(index, fields, digest)
        index.shapes[digest] = shape
    return shape


def told(index: Index, fields: ShapeFields, digest: str) -> PodShape:
    """A shape as facts or a template say it."""
    return resolved(index, _told(fields, digest), fields.scheduling)


def _told(fields: ShapeFields, digest: str) -> PodShape:
    return of_fields(
        requests=fields.requests,
        scheduling=fields.scheduling,
        namespace=fields.namespace,
        labels=fields.labels,
        priority=fields.priority,
        digest=digest,
    )


def resolved(index: Index, shape: PodShape, scheduling: JsonObject) -> PodShape:
    """A shape with what its claims come to, and the namespaces that its terms select; one that cannot be read as it is."""
    if shape.error:
        return shape
    return index.claims.resolve(_spaced(index, shape, scheduling), scheduling)


def _spaced(index: Index, shape: PodShape, scheduling: JsonObject) -> PodShape:
    spaces = index.claims.spaces(scheduling, shape.digest) if not shape.error else None
    if spaces is None:
        return shape
    return of_fields(
        requests={name: amount for name, amount in shape.requests.items() if name != PODS},
        scheduling={name: value for name, value in scheduling.items() if name != "volumes"},
        namespace=shape.namespace,
        labels=shape.labels,
        priority=shape.priority,
        digest=shape.digest,
        spaces=spaces,
    )


def seat_of(state: State, index: Index, digest: str) -> PodShape:
    """How a pod of a shape counts on the node that it is on."""
    fields = state.shapes.get(digest)
    if fields is None or not has_claims(fields.scheduling, fields.requests):
        return shape_of(state, index, digest)
    seat = index.seats.get(digest)
    if seat is None:
        base = _spaced(index, _told(fields, digest), fields.scheduling)
        seat = index.seats[digest] = index.claims.seated(base, fields.scheduling)
    return seat

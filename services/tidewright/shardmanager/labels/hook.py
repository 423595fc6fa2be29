"""The slot label at admission: which sets have it, what the API server is told, and one review's answer. Pure.

On create the label of the key is written; a legal one that the creator has set is respected, with a
warning, and one that names no slot is replaced. On update a legal label stays what it was: changing
it would move the object to another worker without a hand-over. An object whose name the API server is
still to generate goes in without the label, and gets it from the labeller.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from tidewright.events.base import JsonObject
from tidewright.events.shards import ShardSetObserved
from tidewright.host.webhook.announce import Address, Announcement
from tidewright.host.webhook.reviews import Review, answer
from tidewright.kube import webhooks
from tidewright.kube.jsonpatch import token
from tidewright.kube.selectors import LabelSelector, SelectorError
from tidewright.kube.webhooks import OWN_NAMESPACE
from tidewright.sharding.source import identity, legal_slot, slot_label_value
from tidewright.shardmanager.shardset.spec import SetSpec, read_spec

NAME = webhooks.LABELS
PATH = webhooks.LABEL_PATH


class Labelled(msgspec.Struct, frozen=True):
    """A set whose objects carry a label."""

    namespace: str
    name: str
    spec: SetSpec

    @property
    def path(self) -> str:
        return f"{PATH}/{self.namespace}/{self.name}"


def labelled(fact: ShardSetObserved) -> Labelled | None:
    """The set of a fact, None when its objects need no label or its spec is wrong."""
    spec, problems = read_spec(fact.spec)
    if problems or not spec.labels_objects:
        return None
    return Labelled(fact.namespace, fact.name, spec)


def announcement(
    address: Address, sets: Iterable[Labelled], *, own_namespace: str = OWN_NAMESPACE
) -> Announcement:
    """What the API server has to know to call the endpoint for the objects of these sets."""
    hooks = [_hook(address, shard_set, own_namespace) for shard_set in sets]
    return Announcement((webhooks.configuration(webhooks.MUTATING, NAME, hooks),), {})


def _hook(address: Address, shard_set: Labelled, own_namespace: str) -> JsonObject:
    source = shard_set.spec.objects
    rule = {
        "apiGroups": [source.group],
        "apiVersions": ["*"],
        "resources": [source.resource],
        "operations": ["CREATE", "UPDATE"],
        "scope": "*",
    }
    return webhooks.hook(
        f"{shard_set.name}.{shard_set.namespace}.shards.tidewright.dev",
        address.client_config(shard_set.path),
        rule,
        policy="Ignore",  # an object that goes in without its label gets it from the labeller: no reason to refuse it
        namespaces=webhooks.selector(own_namespace, () if source.all_namespaces else (shard_set.namespace,)),
    )


def labelling(review: Review, shard_set: Labelled | None) -> bytes:
    """The review answered: always allowed, with a patch where the label is not as it should be."""
    value, warning = (
        (None, "") if shard_set is None or review.obj is None else _wanted(review, review.obj, shard_set)
    )
    patch: list[JsonObject] = []
    if shard_set is not None and value is not None:
        patch = _patch(review.obj or {}, shard_set.spec.slot_label, value)
    return answer(review, patch=patch, warnings=[warning] if warning else ())


def _wanted(review: Review, obj: JsonObject, shard_set: Labelled) -> tuple[str | None, str]:
    """The value to write (None: leave it, empty: remove it), and a warning for the user."""
    spec, label = shard_set.spec, shard_set.spec.slot_label
    meta = obj.get("metadata") or {}
    labels: Mapping[str, str] = meta.get("labels") or {}
    if not _selected(spec.objects.selector, labels):
        return None, ""
    value = labels.get(label)
    before = (((review.old or {}).get("metadata") or {}).get("labels") or {}).get(label)
    if review.operation == "UPDATE" and before is not None and legal_slot(before, spec.slots):
        if value == before:
            return None, ""
        return before, (
            f"label {label} stays {before!r}: to change it would give the object to another worker of shardset "
            f"{shard_set.namespace}/{shard_set.name} without a hand-over"
        )
    of_key = slot_label_value(
        spec.objects, identity(meta, spec.objects.kind, review.namespace), spec.slots, spec.hash
    )
    if value is None:
        return of_key, ""
    if legal_slot(value, spec.slots):
        if of_key is None or value == of_key:
            return None, ""
        return (
            None,
            f"label {label} is {value!r}, set by its creator and respected; its key has slot {of_key}",
        )
    return of_key or "", (
        f"label {label} was {value!r}: expected a slot from 0 to {spec.slots - 1}, it is written by shardset "
        f"{shard_set.namespace}/{shard_set.name}"
    )


def _selected(selector: str, labels: Mapping[str, str]) -> bool:
    try:
        return LabelSelector.parse(selector).matches(labels)
    except SelectorError:
        return False


def _patch(obj: JsonObject, label: str, value: str) -> list[JsonObject]:
    meta = obj.get("metadata") or {}
    path = f"/metadata/labels/{token(label)}"
    if not value:
        return [{"op": "remove", "path": path}]
    if not meta.get("labels"):
        return [{"op": "add", "path": "/metadata/labels", "value": {label: value}}]
    return [{"op": "add", "path": path, "value": value}]

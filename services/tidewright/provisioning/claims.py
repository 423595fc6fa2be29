"""What pods' claims come to, and what nodes offer for them: volumes, devices, labels of namespaces. Spec 3.4.

Shapes are resolved against the objects that facts have told of, and every look-up is noted, so that a
change of one object is a change of the few shapes that refer to it. Facts only mark what they touch
(`changed`); an evaluation begins by putting the index right (`settle`), all at once.

    resolve(...)   the shape of a pod that waits: with what its claims ask for
    seated(...)    the shape of one that has a node: its devices are known as taken, by name
    offers(...)    what a node has of devices and attachments beyond what it says itself
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from tidewright.events.base import JsonObject
from tidewright.kube.devices import NO_LIMIT, Ask, Asked, Catalogue, Device, device, expressions, parse, takes
from tidewright.kube.podshape import NodeView, PodShape, Volume
from tidewright.kube.podspecs import node_term
from tidewright.kube.volumes import Unplaceable, attached, volumes_of

EVERY = "*"
"""In place of a name: whoever looked at all objects of a kind."""
ANY = "?"
"""In place of a name: whoever asked whether there is any object of a kind."""


class Claims:
    """The objects of `State.objects`, read for placement. Derived: it is built anew from them.

    Attributes:
        stale_shapes, stale_nodes: what has to be put right by `settle`; `all_nodes`: every node.
        prepared: shapes that ask without a pod: of requests that are not accepted yet, and of DaemonSets.
    """

    def __init__(self, objects: Mapping[str, Mapping[str, JsonObject]]) -> None:
        self._objects = objects
        self._users: dict[tuple[str, str], set[str]] = {}
        self._used: dict[str, set[tuple[str, str]]] = {}
        self._user = ""
        self._catalogue = Catalogue()
        self._asked: dict[str, Asked] = {}
        self._attaches: dict[str, frozenset[str]] = {}
        self._drivers: set[str] = set()
        self._taken: dict[tuple[str, str, str], int] = {}
        self._slices: dict[str, set[str]] = {}
        self._pools: dict[tuple[str, str], set[str]] = {}
        self._last: dict[tuple[str, str], int] = {}
        self._devices: dict[str, tuple[Device, ...]] = {}
        self._templates: tuple[Device, ...] = ()
        self._left = False
        self.prepared: set[str] = set()
        self.stale_shapes: set[str] = set()
        self.stale_nodes: set[str] = set()
        self.all_nodes = False
        for claim in objects.get("ResourceClaim", {}).values():
            self._count(claim, 1)
        for name in sorted(objects.get("ResourceSlice", {})):
            self._add_slice(name)

    @property
    def stale(self) -> bool:
        """Whether anything has to be put right."""
        return bool(self.all_nodes or self.stale_nodes or self.stale_shapes)

    # --- Look-ups, noted for whoever is being resolved ---

    def get(self, kind: str, key: str) -> JsonObject | None:
        self._note(kind, key)
        return self._objects.get(kind, {}).get(key)

    def every(self, kind: str) -> Mapping[str, JsonObject]:
        self._note(kind, EVERY)
        return self._objects.get(kind, {})

    def follows(self, kind: str) -> bool:
        self._note(kind, ANY)
        return bool(self._objects.get(kind))

    def _note(self, kind: str, key: str) -> None:
        self._users.setdefault((kind, key), set()).add(self._user)
        self._used.setdefault(self._user, set()).add((kind, key))

    def spaces(self, scheduling: Mapping[str, JsonObject], digest: str) -> dict[str, dict[str, str]] | None:
        """Labels of namespaces, for a shape that selects by them; None when it does not."""
        terms = [
            term
            for kind in ("podAffinity", "podAntiAffinity")
            for term in (scheduling.get("affinity") or {}).get(kind, {}).get(_REQUIRED) or ()
        ]
        if not any(term.get("namespaceSelector") for term in terms):
            return None
        self._user = digest
        return {name: dict(found.get("labels") or {}) for name, found in self.every("Namespace").items()}

    # --- Pods ---

    def resolve(self, shape: PodShape, scheduling: Mapping[str, list[JsonObject]]) -> PodShape:
        """The shape with what its claims ask for; `blocked` when one of them cannot be met as things are."""
        if not has_claims(scheduling) or shape.error:
            return shape
        self._user = shape.digest
        try:
            volumes = (*_others(shape, scheduling), *self._volumes(shape, scheduling))
            asked, places = self._devices_of(scheduling.get("resourceClaims") or (), shape.namespace)
        except ValueError as error:
            self._learn(shape.digest, Asked())
            return msgspec.structs.replace(shape, blocked=str(error))
        self._learn(shape.digest, asked)
        requests = dict(shape.requests)
        for name, amount in (*self._attachments(volumes), *sorted(self._catalogue.asked(asked).items())):
            requests[name] = requests.get(name, 0) + amount
        return msgspec.structs.replace(
            shape,
            requests=requests,
            volumes=(*volumes, *places),
            devices=frozenset(ask.matcher.label for ask in asked.asks if not ask.watching),
            whole_devices=frozenset(ask.matcher.label for ask in asked.asks if ask.whole),
        )

    def seated(self, shape: PodShape, scheduling: Mapping[str, list[JsonObject]]) -> PodShape:
        """As `resolve`, of a pod that is on a node: what it holds of devices is taken there by name."""
        if not scheduling.get("volumes") or shape.error:
            return shape
        self._user = shape.digest
        try:
            volumes = (*_others(shape, scheduling), *self._volumes(shape, scheduling))
        except ValueError:
            return shape
        requests = dict(shape.requests)
        for name, amount in self._attachments(volumes):
            requests[name] = requests.get(name, 0) + amount
        return msgspec.structs.replace(shape, requests=requests, volumes=volumes)

    def _volumes(self, shape: PodShape, scheduling: Mapping[str, list[JsonObject]]) -> tuple[Volume, ...]:
        return volumes_of(scheduling.get("volumes") or (), shape.namespace, self)

    def _attachments(self, volumes: Iterable[Volume]) -> list[tuple[str, int]]:
        found = [volume.driver for volume in volumes if volume.driver]
        before = self._attaches.get(self._user, frozenset())
        self._left |= not before <= {*found}
        if found:
            self._attaches[self._user] = frozenset(found)
        else:
            self._attaches.pop(self._user, None)
        if not self._drivers.issuperset(found):
            self._drivers.update(found)
            self.all_nodes = True
        return [(attached(driver), 1) for driver in found]

    def _devices_of(self, claims: Sequence[JsonObject], namespace: str) -> tuple[Asked, tuple[Volume, ...]]:
        """What is asked for, and where claims that are allocated already tie the pod."""
        found = Asked()
        places: list[Volume] = []
        if claims and not any(self.follows(kind) for kind in _ALLOCATION):
            return found, ()  # not served here, or used by nobody: then no claim can be missing
        for claim in claims:
            spec = self._claim_spec(claim, namespace)
            allocation = spec.get("allocation")
            if allocation is not None:
                terms = tuple(node_term(term) for term in allocation.get("nodeSelectorTerms") or ())
                places.append(Volume(claim=f"resourceclaim {claim.get('resourceClaimName')}", terms=terms))
                continue
            one = parse(spec.get("devices"), self._class, self._offered)
            found = Asked(found.asks + one.asks, found.bundles + one.bundles)
        return found, tuple(places)

    def _claim_spec(self, claim: JsonObject, namespace: str) -> JsonObject:
        """A template is expanded here: every pod has a claim of its own made from it."""
        for kind, field in _CLAIMS:
            name = claim.get(field)
            if name:
                spec = self.get(kind, f"{namespace}/{name}")
                if spec is None:
                    raise Unplaceable(f'{kind.lower()} "{name}" not found')
                return spec
        raise Unplaceable(f"resource claim {claim.get('name')!r} names neither a claim nor a template")

    def _offered(self, ask: Ask) -> bool:
        """Whether any node, or the next one of any group, has a device that is asked for."""
        self.every("ResourceSlice")
        there = (one for devices in self._devices.values() for one in devices)
        return any(takes(ask.matcher, one) for one in (*there, *self._templates))

    def _class(self, name: str) -> tuple[str, ...] | None:
        found = self.get("DeviceClass", name)
        return None if found is None else expressions(found.get("selectors"))

    def _learn(self, digest: str, asked: Asked) -> None:
        before = self._asked.pop(digest, None)
        if before is not None and before != asked:
            self._left = True
        if not asked.asks:
            return
        self._asked[digest] = asked
        if self._catalogue.learn(asked):
            self._reconsider()

    def forget(self, digest: str, *, wholly: bool) -> None:
        """Nobody asks with this shape; `wholly`: nor does any pod of it sit anywhere."""
        self._left |= self._asked.pop(digest, None) is not None
        if wholly:
            self._left |= bool(self._attaches.pop(digest, None))
            for place in self._used.pop(digest, ()):
                self._users[place].discard(digest)
                if not self._users[place]:
                    del self._users[place]

    def users(self) -> list[str]:
        """The shapes for which objects were looked up."""
        return list(self._used)

    def follows_for(self, digest: str) -> bool:
        """Whether objects were looked up for a shape."""
        return digest in self._used

    def recall(self) -> None:
        """Let go the matchers and drivers that nobody asks for any longer: amounts are those of an index built anew."""
        if self._left:
            self._left = False
            drivers = {driver for found in self._attaches.values() for driver in found}
            if drivers != self._drivers:
                self._drivers, self.all_nodes = drivers, True
            if self._catalogue.relearn(self._asked[digest] for digest in sorted(self._asked)):
                self._reconsider()

    def amounts(self) -> frozenset[str]:
        """The names of all amounts that devices make."""
        return self._catalogue.meaning()

    # --- Nodes ---

    def offers(self, name: str, labels: Mapping[str, str]) -> dict[str, int]:
        """What a node has besides its own word: attachments by driver, and devices that are free."""
        found = self._attachable(name)
        reached = self._reached(name, labels)
        if reached:
            found |= self._catalogue.offer(reached, lambda one: one.key in self._taken)
        return found

    def template_offers(
        self, node: str, labels: Mapping[str, str], devices: Iterable[JsonObject] = ()
    ) -> dict[str, int]:
        """What the next node like this one has, or one with these devices: nobody has taken any."""
        own = (*self._own(node), *(_of_template(found) for found in devices))
        if not self._catalogue.matchers:
            return self._attachable(node)
        reached = (*own, *self._shared(labels))
        return self._attachable(node) | self._catalogue.offer(reached, lambda one: False)

    def drivers_of(self, node: str) -> set[str]:
        """The drivers that offer devices of a node."""
        return {one.driver for one in self._own(node)}

    def template_devices(self, node: str) -> tuple[JsonObject, ...]:
        """The devices of a node, as a template keeps them."""
        return tuple(
            {"driver": one.driver, "name": one.name, **msgspec.json.decode(one.body)}
            for one in self._own(node)
        )

    def _attachable(self, name: str) -> dict[str, int]:
        if not self._drivers:
            return {}
        told = self._objects.get("CSINode", {}).get(name, {}).get("drivers") or {}
        limits = {driver: told.get(driver) for driver in self._drivers}
        return {attached(driver): NO_LIMIT if most is None else most for driver, most in limits.items()}

    def _reached(self, name: str, labels: Mapping[str, str]) -> tuple[Device, ...]:
        return (*self._own(name), *self._shared({**labels, _NODE_NAME: name}))

    def _shared(self, labels: Mapping[str, str]) -> Iterator[Device]:
        """Devices of slices that are not about one node."""
        view = NodeView(name=labels.get(_NODE_NAME, ""), labels=dict(labels))
        for name in sorted(self._slices.get("", ())):
            found = self._objects["ResourceSlice"][name]
            terms = found.get("nodeSelectorTerms") or ()
            if found.get("allNodes") or any(node_term(term).matches(view) for term in terms):
                yield from self._devices.get(name, ())

    def see(self, devices: Iterable[JsonObject]) -> None:
        """Take up the devices of all templates, so that amounts tell them apart."""
        found = tuple(dict.fromkeys(_of_template(one) for one in devices))
        if found == self._templates:
            return
        before, self._templates = self._templates, found
        self.stale_shapes |= self._users.get(("ResourceSlice", EVERY), set())
        self._see(found, before)

    # --- Changes ---

    def changed(self, kind: str, key: str, old: JsonObject | None, new: JsonObject | None) -> None:
        """An object was told of (`new`), or is gone; call it after it was stored."""
        self.stale_shapes |= self._users.get((kind, key), set()) | self._users.get((kind, EVERY), set())
        there = len(self._objects.get(kind, {}))
        if there == (new is not None):  # the first of its kind came, or the last one went
            self.stale_shapes |= self._users.get((kind, ANY), set())
        match kind:
            case "CSINode" if self._drivers:
                self.stale_nodes.add(key)
            case "ResourceClaim":
                for claim, by in ((old, -1), (new, 1)):
                    self._count(claim or {}, by)
            case "ResourceSlice":
                if old is not None:
                    self._drop_slice(key, old)
                if new is not None:
                    self._add_slice(key)

    def _count(self, claim: JsonObject, by: int) -> None:
        for driver, pool, name in (claim.get("allocation") or {}).get("devices") or ():
            key = (driver, pool, name)
            self._taken[key] = self._taken.get(key, 0) + by
            if self._taken[key] <= 0:
                del self._taken[key]
            self._stale_where(driver, pool)

    def _stale_where(self, driver: str, pool: str) -> None:
        for name in self._pools.get((driver, pool), ()):
            self._stale_at(self._objects["ResourceSlice"][name].get("nodeName") or "")

    def _stale_at(self, node: str) -> None:
        if node:
            self.stale_nodes.add(node)
        else:
            self.all_nodes = True

    def _add_slice(self, name: str) -> None:
        found = self._objects["ResourceSlice"][name]
        self._slices.setdefault(found.get("nodeName") or "", set()).add(name)
        self._pools.setdefault(_pool(found), set()).add(name)
        self._gather(_pool(found), name)

    def _drop_slice(self, name: str, old: JsonObject) -> None:
        node, pool = old.get("nodeName") or "", _pool(old)
        self._slices[node].discard(name)
        if not self._slices[node]:
            del self._slices[node]
        self._pools[pool].discard(name)
        if not self._pools[pool]:
            del self._pools[pool]
        self._put(name, node, ())
        self._gather(pool)

    def _gather(self, pool: tuple[str, str], changed: str = "") -> None:
        """Read the devices of a slice; of all slices of its pool, when their last generation is another now."""
        slices = self._objects.get("ResourceSlice", {})
        names = self._pools.get(pool, set())
        last = max((slices[name].get("generation", 0) for name in names), default=0)
        if last == self._last.get(pool):
            names = {changed} & names
        if self._pools.get(pool):
            self._last[pool] = last
        else:
            self._last.pop(pool, None)
        for name in sorted(names):
            found = slices[name]
            valid = found.get("generation", 0) == last
            devices = [device(*pool, one) for one in found.get("devices") or ()] if valid else []
            self._put(name, found.get("nodeName") or "", tuple(devices))

    def _put(self, name: str, node: str, devices: tuple[Device, ...]) -> None:
        """From now on a slice offers these devices."""
        before = self._devices.pop(name, ())
        if devices:
            self._devices[name] = devices
        if before != devices:
            self._see(devices, before)
        self._stale_at(node)

    def _own(self, node: str) -> Iterator[Device]:
        """Devices of slices about one node."""
        for name in sorted(self._slices.get(node, ())) if node else ():
            yield from self._devices.get(name, ())

    def _see(self, devices: Iterable[Device], gone: Iterable[Device]) -> None:
        if self._catalogue.see(devices, gone):
            self._reconsider()

    def _reconsider(self) -> None:
        """The amounts have another meaning now: whoever asks for devices, and whoever has some, is read anew."""
        self.stale_shapes |= set(self._asked)
        for node in self._slices:
            self._stale_at(node)


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_NODE_NAME = "\0name"
_ALLOCATION = ("DeviceClass", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice")
_CLAIMS = (("ResourceClaim", "resourceClaimName"), ("ResourceClaimTemplate", "resourceClaimTemplateName"))


def has_claims(scheduling: Mapping[str, object]) -> bool:
    """Whether the scheduling fields of a pod name claims, of volumes or of devices."""
    return bool(scheduling.get("volumes") or scheduling.get("resourceClaims"))


def _pool(found: JsonObject) -> tuple[str, str]:
    return (found.get("driver", ""), found.get("pool", ""))


def _of_template(found: JsonObject) -> Device:
    return device(found.get("driver", ""), "", found)


def _others(shape: PodShape, scheduling: Mapping[str, list[JsonObject]]) -> tuple[Volume, ...]:
    """Volumes of the shape that say themselves where they are, and those of which nothing else is known."""
    told = [volume for volume in scheduling.get("volumes") or () if "claim" in volume]
    named = {volume["claim"] for volume in told}
    return tuple(
        volume for volume in shape.volumes if volume.claim in named or not (volume.driver or volume.terms)
    )

"""What pods' claims come to, and what nodes offer for them: volumes, devices, labels of namespaces. Spec 3.4.

Shapes are resolved against the objects that facts have told of, and every look-up is noted, so that a
change of one object is a change of the few shapes that refer to it. Facts only mark what they touch
(`changed`); an evaluation begins by putting the index right (`settle`), all at once.

    resolve(...)      the shape of a pod that waits: with what its claims ask for
    seated(...)       the shape of one that has a node: its devices are known as taken, by name
    attachable(...)   what volumes a node attaches, by driver; devices are `offers`
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from tidewright.events.base import JsonObject
from tidewright.kube.devices.claims import MOST_USERS, Claimed, in_place_of, parse
from tidewright.kube.devices.devices import expressions
from tidewright.kube.devices.stock import Stock
from tidewright.kube.keys import key_of
from tidewright.kube.podshape import PodShape, Volume
from tidewright.kube.podspecs import node_term
from tidewright.kube.volumes import Unplaceable, attached, volumes_of
from tidewright.provisioning.index.offers import Offers

NO_LIMIT = 2**31
CLASS_PREFIX = "deviceclass.resource.kubernetes.io/"
"""Before the name of a device class: an extended resource that every class stands for."""
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
        self._attaches: dict[str, frozenset[str]] = {}
        self._drivers: set[str] = set()
        self._left = False
        self._stand_ins = self._standing_in()
        self.offers = Offers(objects)
        self.prepared: set[str] = set()
        self.stale_shapes: set[str] = set()
        self.stale_nodes = self.offers.stale_nodes
        self.all_nodes = False

    @property
    def stale(self) -> bool:
        """Whether anything has to be put right."""
        return bool(self.all_nodes or self.stale_nodes or self.stale_shapes or self.offers.stale_common)

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
        return {name: dict(fields.get("labels") or {}) for name, fields in self.every("Namespace").items()}

    # --- Pods ---

    def resolve(self, shape: PodShape, scheduling: Mapping[str, list[JsonObject]]) -> PodShape:
        """The shape with what its claims ask for; `blocked` when one of them cannot be met as things are."""
        if not has_claims(scheduling, shape.requests) or shape.error:
            return shape
        self._user = shape.digest
        try:
            volumes = (*_others(shape, scheduling), *self._volumes(shape, scheduling))
            claims, places = self._devices_of(scheduling.get("resourceClaims") or (), shape.namespace)
            claims = (*claims, *self._in_place(shape.requests))
        except ValueError as error:
            return msgspec.structs.replace(shape, blocked=str(error))
        except (
            TypeError,
            AttributeError,
            KeyError,
        ) as error:  # of a kind that need not say what a template may be
            why = f"its volumes or claims cannot be read: {type(error).__name__}: {error}"
            return msgspec.structs.replace(shape, blocked=why)
        requests = dict(shape.requests)
        for name, amount in self._attachments(volumes):
            requests[name] = requests.get(name, 0) + amount
        return msgspec.structs.replace(shape, requests=requests, volumes=(*volumes, *places), claims=claims)

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
        drivers = [volume.driver for volume in volumes if volume.driver]
        before = self._attaches.get(self._user, frozenset())
        self._left |= not before <= {*drivers}
        if drivers:
            self._attaches[self._user] = frozenset(drivers)
        else:
            self._attaches.pop(self._user, None)
        if not self._drivers.issuperset(drivers):
            self._drivers.update(drivers)
            self.all_nodes = True
        return [(attached(driver), 1) for driver in drivers]

    def _devices_of(
        self, claims: Sequence[JsonObject], namespace: str
    ) -> tuple[tuple[Claimed, ...], tuple[Volume, ...]]:
        """What is asked for, and where claims that are allocated already tie the pod."""
        claimed: list[Claimed] = []
        places: list[Volume] = []
        if claims and not any(self.follows(kind) for kind in _ALLOCATION):
            return (), ()  # not served here, or used by nobody: then no claim can be missing
        for claim in claims:
            spec = self._claim_spec(claim, namespace)
            name = claim.get("resourceClaimName")
            key = key_of(namespace, name) if name else ""
            seats = MOST_USERS - spec.get("reserved", 0)
            if seats <= 0:
                raise Unplaceable(
                    f'resourceclaim "{name}" is reserved for {MOST_USERS} pods, and no more can have it'
                )
            allocation = spec.get("allocation")
            if allocation is not None:
                terms = tuple(node_term(term) for term in allocation.get("nodeSelectorTerms") or ())
                places.append(Volume(claim=f"resourceclaim {name}", terms=terms))
                claimed.append(Claimed(claim=key, seats=seats))
            elif key not in {known.claim for known in claimed if key}:
                parsed = parse(spec.get("devices"), self._class)
                claimed.append(msgspec.structs.replace(parsed, claim=key, seats=seats))
        return tuple(claimed), tuple(places)

    def _claim_spec(self, claim: JsonObject, namespace: str) -> JsonObject:
        """A template is expanded here: every pod has a claim of its own made from it."""
        for kind, field in _CLAIMS:
            name = claim.get(field)
            if name:
                spec = self.get(kind, key_of(namespace, name))
                if spec is None:
                    raise Unplaceable(f'{kind.lower()} "{name}" not found')
                return spec
        raise Unplaceable(f"resource claim {claim.get('name')!r} names neither a claim nor a template")

    def _in_place(self, requests: Mapping[str, int]) -> Iterator[Claimed]:
        """What is claimed in place of extended resources that device classes stand for."""
        for name in sorted(filter(_extended, requests)):
            if requests[name] > 0:
                self._note("DeviceClass", EVERY)
                stands = self._stand_ins.get(name)
                if stands is not None:
                    device_class = self._objects["DeviceClass"][stands]
                    yield in_place_of(
                        name, requests[name], stands, expressions(device_class.get("selectors"))
                    )

    def _standing_in(self) -> dict[str, str]:
        """Extended resources to the device classes that stand for them: of several the youngest, then the first by name."""
        classes = self._objects.get("DeviceClass", {})
        stand_ins = {f"{CLASS_PREFIX}{name}": name for name in classes}
        named = [name for name in sorted(classes, reverse=True) if classes[name].get("extendedResourceName")]
        for name in sorted(named, key=lambda name: str(classes[name].get("created", ""))):
            stand_ins[classes[name]["extendedResourceName"]] = name
        return stand_ins

    def plugged(self, stock: Stock | None, allocatable: Mapping[str, int]) -> Stock | None:
        """The devices of a node, with what its device plugins offer of resources that device classes stand for."""
        resources = frozenset(name for name in self._stand_ins if allocatable.get(name))
        return (Stock(()) if stock is None else stock).beside(resources) if resources else stock

    def _class(self, name: str) -> tuple[str, ...] | None:
        device_class = self.get("DeviceClass", name)
        return None if device_class is None else expressions(device_class.get("selectors"))

    def forget(self, digest: str, *, wholly: bool) -> None:
        """Nobody asks with this shape; `wholly`: nor does any pod of it sit anywhere."""
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
        """Let go the drivers that nobody asks for any longer: amounts are those of an index built anew."""
        if self._left:
            self._left = False
            drivers = {driver for of_user in self._attaches.values() for driver in of_user}
            if drivers != self._drivers:
                self._drivers, self.all_nodes = drivers, True

    # --- Nodes ---

    def attachable(self, name: str) -> dict[str, int]:
        """What a node attaches besides its own word, by driver."""
        if not self._drivers:
            return {}
        drivers = self._objects.get("CSINode", {}).get(name, {}).get("drivers") or {}
        limits = {driver: drivers.get(driver) for driver in self._drivers}
        return {attached(driver): NO_LIMIT if most is None else most for driver, most in limits.items()}

    # --- Changes ---

    def changed(self, kind: str, key: str, old: JsonObject | None, new: JsonObject | None) -> None:
        """An object was told of (`new`), or is gone; call it after it was stored."""
        self.stale_shapes |= self._users.get((kind, key), set()) | self._users.get((kind, EVERY), set())
        there = len(self._objects.get(kind, {}))
        if there == (new is not None):  # the first of its kind came, or the last one went
            self.stale_shapes |= self._users.get((kind, ANY), set())
        match kind:
            case "DeviceClass":
                before, self._stand_ins = self._stand_ins, self._standing_in()
                self.all_nodes |= before.keys() != self._stand_ins.keys()
            case "CSINode" if self._drivers:
                self.stale_nodes.add(key)
            case "ResourceClaim":
                self.offers.claim_changed(old, new)
            case "ResourceSlice":
                self.offers.slice_changed(key, old, new)
            case "DeviceTaintRule":
                self.offers.rule_changed(old, new)


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_ALLOCATION = ("DeviceClass", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice")
_CLAIMS = (("ResourceClaim", "resourceClaimName"), ("ResourceClaimTemplate", "resourceClaimTemplateName"))


def has_claims(scheduling: Mapping[str, object], requests: Iterable[str] = ()) -> bool:
    """Whether the scheduling fields of a pod name claims, or it asks for resources in place of which devices may be claimed."""
    if scheduling and (scheduling.get("volumes") or scheduling.get("resourceClaims")):
        return True
    for resource in requests:  # noqa: SIM110  # asked of every pod that comes or goes
        if "/" in resource and _extended(resource):
            return True
    return False


def _extended(resource: str) -> bool:
    """Whether a resource is one that a device class may stand for."""
    domain, slash, _ = resource.partition("/")
    native = domain == "kubernetes.io" or domain.endswith(".kubernetes.io") or domain.startswith("requests.")
    return bool(slash) and (not native or resource.startswith(CLASS_PREFIX))


def _others(shape: PodShape, scheduling: Mapping[str, list[JsonObject]]) -> tuple[Volume, ...]:
    """Volumes of the shape that say themselves where they are, and those of which nothing else is known."""
    claiming = [volume for volume in scheduling.get("volumes") or () if "claim" in volume]
    named = {volume["claim"] for volume in claiming}
    return tuple(
        volume for volume in shape.volumes if volume.claim in named or not (volume.driver or volume.terms)
    )

"""What ResourceSlices offer and allocations have taken of it: stocks of nodes, and of what nodes have together.

A device belongs to a node when its slice, or it itself, names one; else several nodes reach it, and it counts
once for all of them. A pool whose shared counters are about devices of several places is one such matter as
a whole. Facts only mark what they touch (`stale_nodes`, `stale_common`).

DeviceTaintRules are read with the devices that they taint.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TypeAlias

import msgspec

from tidewright.events.base import JsonObject
from tidewright.kube import quantities
from tidewright.kube.devices.devices import Device, capacities
from tidewright.kube.devices.devices import device as read_device
from tidewright.kube.devices.stock import Counter as CounterName
from tidewright.kube.devices.stock import Stock
from tidewright.kube.podshape import NodeView
from tidewright.kube.podspecs import node_term
from tidewright.kube.selectors import SelectorError
from tidewright.kube.taints import Taint
from tidewright.provisioning.pack.holdings import Common, Reach

Pool: TypeAlias = tuple[str, str]
"""Driver and name."""
Key: TypeAlias = tuple[str, str, str]
"""Driver, pool and name of a device."""

COUNTERS = "sharedCounters"


class _Pool:
    """The slices of a pool, of which those of its last generation count.

    Attributes:
        places: where its devices are, with their number: nodes, and "" for what several reach.
        counting: slices that have counters, of any generation.
    """

    def __init__(self) -> None:
        self.slices: set[str] = set()
        self.generations: Counter[int] = Counter()
        self.places: Counter[str] = Counter()
        self.counting = 0

    @property
    def last(self) -> int:
        return max(self.generations, default=0)

    @property
    def common(self) -> bool:
        """Whether what one node takes of it, others lack."""
        return self.counting > 0 and len(self.places) > 1


class Offers:
    """ResourceSlices and the allocations of ResourceClaims, read for placement. Derived: built anew from them.

    Attributes:
        stale_nodes: nodes whose stock is another one since they were marked; `stale_common`: what nodes share.
    """

    def __init__(self, objects: Mapping[str, Mapping[str, JsonObject]]) -> None:
        self._objects = objects
        self._pools: dict[Pool, _Pool] = {}
        self._read: dict[str, tuple[tuple[Reach, Device], ...]] = {}
        self._at: dict[str, dict[Pool, set[str]]] = {}
        self._where: dict[Key, str] = {}
        self._taken: Counter[Key] = Counter()
        self._parts: dict[Key, Counter[str]] = {}
        self._sharers: Counter[Key] = Counter()
        self.stale_nodes: set[str] = set()
        self.stale_common = True
        for claim in objects.get("ResourceClaim", {}).values():
            self._allocated(claim, 1)
        for name in sorted(objects.get("ResourceSlice", {})):
            self.slice_changed(name, None, self._slices[name])

    @property
    def _slices(self) -> Mapping[str, JsonObject]:
        return self._objects.get("ResourceSlice", {})

    # --- What there is ---

    def stock(self, node: str) -> Stock | None:
        """The devices of a node, without what allocations have; None where it has none."""
        return self._stock(self._own(node))

    def template_stock(self, node: str, entries: Iterable[JsonObject] = ()) -> Stock | None:
        """The devices of the next node like this one, or of one with these: nobody has taken any."""
        devices, counters = list(self._own(node)), self._counters(pool for pool, _ in self._local(node))
        for entry in entries:
            pool = (entry.get("driver", ""), entry.get("pool", ""))
            if COUNTERS in entry:
                counters |= _counters_of(pool, entry)
                continue
            with suppress(ValueError):  # what cannot be read is not there
                devices.append(read_device(*pool, entry))
        devices = [self._ruled(device, anew=True) for device in devices]
        return Stock(sorted(devices, key=lambda device: device.key[:2]), counters) if devices else None

    def around(self, labels: Mapping[str, str]) -> Stock | None:
        """What a node of these labels would reach of the devices that nodes have together."""
        view = NodeView(name="", labels=dict(labels))
        common = self.common()
        if common is None:
            return None
        good = [
            device
            for device, reach in zip(common.stock.devices, common.reaches, strict=True)
            if reach.everywhere or any(term.matches(view) for term in reach.terms)
        ]
        return self._stock(good, common.stock.counters) if good else None

    def common(self) -> Common | None:
        """The devices that several nodes reach, and from where; None where there are none."""
        pools = sorted(key for key, pool in self._pools.items() if pool.common or "" in pool.places)
        offered = [
            (reach, device)
            for key in pools
            for name in sorted(self._pools[key].slices)
            for reach, device in self._read.get(name, ())
            if self._pools[key].common or not reach.node
        ]
        stock = self._stock([device for _, device in offered], self._counters(pools))
        return None if stock is None else Common(stock, tuple(reach for reach, _ in offered))

    def drivers_of(self, node: str) -> set[str]:
        """The drivers that offer devices of a node."""
        return {driver for driver, _ in self._at.get(node, ())}

    def template_devices(self, node: str) -> tuple[JsonObject, ...]:
        """The devices of a node, as a template keeps them: pools are numbered where a driver has several."""
        numbers: dict[Pool, JsonObject] = {}
        drivers: Counter[str] = Counter()
        for pool, _ in self._local(node):
            many = drivers[pool[0]]
            numbers[pool] = {"driver": pool[0], **({"pool": str(many)} if many else {})}
            drivers[pool[0]] += 1
        counter_sets = [
            {**numbers[pool], COUNTERS: sets}
            for pool in numbers
            if (sets := [s for name in sorted(self._pools[pool].slices) for s in self._sets(pool, name)])
        ]
        return (
            *counter_sets,
            *(
                {
                    **numbers[device.driver, device.pool],
                    "name": device.name,
                    **_told(device),
                    **msgspec.json.decode(device.body),
                }
                for device in self._own(node)
            ),
        )

    def _local(self, node: str) -> Iterator[tuple[Pool, set[str]]]:
        """The pools, and their slices, that are about this node alone or can be taken apart by nodes."""
        at = self._at.get(node, {})
        yield from ((pool, at[pool]) for pool in sorted(at) if not self._pools[pool].common)

    def _own(self, node: str) -> Iterator[Device]:
        for _, names in self._local(node):
            for name in sorted(names):
                yield from (device for reach, device in self._read[name] if reach.node == node)

    def _stock(
        self, devices: Iterable[Device], counters: Mapping[CounterName, int] | None = None
    ) -> Stock | None:
        all_devices = tuple(devices)
        if not all_devices:
            return None
        taken, parts = 0, {}
        for number, device in enumerate(all_devices):
            if device.key in self._taken:
                taken |= 1 << number
            if device.key in self._sharers:
                used: Mapping[str, int] = self._parts.get(device.key, {})
                parts[number] = tuple(used.get(name, 0) for name, _ in capacities(device))
        if counters is None:
            counters = self._counters(
                {(device.driver, device.pool) for device in all_devices if device.consumes}
            )
        return Stock(all_devices, counters, taken, parts)

    def _counters(self, pools: Iterable[Pool]) -> dict[CounterName, int]:
        counters: dict[CounterName, int] = {}
        for pool in pools:
            if self._pools[pool].counting:
                for name in self._pools[pool].slices:
                    counters |= _counters_of(pool, {COUNTERS: self._sets(pool, name)})
        return counters

    def _sets(self, pool: Pool, name: str) -> list[JsonObject]:
        """The counter sets of a slice, if it is of its pool's last generation."""
        fields = self._slices[name]
        return (fields.get(COUNTERS) or []) if fields.get("generation", 0) == self._pools[pool].last else []

    # --- Changes ---

    def claim_changed(self, old: JsonObject | None, new: JsonObject | None) -> None:
        """A claim was told of, or is gone."""
        self._allocated(old or {}, -1)
        self._allocated(new or {}, 1)

    def _allocated(self, claim: JsonObject, by: int) -> None:
        for driver, pool, name, *rest in (claim.get("allocation") or {}).get("devices") or ():
            key = (driver, pool, name)
            counts = self._sharers if rest else self._taken
            counts[key] += by
            for part in rest:
                used = self._parts.setdefault(key, Counter())
                for capacity, amount in part.items():
                    used[capacity] += by * amount
            if counts[key] <= 0:
                del counts[key]
                if rest:
                    del self._parts[key]
            if key in self._where:
                self._stale(key[:2], self._where[key])

    def slice_changed(self, name: str, old: JsonObject | None, new: JsonObject | None) -> None:
        """A slice was told of (`new`), or is gone; call it after it was stored."""
        if old is not None:
            self._leave(name, old)
        if new is not None:
            pool = self._pools.setdefault(_pool(new), _Pool())
            last = pool.last if pool.slices else None
            pool.slices.add(name)
            pool.counting += bool(new.get(COUNTERS))
            pool.generations[new.get("generation", 0)] += 1
            self._gather(_pool(new), pool, name, last)

    def rule_changed(self, old: JsonObject | None, new: JsonObject | None) -> None:
        """A DeviceTaintRule was told of, or is gone; call it after it was stored."""
        for key in sorted(self._pools):
            if any(rule is not None and _rules(rule, *key) for rule in (old, new)):
                pool = self._pools[key]
                for name in sorted(pool.slices & self._read.keys()):
                    self._put(
                        key,
                        pool,
                        name,
                        tuple((reach, self._ruled(device)) for reach, device in self._read[name]),
                    )

    def _ruled(self, device: Device, *, anew: bool = False) -> Device:
        """A device with the taints that rules put on it; `anew`: on one like it of another pool."""
        rules = self._objects.get("DeviceTaintRule", {})
        taints = tuple(
            Taint(rule.get("key", ""), rule.get("value", ""), rule.get("effect", ""))
            for rule in (rules[name] for name in sorted(rules))
            if _rules(rule, device.driver, "" if anew else device.pool)
            and rule.get("device", device.name) == device.name
        )
        return device if taints == device.ruled else msgspec.structs.replace(device, ruled=taints)

    def _leave(self, name: str, old: JsonObject) -> None:
        key = _pool(old)
        pool = self._pools[key]
        last = pool.last
        self._put(key, pool, name, ())
        if pool.counting:
            self._stale_pool(key, pool)
        pool.slices.discard(name)
        pool.counting -= bool(old.get(COUNTERS))
        generation = old.get("generation", 0)
        pool.generations[generation] -= 1
        if not pool.generations[generation]:
            del pool.generations[generation]
        if pool.slices:
            self._gather(key, pool, "", last)
        else:
            del self._pools[key]

    def _gather(self, key: Pool, pool: _Pool, changed: str, last: int | None) -> None:
        """Read the devices of a slice; of all slices of its pool, when their last generation is another now."""
        names = pool.slices if last != pool.last else {changed} & pool.slices
        for name in sorted(names):
            fields = self._slices[name]
            valid = fields.get("generation", 0) == pool.last
            offered = ((reach, self._ruled(device)) for reach, device in _devices(key, fields) if valid)
            self._put(key, pool, name, tuple(offered))
        if pool.counting:  # a counter of one slice is about the devices of others
            self._stale_pool(key, pool)

    def _put(self, key: Pool, pool: _Pool, name: str, devices: tuple[tuple[Reach, Device], ...]) -> None:
        """From now on a slice offers these devices."""
        was = pool.common
        for reach, device in self._read.pop(name, ()):
            self._stale(key, reach.node)
            self._where.pop(device.key, None)
            pool.places[reach.node] -= 1
            if not pool.places[reach.node]:
                del pool.places[reach.node]
            at = self._at.get(reach.node, {})
            at.get(key, set()).discard(name)
            if key in at and not at[key]:
                del at[key]
                if not at:
                    del self._at[reach.node]
        if devices:
            self._read[name] = devices
        for reach, device in devices:
            self._where[device.key] = reach.node
            pool.places[reach.node] += 1
            if reach.node:
                self._at.setdefault(reach.node, {}).setdefault(key, set()).add(name)
            self._stale(key, reach.node)
        if was != pool.common:
            self._stale_pool(key, pool)

    def _stale_pool(self, key: Pool, pool: _Pool) -> None:
        self.stale_common = True
        self.stale_nodes.update(node for node in pool.places if node)

    def _stale(self, pool: Pool, node: str) -> None:
        if node:
            self.stale_nodes.add(node)
        if not node or (pool in self._pools and self._pools[pool].common):
            self.stale_common = True


def _devices(pool: Pool, fields: JsonObject) -> Iterator[tuple[Reach, Device]]:
    """The devices of a slice that can be read, each with where it can be used."""
    try:
        whole = _reach(fields, "nodeSelectorTerms")
    except SelectorError:  # what no label can meet, as servers of before let through: no node reaches any
        return
    for entry in fields.get("devices") or ():
        with suppress(ValueError):
            read = read_device(*pool, entry)
            yield (_reach(entry, "nodeSelector") if fields.get("perDevice") else whole), read


def _rules(rule: JsonObject, driver: str, pool: str) -> bool:
    """Whether a DeviceTaintRule is about devices of a pool."""
    about = rule.get("driver", driver) == driver and rule.get("pool", pool) == pool
    return bool(rule.get("selects")) and about


def _reach(fields: JsonObject, selector: str) -> Reach:
    terms = fields.get(selector) or ()
    if isinstance(terms, Mapping):
        terms = terms.get("nodeSelectorTerms") or ()
    return Reach(
        fields.get("nodeName") or "", tuple(node_term(term) for term in terms), bool(fields.get("allNodes"))
    )


def _counters_of(pool: Pool, fields: JsonObject) -> dict[CounterName, int]:
    try:
        return {
            (*pool, counter_set["name"], name): quantities.milli(counter["value"])
            for counter_set in fields.get(COUNTERS) or ()
            for name, counter in (counter_set.get("counters") or {}).items()
        }
    except (AttributeError, KeyError, TypeError, ValueError):
        return {}  # who consumes them is not handed out


def _told(device: Device) -> JsonObject:
    """What a device consumes, as a slice says it."""
    sets: dict[str, JsonObject] = {}
    for name, counter, amount in device.consumes:
        sets.setdefault(name, {})[counter] = {"value": quantities.format_milli(amount)}
    parts = [{"counterSet": name, "counters": counters} for name, counters in sets.items()]
    return {
        **({"consumesCounters": parts} if parts else {}),
        **({"bindsToNode": True} if device.binds else {}),
    }


def _pool(fields: JsonObject) -> Pool:
    return (fields.get("driver", ""), fields.get("pool", ""))

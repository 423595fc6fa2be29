"""Dynamic resource allocation by counting: what claims ask of devices, what devices a node offers. Spec 3.4.

A claim asks for so many devices, each taken by all of a list of selectors (`Matcher`). Whether the claims
of several pods can be met from the free devices of a node together is a matching problem; by Hall's
theorem it has a solution exactly when, for every set of matchers, no more devices are asked for by them
than are taken by at least one of them. So each such set is one *amount*: on a node the number of free
devices that some matcher of the set takes, of a pod the number that its requests with these matchers
ask for. Amounts are resources like cpu, and packing counts them as such.

    parse(...)            a claim's spec to `Ask`s
    Catalogue             the matchers in use, and the amounts they make
    Catalogue.offer(...)  amounts of a node's devices
    Catalogue.asked(...)  amounts of a pod's asks

Requests bound by `matchAttribute` become amounts of a second kind, bundles: how often the devices of one
value hold all of them. What is left aside: shared counters and consumable capacity of partitioned
devices, `distinctAttribute`; devices that several nodes reach count for each of them. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from itertools import combinations
from typing import Any

import msgspec

from tidewright.kube.deviceselectors import SelectorFailed
from tidewright.kube.deviceselectors import takes as selects
from tidewright.kube.taints import HARD_EFFECTS, Taint, Toleration

PREFIX = "devices:"
MOST_TOGETHER = 5
"""Matchers that take the same devices: up to so many, every set of them is counted; beyond, pairs and all."""
NO_LIMIT = 2**31


class Matcher(msgspec.Struct, frozen=True):
    """Which devices a request takes.

    Attributes:
        name: of the device class, for people.
        selectors: CEL expressions, all of which hold.
        tolerations: of taints that devices may have.
    """

    name: str
    selectors: tuple[str, ...] = ()
    tolerations: tuple[Toleration, ...] = ()

    @property
    def label(self) -> str:
        """The class; with a digest where the request says more than its class."""
        body = msgspec.json.encode((self.selectors, self.tolerations))
        return f"{self.name}[{blake2b(body, digest_size=3).hexdigest()}]"


class Ask(msgspec.Struct, frozen=True):
    """One request of a claim.

    Attributes:
        count: devices.
        whole: all devices that the matcher takes, whatever their number.
        watching: it shares devices with everybody (`adminAccess`).
    """

    matcher: Matcher
    count: int = 1
    whole: bool = False
    watching: bool = False


class Bundle(msgspec.Struct, frozen=True):
    """Requests whose devices all have one value of an attribute."""

    attribute: str
    asks: tuple[Ask, ...]

    @property
    def label(self) -> str:
        body = msgspec.json.encode((self.attribute, self.asks))
        return f"{self.attribute}={blake2b(body, digest_size=4).hexdigest()}"


class Asked(msgspec.Struct, frozen=True):
    """What claims ask for together."""

    asks: tuple[Ask, ...] = ()
    bundles: tuple[Bundle, ...] = ()


class Device(msgspec.Struct, frozen=True):
    """One device: who offers it, and what selectors see of it. `body` is its canonical JSON."""

    driver: str
    pool: str
    name: str
    body: bytes

    @property
    def key(self) -> tuple[str, str, str]:
        return (self.driver, self.pool, self.name)


Classes = Callable[[str], tuple[str, ...] | None]
"""A device class by name: its selectors; None when there is none."""


def device(driver: str, pool: str, found: Mapping[str, Any]) -> Device:
    """A device of a ResourceSlice."""
    kept = {name: found[name] for name in ("attributes", "capacity", "taints") if found.get(name)}
    return Device(driver, pool, found["name"], msgspec.json.encode(kept, order="deterministic"))


def parse(spec: Mapping[str, Any] | None, classes: Classes, offered: Callable[[Ask], bool]) -> Asked:
    """What the `devices` of a claim ask for.

    Args:
        spec: `spec.devices` of a claim, in any version of the API.
        classes: device classes.
        offered: whether some node offers what one request asks for; of alternatives the first such is taken.

    Raises:
        ValueError: a class that does not exist; a request that cannot be read.
    """
    found: dict[str, Ask] = {}
    for request in (spec or {}).get("requests") or ():
        choices = request.get("firstAvailable")
        if choices:
            asks = [_ask(choice, classes) for choice in choices]
            found[request["name"]] = next((ask for ask in asks if offered(ask)), asks[0])
        else:
            found[request["name"]] = _ask(request.get("exactly") or request, classes)
    bundles = []
    for constraint in (spec or {}).get("constraints") or ():
        names = [name.partition("/")[0] for name in constraint.get("requests") or ()] or list(found)
        asks_of_it = tuple(found[name] for name in names if name in found)
        if constraint.get("matchAttribute") and asks_of_it:
            bundles.append(Bundle(constraint["matchAttribute"], asks_of_it))
    return Asked(tuple(found.values()), tuple(bundles))


def _ask(found: Mapping[str, Any], classes: Classes) -> Ask:
    name = found.get("deviceClassName") or ""
    selectors = classes(name)
    if selectors is None:
        raise ValueError(f"device class {name!r} does not exist")
    return Ask(
        matcher=Matcher(
            name=name,
            selectors=(*selectors, *expressions(found.get("selectors"))),
            tolerations=tuple(
                Toleration(t.get("key") or "", t.get("operator") or "Equal", t.get("value") or "", t.get("effect") or "")
                for t in found.get("tolerations") or ()
            ),
        ),
        count=int(found.get("count") or 1),
        whole=found.get("allocationMode") == "All",
        watching=bool(found.get("adminAccess")),
    )  # fmt: skip


def expressions(selectors: Iterable[Mapping[str, Any]] | None) -> tuple[str, ...]:
    """The CEL expressions of selectors."""
    return tuple((selector.get("cel") or {}).get("expression") or "false" for selector in selectors or ())


@lru_cache(maxsize=65_536)
def _matches(matcher: Matcher, driver: str, body: bytes) -> bool:
    """Whether a matcher takes a device of this content. What a selector cannot be asked about it does not take."""
    found = msgspec.json.decode(body)
    for taint in found.get("taints") or ():
        hard = Taint(taint.get("key", ""), taint.get("value") or "", taint.get("effect") or "NoSchedule")
        if hard.effect in HARD_EFFECTS and not any(t.tolerates(hard) for t in matcher.tolerations):
            return False
    return all(_holds(expression, driver, _seen_by(expression, found)) for expression in matcher.selectors)


def takes(matcher: Matcher, one: Device) -> bool:
    """Whether a matcher takes a device."""
    return _matches(matcher, one.driver, one.body)


def _seen_by(expression: str, found: Mapping[str, Any]) -> bytes:
    """Of a device what an expression may look at: serial numbers that it does not name are left out."""
    if _enumerates(expression):
        kept = {part: found.get(part) or {} for part in ("attributes", "capacity")}
    else:
        kept = {
            part: {
                name: value
                for name, value in (found.get(part) or {}).items()
                if name.rpartition("/")[2] in expression
            }
            for part in ("attributes", "capacity")
        }
    return msgspec.json.encode(kept, order="deterministic")


def _enumerates(expression: str) -> bool:
    """Whether an expression may see names that it does not spell."""
    return any(
        macro in expression for macro in (".all(", ".exists(", ".exists_one(", ".map(", ".filter(", "size(")
    )


@lru_cache(maxsize=16_384)
def _holds(expression: str, driver: str, body: bytes) -> bool:
    try:
        return selects(expression, driver, msgspec.json.decode(body))
    except SelectorFailed:
        return False


def _value(found: Device, attribute: str) -> str | None:
    """An attribute of a device as text; names without a domain are the driver's."""
    attributes = msgspec.json.decode(found.body).get("attributes") or {}
    domain, _, short = attribute.rpartition("/")
    value = attributes.get(attribute)
    if value is None and domain in ("", found.driver):
        value = attributes.get(short, attributes.get(f"{found.driver}/{short}"))
    return None if value is None else msgspec.json.encode(value, order="deterministic").decode()


class Catalogue:
    """The matchers and bundles in use, and which devices several of them take.

    `learn` and `see` say whether the amounts have changed their meaning: then all that was computed by
    this catalogue is computed anew.
    """

    def __init__(self) -> None:
        self.matchers: list[Matcher] = []
        self.bundles: list[Bundle] = []
        self.whole: list[Matcher] = []
        self.watching: list[Ask] = []
        self._contents: dict[tuple[str, bytes], int] = {}
        self._patterns: dict[frozenset[int], int] = {}
        self._families: tuple[tuple[int, ...], ...] = ()

    def learn(self, asked: Asked) -> bool:
        """Take up what somebody asks for; whether any of it was new."""
        new = self._add(asked)
        if new:
            self._sort_contents()
        return new

    def relearn(self, everything: Iterable[Asked]) -> bool:
        """Know what these ask for and nothing else; whether that changed the amounts."""
        before, known = self.meaning(), self._known()
        lists = (self.matchers, self.bundles, self.whole, self.watching)
        self.matchers, self.bundles, self.whole, self.watching = [], [], [], []
        for asked in everything:
            self._add(asked)
        if known == self._known():
            self.matchers, self.bundles, self.whole, self.watching = lists
            return False
        self._sort_contents()
        return self.meaning() != before

    def _known(self) -> tuple[frozenset[object], ...]:
        lists: tuple[list[Any], ...] = (self.matchers, self.bundles, self.whole, self.watching)
        return tuple(frozenset(found) for found in lists)

    def meaning(self) -> frozenset[str]:
        """The names of all amounts that there are."""
        return frozenset(
            [
                *(self._name(family) for family in self._families),
                *(f"{PREFIX}{bundle.label}" for bundle in self.bundles),
                *(_whole(matcher) for matcher in self.whole),
                *(_watched(ask) for ask in self.watching),
            ]
        )

    def _add(self, asked: Asked) -> bool:
        before = (len(self.matchers), len(self.bundles), len(self.whole), len(self.watching))
        for ask in asked.asks:
            if ask.matcher not in self.matchers:
                self.matchers.append(ask.matcher)
            if ask.whole and ask.matcher not in self.whole:
                self.whole.append(ask.matcher)
            if ask.watching and ask not in self.watching:
                self.watching.append(ask)
        self.bundles += [bundle for bundle in asked.bundles if bundle not in self.bundles]
        return before != (len(self.matchers), len(self.bundles), len(self.whole), len(self.watching))

    def _sort_contents(self) -> None:
        self._patterns = {}
        for content in self._contents:
            pattern = self._pattern(*content)
            self._patterns[pattern] = self._patterns.get(pattern, 0) + 1
        self._relate()

    def see(self, devices: Iterable[Device], gone: Iterable[Device] = ()) -> bool:
        """Take up devices that some node offers, and let go others.

        Returns:
            Whether they join matchers that had none in common, or those that go were the last to do so.
        """
        before = set(self._patterns)
        for one in devices:
            content = (one.driver, one.body)
            self._contents[content] = self._contents.get(content, 0) + 1
            if self._contents[content] == 1:
                pattern = self._pattern(*content)
                self._patterns[pattern] = self._patterns.get(pattern, 0) + 1
        for one in gone:
            content = (one.driver, one.body)
            self._contents[content] -= 1
            if not self._contents[content]:
                del self._contents[content]
                pattern = self._pattern(*content)
                self._patterns[pattern] -= 1
                if not self._patterns[pattern]:
                    del self._patterns[pattern]
        if before == set(self._patterns):
            return False
        families = self._families
        self._relate()
        return self._families != families

    def _pattern(self, driver: str, body: bytes) -> frozenset[int]:
        return frozenset(i for i, matcher in enumerate(self.matchers) if _matches(matcher, driver, body))

    def _relate(self) -> None:
        """The sets of matchers that are counted: those that devices join."""
        parts: list[set[int]] = [{i} for i in range(len(self.matchers))]
        for pattern in sorted(self._patterns, key=sorted):
            joined = [part for part in parts if part & pattern]
            if len(joined) > 1:
                parts = [part for part in parts if part not in joined] + [set().union(*joined)]
        found: list[tuple[int, ...]] = []
        for part in sorted(map(sorted, parts)):
            sizes = range(1, len(part) + 1) if len(part) <= MOST_TOGETHER else (1, 2, len(part))
            found += [family for size in sizes for family in combinations(part, size)]
        self._families = tuple(found)

    def offer(self, devices: Sequence[Device], taken: Callable[[Device], bool]) -> dict[str, int]:
        """Amounts of a node with these devices, of which some are taken."""
        if not self.matchers:
            return {}
        free = [one for one in devices if not taken(one)]
        patterns: dict[frozenset[int], int] = {}
        for one in free:
            pattern = self._pattern(one.driver, one.body)
            patterns[pattern] = patterns.get(pattern, 0) + 1
        found = {
            self._name(family): sum(n for pattern, n in patterns.items() if not pattern.isdisjoint(family))
            for family in self._families
        }
        for bundle in self.bundles:
            found[f"{PREFIX}{bundle.label}"] = _bundles(bundle, free)
        for matcher in self.whole:
            mine = [one for one in devices if _matches(matcher, one.driver, one.body)]
            found[_whole(matcher)] = int(bool(mine) and not any(taken(one) for one in mine))
        for ask in self.watching:
            many = sum(_matches(ask.matcher, one.driver, one.body) for one in devices)
            found[_watched(ask)] = NO_LIMIT if many >= ask.count else 0
        return found

    def asked(self, wanted: Asked) -> dict[str, int]:
        """Amounts that a pod asks for; `learn` them first."""
        found: dict[str, int] = {}
        counts: dict[int, int] = {}
        for ask in wanted.asks:
            if ask.watching:
                found[_watched(ask)] = 1
            elif ask.whole:
                found[_whole(ask.matcher)] = 1
            else:
                number = self.matchers.index(ask.matcher)
                counts[number] = counts.get(number, 0) + ask.count
        for family in self._families:
            many = sum(counts.get(number, 0) for number in family)
            if many:
                found[self._name(family)] = many
        for bundle in wanted.bundles:
            name = f"{PREFIX}{bundle.label}"
            found[name] = found.get(name, 0) + 1
        return found

    def _name(self, family: Sequence[int]) -> str:
        return PREFIX + "|".join(sorted(self.matchers[number].label for number in family))


def _whole(matcher: Matcher) -> str:
    return f"{PREFIX}all of {matcher.label}"


def _watched(ask: Ask) -> str:
    return f"{PREFIX}{ask.count} of {ask.matcher.label} shared"


def _bundles(bundle: Bundle, free: Sequence[Device]) -> int:
    """How many pods can have the devices of a bundle, each from those of one value."""
    by_value: dict[str, list[Device]] = {}
    for one in free:
        value = _value(one, bundle.attribute)
        if value is not None:
            by_value.setdefault(value, []).append(one)
    return sum(min(_rooms(bundle.asks, devices), default=0) for devices in by_value.values())


def _rooms(asks: Sequence[Ask], devices: Sequence[Device]) -> Iterator[int]:
    """Per set of asks how often its devices suffice: Hall's condition for many pods of one kind."""
    for size in range(1, len(asks) + 1):
        for some in combinations(asks, size):
            many = sum(any(_matches(ask.matcher, d.driver, d.body) for ask in some) for d in devices)
            yield many // sum(ask.count for ask in some)

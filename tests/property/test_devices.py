"""Devices handed out, against a naive allocator that tries every way from scratch; claims that pods share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import combinations, product
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from tidewright.events.base import JsonObject
from tidewright.kube.devices.allocation import WATCHED
from tidewright.kube.devices.claims import parse
from tidewright.kube.devices.devices import device
from tidewright.kube.devices.stock import Stock

DRIVER = "d.example.com"
POLICIES: dict[str, JsonObject] = {
    "none": {},
    "steps": {"default": "3", "validRange": {"min": "1", "step": "2", "max": "5"}},
    "sizes": {"default": "1", "validValues": ["1", "4"]},
}


# --- Scenes ---


@st.composite
def device_of(draw: st.DrawFn, number: int) -> JsonObject:
    found: JsonObject = {
        "name": f"d{number}",
        "attributes": {"letter": {"string": draw(st.sampled_from("ab"))}},
    }
    if draw(st.integers(0, 4)):
        found["attributes"]["root"] = {"int": draw(st.integers(0, 1))}
    if draw(st.integers(0, 2)) == 0:
        name = draw(
            st.sampled_from(["s0", "s1", "unknown"] if draw(st.integers(0, 9)) == 0 else ["s0", "s1"])
        )
        counters = draw(st.dictionaries(st.sampled_from("xy"), st.integers(1, 3), min_size=1))
        found["consumesCounters"] = [
            {"counterSet": name, "counters": {c: {"value": str(n)} for c, n in counters.items()}}
        ]
    if draw(st.integers(0, 2)) == 0:
        policy = POLICIES[draw(st.sampled_from(sorted(POLICIES)))]
        found["capacity"] = {"memory": {"value": "6", **({"requestPolicy": policy} if policy else {})}}
        found["allowMultipleAllocations"] = draw(st.booleans())
    return found


@st.composite
def request_of(draw: st.DrawFn, name: str) -> JsonObject:
    def ask() -> JsonObject:
        found: JsonObject = {"deviceClassName": draw(st.sampled_from(["a", "b", "any"]))}
        if draw(st.integers(0, 9)) == 0:
            found["allocationMode"] = "All"
        else:
            found["count"] = draw(st.integers(1, 2))
        if draw(st.integers(0, 4)) == 0:
            found["capacity"] = {"requests": {"memory": str(draw(st.integers(1, 6)))}}
        if draw(st.integers(0, 9)) == 0:
            found["adminAccess"] = True
        return found

    if draw(st.integers(0, 4)) == 0:
        return {"name": name, "firstAvailable": [{"name": "x", **ask()}, {"name": "y", **ask()}]}
    return {"name": name, "exactly": ask()}


@st.composite
def claim_of(draw: st.DrawFn) -> JsonObject:
    requests = [draw(request_of(f"r{i}")) for i in range(draw(st.integers(1, 2)))]
    constraints = []
    if draw(st.booleans()):
        kind = draw(st.sampled_from(["matchAttribute", "distinctAttribute"]))
        named = draw(st.sampled_from([[], ["r0"], ["r0/x", "r1"]]))
        constraints.append({kind: f"{DRIVER}/root", **({"requests": named} if named else {})})
    return {"requests": requests, "constraints": constraints}


SETS: JsonObject = {"s0": {"x": 4, "y": 3}, "s1": {"x": 2, "y": 5}}


def classes(name: str) -> tuple[str, ...]:
    return () if name == "any" else (f'device.attributes["{DRIVER}"].letter == "{name}"',)


def stock_of(devices: list[JsonObject]) -> Stock:
    counters = {
        (DRIVER, "p", name, counter): n * 1000 for name, found in SETS.items() for counter, n in found.items()
    }
    return Stock([device(DRIVER, "p", one) for one in devices], counters)


# --- The naive way ---


class Got(NamedTuple):
    """One device that one request has: `how` as its request and the device have it."""

    number: int
    request: JsonObject
    ask: JsonObject
    claim: int


def ways(devices: list[JsonObject], spec: JsonObject, claim: int, parts: Counter[int]) -> Iterator[list[Got]]:
    """All ways to give the requests of a claim devices by their letter, whoever has them."""
    per_request = []
    for request in spec["requests"]:
        options = []
        for ask in request.get("firstAvailable") or [request["exactly"]]:
            good = [
                i for i, one in enumerate(devices)
                if ask["deviceClassName"] in ("any", one["attributes"]["letter"]["string"])
            ]  # fmt: skip
            if ask.get("allocationMode") == "All":
                some = [i for i in good if enough(devices[i], ask, parts[i])]
                options += [[Got(i, request, ask, claim) for i in some]] if some else []
            else:
                options += [
                    [Got(i, request, ask, claim) for i in some] for some in combinations(good, ask["count"])
                ]
        per_request.append(options)
    for chosen in product(*per_request):
        yield [got for part in chosen for got in part]


def taken_of(one: JsonObject, ask: JsonObject) -> int | None:
    """What an ask has of the memory of a device; None when it cannot."""
    wanted = (ask.get("capacity") or {}).get("requests", {}).get("memory")
    memory = (one.get("capacity") or {}).get("memory")
    if memory is None:
        return None if wanted is not None else 0
    policy = memory.get("requestPolicy") or {}
    if wanted is None:
        return int(policy.get("default") or memory["value"])
    many = int(wanted)
    if "validRange" in policy:
        return next((size for size in (1, 3, 5) if size >= many), None)
    if "validValues" in policy:
        return next((size for size in (1, 4) if size >= many), None)
    return many


def enough(one: JsonObject, ask: JsonObject, parts: int) -> bool:
    """Whether so much of a device being had leaves what an ask has of it."""
    amount = taken_of(one, ask)
    total = int((one.get("capacity") or {}).get("memory", {}).get("value", 0))
    return amount is not None and amount + (parts if one.get("allowMultipleAllocations") else 0) <= total


def legal(
    devices: list[JsonObject], specs: list[JsonObject], before: list[list[Got]], now: list[Got]
) -> bool:
    """Whether what a pod has gets along with what pods before it have, looked at from scratch."""
    holders, parts = set(), parts_of(devices, before)
    used: Counter[tuple[str, str]] = Counter()

    def hold(number: int) -> None:
        holders.add(number)
        for part in devices[number].get("consumesCounters") or ():
            for counter, found in part["counters"].items():
                used[part["counterSet"], counter] += int(found["value"])

    for number in {got.number for pod in before for got in pod if not got.ask.get("adminAccess")}:
        hold(number)
    for index, got in enumerate(now):
        one, earlier = devices[got.number], [g for g in now[:index] if g.number == got.number]
        shared = bool(one.get("allowMultipleAllocations"))
        if any(part["counterSet"] not in SETS for part in one.get("consumesCounters") or ()):
            return False
        if not enough(one, got.ask, parts[got.number]):
            return False
        if got.ask.get("adminAccess"):
            if not shared and any(g.claim == got.claim for g in earlier):
                return False
            continue
        if not shared and (earlier or got.number in holders):
            return False
        if got.number not in holders:
            hold(got.number)
        parts[got.number] += taken_of(one, got.ask) or 0
        if any(n > SETS[name][counter] for (name, counter), n in used.items() if name in SETS):
            return False
    return all(bound(devices, spec, [got for got in now if got.claim == c]) for c, spec in enumerate(specs))


def parts_of(devices: list[JsonObject], before: list[list[Got]]) -> Counter[int]:
    """Of each device what pods have of its memory."""
    found: Counter[int] = Counter()
    for pod in before:
        for got in pod:
            if not got.ask.get("adminAccess"):
                found[got.number] += taken_of(devices[got.number], got.ask) or 0
    return found


def bound(devices: list[JsonObject], spec: JsonObject, now: list[Got]) -> bool:
    for constraint in spec["constraints"]:
        named = constraint.get("requests") or []
        about = [
            got.number for got in now
            if not named or got.request["name"] in named or f"{got.request['name']}/{got.ask.get('name')}" in named
        ]  # fmt: skip
        roots = [devices[number]["attributes"].get("root", {}).get("int") for number in about]
        if None in roots:
            return False
        if "matchAttribute" in constraint and len(set(roots)) > 1:
            return False
        if "distinctAttribute" in constraint and len(set(roots)) < len(roots):
            return False
    return True


def naive(devices: list[JsonObject], pods: list[list[JsonObject]]) -> list[set[tuple[int, bool]] | None]:
    """Per pod the devices that it has, and whether it only watches them: by the first way that is legal."""
    before: list[list[Got]] = []
    served: list[set[tuple[int, bool]] | None] = []
    for specs in pods:
        parts = parts_of(devices, before)
        all_ways = product(*(list(ways(devices, spec, c, parts)) for c, spec in enumerate(specs)))
        tries = ([got for part in way for got in part] for way in all_ways)
        now = next((one for one in tries if legal(devices, specs, before, one)), None)
        served.append(None if now is None else {(g.number, bool(g.ask.get("adminAccess"))) for g in now})
        before += [now] if now is not None else []
    return served


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_pods_get_the_devices_that_a_naive_allocator_gives_them(data: st.DataObject) -> None:
    devices = [data.draw(device_of(i)) for i in range(data.draw(st.integers(1, 4)))]
    pods = data.draw(st.lists(st.lists(claim_of(), min_size=1, max_size=2), min_size=1, max_size=3))
    stock = stock_of(devices)
    found: list[set[tuple[int, bool]] | None] = []
    for specs in pods:
        claims = tuple(parse(spec, classes) for spec in specs)
        picks = list(stock.serve(claims, (True,) * len(claims)).picks(1))
        room = stock.serve(claims, (True,) * len(claims)).room
        found.append({(number, pick.how == WATCHED) for _, number, pick in picks} if room else None)
        stock = stock.less((number, pick) for _, number, pick in picks)
    assert found == naive(devices, pods)


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_as_many_pods_of_a_kind_are_served_as_the_naive_allocator_serves(data: st.DataObject) -> None:
    devices = [data.draw(device_of(i)) for i in range(data.draw(st.integers(1, 4)))]
    spec = data.draw(claim_of())
    room = stock_of(devices).serve((parse(spec, classes),), (True,)).room
    assert min(room, 5) == sum(got is not None for got in naive(devices, [[spec]] * 5))

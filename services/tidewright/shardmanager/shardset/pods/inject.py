"""Telling a worker its slots: the injector profiles (section 3.3)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum

import msgspec

from tidewright.sharding.keyspace import runs
from tidewright.shardmanager.propeller.strategy import INCLUDE_SHARD_KEY, LOCK_NAME, lock_name


class Injector(StrEnum):
    """How a worker learns its slots. `DYNAMIC`: it watches the assignment itself."""

    PROPELLER = "propeller"
    SELECTOR_FLAG = "selector-flag"
    ORDINAL_FLAGS = "ordinal-flags"
    ORDINAL_ENV = "ordinal-env"
    SLOTS_ENV = "slots-env"
    DYNAMIC = "dynamic"


SELECTOR_DRIVEN = frozenset({Injector.PROPELLER, Injector.SELECTOR_FLAG})
"""Each slot is one value of a list filter: at most 256 slots."""
MAX_SELECTOR_SLOTS = 256
ORDINAL_DRIVEN = frozenset({Injector.ORDINAL_FLAGS, Injector.ORDINAL_ENV})
"""The worker's own formula rules which objects are its own."""

SELECTOR_FLAG = "--watch-label-selector"
ORDINAL_NAMES = ("SHARD", "TOTAL_SHARDS")
SLOTS_NAME = "SHARD_SLOTS"


class Injected(msgspec.Struct, frozen=True, kw_only=True):
    """What the container of a worker gets: arguments after its own, environment variables."""

    args: tuple[str, ...] = ()
    env: dict[str, str] = {}


def propeller(slots: Iterable[int], index: int, lock: str = "") -> Injected:
    """The original's flags; `lock` is the worker's lock name, the original's when empty."""
    pairs = [part for slot in slots for part in (INCLUDE_SHARD_KEY, str(slot))]
    return Injected(args=(*pairs, f"{LOCK_NAME}={lock or lock_name(index)}"))


def selector_flag(
    label: str, slots: Sequence[int], *, excluded: bool = False, flag: str = SELECTOR_FLAG
) -> Injected:
    """One flag with a selector. `excluded`: the shard takes all objects but those slots', unlabelled too."""
    values = ",".join(map(str, slots))
    return Injected(args=(f"{flag}={label} {'notin' if excluded else 'in'} ({values})",))


def mapped(
    profile: Injector, label: str, values: Sequence[str], *, rest: bool, lock: str = "", flag: str = ""
) -> Injected:
    """Values of a label instead of slots. `rest`: all objects but those with these values, unlabelled too."""
    if profile is Injector.PROPELLER:
        name = f"--propeller.{'exclude' if rest else 'include'}-{label}-label"
        return Injected(args=(*(part for value in values for part in (name, value)), f"{LOCK_NAME}={lock}"))
    if not values:
        return Injected()  # the only shard takes everything: it needs no filter
    operator = "notin" if rest else "in"
    return Injected(args=(f"{flag or SELECTOR_FLAG}={label} {operator} ({','.join(values)})",))


def ordinal_flags(index: int, shards: int) -> Injected:
    """Its number and the number of shards, as flags."""
    return Injected(args=(f"--shard={index}", f"--total-shards={shards}"))


def ordinal_env(index: int, shards: int, names: Sequence[str] = ORDINAL_NAMES) -> Injected:
    """The same in two environment variables of chosen names."""
    return Injected(env={names[0]: str(index), names[1]: str(shards)})


def slots_env(slots: Iterable[int], name: str = SLOTS_NAME) -> Injected:
    """The slots as runs in one environment variable."""
    return Injected(env={name: runs(slots)})

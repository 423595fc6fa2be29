"""How a worker of the original turns its command line into what it lists (section 1.5).

The manager never runs this; it is here so that "who owns this object" is answered through the very
arguments that a worker gets, quirks included: an empty id filters nothing, a comma splits an id.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import msgspec

from tidewright.shardmanager.propeller.strategy import LOCK_NAME

Operator = Literal["In", "NotIn", "DoesNotExist", "Equals"]

SHARD_KEY_LABEL = "shard-key"
TERMINATED = ("termination-status", "terminated")

# Flag to label and operator, in the order in which a worker builds its requirements.
_FLAGS: dict[str, tuple[str, Operator]] = {
    "--propeller.include-shard-key-label": (SHARD_KEY_LABEL, "In"),
    "--propeller.exclude-shard-key-label": (SHARD_KEY_LABEL, "NotIn"),
    "--propeller.include-project-label": ("project", "In"),
    "--propeller.exclude-project-label": ("project", "NotIn"),
    "--propeller.include-domain-label": ("domain", "In"),
    "--propeller.exclude-domain-label": ("domain", "NotIn"),
}


class Requirement(msgspec.Struct, frozen=True):
    """One condition on a label. Unlike a selector's, its values keep their order and repetitions."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case "In" | "Equals":
                return value is not None and value in self.values
            case "NotIn":
                return value is None or value not in self.values
            case "DoesNotExist":
                return value is None

    def __str__(self) -> str:
        values = ",".join(sorted(self.values))
        match self.operator:
            case "In":
                return f"{self.key} in ({values})"
            case "NotIn":
                return f"{self.key} notin ({values})"
            case "DoesNotExist":
                return f"!{self.key}"
            case "Equals":
                return f"{self.key}={values}"


class PropellerWorker(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker's command line says about sharding."""

    requirements: tuple[Requirement, ...] = ()
    lock_name: str = ""

    @property
    def selector(self) -> str:
        """The selector with which it lists its objects, in text form."""
        return selector_text(self._listed())

    def owns(self, labels: Mapping[str, str]) -> bool:
        """Whether its list contains an object with these labels."""
        return all(requirement.matches(labels) for requirement in self._listed())

    def _listed(self) -> list[Requirement]:
        return [*self.requirements, Requirement(TERMINATED[0], "NotIn", TERMINATED[1:])]


def selector_text(requirements: Iterable[Requirement]) -> str:
    """Requirements in the text form of a selector: by label key, values by text."""
    return ",".join(map(str, sorted(requirements, key=lambda r: r.key)))


def parse_args(args: Sequence[str]) -> PropellerWorker:
    """What a worker makes of its arguments; those that are not about sharding are passed over.

    Values are lists in CSV form, and repeated flags add up.
    """
    values: dict[str, list[str]] = {flag: [] for flag in _FLAGS}
    lock = ""
    rest = iter(args)
    for arg in rest:
        flag, joined, value = arg.partition("=")
        if flag == LOCK_NAME:
            lock = value if joined else next(rest, "")
        elif flag in values:
            values[flag].extend(_split(value if joined else next(rest, "")))
    requirements = tuple(
        Requirement(*_FLAGS[flag], tuple(flag_values)) for flag, flag_values in values.items() if flag_values
    )
    return PropellerWorker(requirements=requirements, lock_name=lock)


def owners(workers: Sequence[PropellerWorker], labels: Mapping[str, str]) -> list[int]:
    """The indexes of all workers that list an object with these labels."""
    return [index for index, worker in enumerate(workers) if worker.owns(labels)]


def names_shard_flag(args: Iterable[str]) -> str | None:
    """The first sharding flag among a template's own arguments, which would add up with the injected ones."""
    return next((flag for arg in args if (flag := arg.partition("=")[0]) in _FLAGS), None)


def _split(value: str) -> list[str]:
    return next(csv.reader([value], strict=True), []) if value else []

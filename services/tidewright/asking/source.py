"""What is asked of a log, wherever it is: a running one (`running_log`), a file (`exported`), an archive (`archived`).

All give the same records, so every command answers alike; a file needs neither NATS nor a cluster.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from tidewright.asking import postponed  # noqa: F401  # before the NATS client
from tidewright.asking.kept_folds import KeptFolds
from tidewright.asking.remembered import Answered
from tidewright.log import checkpoint as checkpoints
from tidewright.log.errors import Unsound
from tidewright.log.last_per_subject import Heard
from tidewright.log.reader import WINDOW, Record
from tidewright.log.snapshots import Snapshot
from tidewright.log.subjects import Slot, Subjects, slot_of

if TYPE_CHECKING:
    from tidewright.log.keyring import Keyring


def matches(pattern: str, subject: str) -> bool:
    """Whether a subject matches a filter, by the bus's rules (`*` one token, `>` the rest)."""
    if not pattern:
        return True
    pattern_tokens, tokens = pattern.split("."), subject.split(".")
    for i, want in enumerate(pattern_tokens):
        if want == ">":
            return len(tokens) > i
        if i >= len(tokens) or want not in ("*", tokens[i]):
            return False
    return len(pattern_tokens) == len(tokens)


class Source(Protocol):
    """What the commands need of a log."""

    subjects: Subjects
    slots: int
    name: str
    """For people."""
    stream: str
    since: float | None
    """Of a part of a log, the log time that it begins with, seconds."""
    folds: KeptFolds
    """States that were folded of it."""
    answered: Answered
    """What was said of it that stays so."""
    remade: int
    """How often its bounds have shown that it is another log than before, made anew under the same name: who keeps what was read looks."""
    everywhere: bool
    """Whether all namespaces are on it: a part by namespace leaves out what decides over the whole cluster."""

    async def cluster_id(self) -> str:
        """The uid of the cluster's `kube-system` namespace; empty when it is not known."""
        ...

    async def identity(self) -> str:
        """What tells this log, as it is read here, from every other one."""
        ...

    def records(self, pattern: str = "", after: int = 0, ahead: int = WINDOW) -> AsyncGenerator[Record, None]:
        """Records whose subject matches one filter (all: empty), from `after` + 1 to the present end.

        So many may be fetched `ahead`: few where the first ones answer the question.
        """
        ...

    def merged(self, patterns: Sequence[str], after: int = 0) -> AsyncGenerator[Record, None]:
        """Records that match any of several filters, which do not overlap, in stream order."""
        ...

    async def narrowed(self, patterns: Sequence[str], after: int) -> Sequence[str]:
        """Those of several filters that find something behind a sequence, as subjects where these are few."""
        ...

    def follow(self, pattern: str = "", after: int = 0) -> AsyncGenerator[Record, None]:
        """The same as `records`, and then on and on."""
        ...

    async def last(self, patterns: Sequence[str], up_to: int = 0) -> list[Record]:
        """The last record of every subject that matches, at or before a sequence (0: at all), in order."""
        ...

    async def last_of_all(
        self, patterns: Sequence[str], up_to: int = 0, heard: Heard | None = None
    ) -> list[Record]:
        """As `last`, however many subjects match. `heard` is given each of them once, in parts and in no order, as they are found."""
        ...

    async def earlier(self, subjects: Sequence[str], up_to: int) -> list[Record]:
        """As `last`, of subjects that were spoken of since that sequence."""
        ...

    async def at(self, seq: int) -> Record | None:
        """The record at a sequence; None when it is gone (a fired schedule, retention)."""
        ...

    async def first_of(self, pattern: str, seq: int) -> Record | None:
        """The first record at or after a sequence that matches."""
        ...

    async def tail(self, count: int) -> list[Record]:
        """What there is among the last `count` sequences."""
        ...

    def stored(self, after: int = 0) -> AsyncGenerator[Record, None]:
        """All records behind a sequence as they are stored, believed or not."""
        ...

    part: bool
    """Whether something was left out of it."""

    @property
    def promised(self) -> Mapping[str, int]:
        """`<service>.<slot>` to the position of its last checkpoint, as the head of a file says; empty where nothing does."""
        ...

    vouched: bool
    """Whether a trust anchor says which key records are good."""

    async def unwatched(self) -> bool:
        """Whether nothing is carried out at present, since no watcher looks; False where that cannot be known."""
        ...

    async def furthest(self) -> int:
        """The greatest sequence that anything beside the log says was on it; 0 when nothing does."""
        ...

    async def keyring(self) -> Keyring | None:
        """The key records of the log, all taken; None on a log without keys that was asked for none.

        Raises:
            NoKeys: a trust anchor was given, and vouches for none of them.
        """
        ...

    async def bounds(self) -> tuple[int, int]:
        """First and last sequence; last is first - 1 when there is nothing."""
        ...

    async def start(self, service: str, slots: tuple[Slot, ...], readable: Sequence[int]) -> list[Snapshot]:
        """Snapshots from which a fold of everything that is retained can start; empty: from nothing.

        Raises:
            BadInput: nothing can be folded without a state that is not readable.
        """
        ...

    async def ends(self) -> dict[str, int] | None:
        """`<service>.<slot>` to the position of its last checkpoint; None when that takes reading everything."""
        ...

    async def snapshot(
        self, service: str, slot: Slot, readable: Sequence[int], position: int
    ) -> Snapshot | None:
        """The newest snapshot at or before a position."""
        ...


def slot_in(source: Source, namespace: str) -> Slot:
    """The slot of a namespace in this log."""
    return slot_of(namespace, source.slots)


async def ends_of(source: Source, up_to: int) -> dict[str, int]:
    """`<service>.<slot>` to the position of its last checkpoint at or before a sequence (0: at all)."""
    positions: dict[str, int] = {}
    for record in await source.last([f"{source.subjects.root}.checkpoint.*.*"], up_to):
        place = source.subjects.parse(record.subject)
        try:
            positions[f"{place.rest[0]}.{place.slot}"] = checkpoints.usable(record).position
        except Unsound:
            continue  # a watcher's are of another form
    return positions

"""Which pods count together: those of one revision, where their kind has a ledger per revision (2.6).

That is judged by the settings in force whenever something is decided, and never folded: a setting that changes holds
at once for all pods.
"""

from __future__ import annotations

from functools import lru_cache

from tidewright.spread.match.pods import VERSION_IGNORED, VERSIONED_KINDS, version_of
from tidewright.spread.state import Row, Settings, SpreadState, State


def versions_by(settings: Settings) -> Versions:
    """What a version is by these settings."""
    return _versions(settings.versioned_kinds)


@lru_cache(maxsize=64)
def _versions(more_kinds: tuple[str, ...]) -> Versions:
    return Versions(VERSIONED_KINDS | {kind.lower() for kind in more_kinds})


class Versions:
    """Pods and targets by version.

    Attributes:
        kinds: those with a ledger per revision, in lower case [Q-8].
    """

    def __init__(self, kinds: frozenset[str]) -> None:
        self.kinds = kinds

    def of(self, row: Row) -> str:
        """The version that a pod counts in."""
        return row.revision if row.kind in self.kinds else VERSION_IGNORED

    def same(self, row: Row, other: Row) -> bool:
        """Whether two pods count in one version."""
        if row.revision is other.revision and row.kind is other.kind:
            return True  # nearly always; texts that rows share are one object
        return self.of(row) == self.of(other)

    def latest(self, state: State, spread: SpreadState) -> str:
        """The version of the target's current template."""
        target = state.workloads.get(spread.target_uid)
        if target is None:
            return VERSION_IGNORED
        return spread.latest if target.kind.kind.lower() in self.kinds else VERSION_IGNORED

    def active(self, spread: SpreadState, version: str, subset: str) -> int:
        """Active pods of a version in a subset."""
        number = 0
        for kind, revisions in spread.active.items():
            if kind in self.kinds:
                number += revisions.get(version, {}).get(subset, 0)
            elif version == VERSION_IGNORED:
                number += sum(counts.get(subset, 0) for counts in revisions.values())
        return number

    def with_pods(self, spread: SpreadState) -> set[str]:
        """The versions of which there are active pods."""
        return {
            version_of(kind, revision, self.kinds)
            for kind, revisions in spread.active.items()
            for revision in revisions
        }

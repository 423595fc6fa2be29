"""What spread's part of the watcher follows: the kinds of spread's whitelist, and built-in ones that are rarely installed, once a spread targets one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from tidewright.events.facts import ObjectFact
from tidewright.events.spread import WorkloadSpreadGone, WorkloadSpreadObserved
from tidewright.kube.customworkloads import (
    BUILT_IN,
    WHITELIST_KEY,
    BadApiVersion,
    GroupKind,
    Whitelist,
    group_version,
    whitelist_of,
)
from tidewright.kube.kinds import BY_KIND
from tidewright.watcher.scales import Target


def kinds_of(whitelist: Whitelist, spreads: Iterable[WorkloadSpreadObserved] = ()) -> list[GroupKind]:
    """The kinds whose objects have to be watched: listed ones and those below, unless they are already. Pure.

    A built-in kind that is rarely installed (the StatefulSet of Kruise) is watched once a spread names it.
    """
    listed = {GroupKind(e.group, e.kind) for e in whitelist.entries}
    listed |= {below for e in whitelist.entries for below in e.sub_resources}
    targets = (target_of(fact) for fact in spreads)
    listed |= {target[1] for target in targets if target is not None and target[1] in BUILT_IN}
    return sorted(kind for kind in listed if (kind.group, kind.kind) not in BY_KIND)


def target_of(fact: WorkloadSpreadObserved) -> Target | None:
    """What a spread targets; None when that cannot be read. Pure."""
    target = fact.spec.get("targetRef")
    try:
        group, _ = group_version(target["apiVersion"]) if target else ("", "")
        kind, name = (target["kind"], target["name"]) if target else (None, None)
    except (BadApiVersion, KeyError, TypeError, AttributeError):
        return None
    if not (isinstance(kind, str) and isinstance(name, str)):
        return None
    return fact.namespace, GroupKind(group, kind), name


def whitelist_text(data: dict[str, Any]) -> str:
    """The whitelist in the data of its ConfigMap; empty where there is none. Pure."""
    text = data.get(WHITELIST_KEY) or ""
    return text if isinstance(text, str) else ""


class Whitelisted:
    """Spreads and the whitelist, as one part of the watcher knows them: each part has its own, maybe in processes of their own.

    Attributes:
        spreads: by namespace and name.
        whitelist: as it was read last.
        changed: set when something may have to be followed otherwise; whoever has looked clears it.
    """

    def __init__(self) -> None:
        self.spreads: dict[tuple[str, str], WorkloadSpreadObserved] = {}
        self.whitelist = Whitelist()
        self.changed = asyncio.Event()

    @property
    def kinds(self) -> list[GroupKind]:
        """Those that spread's part follows."""
        return kinds_of(self.whitelist, self.spreads.values())

    def observe(self, fact: ObjectFact) -> None:
        """Learn from a fact which spreads there are."""
        key = fact.namespace, fact.name
        match fact:
            case WorkloadSpreadObserved():
                before = self.spreads.get(key)
                self.spreads[key] = fact
                if before is None or before.spec != fact.spec:
                    self.changed.set()
            case WorkloadSpreadGone():
                self.spreads.pop(key, None)
                self.changed.set()

    def read(self, text: str) -> None:
        """Take the whitelist from its text.

        Raises:
            BadWhitelist: it cannot be read, and is left as it was.
        """
        self.whitelist = whitelist_of(text) if text else Whitelist()

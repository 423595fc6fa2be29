"""What one look at a spread gathers: changes of its ledger, decisions about its pods, events about itself.

`places`, `adopting`, `costing`, `rescheduling` and `wanted_status` add to it; `conclude` decides in which
order they are asked, and makes decisions of it all.
"""

from __future__ import annotations

from typing import Any

from tidewright.events.base import Because, Decision, JsonObject, ObjectRef
from tidewright.events.decisions import PatchObject, RecordObjectEvent
from tidewright.events.spread import LedgerChange, LedgerRules, PassedOver
from tidewright.kube.workloadspreads import limits
from tidewright.kube.workloadspreads.spec import COMPONENT, GROUP, KIND, Spread, Subset
from tidewright.spread import holding
from tidewright.spread.control.versions import versions_by
from tidewright.spread.ledger.ledger import leaving_key
from tidewright.spread.match.matching import group_kind
from tidewright.spread.state import Row, SpreadState, State, unpack_uid


class Gathering:
    """A spread, and what follows for it so far.

    Attributes:
        now: log time, seconds.
        mode: what the modes in force say about it.
        versions, version: by the settings in force; of a pod.
        changes: of the ledger, in order.
        reasons: for them.
        rules: the rules to put in force; None leaves them.
        renewing: rules and counts are said once more, though they have not changed.
        recounting: counts are said anew, because versions are others than before.
        urgent: the status is written at once.
        held_delta: version and subset to how many places the changes add.
        placed_gone, leaving_gone: keys in the ledger's `placed` and `leaving` that are in flight no more.
        conditions: subset to whether it is open.
    """

    def __init__(self, state: State, spread: SpreadState) -> None:
        self.state = state
        self.s = spread
        self.now = state.now
        self.mode = holding.held(state, spread)
        self.versions = versions_by(state.settings)
        self.version = self.versions.of
        self.ref = ObjectRef(
            api_version=f"{GROUP}/v1alpha1",
            kind=KIND,
            namespace=spread.namespace,
            name=spread.name,
            uid=spread.uid,
        )
        self.changes: list[LedgerChange] = []
        self.reasons: list[Because] = []
        self.rules: LedgerRules | None = None
        self.pod_decisions: list[Decision] = []
        self.object_events: list[Decision] = []
        self.urgent = False
        self.renewing = False
        self.recounting = False
        self.held_delta: dict[tuple[str, str], int] = {}
        self.placed_gone: set[str] = set()
        self.leaving_gone: set[str] = set()
        self.conditions: dict[str, bool] = {
            name: condition.open for name, condition in spread.conditions.items()
        }

    @property
    def replicas(self) -> int:
        """Of the target; 0 while it is not known."""
        if self.s.path_replicas is not None and self._read_at_paths():
            return self.s.path_replicas
        target = self.state.workloads.get(self.s.target_uid)
        return 0 if target is None else target.replicas

    def _read_at_paths(self) -> bool:
        """Whether paths override the target's ordinary replicas (3.2)."""
        spread = self.s.spread
        if spread is None or spread.target is None:
            return False
        if spread.target_filter is not None and spread.target_filter.replicas_path_list:
            return True
        entry = self.state.whitelist.entry(group_kind(spread.target))
        return entry is not None and bool(entry.replicas_path)

    @property
    def latest(self) -> str:
        """Version of the target's current template."""
        return self.versions.latest(self.state, self.s)

    def limit(self, subset: Subset, replicas: int) -> int | None:
        """The subset's limit in pods; 0 for one that is no number, None for unlimited."""
        if subset.limit is None:
            return None
        try:
            return max(0, limits.strict(subset.limit, replicas))
        except limits.NotALimit:
            return 0

    def belongs(self, row: Row) -> bool:
        """Whether the pod's annotation names this spread and a subset."""
        return row.placed_by == self.s.name and bool(row.subset)

    def subset_of(self, spread: Spread, row: Row) -> str:
        """The subset that a pod counts in; "" when it is in none (any more)."""
        return row.subset if self.belongs(row) and spread.subset(row.subset) is not None else ""

    def held(self, version: str | None, subset: str) -> int:
        """Places held in a subset after these changes; of all versions for None."""
        if version is None:
            return self.s.ledger.held_in_all(subset) + sum(
                by for (_, name), by in self.held_delta.items() if name == subset
            )
        return self.s.ledger.held(version, subset) + self.held_delta.get((version, subset), 0)

    def change(
        self,
        kind: Any,
        key: str,
        row_version: str,
        *,
        subset: str,
        pod: str,
        reason: str,
        passed: tuple[PassedOver, ...] = (),
        uid: str = "",
        request: str = "",
    ) -> None:
        """A change of the ledger; see `LedgerChange`."""
        self.changes.append(LedgerChange(kind, key, pod, row_version, subset, reason, passed, uid, request))
        step = {"Held": 1, "Released": -1, "Uncounted": 1}.get(kind, 0)
        if step:
            place = (row_version, subset)
            self.held_delta[place] = self.held_delta.get(place, 0) + step
        if kind == "Seen" or (kind == "Released" and not pod):
            self.placed_gone.add(key)
        if kind != "Seen" and pod:
            self.leaving_gone.add(leaving_key(self.s.ledger, pod, uid))

    def pod_ref(self, row: Row) -> ObjectRef:
        """A pod as the target of a decision."""
        return ObjectRef(
            api_version="v1", kind="Pod", namespace=self.s.namespace, name=row.name, uid=unpack_uid(row.uid)
        )

    def patch_pod(self, row: Row, patch: JsonObject, because: Because) -> None:
        """Decide a patch of a pod's metadata."""
        self.pod_decisions.append(
            PatchObject(at=self.now, target=self.pod_ref(row), patch=patch, because=(because,))
        )

    def tell(self, kind: str, reason: str, message: str) -> None:
        """Decide an event on the spread; `kind` is `Normal` or `Warning`."""
        self.object_events.append(
            RecordObjectEvent(
                at=self.now,
                target=self.ref,
                event_type=kind,
                reason=reason,
                message=message,
                component=COMPONENT,
            )
        )

"""A propeller fleet (compat mode) as a fold: what is known of it, and the pass under way.

The original looks every `scan-interval`; here a pass also starts at once when something it would
judge differently has changed: the template, the configuration, a pod that failed or is gone. One
pass runs at a time; what changes meanwhile makes another one follow.

Nothing of this is needed by the pods: when the manager dies they keep running.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from tidewright.events.base import JsonObject
from tidewright.events.facts import PodObserved
from tidewright.sharding.histogram import Histogram
from tidewright.shardmanager.config import ManagerConfig
from tidewright.shardmanager.confighash import accepted_hashes
from tidewright.shardmanager.managerlock import Lock
from tidewright.shardmanager.pods import (
    APP_LABEL,
    CONFIG_HASH,
    TEMPLATE_VERSION,
    ContainerMissing,
    find_container,
)
from tidewright.shardmanager.scan import Fidelity, Pass, SeenPod, Stage, is_stale, other_generation
from tidewright.shardmanager.strategy import shard_args

DECISION = "tidewright.dev/decision"
"""The annotation that the actuator puts on what it makes for us."""
ROUNDS_KEPT = 100
"""Passes whose durations make the quantiles."""
RIVAL_QUIET_INTERVALS = 6
"""Scan intervals without a new pod of another manager after which that one is taken for stopped."""


class Template(msgspec.Struct, frozen=True, kw_only=True):
    """A PodTemplate as it was last seen."""

    version: str
    template: JsonObject


class KnownPod(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A pod that the manager may have to do with.

    Attributes:
        deleting_since: log time at which it was first seen to be on its way out, seconds.
        ours: made by this system, not by another manager.
        expected: made by us and not observed yet; forgotten when it does not appear.
        owners: its owner references, kept for the manager's own pod.
        args: arguments by container.
    """

    name: str
    uid: str = ""
    phase: str = "Pending"
    ready: bool = False
    ready_changed_at: float | None = None
    created_at: float | None = None
    deleting: bool = False
    deleting_since: float | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owners: list[JsonObject] = []
    args: dict[str, tuple[str, ...]] = {}
    ours: bool = False
    expected: bool = False

    @property
    def seen(self) -> SeenPod:
        return SeenPod(name=self.name, phase=self.phase, annotations=self.annotations, deleting=self.deleting)


class Fleet(msgspec.Struct, kw_only=True):
    """One configuration of the original's manager, at work.

    Attributes:
        namespace: of the pods.
        manager_pod: the manager's own pod, whose owner references the shards inherit; empty: none.
        refused: why this configuration is not acted upon, empty when it is.
        current: the pass under way.
        again: something changed during it.
        scan_due: the timer for the next pass; None while none is set.
        drifted: pods of others that were told other things than this configuration says, as last judged.
        last: the last pass that ended.
        reported: what was last recorded of a pass.
        unreported: a pass has ended, or the configuration has changed, since the last record.
        rearm: the timer for the next pass is to be set anew: a pass has ended.
        local: the fleet's namespace belongs to this slot, because its template was seen here.
        metrics_prefix: of the original's series.
        begun_at: log time at which the last pass began, seconds.
        round_ms: how long the last passes took; round_ms_total, rounds: all of them.
        rival: pod that another manager with another configuration has made while this one runs; while
            that goes on nothing is written, or the two would undo each other for ever.
        rival_at: log time at which the last of them was seen, seconds.
        lock: of the manager; None when its configuration does not elect.
        totals: the original's counters, since the fold began.
    """

    config: ManagerConfig
    namespace: str
    manager_pod: str = ""
    refused: str = ""
    warnings: list[str] = []
    current: Pass | None = None
    again: bool = False
    scan_due: float | None = None
    drifted: list[str] = []
    last: Pass | None = None
    reported: str = ""
    unreported: bool = False
    rearm: bool = False
    local: bool = False
    metrics_prefix: str = "kozmo"
    begun_at: float = 0.0
    round_ms: list[float] = []
    round_ms_total: float = 0.0
    rounds: Histogram = msgspec.field(default_factory=Histogram)
    rival: str = ""
    rival_at: float = 0.0
    lock: Lock | None = None
    passes: int = 0
    created_total: int = 0
    deleted_total: int = 0

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.config.pod_application}"

    @property
    def template_key(self) -> str:
        return f"{self.config.pod_template_namespace}/{self.config.pod_template_name}"

    def leads(self, now: float) -> bool:
        """Whether no other manager may act on this fleet now."""
        return self.lock is None or self.lock.leads(now)

    def pods_of(self, pods: dict[str, KnownPod]) -> list[KnownPod]:
        """The pods with the application's label, by name: the order in which the API lists them."""
        application = self.config.pod_application
        return [pods[name] for name in sorted(pods) if pods[name].labels.get(APP_LABEL) == application]

    def begin(self, template: Template | None, pods: dict[str, KnownPod]) -> None:
        """Start a pass, or note that another one must follow the one under way."""
        if self.refused or self.rival:
            return
        if self.current is not None:
            self.again = True
            return
        self.again = False
        self.current = Pass()
        if self.manager_pod and self.manager_pod not in pods:
            self.current.list_failed(
                f"failed to get pod '{self.manager_pod}' in namespace '{self.namespace}' [not found]"
            )
        elif template is None:
            name = self.config.pod_template_name
            self.current.template_missing(self.config, f'podtemplates "{name}" not found')
        else:
            self.current.template_read(template.version)
            mine = self.pods_of(pods)
            # A pod on its way out is left to go: another request would change nothing.
            seen = [pod.seen for pod in mine if not self._leaving(pod, template.version)]
            self.current.listed(self.config, seen, Fidelity.KIND)
            self._replace_one_that_drifted(template, mine)
            leaving = {pod.name for pod in mine if self._leaving(pod, template.version)}
            self._hold_names(leaving | set(self.current.deletions))

    def _replace_one_that_drifted(self, template: Template, pods: list[KnownPod]) -> None:
        """Replace one adopted pod whose arguments are not those of its shard, when all is well otherwise (3.14).

        Ours are made with the right ones: where they are others, somebody changes them on the way, and would again.
        """
        current = self.current
        if current is None:
            return
        indexes = {name: index for index, name in enumerate(self.config.pod_names)}
        kept = set(current.existing).difference(current.foreign)
        self.drifted = [
            pod.name for pod in pods if pod.name in kept and self._drifted(pod, template, indexes[pod.name])
        ]
        whole = current.counted == len(indexes) and not any(pod.deleting for pod in pods)
        if self.drifted and whole and not current.deletions and not current.creations:
            current.deletions, current.stage = self.drifted[:1], Stage.DELETING

    def _drifted(self, pod: KnownPod, template: Template, index: int) -> bool:
        if pod.ours or pod.expected or not pod.args:
            return False
        try:
            container = find_container(
                template.template.get("spec") or {}, self.config.pod_template_container_name
            )
        except ContainerMissing:
            return False
        wanted = [*(container.get("args") or []), *shard_args(self.config.shard, index)]
        return list(pod.args.get(self.config.pod_template_container_name, ())) != wanted

    def finish(self, now: float) -> bool:
        """Close a pass that is done. True when another one must follow."""
        if self.current is None or not self.current.done:
            return False
        self.last, self.current = self.current, None
        self.passes += 1
        took_ms = 1000 * max(0.0, now - self.begun_at)
        self.round_ms = [*self.round_ms[-(ROUNDS_KEPT - 1) :], took_ms]
        self.round_ms_total += took_ms
        self.rounds.observe(took_ms / 1000)
        self.rearm = self.unreported = True
        self.created_total += self.last.created
        self.deleted_total += self.last.deleted
        return self.again

    def watch_for_rivals(self, before: KnownPod | None, after: KnownPod | None, now: float) -> bool:
        """Note a pod that another manager has just made. True when that is news."""
        if after is None or after.ours or after.deleting or not self.passes:
            return False
        if before is not None and before.uid in ("", after.uid):
            return False
        mine = after.labels.get(APP_LABEL) == self.config.pod_application
        if not mine or not other_generation(self.config, [after.seen]):
            return False
        news = not self.rival
        self.rival, self.rival_at = after.name, now
        if news:
            self.current, self.unreported, self.rearm = None, True, True
        return news

    def rival_is_quiet(self, now: float) -> bool:
        """Whether the other manager has made nothing for long enough to be taken for stopped."""
        return now >= self.rival_at + RIVAL_QUIET_INTERVALS * self.config.scan_interval_s

    def matters(self, before: KnownPod | None, after: KnownPod | None, template: Template | None) -> bool:
        """Whether a pass would judge this change of one pod."""
        application = self.config.pod_application
        if not any(p is not None and p.labels.get(APP_LABEL) == application for p in (before, after)):
            return False
        if after is None:
            return True
        if before is None or before.annotations != after.annotations or before.phase != after.phase:
            return after.phase == "Failed" or self._stale(after, template) or before is None
        return False

    def _stale(self, pod: KnownPod, template: Template | None) -> bool:
        version = template.version if template else ""
        return is_stale(pod.annotations, version, accepted_hashes(self.config.shard))

    def _leaving(self, pod: KnownPod, version: str) -> bool:
        if not pod.deleting:
            return False
        return is_stale(pod.annotations, version, accepted_hashes(self.config.shard)) or pod.phase == "Failed"

    def _hold_names(self, names: Iterable[str]) -> None:
        """Names of pods that are not gone yet cannot be created: the pass after their end does it."""
        current = self.current
        if current is None:
            return
        current.existing = sorted({*current.existing, *names})
        current.creations = [i for i in current.creations if self.config.pod_name(i) not in names]
        current.settle()


def known(event: PodObserved) -> KnownPod:
    """What is kept of a pod."""
    kept = {
        k: v for k, v in event.annotations.items() if k in (TEMPLATE_VERSION, CONFIG_HASH) or "shards." in k
    }
    return KnownPod(
        name=event.name,
        uid=event.uid,
        phase=event.phase,
        ready=bool(event.ready),
        ready_changed_at=event.ready_changed_at,
        created_at=event.created_at,
        deleting=event.deleting_at is not None,
        labels=event.labels,
        annotations=kept,
        args=event.args,
        ours=DECISION in event.annotations,
        owners=[
            {"apiVersion": o.api_version, "kind": o.kind, "name": o.name, "uid": o.uid} for o in event.owners
        ],
    )

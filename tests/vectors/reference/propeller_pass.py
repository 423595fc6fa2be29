"""One pass of the original's propeller manager over its pods (section 1.8), as a machine without an API.

It knows one hash of the configuration, deletes every stale pod that carries the application's label, its own
that are on their way out too, and creates what it has just deleted before that is gone. With the tags of intended differences it
does as ours in these.

    DIFFERENT tags of differences that the machine can follow
    judge     which pods go, which names exist, how many run
    Pass      template -> pods -> deletions -> creations -> done
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Literal

import msgspec

from tidewright.shardmanager.propeller.config import ManagerConfig
from tidewright.shardmanager.propeller.config_hash import accepted_hashes
from tidewright.shardmanager.propeller.pods import CONFIG_HASH, TEMPLATE_VERSION, create_error
from tidewright.shardmanager.propeller.scan import is_stale

LEAVING, FOREIGN, LEGACY_HASH, LIST_FAILS = (
    "pass-leaving",
    "pass-foreign",
    "pass-legacy-hash",
    "pass-list-fails",
)
DIFFERENT = (LEAVING, FOREIGN, LEGACY_HASH, LIST_FAILS)

Verb = Literal["get", "list", "delete", "create"]


class SeenPod(msgspec.Struct, frozen=True, kw_only=True):
    """A pod with the application's label, as a pass sees it."""

    name: str
    phase: str = "Pending"
    annotations: dict[str, str] = {}
    deleting: bool = False

    @property
    def made_by_a_manager(self) -> bool:
        return TEMPLATE_VERSION in self.annotations and CONFIG_HASH in self.annotations


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One request of a pass. `name` is the selector of a list."""

    verb: Verb
    resource: str
    namespace: str
    name: str
    index: int = -1


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """What a pass concludes from the list of pods.

    Attributes:
        stale: names to delete, in list order.
        existing: expected names that are taken by a pod that stays.
        running: of those, how many are in phase Running.
        left: names of pods that are let go, or left alone, and are no one's that stays.
    """

    stale: tuple[str, ...]
    existing: frozenset[str]
    running: int
    left: frozenset[str] = frozenset()


class Stage(StrEnum):
    """What a pass waits for."""

    TEMPLATE = "template"
    PODS = "pods"
    DELETING = "deleting"
    CREATING = "creating"
    DONE = "done"


def judge(
    config: ManagerConfig,
    template_version: str,
    pods: Sequence[SeenPod],
    ways: frozenset[str] = frozenset(),
) -> Judgement:
    """Sort the pods into those that go and those that stay."""
    hashes: tuple[str, ...] = accepted_hashes(config.shard)
    if LEGACY_HASH not in ways:
        hashes = hashes[:1]
    expected = frozenset(config.pod_names)
    stale: list[str] = []
    existing: set[str] = set()
    left: set[str] = set()
    running = 0
    for pod in pods:
        if is_stale(pod.annotations, template_version, hashes) or pod.phase == "Failed":
            leaves = pod.deleting and LEAVING in ways
            foreign = not pod.made_by_a_manager and FOREIGN in ways
            if leaves or foreign:
                left.add(pod.name)
            else:
                stale.append(pod.name)
        elif pod.name in expected:
            existing.add(pod.name)
            running += pod.phase == "Running"
    return Judgement(stale=tuple(stale), existing=frozenset(existing), running=running, left=frozenset(left))


class Pass(msgspec.Struct, kw_only=True):
    """One pass under way.

    Attributes:
        template_version: of the template that this pass works with.
        deletions: names still to delete, in order; the first one is asked for.
        creations: indexes asked for and not answered.
        running: the gauge; None when the judging step did not end.
        errors: messages of failed creations by index.
        ways: the differences that are followed.
        error: the error that ended the pass, before any creation.
    """

    stage: Stage = Stage.TEMPLATE
    template_version: str = ""
    deletions: list[str] = []
    creations: list[int] = []
    existing: list[str] = []
    deleted: int = 0
    created: int = 0
    counted: int = 0
    running: int | None = None
    errors: dict[int, str] = {}
    error: str = ""
    ways: frozenset[str] = frozenset()

    @property
    def done(self) -> bool:
        return self.stage is Stage.DONE

    @property
    def outcome(self) -> str:
        """The error of the pass, empty when there is none: creation errors each after a newline."""
        return self.error or "".join("\n" + self.errors[index] for index in sorted(self.errors))

    def calls(self, config: ManagerConfig, namespace: str) -> list[Call]:
        """The requests that may be made now."""
        match self.stage:
            case Stage.TEMPLATE:
                name, where = config.pod_template_name, config.pod_template_namespace
                return [Call(verb="get", resource="podtemplates", namespace=where, name=name)]
            case Stage.PODS:
                selector = config.list_selector
                return [Call(verb="list", resource="pods", namespace=namespace, name=selector)]
            case Stage.DELETING:
                name = self.deletions[0]
                return [Call(verb="delete", resource="pods", namespace=namespace, name=name)]
            case Stage.CREATING:
                return [
                    Call(
                        verb="create",
                        resource="pods",
                        namespace=namespace,
                        name=config.pod_name(index),
                        index=index,
                    )
                    for index in self.creations
                ]
            case Stage.DONE:
                return []

    def template_read(self, version: str) -> None:
        """The template is there, at this resourceVersion."""
        self.template_version = version
        self.stage = Stage.PODS

    def template_missing(self, config: ManagerConfig, error: str) -> None:
        """Nothing is repaired without a template; what runs keeps running."""
        self._end(
            f"failed to retrieve pod template '{config.pod_template_name}' "
            f"from namespace '{config.pod_template_namespace}' [{error}]"
        )

    def list_failed(self, error: str) -> None:
        self._end(error)

    def listed(self, config: ManagerConfig, pods: Sequence[SeenPod]) -> None:
        """Judge the pods."""
        judgement = judge(config, self.template_version, pods, self.ways)
        self.deletions = list(judgement.stale)
        self.existing = sorted(judgement.existing | judgement.left)
        self.counted = judgement.running
        self._after_deletion(config)

    def deletion_answered(self, config: ManagerConfig, error: str = "") -> None:
        """How the deletion that was asked for came out. An error ends the pass."""
        if error:
            self._end(error)
            return
        self.deletions = self.deletions[1:]
        self.deleted += 1
        self._after_deletion(config)

    def creation_answered(self, config: ManagerConfig, index: int, error: str = "") -> None:
        """How one creation came out; an error is remembered and holds up no other."""
        self._answered(index, create_error(config.pod_name(index), error) if error else "")

    def creation_impossible(self, index: int, message: str) -> None:
        """The pod could not even be made from the template; the message stands as it is."""
        self._answered(index, message)

    def _answered(self, index: int, message: str) -> None:
        self.creations = [i for i in self.creations if i != index]
        if message:
            self.errors[index] = message
        else:
            self.created += 1
        if not self.creations:
            self.stage = Stage.DONE

    def _after_deletion(self, config: ManagerConfig) -> None:
        if self.deletions:
            self.stage = Stage.DELETING
            return
        self.running = self.counted
        names = config.pod_names
        self.creations = [index for index, name in enumerate(names) if name not in self.existing]
        self.settle()

    def settle(self) -> None:
        """After the last deletion: create what is to be created, or be done."""
        if self.stage in (Stage.PODS, Stage.DELETING, Stage.CREATING) and not self.deletions:
            self.stage = Stage.CREATING if self.creations else Stage.DONE

    def _end(self, error: str) -> None:
        self.error = error
        self.deletions = []
        self.stage = Stage.DONE


def other_generation(
    config: ManagerConfig, pods: Iterable[SeenPod], template_version: str | None = None
) -> str:
    """Why a second manager stays passive, empty when it need not: the fleet is of another configuration.

    Pods of other versions of the template say nothing of that; None: whatever their template was.
    """
    hashes = accepted_hashes(config.shard)
    others = [
        pod
        for pod in pods
        if pod.made_by_a_manager
        and template_version in (None, pod.annotations[TEMPLATE_VERSION])
        and pod.annotations[CONFIG_HASH] not in hashes
    ]
    return "a second manager with another configuration generation stays passive" if others else ""

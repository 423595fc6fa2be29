"""What is remembered of workloads and their pod templates. Values only."""

from __future__ import annotations

import msgspec

from tidewright.events.acting import MODE
from tidewright.events.base import JsonObject
from tidewright.events.facts import WorkloadObserved
from tidewright.events.spread import WorkloadSpreadObserved
from tidewright.kube.podtemplates import essentials

MOST_FORMS = 10_000
"""So many templates are remembered; beyond that those go that no workload has."""
MOST_PLANS = 20
"""So many plans for pods of a workload are remembered until those have come."""
FORGETS = 0.9
"""How fast the time fades that pods of a kind have taken to come, with each time that they come sooner."""


class Form(msgspec.Struct, frozen=True):
    """A pod template without what may hold a secret: what decides where its pods may run.

    Attributes:
        error: why it cannot be read.
    """

    spec: JsonObject = {}
    error: str = ""


def form_of(spec: JsonObject) -> Form:
    """What is kept of a template's pod spec."""
    try:
        return Form(spec=essentials({"spec": spec})["spec"])
    except (AttributeError, TypeError, KeyError, ValueError) as error:
        return Form(error=f"{type(error).__name__}: {error}")


class Workload(msgspec.Struct, frozen=True, omit_defaults=True):
    """A workload, as `WorkloadObserved` has it.

    Attributes:
        owner: uid of the object that controls it.
        labels, annotations: of its pods.
        observed: pods that its controller says there are.
        since: log time since when it has wanted what it wants, and has had what it has.
    """

    uid: str
    api_version: str
    owner: str = ""
    replicas: int = 0
    observed: int = 0
    template: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    generation: int = 0
    revision: str = ""
    paused: bool = False
    max_surge: str = ""
    ordered: bool = False
    suspended: bool = False
    completions: int | None = None
    succeeded: int = 0
    failed: int = 0
    ended: bool = False
    refused: str = ""
    after_end: bool = False
    deleting: bool = False
    since: float = 0.0

    @property
    def complete(self) -> bool:
        """Whether its controller has made all the pods that are wanted."""
        return self.observed >= self.replicas or self.ended


def workload_of(event: WorkloadObserved, before: Workload | None) -> Workload:
    """A workload as it is now. `before` is as it was; another object of that name is none."""
    seen = Workload(
        uid=event.uid,
        api_version=event.api_version,
        owner=next((o.uid for o in event.owners if o.controller), ""),
        replicas=event.replicas,
        observed=event.status_replicas,
        template=event.template,
        labels=event.template_labels,
        annotations=event.template_annotations,
        generation=event.generation,
        revision=event.revision,
        paused=event.paused,
        max_surge=event.max_surge,
        ordered=event.ordered,
        suspended=event.suspended,
        completions=event.completions,
        succeeded=event.succeeded,
        failed=event.failed,
        ended=event.ended,
        refused=event.refused,
        after_end=event.after_end,
        deleting=event.deleting_at is not None,
        since=event.at,
    )
    if before is not None:
        same = msgspec.structs.replace(seen, since=before.since)
        if same == before:
            return before
    return seen


class Spreading(msgspec.Struct, frozen=True, omit_defaults=True):
    """A WorkloadSpread, as `WorkloadSpreadObserved` has it.

    Attributes:
        mode: the mode that its annotation asks for; empty without one.
        closed: subsets that take no pods by now, as its status says.
        at_paths: its target's replicas, as they were read last at the paths that it names; None: never.
    """

    spec: JsonObject = {}
    created_at: float = 0.0
    mode: str = ""
    closed: tuple[str, ...] = ()
    at_paths: int | None = None


def spreading_of(event: WorkloadSpreadObserved, before: Spreading | None) -> Spreading:
    """A WorkloadSpread as it is now; `before` as it was. Of a status that cannot be read nothing is taken."""
    return Spreading(
        spec=event.spec,
        created_at=event.created_at or 0.0,
        mode=event.annotations.get(MODE, ""),
        closed=_closed(event.status),
        at_paths=before.at_paths if before is not None else None,
    )


def _closed(status: JsonObject) -> tuple[str, ...]:
    try:
        return tuple(
            str(subset["name"])
            for subset in status.get("subsetStatuses") or ()
            for condition in subset.get("conditions") or ()
            if (condition.get("type"), condition.get("status")) == ("Schedulable", "False")
        )
    except (AttributeError, TypeError, KeyError):
        return ()


class Scaling(msgspec.Struct, frozen=True):
    """A decision to scale a workload, until its own fact shows what came of it.

    Attributes:
        decision: its id.
        replicas: what it is scaled to.
        at: log time of the decision.
    """

    decision: str
    replicas: int
    at: float


class Foreseen(msgspec.Struct, frozen=True):
    """Pods of a workload for which nodes were ordered before they were there.

    Attributes:
        plan: the last such plan.
        pods: how many, by it.
        at: when.
        decision: the decision to scale that said so; empty when the workload itself did.
        undone: what came of that decision instead.
        earlier: plans of before it for pods of the workload that had not all come then, the last ones.
    """

    uid: str
    plan: str
    pods: int
    at: float
    decision: str = ""
    undone: str = ""
    earlier: tuple[str, ...] = ()

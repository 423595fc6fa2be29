"""What an evaluation has decided so far about buffers. Spec 2 and 5.

`BufferWork` is handed from step to step. What is decided is folded only when the evaluation is over, so it keeps
its own view of what is so by now: ask it, not the state, for statuses and for what room is wanted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from tidewright.events.base import Because, Decision, JsonObject, ObjectRef
from tidewright.events.decisions import RecordObjectEvent, SetStatus
from tidewright.kube.conditions import Condition, find, parse, render, with_condition
from tidewright.kube.keys import BufferKey, name_of, namespace_of, parts
from tidewright.kube.podshape import PodShape
from tidewright.kube.podspecs import of_template
from tidewright.kube.windows import Standing
from tidewright.provisioning import holding
from tidewright.provisioning.buffers import conditions as cond
from tidewright.provisioning.buffers import extras
from tidewright.provisioning.buffers.kept import Buffer
from tidewright.provisioning.buffers.spec import ours, strategy_of
from tidewright.provisioning.index.index import Index, Read
from tidewright.provisioning.scaleup.orders import COMPONENT, MAX_MESSAGE
from tidewright.provisioning.settings import Settings
from tidewright.provisioning.state import State

RETRY_S, MOST_S = 10.0, 1000.0
"""After a failure it is tried again after so long, then after twice as long each time, at most after `MOST_S`."""
RESYNC_S = 300.0
"""So often what no fact tells of is asked again: pods and scale of a kind that is not watched."""


class Status(msgspec.Struct, frozen=True):
    """A status, as far as it is not conditions; None and empty: it is not said."""

    template: str = ""
    generation: int | None = None
    replicas: int | None = None
    strategy: str | None = None

    def rendered(self) -> JsonObject:
        """As the API has it."""
        status: JsonObject = {}
        if self.template:
            status["podTemplateRef"] = {"name": self.template}
        if self.generation is not None:
            status["podTemplateGeneration"] = self.generation
        if self.replicas is not None:
            status["replicas"] = self.replicas
        if self.strategy is not None:
            status["provisioningStrategy"] = self.strategy
        return status


class Wanted(NamedTuple):
    """Room that a buffer wants: so many chunks of a shape, whose fields a decision may carry."""

    shape: PodShape
    chunks: int
    fields: JsonObject


class BufferWork:
    """The buffers of one evaluation, and what has been decided about them so far.

    Attributes:
        mine: the buffers that are served here, in the order of their namespaces, ages and names.
        dues: when to look again, log time.
        statuses: by buffer, of those about which something was concluded.
        why: the reasons of what their status says.
        wanted: the room that is taken, by buffer.
        assumed: templates that would be kept, where the modes hold that back.
        binding: what is decided is carried out.
    """

    def __init__(
        self, state: State, index: Index, now: float, settings: Settings, *, binding: bool = True
    ) -> None:
        self.state = state
        self.index = index
        self.now = now
        self.settings = settings
        self.binding = binding
        self.dues: list[float] = []
        self.statuses: dict[BufferKey, Status] = {}
        self.why: dict[BufferKey, list[Because]] = {}
        self.wanted: dict[BufferKey, Wanted] = {}
        self.assumed: dict[BufferKey, JsonObject] = {}
        self._conditions: dict[BufferKey, tuple[Condition, ...]] = {}
        self.mine: list[BufferKey] = sorted(
            (key for key, buffer in state.buffers.items() if settings.buffers and _served(buffer)),
            key=lambda key: (namespace_of(key), state.buffers[key].created_at, name_of(key)),
        )

    def acts(self, key: BufferKey) -> bool:
        """Whether the modes in force let something be done about a buffer."""
        return self.binding and holding.of_buffer(self.state, key).acts

    def held_alone(self, key: BufferKey) -> bool:
        """Whether the modes hold back this buffer, and not all of the service: others do not see what it would take."""
        return self.binding and not self.acts(key) and holding.of_service(self.state).acts

    def window_of(self, key: BufferKey) -> Standing:
        """Whether a buffer wants room now; it is looked at again when that may change."""
        now = extras.readable(self.state.buffers[key].annotations).standing(self.now)
        if now.until is not None:
            self.dues.append(now.until + 0.001)
        return now

    def shape_of(
        self, key: BufferKey, what: str, template: JsonObject, known: JsonObject | None = None
    ) -> PodShape:
        """The shape of a pod template, which is read once as long as it is the same object.

        Args:
            key: the buffer that it is for.
            what: what for.
            template: the template.
            known: its PriorityClass, for one that says no priority itself.
        """
        read = self.index.read.get((what, key))
        if read is None or read.template is not template or read.beside is not known:
            spec = dict(template.get("spec") or {})
            if known is not None and spec.get("priority") is None:
                spec["priority"] = known.get("value", 0)
            shape = of_template({**template, "spec": spec}, namespace_of(key))
            read = self.index.read[what, key] = Read(template, known, shape)
        return read.shape

    # --- Statuses ---

    def status_of(self, key: BufferKey) -> Status:
        """The status by now: concluded in this evaluation, or before, or by somebody else."""
        concluded = self.statuses.get(key)
        return concluded if concluded is not None else stored(known(self.state.buffers[key]))

    def conditions_of(self, key: BufferKey) -> tuple[Condition, ...]:
        """Conditions by now, those set in this evaluation included."""
        found = self._conditions.get(key)
        return found if found is not None else parse(known(self.state.buffers[key]).get("conditions"))

    def put(self, key: BufferKey, condition: Condition, *, generation: int = 0) -> None:
        """Set a condition; it is written at the end, if it is another than before."""
        self._conditions[key] = with_condition(
            self.conditions_of(key), condition, self.now, generation=generation
        )

    def drop(self, key: BufferKey, kind: str) -> None:
        """Say nothing more of a type."""
        self._conditions[key] = tuple(c for c in self.conditions_of(key) if c.type != kind)

    def since(self, key: BufferKey, kind: str) -> float:
        """Since when a condition has had its status; now where there is none."""
        condition = find(self.conditions_of(key), kind)
        return self.now if condition is None else condition.changed_at

    def retry(self, began: float) -> None:
        """Look again at what has been amiss since `began`: after a while, then after twice as long each time."""
        wait = RETRY_S
        due = began + wait
        while due <= self.now:
            wait = min(wait * 2.0, MOST_S)
            due += wait
        self.dues.append(due)

    def written(self) -> list[Decision]:
        """One status per buffer that says another thing than before."""
        decisions: list[Decision] = []
        for key in self.mine:
            buffer = self.state.buffers[key]
            ours_now = [c for c in self.conditions_of(key) if c.type in self._types()]
            own = self.status_of(key).rendered() if self.settings.buffer_controller else {}
            status: JsonObject = {**own, "conditions": render(ours_now)}
            before = _ours(known(buffer), self._types(), whole=self.settings.buffer_controller)
            if not buffer.rewrite and _same(status, before):
                continue
            urgent = not _same(_unmeasured(status), _unmeasured(before))
            decisions.append(
                SetStatus(
                    at=self.now,
                    target=buffer_ref(key, buffer.uid),
                    status=status,
                    observed_generation=buffer.generation,
                    urgent=urgent,
                    apply_as=COMPONENT,
                    because=tuple(self.why.get(key, ())),
                )
            )
        return decisions

    def _types(self) -> frozenset[str]:
        """The conditions that are written here."""
        mine = cond.INJECTED_HERE
        return mine | cond.RESOLVED_HERE if self.settings.buffer_controller else mine

    def event(
        self, key: BufferKey, reason: str, message: str, event_type: str = "Normal"
    ) -> RecordObjectEvent:
        """An object event about a buffer."""
        return RecordObjectEvent(
            at=self.now,
            target=buffer_ref(key, self.state.buffers[key].uid),
            event_type=event_type,
            reason=reason,
            message=message[:MAX_MESSAGE],
            component=COMPONENT,
        )


def _served(buffer: Buffer) -> bool:
    return not buffer.deleting and ours(strategy_of(buffer.spec))


def buffer_ref(key: BufferKey, uid: str) -> ObjectRef:
    namespace, name = parts(key)
    return ObjectRef(
        api_version="autoscaling.x-k8s.io/v1beta1",
        kind="CapacityBuffer",
        namespace=namespace,
        name=name,
        uid=uid,
    )


def known(buffer: Buffer) -> JsonObject:
    """Its status: as decided here, or as it was seen before anything was; conditions of others always as seen."""
    if buffer.written is None:
        return buffer.observed
    written = list(_conditions(buffer.written))
    mine = {condition["type"] for condition in written}
    others = (condition for condition in _conditions(buffer.observed) if condition["type"] not in mine)
    conditions = [*written, *others]
    beside = buffer.observed if set(buffer.written) == {"conditions"} else {}
    return {**beside, **buffer.written, "conditions": conditions}


def _conditions(status: JsonObject) -> Iterator[JsonObject]:
    """Those of a status that are some."""
    stored = status.get("conditions")
    for condition in stored if isinstance(stored, list) else ():
        if isinstance(condition, dict) and isinstance(condition.get("type"), str):
            yield condition


def stored(status: JsonObject) -> Status:
    """What a status says, as far as it can be read."""
    reference = status.get("podTemplateRef")
    name = reference.get("name") if isinstance(reference, dict) else None
    generation, replicas = status.get("podTemplateGeneration"), status.get("replicas")
    strategy = status.get("provisioningStrategy")
    return Status(
        template=name if isinstance(name, str) else "",
        generation=generation if isinstance(generation, int) else None,
        replicas=replicas if isinstance(replicas, int) else None,
        strategy=strategy if isinstance(strategy, str) else None,
    )


def _ours(status: JsonObject, types: frozenset[str], *, whole: bool) -> JsonObject:
    """Of a status what is written here."""
    conditions = render(c for c in parse(status.get("conditions")) if c.type in types)
    members = stored(status).rendered() if whole else {}
    return {**members, "conditions": conditions}


def _same(one: JsonObject, other: JsonObject) -> bool:
    """Whether two statuses say the same, in whatever order their conditions stand."""
    return _sorted(one) == _sorted(other)


def _sorted(status: JsonObject) -> JsonObject:
    conditions: Iterable[JsonObject] = status.get("conditions") or ()
    return {**status, "conditions": sorted(conditions, key=lambda c: str(c["type"]))}


def _unmeasured(status: JsonObject) -> JsonObject:
    """A status without the counts of its chunks."""
    conditions = [
        {n: v for n, v in c.items() if n != "message" or c["type"] != cond.CAPACITY_READY}
        for c in status.get("conditions") or ()
    ]
    return {**status, "conditions": conditions}

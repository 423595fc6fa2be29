"""What an effect is founded on: an object that the watcher told of, looked up on the log when the effect is tried.

A decider that is taken over can decide anything, and the table lets through what it may decide about somebody. So
whoever is acted upon must have been put under the service by a user: a workload is scaled because an autoscaler
names it, within that one's limits; a pod is made because a PodTemplate says how.

The last word on the object counts. Of templates and patches those before it do, too: a rollout goes back to the
template that worked, and a pod is adopted while its spread changes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final

import msgspec
import structlog

from tidewright.actuator.allowed import pods, webhooks
from tidewright.actuator.allowed.bounds import Refusal
from tidewright.actuator.allowed.fields import CHUNK, DELETION_COST, MATCHED
from tidewright.actuator.plan import Ground
from tidewright.events import registry
from tidewright.events.autoscaler import WatermarkPodAutoscalerObserved
from tidewright.events.base import Event, JsonObject
from tidewright.events.config import ConfigSet
from tidewright.events.decisions import CreateObject, Effect, EvictPod, HoldLease, PatchObject, ScaleWorkload
from tidewright.events.endpoints import EndpointEffect
from tidewright.events.facts import NodeObserved, PodObserved
from tidewright.events.provisioning import CapacityBufferObserved, PodTemplateObserved, ResolvePod
from tidewright.events.shards import ShardSetObserved
from tidewright.events.spread import WorkloadSpreadObserved
from tidewright.host.loop.fenced import answered, attempts
from tidewright.kube.taints import DRAIN, TO_BE_DELETED
from tidewright.log import errors
from tidewright.log.connection import Log
from tidewright.log.subjects import ALL
from tidewright.sharding.source import source_of

_log = structlog.get_logger(__name__)

REMEMBERED: Final = 4_096
BELIEVED_S: Final = 1.0
"""Wall seconds for which a node that was seen with our mark is believed to have it: its pods are evicted together."""
MANY: Final = 8
"""Fewer pods that are evicted together are asked about one by one."""
TOGETHER: Final = 64
"""As many are asked about with one question: the server compares the subjects of one with each other."""
PAUSE_IMAGE: Final = "registry.k8s.io/pause:3.10"
BUFFER_CLASS: Final = "tidewright-buffer"
STATUS: Final = ("kube-system", "cluster-autoscaler-status")

Fits = Callable[[Event], str]
"""Why an event is no ground, "" when it is one."""


class Grounds:
    """Looks grounds up on one log."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._looking = asyncio.Lock()
        """One looks back at a time: it reads all that was ever said on a subject."""
        self._spreads: dict[str, None] = {}
        """Namespaces that are known to have, or have had, a WorkloadSpread."""
        self._marked: dict[str, float] = {}
        """When nodes were asked about that carried our mark, of `time.monotonic`."""
        self._marking: dict[str, asyncio.Lock] = {}
        """Nodes that are asked about now: pods of one are evicted together, and the first of them asks for all."""
        self._expected: dict[str, asyncio.Future[Event | None]] = {}
        """The last words on pods of which evictions were read and not tried yet, by subject; None where there was none."""
        self._gathered: dict[str, asyncio.Future[Event | None]] = {}
        """Those of them that are still to be asked for."""
        self._asking: asyncio.Task[None] | None = None

    def expect(self, ground: Ground, effect: Effect) -> None:
        """An effect was read, and will be tried: evictions come by the hundred, and their pods are asked about together."""
        if ground != "drained" or not isinstance(effect, EvictPod):
            return
        if len(self._expected) >= REMEMBERED:
            self._expected.clear()  # they are asked about by themselves
        subject = self._pod(effect)
        if subject not in self._expected:
            # One that was decided twice is still to be asked for: whoever waits for that has the same word.
            word = self._gathered.setdefault(subject, asyncio.get_running_loop().create_future())
            self._expected[subject] = word
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask_together())

    async def _ask_together(self) -> None:
        """Find the last words on all pods that were gathered."""
        while self._gathered:
            asked = {subject: self._gathered.pop(subject) for subject in list(self._gathered)[:TOGETHER]}
            try:
                if len(asked) >= MANY:
                    async for record in self._log.last_per_subject(list(asked)):
                        if record.subject in asked and not asked[record.subject].done():
                            asked[record.subject].set_result(_read(record.body))
            except errors.LogError:
                pass  # each is asked about by itself then, and waits for an answer
            except Exception as error:  # noqa: BLE001 - likewise: who waits here would wait for ever
                _log.warning("pods are asked about one by one", error=f"{type(error).__name__}: {error}")
            finally:
                for word in asked.values():
                    if not word.done():
                        word.set_result(None)

    async def refusal(self, ground: Ground, effect: Effect) -> Refusal | None:
        """Why an effect has no ground; None when it has, or needs none.

        Raises:
            LogError: the log refuses to be asked. While it does not answer this waits.
        """
        said = ""
        match ground, effect:
            case "autoscaler", ScaleWorkload():
                said = await self._autoscaled(effect)
            case "spread", _:
                said = await self._spread(effect.target.namespace)
            case "matched", PatchObject():
                said = await self._matched(effect)
            case "template", CreateObject():
                said = await self._template(effect)
            case "placeholder", CreateObject():
                said = await self._placeholder(effect)
            case "drained", EvictPod():
                said = await self._drained(effect)
            case "buffer", ResolvePod() | CreateObject() | PatchObject():
                said = await self._buffer(effect)
            case "status", _:
                said = self._status(effect, await self._configured("provisioning"))
            case "lock", HoldLease():
                said = self._lock(effect, await self._configured("shardmanager"))
            case "set", ScaleWorkload():
                said = await self._set(effect)
            case "service", ScaleWorkload():
                said = self._service(effect, await self._configured("shardmanager"))
            case "labels", EndpointEffect():
                said = await self._labels(effect)
        return Refusal("WithoutGround", said) if said else None

    # -- scales ----------------------------------------------------------------------------------------

    async def _autoscaled(self, effect: ScaleWorkload) -> str:
        kind, _, rest = effect.owner.partition("/")
        namespace, _, name = rest.partition("/")
        if kind != "WatermarkPodAutoscaler" or namespace != effect.target.namespace:
            return f"owner {effect.owner!r} is no WatermarkPodAutoscaler of its target's namespace"

        def fits(event: Event) -> str:
            if not isinstance(event, WatermarkPodAutoscalerObserved):
                return f"WatermarkPodAutoscaler {rest} is not there"
            return _within(effect, event.spec)

        subject = self._log.subjects.fact(
            self._log.slot_of(namespace), "watermarkpodautoscaler", namespace, name
        )
        return await self._found(subject, fits)

    async def _set(self, effect: ScaleWorkload) -> str:
        kind, _, rest = effect.owner.partition("/")
        namespace, _, name = rest.partition("/")
        if kind != "ShardSet" or namespace != effect.target.namespace:
            return f"owner {effect.owner!r} is no ShardSet of its target's namespace"

        def fits(event: Event) -> str:
            if not isinstance(event, ShardSetObserved):
                return f"ShardSet {rest} is not there"
            named = effect.target.name in _texts(event.spec)
            return "" if named else f"ShardSet {rest} does not name StatefulSet {effect.target.name}"

        return await self._found(self._set_subject(namespace, name), fits)

    @staticmethod
    def _service(effect: ScaleWorkload, config: Mapping[str, Any]) -> str:
        where = f"{effect.target.namespace}/{effect.target.name}"
        for entry in _entries(config, "services"):
            if entry.get("deployment") != where or effect.owner != f"service/{entry.get('name')}":
                continue
            high = entry.get("max", 8)
            if isinstance(high, int) and effect.replicas > high:
                return f"{effect.replicas} replicas of {where} are more than its configured max {high}"
            return ""
        return f"{where} is not among the services of the configuration shardmanager"

    # -- pods ------------------------------------------------------------------------------------------

    async def _template(self, effect: CreateObject) -> str:
        namespace = effect.target.namespace
        names = self._log.subjects
        slot = self._log.slot_of(namespace)
        said = f"namespace {namespace} has no PodTemplate"
        pattern = names.fact(slot, "podtemplate", namespace, "*").replace("%2A", "*")

        def fits(event: Event) -> str:
            if not isinstance(event, PodTemplateObserved):
                return f"PodTemplate of {namespace} is gone"
            return pods.made_from(event.template, effect.manifest)

        subjects: list[str] = []
        async for attempt in attempts():
            with attempt:
                subjects = []
                async for record in self._log.last_per_subject([pattern]):
                    subjects.append(record.subject)
                    event = _read(record.body)
                    if event is not None and not (said := fits(event)):
                        return ""
        for subject in subjects:  # the last words were none: the template that worked, of a paused rollout
            if await self._ever(subject, fits):
                return ""
        return f"it is the pod of no PodTemplate of its namespace: {said}"

    async def _placeholder(self, effect: CreateObject) -> str:
        config = await self._configured("provisioning")
        spec = effect.manifest.get("spec") or {}
        image, placeholder_image = (
            spec["containers"][0]["image"],
            str(config.get("placeholder-image") or PAUSE_IMAGE),
        )
        namespace = str(config.get("namespace") or STATUS[0])
        if image != placeholder_image:
            return f"image {image!r} is not that of placeholders: {placeholder_image}"
        if effect.target.namespace != namespace:
            return f"placeholders are in namespace {namespace}, not in {effect.target.namespace}"
        priority = spec.get("priorityClassName", "")
        holds_chunk = CHUNK in ((effect.manifest.get("metadata") or {}).get("annotations") or {})
        own = (
            config.get("buffer-priority-class") or BUFFER_CLASS
            if holds_chunk
            else config.get("placeholder-priority-class")
        )
        if priority != str(own or ""):
            return f"priority class {priority!r} is not the configured one"
        return ""

    async def _buffer(self, effect: ResolvePod | CreateObject | PatchObject) -> str:
        namespace = effect.target.namespace
        if isinstance(effect, ResolvePod):
            name, uid, source = effect.target.name, effect.target.uid, effect.source
            if source.namespace != namespace:
                return f"it asks about {source.kind} {source.namespace}/{source.name}, of another namespace"
        else:
            content = effect.manifest if isinstance(effect, CreateObject) else effect.patch
            (owner,) = content["metadata"]["ownerReferences"]
            name, uid, source = str(owner.get("name")), str(owner.get("uid")), None

        def fits(event: Event) -> str:
            if not isinstance(event, CapacityBufferObserved) or event.uid != uid:
                return f"CapacityBuffer {namespace}/{name} ({uid}) is not there"
            if source is None:
                return ""
            named = _reference(event.spec)
            asked = (source.api_version.rpartition("/")[0], source.kind, source.name)
            if named == asked:
                return ""
            return f"CapacityBuffer {namespace}/{name} does not refer to {source.kind} {source.name}"

        subject = self._log.subjects.fact(self._log.slot_of(namespace), "capacitybuffer", namespace, name)
        return await self._found(subject, fits)

    async def _spread(self, namespace: str) -> str:
        if namespace in self._spreads:
            return ""
        names = self._log.subjects
        pattern = names.fact(self._log.slot_of(namespace), "workloadspread", namespace, "*")
        async for attempt in attempts():
            with attempt:
                async for _ in self._log.last_per_subject([pattern.replace("%2A", "*")]):
                    if len(self._spreads) >= REMEMBERED:
                        self._spreads.clear()
                    self._spreads[namespace] = None
        return "" if namespace in self._spreads else f"namespace {namespace} has no WorkloadSpread"

    async def _matched(self, effect: PatchObject) -> str:
        metadata = effect.patch.get("metadata") or {}
        notes: JsonObject = metadata.get("annotations") or {}
        labels: JsonObject = metadata.get("labels") or {}
        others = {key: value for key, value in notes.items() if key not in (MATCHED, DELETION_COST)}
        namespace = effect.target.namespace
        if said := await self._spread(namespace):
            return said
        if not others and not labels:
            return ""
        name, subset = _place(notes.get(MATCHED))
        if not name:
            return (
                f"labels and annotations beside a place are set without one: {', '.join({*labels, *others})}"
            )

        def fits(event: Event) -> str:
            if not isinstance(event, WorkloadSpreadObserved):
                return f"WorkloadSpread {namespace}/{name} is not there"
            for entry in event.spec.get("subsets") or ():
                if entry.get("name") == subset:
                    said = _patched(entry.get("patch"))
                    if labels == (said.get("labels") or {}) and others == (said.get("annotations") or {}):
                        return ""
            return f"subset {subset} of WorkloadSpread {namespace}/{name} does not say these labels and annotations"

        subject = self._log.subjects.fact(self._log.slot_of(namespace), "workloadspread", namespace, name)
        said = await self._found(subject, fits)
        return "" if not said or await self._ever(subject, fits) else said

    async def _drained(self, effect: EvictPod) -> str:
        """The pod was seen on the node, and the node with our mark: it is being drained."""
        target, names = effect.target, self._log.subjects

        def there(event: Event) -> str:
            if not isinstance(event, PodObserved) or event.uid != target.uid:
                return ""  # it went, or another has its name: the eviction finds nothing of it
            return "" if event.node == effect.node else f"pod {target.name} is on node {event.node or 'none'}"

        def marked(event: Event) -> str:
            if not isinstance(event, NodeObserved):
                return f"node {effect.node} is not there"
            tainted = any(taint.get("key") == TO_BE_DELETED for taint in event.taints)
            ours = tainted and DRAIN in event.annotations
            return "" if ours else f"node {effect.node} carries no mark of ours"

        # What was found when it was read is as good as what would be now, where it says so: a pod never leaves its node.
        expected = self._expected.pop(pod := self._pod(effect), None)
        word = await asyncio.shield(expected) if expected is not None else None
        seen = isinstance(word, PodObserved) and word.uid == target.uid and word.node == effect.node
        if not seen and (said := await self._found(pod, there)):
            return said
        asking = self._marking.setdefault(effect.node, asyncio.Lock())
        try:
            async with asking:
                asked_at = time.monotonic()
                if asked_at - self._marked.get(effect.node, float("-inf")) <= BELIEVED_S:
                    return ""
                said = await self._found(names.fact(ALL, "node", "", effect.node), marked)
                if not said:
                    if len(self._marked) >= REMEMBERED:
                        self._marked.clear()
                    self._marked[effect.node] = asked_at
                return said
        finally:
            if not asking.locked():
                self._marking.pop(effect.node, None)

    def _pod(self, effect: EvictPod) -> str:
        """On which subject the pod of an eviction is."""
        target = effect.target
        return self._log.subjects.fact(
            self._log.slot_of(target.namespace), "pod", target.namespace, target.name
        )

    # -- configuration ---------------------------------------------------------------------------------

    async def _configured(self, part: str) -> Mapping[str, Any]:
        record = await answered(partial(self._log.last, self._log.subjects.config(part)))
        event = _read(record.body) if record is not None else None
        return event.data if isinstance(event, ConfigSet) else {}

    @staticmethod
    def _status(effect: Effect, config: Mapping[str, Any]) -> str:
        configured = (
            str(config.get("namespace") or STATUS[0]),
            str(config.get("status-config-map-name") or STATUS[1]),
        )
        if (effect.target.namespace, effect.target.name) == configured:
            return ""
        return f"the status is in ConfigMap {'/'.join(configured)}"

    @staticmethod
    def _lock(effect: HoldLease, config: Mapping[str, Any]) -> str:
        said: set[str] = set()
        for entry in _entries(config, "managers"):
            said |= set(_texts(entry))
        target = effect.target
        if target.name in said and target.namespace in said:
            return ""
        return (
            f"no manager of the configuration shardmanager elects by lease {target.namespace}/{target.name}"
        )

    # -- endpoints -------------------------------------------------------------------------------------

    async def _labels(self, effect: EndpointEffect) -> str:
        for namespace, name, group, resource in webhooks.sets_of(effect):

            def fits(event: Event, announced: tuple[str, str] = (group, resource)) -> str:
                if not isinstance(event, ShardSetObserved):
                    return "it is not there"
                source = source_of(event.spec)
                mine = (source.group, source.resource)
                return "" if mine == announced else f"its objects are {mine[1]} ({mine[0] or 'core'})"

            if said := await self._found(self._set_subject(namespace, name), fits):
                return f"webhook for {resource} ({group or 'core'}) of ShardSet {namespace}/{name}: {said}"
        return ""

    def _set_subject(self, namespace: str, name: str) -> str:
        return self._log.subjects.fact(self._log.slot_of(namespace), "shardset", namespace, name)

    # -- looking ---------------------------------------------------------------------------------------

    async def _found(self, subject: str, fits: Fits) -> str:
        """Why the last word on a subject is no ground; "" when it is one."""
        record = await answered(partial(self._log.last, subject))
        event = _read(record.body) if record is not None else None
        return "nothing is known of the object that it is decided for" if event is None else fits(event)

    async def _ever(self, subject: str, fits: Fits) -> bool:
        """Whether anything that was ever said on a subject is a ground."""
        async with self._looking:
            async for attempt in attempts():
                with attempt:
                    async with self._log.reader([subject]) as reader:
                        async for record in reader.until_current():
                            event = _read(record.body)
                            if event is not None and not fits(event):
                                return True
        return False


def _read(body: bytes) -> Event | None:
    try:
        event = registry.decode(body)
    except registry.NotAnEvent:
        return None
    return event if isinstance(event, Event) else None


def _reference(spec: JsonObject) -> tuple[str, str, str]:
    """Group, kind and name of what a buffer refers to."""
    template, workload = spec.get("podTemplateRef"), spec.get("scalableRef")
    if isinstance(template, dict):
        return "", "PodTemplate", str(template.get("name"))
    if not isinstance(workload, dict):
        return "", "", ""
    group = str(workload.get("apiGroup") or "")
    return "" if group == "core" else group, str(workload.get("kind")), str(workload.get("name"))


def _within(effect: ScaleWorkload, spec: JsonObject) -> str:
    target = spec.get("scaleTargetRef") or {}
    if (target.get("kind"), target.get("name")) != (effect.target.kind, effect.target.name):
        return f"{effect.owner} is about {target.get('kind')} {target.get('name')}"
    group = str(target.get("apiVersion") or "").rpartition("/")[0]
    if group != effect.target.api_version.rpartition("/")[0]:
        return f"{effect.owner} is about {target.get('apiVersion')} {target.get('kind')}"
    low, high = spec.get("minReplicas"), spec.get("maxReplicas")
    least = min(low if isinstance(low, int) else 1, effect.from_replicas)
    most = max(high if isinstance(high, int) else 0, effect.from_replicas)
    if least <= effect.replicas <= most:
        return ""
    return f"{effect.replicas} replicas are outside of its limits, {low if low is not None else 1} to {high}"


def _place(text: Any) -> tuple[str, str]:
    """Spread and subset in a pod's annotation."""
    try:
        placement = msgspec.json.decode(text) if isinstance(text, str) else {}
    except msgspec.DecodeError:
        placement = {}
    if not isinstance(placement, dict):
        return "", ""
    return str(placement.get("name") or ""), str(placement.get("subset") or "")


def _patched(patch: Any) -> JsonObject:
    metadata = patch.get("metadata") if isinstance(patch, dict) else None
    return metadata if isinstance(metadata, dict) else {}


def _entries(config: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    entries = config.get(name)
    return [entry for entry in entries if isinstance(entry, Mapping)] if isinstance(entries, list) else []


def _texts(value: Any) -> Iterator[str]:
    """Every text in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for nested in value.values():
            yield from _texts(nested)
    elif isinstance(value, list):
        for nested in value:
            yield from _texts(nested)

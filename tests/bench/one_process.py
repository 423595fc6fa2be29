"""The work of a reaction without a log between: samples to scales in one process, folded, decided and applied there.

What the services left on a log is played once more: each input of the autoscaler goes through its fold, in the order of the
log, and what it decides about a sample is given to the actuator's own code for the API server at once. So it is the same
decisions about the same samples, as many at a time, and the same requests; what is left out is every message in between.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import msgspec

from tidewright.actuator.allowance import Allowance
from tidewright.actuator.apply import Applier
from tidewright.actuator.verdict import Done
from tidewright.asking.services import BY_NAME, load
from tidewright.events import registry
from tidewright.events.decisions import ScaleWorkload
from tidewright.host.fold.inputs import Inputs
from tidewright.host.fold.order import Fold
from tidewright.kube.client import Kube
from tidewright.kube.discovery import Discovery
from tidewright.log.connection import Log
from tidewright.log.reader import Record

REST_S = 0.5
"""Between two times that samples lead to scales: what the cluster makes of the last scales is over then."""


async def _unlimited() -> None:
    """No budget of requests: there is nobody else."""


class OneProcess:
    """Autoscaler and actuator, without their log, their fences and their reports."""

    def __init__(self, log: Log, kube: Kube) -> None:
        decider = load(BY_NAME["autoscaler"])
        self._inputs = Inputs(
            decider.service, decider.kinds, log.subjects, log.slots, formerly=decider.formerly
        )
        self._folds = {slot: Fold(decider, slot) for slot in self._inputs.every}
        self._log = log
        self._applier = Applier(kube, Discovery(kube))
        self._kube = kube
        self._decided: set[str] = set()
        self._on_log: set[str] = set()

    async def reactions(self) -> list[float]:
        """Seconds from samples that are at hand to the API server's answer, for each scale that they led to.

        Raises:
            RuntimeError: a scale that lies on the log was not decided, or one was refused.
        """
        found: list[float] = []
        samples: list[Record] = []
        async with self._log.reader([self._log.subjects.everything]) as reader:
            records = [record async for record in reader.until_current()]
        for record in records:
            if not self._inputs.reads(record.subject, self._folds, recorded=False):
                self._recorded(record)
            elif record.subject.split(".", 5)[4] == "metric":
                samples.append(record)
            else:
                # Samples of one look at the metrics come together: another input ends what is at hand at once.
                found += await self._react(samples)
                samples = []
                self._step(record)
        found += await self._react(samples)
        # Of the last samples the services may have been ended before they decided.
        if missing := self._on_log - self._decided:
            raise RuntimeError(
                f"{len(missing)} scales of the log are not decided here, such as {min(missing)}"
            )
        return found

    async def _react(self, samples: Sequence[Record]) -> list[float]:
        """What follows from samples that came together: all of them are folded, and scales made beside one another."""
        begun = time.perf_counter()
        scales = [scale for record in samples for scale in self._step(record)]
        if not scales:
            return []
        decided = time.perf_counter()
        await self._as_seen(scales)
        resumed = time.perf_counter()
        ended = await asyncio.gather(*(self._scaled(scale) for scale in scales))
        await asyncio.sleep(REST_S)
        return [end - resumed + decided - begun for end in ended]

    async def _scaled(self, scale: ScaleWorkload) -> float:
        """Make a scale; when it was answered."""
        result = await self._applier.attempt(scale, Allowance(_unlimited))
        if not isinstance(result, Done):
            raise RuntimeError(f"{scale.target}: {result}")  # noqa: TRY004 - no wrong type: the scale was refused
        return time.perf_counter()

    async def _as_seen(self, scales: Sequence[ScaleWorkload]) -> None:
        """Have the API server say of workloads what the decisions saw: not part of what is measured."""
        for scale in scales:
            body = msgspec.json.encode({"spec": {"replicas": scale.from_replicas}})
            path = f"/apis/apps/v1/namespaces/{scale.target.namespace}/deployments/{scale.target.name}/scale"
            await self._kube.request("PATCH", path, body=body, content_type="application/merge-patch+json")

    def _step(self, record: Record) -> list[ScaleWorkload]:
        """Fold an input; the scales that are decided about it."""
        event = registry.decode(record.body)
        if not self._inputs.concerns(event):
            return []
        slot = self._inputs.slot(record.subject)
        folds = self._folds.values() if slot is None else (self._folds[slot],)
        decided = [it.decision for fold in folds for it in fold.step(record.seq, record.body, event)]
        scales = [it for it in decided if isinstance(it, ScaleWorkload)]
        self._decided |= {it.id for it in scales}
        return scales

    def _recorded(self, record: Record) -> None:
        """Remember which scales the service decided."""
        if record.subject.startswith(f"{self._log.subjects.root}.decision."):
            event = registry.decode(record.body)
            if isinstance(event, ScaleWorkload):
                self._on_log.add(event.id)

"""The WatermarkPodAutoscalers that a log has, as they were said last."""

from __future__ import annotations

from tidewright.asking.errors import BadInput
from tidewright.asking.source import Source
from tidewright.autoscaler.forecast.asked import ANNOTATION
from tidewright.cli.backtest.manifest import Candidate
from tidewright.events import registry
from tidewright.events.autoscaler import WatermarkPodAutoscalerObserved
from tidewright.log.subjects import escape


async def objects_of(source: Source, namespace: str = "", name: str = "") -> list[Candidate]:
    """The objects of a log by namespace and name; only those of a namespace, or of a name, where one is given.

    Raises:
        BadInput: there is none.
    """
    pattern = ".".join(
        (source.subjects.root, "fact", "*", "watermarkpodautoscaler",
         escape(namespace) if namespace else "*", escape(name) if name else "*")
    )  # fmt: skip
    found: list[Candidate] = []
    for record in await source.last_of_all([pattern]):
        try:
            fact = registry.decode(record.body)
        except registry.NotAnEvent:
            continue
        if isinstance(fact, WatermarkPodAutoscalerObserved):
            label = f"{fact.namespace}/{fact.name}"
            asks = fact.annotations.get(ANNOTATION, "")
            found.append(Candidate(label, fact.namespace, fact.name, dict(fact.spec), asks=asks))
    if not found:
        which = f"WatermarkPodAutoscaler {name}" if name else "WatermarkPodAutoscaler"
        where = f" in namespace {namespace}" if namespace else ""
        raise BadInput(f"{source.name}: has no {which}{where}; `tidewright get wpa -A` shows what there is")
    return sorted(found, key=lambda candidate: (candidate.namespace, candidate.name))

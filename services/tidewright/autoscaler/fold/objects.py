"""WatermarkPodAutoscalers: their specs as they are read, and what they ask for themselves."""

from __future__ import annotations

import msgspec

from tidewright.autoscaler import holding
from tidewright.autoscaler.api.spec import LIFECYCLE, InvalidSpec, Rules, laid_over, parsed
from tidewright.autoscaler.api.status import read
from tidewright.autoscaler.fold import modes
from tidewright.autoscaler.fold.index import NamespaceIndex
from tidewright.autoscaler.fold.touched import NOTHING, Touched, looking
from tidewright.autoscaler.forecast.asked import ANNOTATION
from tidewright.autoscaler.state import Autoscaler, Namespace, State, asked_by, bind
from tidewright.events.acting import MODE
from tidewright.events.autoscaler import WatermarkPodAutoscalerGone, WatermarkPodAutoscalerObserved
from tidewright.kube.readiness import skips_owner_check


def object_observed(state: State, event: WatermarkPodAutoscalerObserved) -> Touched:
    """An object as it is now: its spec, its annotations, its deletion."""
    namespace, index = state.namespace(event.namespace)
    scaler = namespace.objects.get(event.name)
    if scaler is None or (event.uid and scaler.uid and scaler.uid != event.uid):
        scaler = Autoscaler(name=event.name, uid=event.uid, kept=read(event.status))
        namespace.objects[event.name] = scaler
        scaler.mode = event.annotations.get(MODE, "")
    was_held, mode = holding.held(state, event.namespace, scaler), scaler.mode
    scaler.mode = event.annotations.get(MODE, "")
    if not was_held.acts:
        scaler.real = read(event.status)
    before = _asked(scaler)
    former = scaler.rules
    scaler.created_at = event.created_at or 0.0
    scaler.finalizers = event.finalizers if event.deleting_at is not None else ()
    scaler.deleting = event.deleting_at is not None
    scaler.lifecycle = event.annotations.get(LIFECYCLE)
    scaler.skip_owner_check = skips_owner_check(event.annotations)
    scaler.asks = event.annotations.get(ANNOTATION)
    scaler.labels = event.labels
    changed = not event.generation or event.generation != scaler.generation
    refused = scaler.rules is None and asked_by(scaler) == event.spec
    if (changed or scaler.rules is None or mode != scaler.mode) and not refused:
        _read_spec(scaler, event)
        if changed or scaler.rules is None or former is None:
            scaler.asked = msgspec.json.encode(event.spec).decode()
    scaler.generation = event.generation
    if before == _asked(scaler):
        held_anew = modes.changed(state, event.namespace, scaler, was_held)
        said_again = scaler if event.refresh and scaler.forecast is not None else None
        if held_anew:
            return looking(event.namespace, scaler)
        return NOTHING if said_again is None else Touched(namespace=event.namespace, said_again=said_again)
    rivals = _rivals(index, former, scaler.rules) - {scaler.name}
    bind(namespace, index, scaler)
    if not scaler.deleting:
        modes.changed(state, event.namespace, scaler, was_held)
    looks = () if scaler.deleting else ((event.namespace, scaler),)
    return Touched(
        namespace=event.namespace,
        altered=scaler,
        looks=looks + _all_of(event.namespace, namespace, rivals),
    )


def _asked(scaler: Autoscaler) -> tuple[Rules | None, str, str | None, bool, bool, str | None]:
    """What an object itself asks for."""
    return (
        scaler.rules,
        scaler.problem,
        scaler.lifecycle,
        scaler.skip_owner_check,
        scaler.deleting,
        scaler.asks,
    )


def _read_spec(scaler: Autoscaler, event: WatermarkPodAutoscalerObserved) -> None:
    try:
        rules = laid_over(parsed(event.spec), event.annotations)
    except InvalidSpec as error:
        scaler.rules, scaler.problem = None, str(error)
        return
    if rules != scaler.rules:
        scaler.rules = rules
        scaler.fresh = ()
    scaler.problem = ""


def _rivals(index: NamespaceIndex, *rules: Rules | None) -> set[str]:
    """Objects on the targets of these rules."""
    return {name for r in rules if r is not None for name in index.by_target.get(r.target_key, ())}


def _all_of(namespace_name: str, namespace: Namespace, names: set[str]) -> tuple[tuple[str, Autoscaler], ...]:
    return tuple([(namespace_name, namespace.objects[name]) for name in sorted(names)])


def object_gone(state: State, event: WatermarkPodAutoscalerGone) -> Touched:
    """An object less."""
    namespace, index = state.namespace(event.namespace)
    scaler = namespace.objects.get(event.name)
    if scaler is None or (event.uid and scaler.uid and event.uid != scaler.uid):
        return NOTHING
    rivals = _rivals(index, scaler.rules) - {scaler.name}
    index.unbind(scaler.name)
    del namespace.objects[scaler.name]
    namespace.recommendations.pop(scaler.name, None)
    for decision in (scaler.status_decision, scaler.ordered.decision if scaler.ordered else ""):
        state.awaited.pop(decision, None)
    return Touched(
        namespace=event.namespace,
        gone=None if scaler.timer_due is None else scaler,
        looks=_all_of(event.namespace, namespace, rivals),
    )

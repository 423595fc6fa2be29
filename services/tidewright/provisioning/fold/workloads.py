"""Workloads and their templates: what they want, what their controllers say they have, and how long their pods take to come."""

from __future__ import annotations

import msgspec

from tidewright.events import facts as f
from tidewright.provisioning.fold.touched import Touched
from tidewright.provisioning.foresight.kept import FORGETS, MOST_FORMS, Workload, form_of, workload_of
from tidewright.provisioning.state import State, owner_key


def seen(state: State, event: f.WorkloadObserved, touched: Touched) -> None:
    if not event.uid:
        return  # whose pods are its, nobody could tell
    key = owner_key(event.kind, event.namespace, event.name)
    before = state.workloads.get(key)
    if before is not None and before.uid != event.uid:
        _went(state, key, before)
        state.foreseen.pop(key, None)
        before = None
    workload = workload_of(event, before)
    if workload is before:
        return
    if before is not None and workload.observed > before.observed:
        took = event.at - before.since
        state.came_s[event.kind] = max(took, state.came_s.get(event.kind, 0.0) * FORGETS)
    if before is not None:
        _went(state, key, before)
    state.workloads[key] = workload
    counting = state.beside.index.counting if state.beside.index is not None else None
    if counting is not None:
        counting.came(key, workload)
    if workload.complete:
        state.foreseen.pop(key, None)
    touched.workloads = touched.workloads or before is None or _wants_more(before, workload)


def _wants_more(before: Workload, now: Workload) -> bool:
    """Whether more may be missing than before: more than pods that have come has changed."""
    return now.observed < before.observed or now != msgspec.structs.replace(
        before, observed=now.observed, since=now.since
    )


def gone(state: State, event: f.WorkloadGone) -> None:
    key = owner_key(event.kind, event.namespace, event.name)
    before = state.workloads.get(key)
    if before is not None:
        _went(state, key, before)
        del state.workloads[key]
    state.foreseen.pop(key, None)


def _went(state: State, key: str, workload: Workload) -> None:
    counting = state.beside.index.counting if state.beside.index is not None else None
    if counting is not None:
        counting.went(key, workload)


def template(state: State, event: f.TemplateObserved, _touched: Touched) -> None:
    if len(state.forms) >= MOST_FORMS:
        had = {workload.template for workload in state.workloads.values()}
        state.forms = {digest: form for digest, form in state.forms.items() if digest in had}
    state.forms[event.digest] = form_of(event.spec)

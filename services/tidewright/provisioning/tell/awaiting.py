"""What is told about a workload whose pods are about to come, or are expected no longer: how many, until when, by whose word."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidewright.host.fold.explainer import Reference
from tidewright.kube.times import readable
from tidewright.provisioning.foresight import shares
from tidewright.provisioning.index.indexing import index_of
from tidewright.provisioning.settings import OFF
from tidewright.provisioning.state import State, owner_key

KINDS = {
    kind.lower(): kind
    for kind in ("Deployment", "ReplicaSet", "StatefulSet", "Job", "CloneSet", "ReplicationController")
}
"""Kinds as subjects have them, to their names."""


def is_looked_at(state: State) -> bool:
    """Whether nodes are ordered for pods that are about to be at all."""
    return index_of(state).settings.foresight != OFF


def aggregate(state: State, asked: Reference) -> Mapping[str, object] | None:
    """A workload, and what is awaited of it."""
    key = _key(state, asked)
    workload = state.workloads.get(key)
    if workload is None:
        return None
    return {"workload": workload, "scaling": state.scalings.get(key), "foreseen": state.foreseen.get(key)}


def standing(state: State, asked: Reference) -> Sequence[str]:
    """Pods that are about to come by now, and what was ordered for those that are not there yet."""
    key, index = _key(state, asked), index_of(state)
    if key not in state.workloads or not is_looked_at(state):
        return ()
    told = []
    coming = [share for share in shares.expected(state, index, state.now).shares if share.workload == key]
    late = readable(shares.until(state, index, key))
    if many := sum(share.count for share in coming if not share.made):
        decision = next((share.decision for share in coming if share.decision), "")
        by = f" by decision {decision}" if decision else ""
        told.append(f"{many} pods of it are about to come{by}: they are waited for until {late} UTC.")
    if many := sum(share.count for share in coming if share.made):
        told.append(f"{many} of its pods are there, and the scheduler has not looked at them yet.")
    lacking = shares.renewed(state, index).get(key, 0)
    if lacking and not coming:
        told.append(f"{_why_not(state, key, lacking)}.")
    foreseen = state.foreseen.get(key)
    if foreseen is not None:
        told.append(
            f"Nodes were ordered for {foreseen.pods} of its pods before they were there, by plan {foreseen.plan} of {readable(foreseen.at)} UTC."
        )
    return told


def _why_not(state: State, key: str, lacking: int) -> str:
    """Why pods that a workload lacks are not expected."""
    index = index_of(state)
    if shares.until(state, index, key) <= state.now:
        return f"It lacks {lacking} pods, and they are waited for no longer: none has come in {shares.limit_s(state, key):.0f} s"
    return f"It lacks {lacking} pods that are not expected: it is not known, or not up to room alone, where they may run"


def _key(state: State, asked: Reference) -> str:
    """What the state has it under; empty for one of a kind that nobody built in and that is not known."""
    if asked.kind in KINDS:
        return owner_key(KINDS[asked.kind], asked.namespace, asked.name)
    end = owner_key("", asked.namespace, asked.name)
    of_name = (key for key in state.workloads if key.endswith(end))
    return next((key for key in of_name if shares.kind_of(key).lower() == asked.kind), "")

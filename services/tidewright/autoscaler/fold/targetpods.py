"""The pods of an object's target, and how many of them are ready: looked up once until something changes."""

from __future__ import annotations

from tidewright.autoscaler.api.spec import Rules
from tidewright.autoscaler.fold.index import NamespaceIndex
from tidewright.autoscaler.fold.ownership import walked
from tidewright.autoscaler.state import Autoscaler, Namespace
from tidewright.kube.readiness import Pod, ReadyCount, ready_pods


def pods_of(
    namespace: Namespace,
    index: NamespaceIndex,
    scaler: Autoscaler,
    rules: Rules,
    now: float,
    *,
    walk: bool,
) -> tuple[list[Pod], ReadyCount | None, str]:
    """The pods of the object's target, counted once until one of them or their count changes.

    `walk`: their owners are those that the chain of owners leads to.
    """
    view = index.views[scaler.name]
    if view.pods is None:
        keys, error = index.selected(scaler.name)
        if error:
            return [], None, error
        view.pods = [pod for key in keys for pod in namespace.groups[key].pods.values()]
        if walk:
            view.pods = walked(
                view.pods, namespace.workloads, target_name=rules.target_name, target=rules.target_key
            )
        view.count = None
    count = view.count
    if count is None or (count.changes_at is not None and count.changes_at <= now):
        if rules.recommender is None and all(metric.source == "resource" for metric in rules.metrics):
            return view.pods, None, ""
        count = view.count = ready_pods(
            view.pods,
            target_name=rules.target_name,
            now=now,
            delay_s=rules.readiness_delay_s,
            skip_owner_check=scaler.skip_owner_check,
        )
    return view.pods, count, ""

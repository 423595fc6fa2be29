"""What controllers say about their work in object events, in the words of the real ones."""

from __future__ import annotations

from collections.abc import Iterable

from tidewright.kube.errors import KubeError
from tidewright.sim.controllers.cache import Cache
from tidewright.sim.controllers.objects import POD, REPLICA_SET, Key, Object, ReplicaSet
from tidewright.sim.controllers.plan import Controller
from tidewright.sim.controllers.recorder import Recorder
from tidewright.sim.controllers.writes import Told, Write


def telling(recorder: Recorder | None, cache: Cache, controller: Controller, key: Key) -> Told | None:
    """Who hears of a controller's writes for one of its objects; None when nobody is to know."""
    about = cache.of(controller.kind).get(key)
    if recorder is None or about is None:
        return None

    def on_done(write: Write, before: Object | None, after: Object | None) -> None:
        said = _said(controller.name, about, write, before, after)
        if said is not None:
            reason, message = said
            component = f"{controller.name}-controller"
            recorder.record(
                controller.kind, about.metadata, "Normal", reason=reason, message=message, component=component
            )

    return on_done


_TERMINATING = "because it is being terminated"  # nobody has to hear that a namespace takes its pods with it


def tell_refusal(
    recorder: Recorder | None,
    cache: Cache,
    controller: Controller,
    *,
    key: Key,
    writes: Iterable[Write],
    error: KubeError,
) -> None:
    """Say that the API server refuses a pod: a quota is used up, a webhook has something against it or fails."""
    about = cache.of(controller.kind).get(key)
    creating = any(write.kind is POD and write.method == "POST" and not write.subresource for write in writes)
    refused = creating and error.status >= 400 and _TERMINATING not in error.message
    if recorder is not None and about is not None and refused:
        message = f"Error creating: {error.message}"
        component = f"{controller.name}-controller"
        recorder.record(
            controller.kind,
            about.metadata,
            "Warning",
            reason="FailedCreate",
            message=message,
            component=component,
        )


def _said(
    controller: str, about: Object, write: Write, before: Object | None, after: Object | None
) -> tuple[str, str] | None:
    """Reason and message of one write; None when it is not worth an event."""
    if write.kind is POD and not write.subresource and write.method in {"POST", "DELETE"}:
        created = write.method == "POST"
        name = after.metadata.name if created and after is not None else write.key[1]
        reason = "SuccessfulCreate" if created else "SuccessfulDelete"
        if controller == "statefulset":
            verb = "create" if created else "delete"
            return reason, f"{verb} Pod {name} in StatefulSet {about.metadata.name} successful"
        return reason, f"{'Created' if created else 'Deleted'} pod: {name}"
    if write.kind is REPLICA_SET and controller == "deployment" and isinstance(after, ReplicaSet):
        earlier = before.spec.replicas if isinstance(before, ReplicaSet) else 0
        later = after.spec.replicas
        if earlier != later:
            way = "up" if later > earlier else "down"
            return (
                "ScalingReplicaSet",
                f"Scaled {way} replica set {after.metadata.name} from {earlier} to {later}",
            )
    return None

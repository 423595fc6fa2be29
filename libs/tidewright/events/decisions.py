"""Decisions that several services share: effects on Kubernetes objects, records, timers.

Effects are absolute (set to N, never add N). A decision type says by `Effect` as its base whether
the actuator acts on it; records and timers are complete when they are on the log.
"""

from __future__ import annotations

from typing import Final

import msgspec

from tidewright.events.base import Decision, JsonObject, ObjectRef

MOST_MESSAGES: Final = 200
"""So many object events one decision asks for at most: it stays far below what the bus takes."""


class Effect(Decision, frozen=True, kw_only=True):
    """A decision that the actuator applies, and answers with exactly one outcome.

    Attributes:
        target: the object that is written.
        dry_run: recorded but not applied; its outcome is `Applied` with reason `DryRun`. One that is decided in
            shadow ends likewise, with reason `Shadow`.
    """

    target: ObjectRef
    dry_run: bool = False


class Concluded(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A status that its decider has concluded and does not write now: recorded with what is decided instead.

    Attributes:
        status: as a `SetStatus` would write it.
        since: exact times of its conditions, as in `SetStatus`.
    """

    status: JsonObject
    since: tuple[float, ...] = ()


class ScaleWorkload(Effect, frozen=True, kw_only=True, tag="decision.scale-workload.v1"):
    """Set the replicas of a workload through its scale subresource.

    Attributes:
        replicas: the wanted number, absolute.
        from_replicas: what the decider saw; a scale that meanwhile shows another number is left
            alone and the outcome is `Rejected` with reason `Conflict`.
        owner: the object on whose behalf, as `Kind/namespace/name`.
        concluded: the status of `owner` that led to it and is written only with the outcome; None where it is
            written along with this decision, or never changes.
    """

    replicas: int
    from_replicas: int
    owner: str = ""
    concluded: Concluded | None = None


class SetStatus(Effect, frozen=True, kw_only=True, tag="decision.set-status.v1"):
    """Make the status of an object equal to `status`, through its status subresource.

    Attributes:
        status: the whole status as it shall be; members of the present status that are not in it
            are removed.
        observed_generation: the generation that the status speaks about.
        urgent: False for a status in which only measured values differ: it is written last.
        stamp: where in the status the actuator writes this decision's id, member by member; empty for
            nowhere.
        apply_as: the field manager that applies the status: what others keep in it stays, conditions of
            other types too. Empty: others keep nothing in it.
        since: since when each condition of `status` has been as it is, in their order, log time in seconds: a
            status holds whole seconds, and its decider counts from the exact time. Empty where nothing is lost.
    """

    status: JsonObject
    observed_generation: int = 0
    urgent: bool = True
    stamp: tuple[str, ...] = ()
    apply_as: str = ""
    since: tuple[float, ...] = ()


class PatchObject(Effect, frozen=True, kw_only=True, tag="decision.patch-object.v1"):
    """Merge-patch an object (RFC 7386): labels, annotations, finalizers, spec fields.

    Attributes:
        patch: absolute values only.
        expect: JSON pointer to the value that must be there before (`null` for absent); anything
            else makes the outcome `Rejected` with reason `Conflict`.
    """

    patch: JsonObject
    expect: JsonObject = {}


class CreateObject(Effect, frozen=True, kw_only=True, tag="decision.create-object.v1"):
    """Create an object. One that exists and carries this decision's id counts as created."""

    manifest: JsonObject


class DeleteObject(Effect, frozen=True, kw_only=True, tag="decision.delete-object.v1"):
    """Delete an object, under the precondition of its uid when the target names one."""

    grace_period_s: int | None = None
    propagation: str = "Background"


class HoldLease(Effect, frozen=True, kw_only=True, tag="decision.hold-lease.v1"):
    """Hold a coordination Lease: make it, renew it, or take it when nobody has it.

    A Lease that another holder has is left alone: the outcome is `Rejected` with reason `LeaseHeld`,
    whose `result` has the record (`record`, `holder`, `duration_s`). No clock of the holder is
    compared: the decider measures for how long the record stays as it is, and names it in `stopped`.

    Attributes:
        holder: our name on it.
        duration_s: after which others may take it when it is not renewed.
        stopped: a record of another holder that was seen unchanged for its duration: taken if it still stands.
    """

    holder: str
    duration_s: int
    stopped: str = ""


class EvictPod(Effect, frozen=True, kw_only=True, tag="decision.evict-pod.v1"):
    """Evict a pod through its eviction subresource, so that disruption budgets hold.

    A budget that has nothing left ends it at once: `Failed` with reason `DisruptionBudget`. A pod that is not
    there any more, or another one under its name, counts as evicted.

    Attributes:
        grace_period_s: for how long it may end, seconds; None: the pod's own.
        node: the node that it is to leave; empty where it does not matter which.
    """

    grace_period_s: int | None = None
    node: str = ""


class RecordObjectEvent(Effect, frozen=True, kw_only=True, tag="decision.record-object-event.v1"):
    """Write a Kubernetes Event about the target, or several that differ in their message alone.

    Attributes:
        event_type: `Normal` or `Warning`.
        reason: CamelCase.
        component: the reporting component, as users' tools know it.
        also: messages of the other ones, each of which is an Event of its own; at most 199.
    """

    event_type: str
    reason: str
    message: str
    component: str
    also: tuple[str, ...] = ()

    @property
    def messages(self) -> tuple[str, ...]:
        """What is said, one message an Event."""
        return (self.message, *self.also)


class SetTimer(Decision, frozen=True, kw_only=True, tag="decision.set-timer.v1"):
    """Ask to be woken at `due` (log time, seconds). Replaces the slot's timer of the same key."""

    key: str
    due: float


class CancelTimer(Decision, frozen=True, kw_only=True, tag="decision.cancel-timer.v1"):
    """Forget the slot's timer of this key. One that has just fired may still arrive."""

    key: str

"""What Kueue makes of a request: the contract of spec 1.6 from the other side, for tests that play Kueue."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import msgspec

from tests.vectors.reference.provisioning import CLASS_NAME
from tidewright.provisioning.requests import conditions as cond
from tidewright.provisioning.requests.conditions import Condition
from tidewright.provisioning.requests.spec import CONSUME

MANAGED_LABEL = "kueue.x-k8s.io/managed"
PARAMETER_PREFIX = "provreq.kueue.x-k8s.io/"
MAX_NAME = 247


class Retry(msgspec.Struct, frozen=True):
    """A retry strategy: how often, and seconds of the first and the longest wait."""

    limit: int = 3
    base_s: int = 60
    maximum_s: int = 1800


class WantedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The request that Kueue creates for a workload."""

    name: str
    owner: str
    class_name: str
    labels: dict[str, str]
    parameters: dict[str, str]
    pod_sets: tuple[tuple[str, int], ...]


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """The admission check after Kueue has read a request.

    Attributes:
        unchanged: nothing is done about it.
        requeue_after_s: for `Retry`.
        pod_annotations: per pod set, for `Ready`.
    """

    state: str
    message: str = ""
    unchanged: bool = False
    requeue_after_s: int | None = None
    pod_annotations: dict[str, dict[str, str]] = {}
    node_selector: dict[str, str] = {}


def shortened(name: str) -> str:
    """A name of at most 253 characters: the beginning, and five hex digits of its hash."""
    if len(name) <= MAX_NAME:
        return name
    digest = hashlib.sha1(name.encode(), usedforsecurity=False).hexdigest()[:5]
    return f"{name[:MAX_NAME]}-{digest}"


def request_name(workload: str, check: str, attempt: int) -> str:
    return shortened(f"{workload}-{check}-{attempt}")


def wanted_request(
    *,
    workload: str,
    check: str,
    attempt: int,
    class_name: str,
    parameters: Mapping[str, str],
    annotations: Mapping[str, str],
    counts: Mapping[str, int],
) -> WantedRequest:
    """The request for a workload's pod sets, with counts as admitted."""
    name = request_name(workload, check, attempt)
    own = {
        key.removeprefix(PARAMETER_PREFIX): value
        for key, value in annotations.items()
        if key.startswith(PARAMETER_PREFIX)
    }
    return WantedRequest(
        name=name,
        owner=workload,
        class_name=class_name,
        labels={MANAGED_LABEL: "true"},
        parameters={**parameters, **own},
        pod_sets=tuple(
            (shortened(f"ppt-{name}-{pod_set}"), count) for pod_set, count in counts.items() if count > 0
        ),
    )


def read(
    *,
    request: str,
    class_name: str,
    conditions: Sequence[Condition],
    details: Mapping[str, str],
    pod_sets: Sequence[str],
    admitted: bool,
    attempt: int,
    retry: Retry,
    selectors: Mapping[str, str],
) -> Check:
    """What the conditions mean to Kueue: only those with status True count, the first match wins.

    Args:
        request: its name.
        class_name: of the request.
        conditions: of the request.
        details: its `provisioningClassDetails`.
        pod_sets: names of the workload's pod sets.
        admitted: the workload is admitted already.
        attempt: number of this attempt, from 1.
        retry: the strategy.
        selectors: node selector key to the detail that it takes its value from.
    """

    def true(kind: str) -> Condition | None:
        found = cond.find(conditions, kind)
        return found if found is not None and found.status == "True" else None

    failed = true(cond.FAILED)
    if failed is not None:
        return _again("Retrying after failure: ", failed, attempt, retry)
    revoked = true(cond.CAPACITY_REVOKED)
    if revoked is not None:
        return Check(state="Rejected", message=revoked.message)
    expired = true(cond.BOOKING_EXPIRED)
    if expired is not None:
        if admitted:
            return Check(state="Pending", unchanged=True)
        return _again("Retrying after booking expired: ", expired, attempt, retry)
    provisioned = true(cond.PROVISIONED)
    if provisioned is not None:
        annotations = {CONSUME: request, CLASS_NAME: class_name}
        return Check(
            state="Ready",
            message=provisioned.message,
            pod_annotations=dict.fromkeys(pod_sets, annotations),
            node_selector={key: details[source] for key, source in selectors.items() if source in details},
        )
    if true(cond.ACCEPTED) is not None:
        shown = cond.find(conditions, cond.PROVISIONED)
        if shown is not None:
            return Check(state="Pending", message=shown.message)
    return Check(state="Pending")


def _again(prefix: str, condition: Condition, attempt: int, retry: Retry) -> Check:
    if attempt > retry.limit:
        return Check(state="Rejected", message=condition.message)
    wait = min(retry.base_s * 2 ** (attempt - 1), retry.maximum_s)
    return Check(state="Retry", message=prefix + condition.message, requeue_after_s=wait)

"""The protocol between a WatermarkPodAutoscaler and its recommender service.

Pure: the watcher sends the request and turns the answer into a `RecommendationReceived` fact.

metric_name     the name under which a recommender appears everywhere
request         the body of the POST
parse_reply     the body of the answer
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import isfinite
from typing import Annotated, Any

import msgspec

from tidewright.kube.quantities import milli


class BadReply(ValueError):
    """The recommender answered something else than a recommendation."""


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """A recommendation.

    Attributes:
        target_replicas: what the recommender wants.
        lower_bound_replicas: fewer replicas than this are too few; None when it did not say.
        upper_bound_replicas: more replicas than this are too many; None when it did not say.
        observed_target_value: value of the first observed target, in units; 0 when there is none.
        details: its reason, for people.
    """

    target_replicas: int = 0
    lower_bound_replicas: int | None = None
    upper_bound_replicas: int | None = None
    observed_target_value: float = 0.0
    details: str = ""


class _ObservedTarget(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    type: str = ""
    target_value: float = 0.0
    lower_bound: float = 0.0
    upper_bound: float = 0.0


class _Error(msgspec.Struct, forbid_unknown_fields=True):
    code: int = 0
    message: str = ""


_Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]


class _Body(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    timestamp: str = ""
    target_replicas: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)] = 0
    lower_bound_replicas: _Int32 | None = None
    upper_bound_replicas: _Int32 | None = None
    observed_targets: list[_ObservedTarget] = []
    reason: str = ""
    error: _Error | None = None


def metric_name(recommender: Mapping[str, Any]) -> str:
    """`recommender{targetType:<t>,<key>:<value>...}`, the settings in the order of their keys."""
    settings = recommender.get("settings") or {}
    labels = [f"targetType:{recommender.get('targetType', '')}"]
    labels += [f"{key}:{settings[key]}" for key in sorted(settings)]
    return f"recommender{{{','.join(labels)}}}"


def target(recommender: Mapping[str, Any]) -> dict[str, Any]:
    """What the recommender shall aim for; a mark that is not set is 0."""
    low, high = recommender.get("lowWatermark"), recommender.get("highWatermark")
    return {
        "type": recommender.get("targetType", ""),
        "targetValue": 0.0,
        "lowerBound": milli(low) / 1000 if low is not None else 0.0,
        "upperBound": milli(high) / 1000 if high is not None else 0.0,
    }


def state(current: int, ready: int) -> dict[str, int]:
    """The replicas as the recommender shall see them: requested (twice), never those that exist.

    A surge pod counted here would come back as one replica more at every pass.
    """
    return {"desiredReplicas": current, "currentReplicas": current, "readyReplicas": ready}


def request(
    spec: Mapping[str, Any], *, namespace: str, cluster: str, current: int, ready: int
) -> dict[str, Any]:
    """The body of the POST to the recommender of this spec.

    Args:
        spec: the WatermarkPodAutoscaler's, with its `recommender`.
        namespace: of the object and its target.
        cluster: name of the cluster, may be empty.
        current: requested replicas of the target.
        ready: ready pods of the target, at most those that exist.
    """
    reference = spec.get("scaleTargetRef") or {}
    recommender = spec.get("recommender") or {}
    body: dict[str, Any] = {
        "targetRef": {
            "cluster": cluster,
            "namespace": namespace,
            "kind": reference.get("kind", ""),
            "name": reference.get("name", ""),
            "apiVersion": reference.get("apiVersion", ""),
        },
        "constraints": {
            "minReplicas": spec.get("minReplicas") or 0,
            "maxReplicas": spec.get("maxReplicas") or 0,
        },
        "targets": [target(recommender)],
        "settings": dict(sorted((recommender.get("settings") or {}).items())),
    }
    plain: dict[str, Any] = _without_zeros(body)
    plain["state"] = state(current, ready)
    return plain


def _without_zeros(value: Any) -> Any:
    """As protobuf's JSON form has it: plain fields of value zero are left out."""
    if isinstance(value, dict):
        kept = {key: _without_zeros(member) for key, member in value.items()}
        return {key: member for key, member in kept.items() if member not in (0, "", {}, None)}
    if isinstance(value, list):
        return [_without_zeros(member) for member in value]
    return value


def _members(value: Any) -> Any:
    """As the JSON form of protobuf is read: `target_replicas` is `targetReplicas`, null is absent."""
    if isinstance(value, dict):
        return {
            re.sub("_([a-z])", lambda letter: letter[1].upper(), key): _members(member)
            for key, member in value.items()
            if member is not None
        }
    return [_members(member) for member in value] if isinstance(value, list) else value


def parse_reply(body: bytes) -> Reply:
    """Read the body of an answer with status 200, in the JSON form of protobuf.

    Numbers may be texts, members may have their names of the protocol, and null counts as absent.

    Raises:
        BadReply: no JSON object of the protocol, a member that the protocol does not know, a value
            of the wrong type, or an error that the recommender reports.
    """
    try:
        reply = msgspec.convert(_members(msgspec.json.decode(body)), _Body, strict=False)
    except RecursionError as error:
        raise BadReply("unable to read the recommendation: it is nested too deeply") from error
    except msgspec.MsgspecError as error:
        # What another kind of server answers is nobody's business: the names of its members neither.
        problem = re.sub("unknown field `.*`(?= - at|$)", "a member that the protocol has not", str(error))
        raise BadReply(f"unable to read the recommendation: {problem}") from error
    if reply.error is not None:
        raise BadReply(f"error from recommender: {reply.error.code} {reply.error.message}")
    return Reply(
        target_replicas=reply.target_replicas,
        lower_bound_replicas=reply.lower_bound_replicas,
        upper_bound_replicas=reply.upper_bound_replicas,
        observed_target_value=_observed(reply.observed_targets),
        details=reply.reason,
    )


def _observed(targets: list[_ObservedTarget]) -> float:
    """The first one's value; `NaN` and `Infinity`, which the protocol has and a fact has not, say nothing."""
    value = targets[0].target_value if targets else 0.0
    return value if isfinite(value) else 0.0

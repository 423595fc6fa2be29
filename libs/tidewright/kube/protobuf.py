r"""Protobuf bodies: what kubectl's typed commands (`create`, `drain`, `auth can-i`) send.

A body is the magic `k8s\0` and an envelope (`runtime.Unknown`) with the type and the encoded object. The
messages below name the fields that those commands set, by their numbers on the wire; a field that is not
in the table is refused, so that nothing is silently lost. Answers are always JSON: clients that
send protobuf accept it.
"""

from __future__ import annotations

import base64
from typing import Any

from tidewright.kube.times import rfc3339

Object = dict[str, Any]
MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
MAGIC = b"k8s\x00"

# Field types: s string, i integer, b boolean, y bytes, t time, u micro time, q quantity, n int-or-string,
# ? an optional number that is kept when it is zero, a leading * repeats, a leading % is a map with string keys, and a capital letter begins a message.
_TABLE = """
ObjectMeta: 1 name s, 2 generateName s, 3 namespace s, 4 selfLink s, 5 uid s, 6 resourceVersion s, 7 generation i, 8 creationTimestamp t, 9 deletionTimestamp t, 10 deletionGracePeriodSeconds i?, 11 labels %s, 12 annotations %s, 13 ownerReferences *OwnerReference, 14 finalizers *s
OwnerReference: 1 kind s, 3 name s, 4 uid s, 5 apiVersion s, 6 controller b?, 7 blockOwnerDeletion b?
DeleteOptions: 1 gracePeriodSeconds i?, 2 preconditions Preconditions, 3 orphanDependents b?, 4 propagationPolicy s, 5 dryRun *s
Preconditions: 1 uid s, 2 resourceVersion s
Eviction: 1 metadata ObjectMeta, 2 deleteOptions DeleteOptions
ConfigMap: 1 metadata ObjectMeta, 2 data %s, 3 binaryData %y, 4 immutable b?
Secret: 1 metadata ObjectMeta, 2 data %y, 3 type s, 4 stringData %s, 5 immutable b?
Namespace: 1 metadata ObjectMeta, 2 spec NamespaceSpec, 3 status PhaseStatus
NamespaceSpec: 1 finalizers *s
PhaseStatus: 1 phase s
ServiceAccount: 1 metadata ObjectMeta, 2 secrets *ObjectReference, 3 imagePullSecrets *NameReference, 4 automountServiceAccountToken b?
ObjectReference: 1 kind s, 2 namespace s, 3 name s, 4 uid s, 5 apiVersion s, 6 resourceVersion s, 7 fieldPath s
NameReference: 1 name s
Deployment: 1 metadata ObjectMeta, 2 spec DeploymentSpec, 3 status Empty
DeploymentSpec: 1 replicas i?, 2 selector LabelSelector, 3 template PodTemplateSpec, 4 strategy DeploymentStrategy, 5 minReadySeconds i, 6 revisionHistoryLimit i?, 7 paused b, 9 progressDeadlineSeconds i?
DeploymentStrategy: 1 type s, 2 rollingUpdate RollingUpdate
RollingUpdate: 1 maxUnavailable n, 2 maxSurge n
LabelSelector: 1 matchLabels %s, 2 matchExpressions *LabelSelectorRequirement
LabelSelectorRequirement: 1 key s, 2 operator s, 3 values *s
PodTemplateSpec: 1 metadata ObjectMeta, 2 spec PodSpec
Pod: 1 metadata ObjectMeta, 2 spec PodSpec, 3 status Empty
PodSpec: 2 containers *Container, 3 restartPolicy s, 4 terminationGracePeriodSeconds i?, 5 activeDeadlineSeconds i?, 6 dnsPolicy s, 7 nodeSelector %s, 8 serviceAccountName s, 9 serviceAccount s, 10 nodeName s, 11 hostNetwork b, 12 hostPID b, 13 hostIPC b, 14 securityContext Empty, 15 imagePullSecrets *NameReference, 16 hostname s, 17 subdomain s, 19 schedulerName s, 20 initContainers *Container, 21 automountServiceAccountToken b?, 22 tolerations *Toleration, 24 priorityClassName s, 25 priority i?
Toleration: 1 key s, 2 operator s, 3 value s, 4 effect s, 5 tolerationSeconds i?
Container: 1 name s, 2 image s, 3 command *s, 4 args *s, 5 workingDir s, 6 ports *ContainerPort, 7 env *EnvVar, 8 resources ResourceRequirements, 13 terminationMessagePath s, 14 imagePullPolicy s, 16 stdin b, 17 stdinOnce b, 18 tty b, 20 terminationMessagePolicy s
ContainerPort: 1 name s, 2 hostPort i, 3 containerPort i, 4 protocol s, 5 hostIP s
EnvVar: 1 name s, 2 value s
ResourceRequirements: 1 limits %q, 2 requests %q
Job: 1 metadata ObjectMeta, 2 spec JobSpec, 3 status Empty
JobSpec: 1 parallelism i?, 2 completions i?, 3 activeDeadlineSeconds i?, 4 selector LabelSelector, 5 manualSelector b?, 6 template PodTemplateSpec, 7 backoffLimit i?, 8 ttlSecondsAfterFinished i?, 9 completionMode s, 10 suspend b?
CronJob: 1 metadata ObjectMeta, 2 spec CronJobSpec, 3 status Empty
CronJobSpec: 1 schedule s, 2 startingDeadlineSeconds i?, 3 concurrencyPolicy s, 4 suspend b?, 5 jobTemplate JobTemplateSpec, 6 successfulJobsHistoryLimit i?, 7 failedJobsHistoryLimit i?, 8 timeZone s
JobTemplateSpec: 1 metadata ObjectMeta, 2 spec JobSpec
ResourceQuota: 1 metadata ObjectMeta, 2 spec ResourceQuotaSpec, 3 status Empty
ResourceQuotaSpec: 1 hard %q, 2 scopes *s
PodDisruptionBudget: 1 metadata ObjectMeta, 2 spec PodDisruptionBudgetSpec, 3 status BudgetStatus
PodDisruptionBudgetSpec: 1 minAvailable n, 2 selector LabelSelector, 3 maxUnavailable n, 4 unhealthyPodEvictionPolicy s
BudgetStatus: 1 observedGeneration i, 3 disruptionsAllowed i, 4 currentHealthy i, 5 desiredHealthy i, 6 expectedPods i
PriorityClass: 1 metadata ObjectMeta, 2 value i, 3 globalDefault b, 4 description s, 5 preemptionPolicy s
Role: 1 metadata ObjectMeta, 2 rules *PolicyRule
ClusterRole: 1 metadata ObjectMeta, 2 rules *PolicyRule
PolicyRule: 1 verbs *s, 2 apiGroups *s, 3 resources *s, 4 resourceNames *s, 5 nonResourceURLs *s
RoleBinding: 1 metadata ObjectMeta, 2 subjects *Subject, 3 roleRef RoleRef
ClusterRoleBinding: 1 metadata ObjectMeta, 2 subjects *Subject, 3 roleRef RoleRef
Subject: 1 kind s, 2 apiGroup s, 3 name s, 4 namespace s
RoleRef: 1 apiGroup s, 2 kind s, 3 name s
Service: 1 metadata ObjectMeta, 2 spec ServiceSpec, 3 status ServiceStatus
ServiceSpec: 1 ports *ServicePort, 2 selector %s, 3 clusterIP s, 4 type s, 5 externalIPs *s, 7 sessionAffinity s, 10 externalName s
ServicePort: 1 name s, 2 protocol s, 3 port i, 4 targetPort n, 5 nodePort i
ServiceStatus: 1 loadBalancer Empty
HorizontalPodAutoscaler: 1 metadata ObjectMeta, 2 spec HorizontalPodAutoscalerSpec, 3 status AutoscalerStatus
HorizontalPodAutoscalerSpec: 1 scaleTargetRef CrossVersionObjectReference, 2 minReplicas i?, 3 maxReplicas i, 4 metrics *MetricSpec
AutoscalerStatus: 3 currentReplicas i, 4 desiredReplicas i
CrossVersionObjectReference: 1 kind s, 2 name s, 3 apiVersion s
MetricSpec: 1 type s, 4 resource ResourceMetricSource
ResourceMetricSource: 1 name s, 2 target MetricTarget
MetricTarget: 1 type s, 2 value q, 3 averageValue q, 4 averageUtilization i?
Event: 1 metadata ObjectMeta, 2 involvedObject ObjectReference, 3 reason s, 4 message s, 5 source EventSource, 6 firstTimestamp t, 7 lastTimestamp t, 8 count i, 9 type s, 10 eventTime u, 12 action s, 13 related ObjectReference, 14 reportingComponent s, 15 reportingInstance s
EventSource: 1 component s, 2 host s
Lease: 1 metadata ObjectMeta, 2 spec LeaseSpec
LeaseSpec: 1 holderIdentity s, 2 leaseDurationSeconds i?, 3 acquireTime u, 4 renewTime u, 5 leaseTransitions i?
Binding: 1 metadata ObjectMeta, 2 target ObjectReference
Scale: 1 metadata ObjectMeta, 2 spec ScaleSpec, 3 status ScaleStatus
ScaleSpec: 1 replicas i
ScaleStatus: 1 replicas i, 2 selector s
SelfSubjectAccessReview: 1 metadata ObjectMeta, 2 spec AccessReviewSpec, 3 status AccessReviewStatus
AccessReviewSpec: 1 resourceAttributes ResourceAttributes, 2 nonResourceAttributes NonResourceAttributes
AccessReviewStatus: 1 allowed b, 2 reason s, 3 evaluationError s, 4 denied b
ResourceAttributes: 1 namespace s, 2 verb s, 3 group s, 4 version s, 5 resource s, 6 subresource s, 7 name s
NonResourceAttributes: 1 path s, 2 verb s
SelfSubjectRulesReview: 1 metadata ObjectMeta, 2 spec RulesReviewSpec, 3 status RulesStatus
RulesReviewSpec: 1 namespace s
RulesStatus: 3 incomplete b
SelfSubjectReview: 1 metadata ObjectMeta, 2 status ReviewStatus
ReviewStatus: 1 userInfo Empty
Empty:
"""


class BadProtobuf(ValueError):
    """A body that does not parse; the message says where."""


class NotKept(ValueError):
    """A kind, or a field, that the table does not name: what it says would be lost."""


class _Truncated(ValueError):
    pass


def _read_table() -> dict[str, dict[int, tuple[str, str]]]:
    messages = {}
    for line in _TABLE.strip().splitlines():
        name, _, rest = line.partition(":")
        fields = {}
        for entry in rest.split(","):
            if entry.strip():
                number, field, type_ = entry.split()
                fields[int(number)] = (field, type_)
        messages[name] = fields
    return messages


_MESSAGES = _read_table()


def decode(body: bytes) -> Object:
    """The object in a protobuf body.

    Raises:
        BadProtobuf: it does not parse.
        NotKept: its kind, or one of its fields, is not in the table.
    """
    if not body.startswith(MAGIC):
        raise BadProtobuf("provided data does not appear to be a protobuf message, expected prefix k8s")
    try:
        envelope = {
            number: value for number, value in _fields(body[len(MAGIC) :]) if isinstance(value, bytes)
        }
        type_ = {number: value for number, value in _fields(envelope.get(1, b"")) if isinstance(value, bytes)}
        kind = type_.get(2, b"").decode()
        if kind not in _MESSAGES:
            raise NotKept(kind)
        obj = _message(kind, envelope.get(2, b""), kind)
    except (_Truncated, UnicodeDecodeError) as error:
        raise BadProtobuf(f"protobuf body cannot be read: {error}") from None
    return {"apiVersion": type_.get(1, b"").decode(), "kind": kind, **obj}


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise _Truncated(f"varint at byte {at} does not end")
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
        shift += 7


def _fields(data: bytes) -> list[tuple[int, int | bytes]]:
    """The fields of one message: numbers, and either a varint or bytes."""
    fields: list[tuple[int, int | bytes]] = []
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        if wire == 0:
            value, at = _varint(data, at)
            fields.append((number, value))
            continue
        if wire not in {1, 2, 5}:
            raise _Truncated(f"unknown wire type {wire}")
        if wire == 2:
            length, at = _varint(data, at)
        else:
            length = 8 if wire == 1 else 4
        if at + length > len(data):
            raise _Truncated(f"field {number} ends after the message does")
        fields.append((number, data[at : at + length]))
        at += length
    return fields


def _message(name: str, data: bytes, path: str) -> Object:
    fields = _MESSAGES[name]
    result: Object = {}
    for number, value in _fields(data):
        known = fields.get(number)
        if known is None:
            if value in (b"", 0):
                continue  # a zero value of a field that is not kept
            raise NotKept(f"{path}, field {number}")
        field, type_ = known
        if type_.startswith("*"):
            result.setdefault(field, []).append(_value(type_[1:], value, f"{path}.{field}"))
        elif type_.startswith("%") and isinstance(value, bytes):
            entry = dict(_fields(value))
            key, item = entry.get(1, b""), entry.get(2, b"")
            if isinstance(key, bytes):
                result.setdefault(field, {})[key.decode()] = _value(type_[1:], item, path)
        else:
            decoded = _value(type_, value, f"{path}.{field}")
            if decoded not in ("", None) and not (decoded == {} and type_[0].isupper() and field in _OMITTED):
                result[field] = decoded
    return result


_OMITTED = frozenset({"status", "resources", "strategy", "source", "metadata"})  # written even when empty


def _value(type_: str, value: int | bytes, path: str) -> Any:
    if type_[0] in "ib" and isinstance(value, int):
        if value == 0 and not type_.endswith("?"):
            return None  # numbers that are not optional are written even when nobody set them
        signed = value - (1 << 64) if value >= 1 << 63 else value
        return signed if type_[0] == "i" else bool(value)
    if isinstance(value, int):
        raise _Truncated(f"{path} has an unexpected wire type")
    match type_:
        case "s":
            return value.decode()
        case "y":
            return base64.b64encode(value).decode()
        case "q":
            return next((v.decode() for n, v in _fields(value) if n == 1 and isinstance(v, bytes)), "0")
        case "n":
            fields = dict(_fields(value))
            text = fields.get(3, b"")
            if fields.get(1) == 1 and isinstance(text, bytes):
                return text.decode()
            return fields.get(2, 0)
        case "t" | "u":
            return _time(dict(_fields(value)), micro=type_ == "u")
    return _message(type_, value, path)


def _time(parts: dict[int, int | bytes], *, micro: bool) -> str | None:
    seconds, nanos = parts.get(1, 0), parts.get(2, 0)
    if not isinstance(seconds, int) or not isinstance(nanos, int) or seconds >= 1 << 63 or not parts:
        return None  # the zero time is an empty message, or lies before the epoch
    text = rfc3339(seconds)
    return f"{text.removesuffix('Z')}.{nanos // 1000:06d}Z" if micro else text

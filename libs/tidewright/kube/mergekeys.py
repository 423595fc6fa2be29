"""How a strategic merge patch treats the fields of built-in kinds: the one table of merge keys.

    strategy(type_name, field)   of a field of a type, by the type's name without group and version
    bare(model)                  that name, from a client model's: `V1PodSpec` is `PodSpec`

Taken from the published API types (`patchStrategy`, `patchMergeKey`); what is not in it is replaced if it is a list, and
merged if it is an object.
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple


class Strategy(NamedTuple):
    """How a patch treats one field.

    Attributes:
        merge_key: the key by which elements of a list merge; "" for a list of scalars that is a set; None: no merging list.
        retain_keys: a patch may say `$retainKeys`; what clients make their patches by, the merge takes it anywhere.
        replaced: an object that a patch replaces as a whole.
    """

    merge_key: str | None = None
    retain_keys: bool = False
    replaced: bool = False


PLAIN = Strategy()

# `field+key` merges by that key, `field+` is a set; `!` retains keys, `=` replaces.
_TEXT = """
APIServiceStatus: conditions+type
CSINodeSpec: drivers+name
ComponentStatus: conditions+type
Container: env+name ports+containerPort volumeDevices+devicePath volumeMounts+mountPath
ContainerStatus: allocatedResourcesStatus+name volumeMounts+mountPath
DaemonSetStatus: conditions+type
DeploymentSpec: strategy!
DeploymentStatus: conditions+type
DeviceTaintRuleStatus: conditions+type
EphemeralContainer: env+name ports+containerPort volumeDevices+devicePath volumeMounts+mountPath
FlowSchemaStatus: conditions+type
HorizontalPodAutoscalerStatus: conditions+type
JobStatus: conditions+type
MutatingAdmissionPolicySpec: matchConditions+name
MutatingWebhook: matchConditions+name
MutatingWebhookConfiguration: webhooks+name
NamespaceStatus: conditions+type
NodeSpec: podCIDRs+
NodeStatus: addresses+type conditions+type
ObjectMeta: finalizers+ ownerReferences+uid
PersistentVolumeClaimStatus: conditions+type
PodDisruptionBudgetSpec: selector=
PodDisruptionBudgetStatus: conditions+type
PodSpec: containers+name ephemeralContainers+name hostAliases+ip imagePullSecrets+name initContainers+name
    resourceClaims+name! schedulingGates+name topologySpreadConstraints+topologyKey volumes+name!
PodStatus: conditions+type hostIPs+ip podIPs+ip resourceClaimStatuses+name!
PriorityLevelConfigurationStatus: conditions+type
ReplicaSetStatus: conditions+type
ReplicationControllerStatus: conditions+type
ResourceClaimStatus: reservedFor+uid
ServiceAccount: secrets+name
ServiceCIDRStatus: conditions+type
ServiceSpec: ports+port
ServiceStatus: conditions+type
StatefulSetStatus: conditions+type
ValidatingAdmissionPolicySpec: matchConditions+name variables+name
ValidatingWebhook: matchConditions+name
ValidatingWebhookConfiguration: webhooks+name
"""
_FIELD = re.compile(r"(\w+)(?:\+(\w*))?(!?)(=?)$")
_MODEL = re.compile(r"(?:[A-Z][a-z]+)??V\d+(?:alpha\d+|beta\d+)?(?=[A-Z])")


@cache
def _table() -> dict[tuple[str, str], Strategy]:
    table: dict[tuple[str, str], Strategy] = {}
    type_name = ""
    for word in _TEXT.split():
        if word.endswith(":"):
            type_name = word[:-1]
        elif match := _FIELD.match(word):
            table[type_name, match[1]] = Strategy(match[2], bool(match[3]), bool(match[4]))
    return table


def strategy(type_name: str, field: str) -> Strategy:
    """How a patch treats a field of a type."""
    return _table().get((type_name, field), PLAIN)


def bare(model: str) -> str:
    """The name of a type from that of its model, which begins with group and version."""
    return _MODEL.sub("", model, count=1)

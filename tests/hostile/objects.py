"""An object of each kind that the watcher follows, as an API server has it, with as much in it as somebody reads.

They fit together: two nodes of a group, workloads with their pods, a claim with its volume, devices, requests, buffers,
a spread, an autoscaler and a ShardSet, all in one namespace.
"""

from __future__ import annotations

from typing import Any, Final

from tidewright.events.base import JsonObject

NS: Final = "shop"
ZONE: Final = "topology.kubernetes.io/zone"
GPU: Final = "gpu.example.com"
CREATED: Final = "2026-11-29T08:00:00Z"
CHANGED: Final = "2026-11-29T08:05:00Z"
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def _meta(name: str, namespace: str = NS, **more: Any) -> JsonObject:
    return {
        "name": name,
        "namespace": namespace,
        "uid": f"uid-{name}",
        "resourceVersion": "7",
        "generation": 2,
        "creationTimestamp": CREATED,
        "labels": {"app": "web", **more.pop("labels", {})},
        "annotations": more.pop("annotations", {}),
        **more,
    }


def _owner(kind: str, name: str, api_version: str = "apps/v1") -> JsonObject:
    return {"apiVersion": api_version, "kind": kind, "name": name, "uid": f"uid-{name}", "controller": True}


def _in(key: str, *values: str) -> JsonObject:
    return {"key": key, "operator": "In", "values": list(values)}


def _condition(kind: str, status: str = "True", reason: str = "R", **more: Any) -> JsonObject:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": "said so",
        "lastTransitionTime": CHANGED,
        **more,
    }


SELECTOR: Final[JsonObject] = {"matchLabels": {"app": "web"}, "matchExpressions": [_in("app", "web", "www")]}

POD_SPEC: Final[JsonObject] = {
    "containers": [
        {
            "name": "main",
            "image": "main:1",
            "args": ["--a", "b"],
            "env": [{"name": "A", "value": "b"}],
            "ports": [{"containerPort": 80, "hostPort": 8080, "hostIP": "", "protocol": "TCP"}],
            "resources": {
                "requests": {"cpu": "500m", "memory": "1Gi", "example.com/foo": "1"},
                "limits": {"cpu": "1", "memory": "1Gi", "example.com/foo": "1"},
            },
            "livenessProbe": {"exec": {"command": ["true"]}},
            "lifecycle": {"preStop": {"httpGet": {"httpHeaders": [{"name": "a", "value": "b"}]}}},
        }
    ],
    "initContainers": [
        {"name": "side", "restartPolicy": "Always", "resources": {"requests": {"cpu": "100m"}}},
        {"name": "init", "resources": {"requests": {"cpu": "200m"}}},
    ],
    "nodeSelector": {"kubernetes.io/os": "linux"},
    "affinity": {
        "nodeAffinity": {
            REQUIRED: {
                "nodeSelectorTerms": [
                    {
                        "matchExpressions": [
                            _in(ZONE, "a", "b"),
                            {"key": "size", "operator": "Gt", "values": ["1"]},
                        ],
                        "matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["x"]}],
                    }
                ]
            }
        },
        "podAffinity": {
            REQUIRED: [
                {
                    "labelSelector": SELECTOR,
                    "topologyKey": ZONE,
                    "namespaces": [NS],
                    "namespaceSelector": {"matchLabels": {"team": "shop"}},
                    "matchLabelKeys": ["app"],
                }
            ]
        },
        "podAntiAffinity": {
            REQUIRED: [
                {
                    "labelSelector": {"matchExpressions": [{"key": "lonely", "operator": "Exists"}]},
                    "topologyKey": "kubernetes.io/hostname",
                    "mismatchLabelKeys": ["app"],
                }
            ]
        },
    },
    "tolerations": [
        {
            "key": "dedicated",
            "operator": "Equal",
            "value": "web",
            "effect": "NoSchedule",
            "tolerationSeconds": 30,
        }
    ],
    "topologySpreadConstraints": [
        {
            "maxSkew": 5,
            "topologyKey": ZONE,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": SELECTOR,
            "minDomains": 1,
            "matchLabelKeys": ["app"],
            "nodeAffinityPolicy": "Honor",
            "nodeTaintsPolicy": "Ignore",
        }
    ],
    "volumes": [
        {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
        {
            "name": "scratch",
            "ephemeral": {
                "volumeClaimTemplate": {
                    "spec": {
                        "accessModes": ["ReadWriteOnce"],
                        "storageClassName": "disks",
                        "resources": {"requests": {"storage": "1Gi"}},
                    }
                }
            },
        },
        {"name": "tmp", "emptyDir": {"medium": "Memory"}},
        {"name": "csi", "csi": {"driver": "d", "volumeAttributes": {"a": "b"}}},
    ],
    "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}],
    "overhead": {"cpu": "10m"},
    "resources": {"requests": {"cpu": "700m"}},
    "priority": 0,
    "priorityClassName": "usual",
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "schedulerName": "default-scheduler",
}


def _small(*, cpu: str = "500m", **more: Any) -> JsonObject:
    return {
        "containers": [
            {"name": "main", "image": "i", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}
        ],
        **more,
    }


def _template(spec: JsonObject, **annotations: str) -> JsonObject:
    return {"metadata": {"labels": {"app": "web"}, "annotations": annotations}, "spec": spec}


def _pod(name: str, spec: JsonObject, *, owner: JsonObject | None = None, **more: Any) -> JsonObject:
    node = more.pop("node", "")
    if node:
        conditions = [_condition("Ready"), _condition("PodScheduled")]
        status = {
            "phase": "Running",
            "startTime": CREATED,
            "conditions": conditions,
            "containerStatuses": [{"name": "main", "restartCount": 1}],
            "initContainerStatuses": [{"name": "side", "restartCount": 1}],
        }
    else:
        status = {"phase": "Pending", "conditions": [_condition("PodScheduled", "False", "Unschedulable")]}
    meta = _meta(name, ownerReferences=[owner or _owner("ReplicaSet", "web-77")], finalizers=["a/b"], **more)
    meta["labels"]["pod-template-hash"] = "77"
    return {"metadata": meta, "spec": {**spec, **({"nodeName": node} if node else {})}, "status": status}


def _node(name: str, zone: str) -> JsonObject:
    labels = {
        ZONE: zone,
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "size": "4",
        "tier": "g",
    }
    return {
        "metadata": _meta(
            name,
            "",
            labels=labels,
            annotations={
                "cluster-autoscaler.kubernetes.io/scale-down-disabled": "false",
                "delay-deletion.cluster-autoscaler.kubernetes.io/x": "true",
            },
        ),
        "spec": {
            "providerID": f"sim://{name}",
            "unschedulable": False,
            "taints": [{"key": "soft", "value": "x", "effect": "PreferNoSchedule"}],
        },
        "status": {
            "allocatable": {"cpu": "4", "memory": "16Gi", "pods": "110", "example.com/foo": "8"},
            "conditions": [_condition("Ready")],
        },
    }


def _workload(name: str, spec: JsonObject, *, update: str = "", **more: Any) -> JsonObject:
    return {
        "metadata": _meta(name, annotations={"deployment.kubernetes.io/revision": "3"}, **more),
        "spec": {"replicas": 3, "selector": SELECTOR, **spec},
        "status": {
            "replicas": 3,
            "readyReplicas": 2,
            "observedGeneration": 2,
            **({"updateRevision": update} if update else {}),
            "conditions": [_condition("Progressing"), _condition("ReplicaFailure", "False")],
        },
    }


def _sized(name: str, count: int, class_name: str, **parameters: str) -> JsonObject:
    return {
        "metadata": _meta(
            name, ownerReferences=[_owner("Workload", "w", "kueue.x-k8s.io/v1beta1")], finalizers=["a/b"]
        ),
        "spec": {
            "provisioningClassName": class_name,
            "parameters": {"ValidUntilSeconds": "2000000", "BookingSeconds": "600", **parameters},
            "podSets": [{"podTemplateRef": {"name": "worker"}, "count": count}],
        },
        "status": {
            "conditions": [_condition("Accepted", observedGeneration=1)],
            "provisioningClassDetails": {"a": "b"},
        },
    }


def _zoned(zone: str) -> JsonObject:
    return {"nodeSelectorTerms": [{"matchExpressions": [_in(ZONE, zone)]}]}


_DEVICE: Final[JsonObject] = {
    "name": "d0",
    "attributes": {
        "model": {"string": "a100"},
        "index": {"int": 0},
        "fast": {"bool": True},
        "driver": {"version": "1.2.3"},
        "example.com/root": {"string": "r0"},
    },
    "capacity": {
        "memory": {
            "value": "40Gi",
            "requestPolicy": {"default": "1Gi", "validRange": {"min": "1Gi", "step": "1Gi", "max": "40Gi"}},
        },
        "lanes": {"value": "4", "requestPolicy": {"default": "1", "validValues": ["1", "2", "4"]}},
    },
    "consumesCounters": [{"counterSet": "set", "counters": {"memory": {"value": "40Gi"}}}],
    "taints": [{"key": "worn", "value": "x", "effect": "NoSchedule", "timeAdded": CREATED}],
    "allowMultipleAllocations": True,
    "nodeName": "n0",
    "allNodes": False,
    "bindsToNode": False,
}
_DEVICES: Final[JsonObject] = {
    "requests": [
        {
            "name": "g",
            "exactly": {
                "deviceClassName": "gpu",
                "allocationMode": "ExactCount",
                "count": 1,
                "adminAccess": False,
                "selectors": [
                    {
                        "cel": {
                            "expression": f'device.attributes["{GPU}"].model == "a100" && device.capacity["{GPU}"].memory.isGreaterThan(quantity("1Gi"))'
                        }
                    }
                ],
                "tolerations": [{"key": "worn", "operator": "Equal", "value": "x", "effect": "NoSchedule"}],
                "capacity": {"requests": {"memory": "2Gi"}},
            },
        },
        {
            "name": "f",
            "firstAvailable": [{"name": "x", "deviceClassName": "gpu", "count": 1}],
        },
    ],
    "constraints": [{"requests": ["g"], "matchAttribute": f"{GPU}/model", "distinctAttribute": f"{GPU}/x"}],
    "config": [{"requests": ["g"], "opaque": {"driver": GPU, "parameters": {"a": "b"}}}],
}
_CLAIM: Final[JsonObject] = {
    "accessModes": ["ReadWriteOnce"],
    "storageClassName": "disks",
    "volumeName": "pv-data",
    "selector": SELECTOR,
    "resources": {"requests": {"storage": "10Gi"}},
}
_TARGET: Final[JsonObject] = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
_EXTERNAL: Final[JsonObject] = {
    "type": "External",
    "external": {
        "metricName": "rps",
        "metricSelector": {"matchLabels": {"app": "web"}},
        "lowWatermark": "5",
        "highWatermark": "10",
    },
}
_RESOURCE: Final[JsonObject] = {
    "type": "Resource",
    "resource": {
        "name": "cpu",
        "metricSelector": {"matchLabels": {"app": "web"}},
        "lowWatermark": "200m",
        "highWatermark": "500m",
    },
}
_SCALER: Final[JsonObject] = {
    "scaleTargetRef": _TARGET,
    "metrics": [_EXTERNAL, _RESOURCE],
    "minReplicas": 1,
    "maxReplicas": 20,
    "algorithm": "average",
    "tolerance": "0.1",
    "scaleUpLimitFactor": "50",
    "scaleDownLimitFactor": "20",
    "upscaleForbiddenWindowSeconds": 60,
    "downscaleForbiddenWindowSeconds": 60,
    "upscaleDelayAboveWatermarkSeconds": 5,
    "downscaleDelayBelowWatermarkSeconds": 5,
    "replicaScalingAbsoluteModulo": 1,
    "readinessDelaySeconds": 10,
    "minAvailableReplicaPercentage": 10,
    "tolerateZero": True,
    "dryRun": False,
    "convergeTowardsWatermark": "high",
}
_SUBSETS: Final[list[JsonObject]] = [
    {
        "name": "a",
        "maxReplicas": 2,
        "minReplicas": 1,
        "requiredNodeSelectorTerm": {"matchExpressions": [_in(ZONE, "a")]},
        "tolerations": [{"key": "dedicated", "operator": "Exists"}],
        "patch": {"metadata": {"labels": {"subset": "a"}}},
    },
    {
        "name": "b",
        "maxReplicas": "50%",
        "preferredNodeSelectorTerms": [{"weight": 1, "preference": {"matchExpressions": [_in(ZONE, "b")]}}],
        "patch": {"spec": {"containers": [{"name": "main", "env": [{"name": "S", "value": "b"}]}]}},
    },
    {"name": "c"},
]
_FAR: Final[JsonObject] = {"metadata": {"labels": {"far": "yes"}}, "spec": _small()}

OBJECTS: Final[dict[str, tuple[JsonObject, ...]]] = {
    "namespace": ({"metadata": _meta(NS, "", labels={"team": "shop"})},),
    "node": (_node("n0", "a"), _node("n1", "b")),
    "deployment": (
        _workload(
            "web",
            {
                "template": _template(
                    POD_SPEC, **{"cluster-autoscaler.kubernetes.io/pod-scale-up-delay": "30s"}
                ),
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%"}},
                "paused": False,
            },
        ),
    ),
    "replicaset": (
        _workload(
            "web-77",
            {"template": _template(POD_SPEC)},
            labels={"pod-template-hash": "77"},
            ownerReferences=[_owner("Deployment", "web")],
        ),
    ),
    "statefulset": (
        _workload(
            "db",
            {
                "template": _template(_small()),
                "podManagementPolicy": "OrderedReady",
                "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": _CLAIM}],
            },
            update="db-5",
        ),
    ),
    "cloneset": (_workload("clones", {"template": _template(_small())}, update="clones-5"),),
    "job": (
        {
            "metadata": _meta("batch"),
            "spec": {
                "parallelism": 3,
                "completions": 5,
                "suspend": False,
                "managedBy": "kubernetes.io/job-controller",
                "podReplacementPolicy": "Failed",
                "selector": SELECTOR,
                "template": _template(_small()),
            },
            "status": {
                "active": 2,
                "ready": 1,
                "succeeded": 1,
                "failedIndexes": "1,3-5",
                "conditions": [_condition("Complete", "False")],
            },
        },
    ),
    "replicationcontroller": (
        {
            "metadata": _meta("old"),
            "spec": {"replicas": 1, "selector": {"app": "old"}},
            "status": {"replicas": 1, "readyReplicas": 1, "observedGeneration": 2},
        },
    ),
    "poddisruptionbudget": (
        {
            "metadata": _meta("web"),
            "spec": {"selector": SELECTOR, "unhealthyPodEvictionPolicy": "AlwaysAllow", "minAvailable": 1},
            "status": {"disruptionsAllowed": 1, "observedGeneration": 2},
        },
    ),
    "daemonset": (
        {
            "metadata": _meta("agent"),
            "spec": {"template": _template(_small(cpu="100m", tolerations=[{"operator": "Exists"}]))},
        },
    ),
    "podtemplate": (
        {"metadata": _meta("worker"), "template": _template(POD_SPEC)},
        {"metadata": _meta("propeller-template"), "template": _template(_small())},
    ),
    "resourcequota": (
        {
            "metadata": _meta("quota"),
            "spec": {
                "hard": {"requests.cpu": "100", "pods": "50", "requests.storage": "1Ti"},
                "scopes": ["NotTerminating"],
                "scopeSelector": {
                    "matchExpressions": [
                        {"scopeName": "PriorityClass", "operator": "In", "values": ["usual"]}
                    ]
                },
            },
            "status": {
                "hard": {"requests.cpu": "100", "pods": "50"},
                "used": {"requests.cpu": "2", "pods": "3"},
            },
        },
    ),
    "limitrange": (
        {
            "metadata": _meta("limits"),
            "spec": {
                "limits": [
                    {
                        "type": "Container",
                        "default": {"cpu": "1"},
                        "defaultRequest": {"cpu": "100m"},
                        "min": {"cpu": "1m"},
                        "max": {"cpu": "8"},
                        "maxLimitRequestRatio": {"cpu": "10"},
                    },
                    {"type": "Pod", "max": {"cpu": "10"}},
                ]
            },
        },
    ),
    "priorityclass": (
        {"metadata": _meta("usual", ""), "value": 0, "preemptionPolicy": "Never", "globalDefault": True},
        {"metadata": _meta("tidewright-buffer", ""), "value": -(2**31)},
    ),
    "persistentvolumeclaim": ({"metadata": _meta("data"), "spec": _CLAIM},),
    "persistentvolume": (
        {
            "metadata": _meta("pv-data", "", labels={ZONE: "a"}),
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "disks",
                "csi": {"driver": "csi.example.com"},
                "nodeAffinity": {"required": _zoned("a")},
                "claimRef": {"namespace": NS, "name": "data", "uid": "uid-data"},
                "capacity": {"storage": "10Gi"},
            },
        },
        {
            "metadata": _meta("pv-free", "", labels={ZONE: "b"}),
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "disks",
                "nodeAffinity": {"required": _zoned("b")},
                "capacity": {"storage": "20Gi"},
            },
        },
    ),
    "storageclass": (
        {
            "metadata": _meta(
                "disks", "", annotations={"storageclass.kubernetes.io/is-default-class": "true"}
            ),
            "provisioner": "csi.example.com",
            "volumeBindingMode": "WaitForFirstConsumer",
            "allowedTopologies": [{"matchLabelExpressions": [{"key": ZONE, "values": ["a", "b"]}]}],
        },
    ),
    "csinode": (
        {
            "metadata": _meta("n0", ""),
            "spec": {"drivers": [{"name": "csi.example.com", "allocatable": {"count": 20}}]},
        },
    ),
    "csidriver": ({"metadata": _meta("csi.example.com", ""), "spec": {"storageCapacity": True}},),
    "csistoragecapacity": (
        {
            "metadata": _meta("cap"),
            "storageClassName": "disks",
            "nodeTopology": {"matchLabels": {ZONE: "a"}, "matchExpressions": [_in(ZONE, "a")]},
            "capacity": "100Gi",
            "maximumVolumeSize": "50Gi",
        },
    ),
    "resourceclaim": (
        {
            "metadata": _meta("taken"),
            "spec": {"devices": _DEVICES},
            "status": {
                "allocation": {
                    "nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [_in(ZONE, "a")]}]},
                    "devices": {
                        "results": [
                            {
                                "request": "g",
                                "driver": GPU,
                                "pool": "n0",
                                "device": "d0",
                                "shareID": "s",
                                "consumedCapacity": {"memory": "2Gi"},
                                "adminAccess": False,
                            }
                        ]
                    },
                },
                "reservedFor": [{"resource": "pods", "name": "web-0", "uid": "u"}],
            },
        },
        {"metadata": _meta("free"), "spec": {"devices": _DEVICES}},
    ),
    "resourceclaimtemplate": ({"metadata": _meta("one-gpu"), "spec": {"spec": {"devices": _DEVICES}}},),
    "resourceslice": (
        {
            "metadata": _meta("slice-n0", ""),
            "spec": {
                "driver": GPU,
                "pool": {"name": "n0", "generation": 1, "resourceSliceCount": 1},
                "nodeName": "n0",
                "sharedCounters": [{"name": "set", "counters": {"memory": {"value": "80Gi"}}}],
                "devices": [_DEVICE, {**_DEVICE, "name": "d1", "taints": []}],
            },
        },
        {
            "metadata": _meta("slice-net", ""),
            "spec": {
                "driver": GPU,
                "pool": {"name": "net", "generation": 1, "resourceSliceCount": 1},
                "nodeSelector": _zoned("b"),
                "perDeviceNodeSelection": False,
                "devices": [{"name": "x", "basic": {"attributes": {"model": {"string": "a100"}}}}],
            },
        },
    ),
    "deviceclass": (
        {
            "metadata": _meta("gpu", ""),
            "spec": {
                "selectors": [{"cel": {"expression": f'device.driver == "{GPU}"'}}],
                "extendedResourceName": "example.com/gpu",
            },
        },
    ),
    "devicetaintrule": (
        {
            "metadata": _meta("worn", ""),
            "spec": {
                "deviceSelector": {"driver": GPU, "pool": "net", "device": "x"},
                "taint": {"key": "worn", "value": "x", "effect": "NoSchedule"},
            },
        },
    ),
    "pod": (
        _pod("web-0", POD_SPEC, node="n0"),
        _pod("web-1", _small(), node="n1", annotations={"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}),
        _pod("web-2", POD_SPEC),
        _pod("web-3", _small(cpu="3900m")),
        _pod("db-0", _small(), owner=_owner("StatefulSet", "db"), labels={"statefulset.kubernetes.io/pod-name": "db-0"}, node="n1"),
        _pod(
            "worker-0",
            _small(),
            annotations={
                "autoscaling.x-k8s.io/consume-provisioning-request": "book",
                "autoscaling.x-k8s.io/provisioning-class-name": "check-capacity.autoscaling.x-k8s.io",
                "apps.kruise.io/matched-workloadspread": '{"name":"web","subset":"a"}',
                "controller.kubernetes.io/pod-deletion-cost": "10",
            },
        ),
        _pod(
            "propeller-1",
            _small(),
            node="n1",
            labels={"app": "propeller"},
            annotations={"shardConfigHash": "x", "podTemplateResourceVersion": "7"},
        ),
        _pod("orders-0", _small(), node="n1", labels={"shards.tidewright.dev/set": "orders", "shards.tidewright.dev/index": "0"}, annotations={"shards.tidewright.dev/generation": "g", "shards.tidewright.dev/slots": "0-7"}),
    ),
    "datadogmonitor": ({"metadata": _meta("wpa"), "status": {"monitorState": "OK"}},),
    "watermarkpodautoscaler": (
        {
            "metadata": _meta(
                "wpa",
                annotations={
                    "wpa.datadoghq.com/lifecycle-control.enabled": "true",
                    "tidewright.dev/forecast": "lead=10m,confidence=0.9",
                },
                finalizers=["finalizer.watermarkpodautoscaler.datadoghq.com"],
            ),
            "spec": _SCALER,
            "status": {
                "currentReplicas": 3,
                "desiredReplicas": 3,
                "lastScaleTime": CHANGED,
                "observedGeneration": 2,
                "currentMetrics": [{"type": "External", "external": {"metricName": "rps", "currentValue": "7"}}],
                "lastConditionType": "AbleToScale",
                "lastConditionState": "True",
                "scalingEventsCount": 1,
                "conditions": [_condition("AbleToScale"), _condition("ScalingActive")],
            },
        },
        {
            "metadata": _meta("asks"),
            "spec": {
                **_SCALER,
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db"},
                "metrics": [],
                "recommender": {
                    "url": "http://rec.shop.svc",
                    "settings": {"a": "b"},
                    "targetType": "cpu",
                    "lowWatermark": "0.2",
                    "highWatermark": "0.5",
                    "tlsConfig": {"caFile": "/x"},
                },
            },
        },
    ),
    "workloadspread": (
        {
            "metadata": _meta("web"),
            "spec": {
                "targetRef": _TARGET,
                "targetFilter": {"selector": SELECTOR, "replicasPathList": ["spec.replicas"]},
                "scheduleStrategy": {
                    "type": "Adaptive",
                    "adaptive": {"rescheduleCriticalSeconds": 30, "disableSimulationSchedule": False},
                },
                "subsets": _SUBSETS,
            },
            "status": {
                "observedGeneration": 2,
                "subsetStatuses": [
                    {
                        "name": "a",
                        "replicas": 1,
                        "missingReplicas": 1,
                        "creatingPods": {"p": CHANGED},
                        "deletingPods": {"q": CHANGED},
                        "conditions": [_condition("SubsetUnschedulable", "False")],
                    }
                ],
                "versionedSubsetStatuses": {
                    "5": [{"name": "a", "replicas": 1, "missingReplicas": 1}]
                },
            },
        },
    ),
    "provisioningclass": (
        {
            "metadata": _meta("preset.example.com", ""),
            "spec": {"parameters": {"BookingSeconds": "60", "ValidUntilSeconds": "60"}},
        },
    ),
    "provisioningrequest": (
        _sized("book", 2, "check-capacity.autoscaling.x-k8s.io"),
        _sized("grow", 3, "best-effort-atomic-scale-up.autoscaling.x-k8s.io", NoRetry="false"),
        _sized("preset", 1, "preset.example.com"),
    ),
    "capacitybuffer": (
        {
            "metadata": _meta("headroom", annotations={"tidewright.dev/x": "y"}),
            "spec": {
                "provisioningStrategy": "buffer.x-k8s.io/active-capacity",
                "podTemplateRef": {"name": "worker"},
                "replicas": 2,
                "limits": {"cpu": "10", "memory": "100Gi"},
            },
            "status": {
                "podTemplateRef": {"name": "worker"},
                "podTemplateGeneration": 2,
                "replicas": 2,
                "provisioningStrategy": "buffer.x-k8s.io/active-capacity",
                "conditions": [_condition("ReadyForProvisioning", observedGeneration=2), _condition("Provisioning")],
            },
        },
        {
            "metadata": _meta("percent"),
            "spec": {
                "scalableRef": {"apiGroup": "apps", "kind": "Deployment", "name": "web"},
                "percentage": 50,
                "limits": {"cpu": "10"},
            },
        },
    ),
    "shardset": (
        {
            "metadata": _meta("orders"),
            "spec": {
                "keyspace": {"slots": 64, "hash": "blake2b64", "slotLabel": "shards.tidewright.dev/slot"},
                "source": {
                    "customResource": {
                        "group": "example.com",
                        "kind": "Order",
                        "resource": "orders",
                        "key": "{namespace}/{name}",
                        "selector": "a=b",
                        "allNamespaces": False,
                    }
                },
                "workers": {
                    "driver": "pods",
                    "template": {"name": "propeller-template", "container": "main"},
                    "injector": "dynamic",
                    "leaderElection": False,
                    "replicas": 2,
                    "weights": {"orders-0": 2},
                    "drain": ["orders-5"],
                },
                "assignment": {
                    "strategy": "sticky",
                    "pins": {"1": "orders-0"},
                    "moves": {"2": "orders-1"},
                    "frozen": False,
                },
                "handover": {
                    "mode": "drain",
                    "prepareTimeout": "10s",
                    "drainTimeout": "60s",
                    "drainHardTimeout": "300s",
                    "maxConcurrentSlots": 8,
                    "fenceAfter": "300s",
                    "allowForceDelete": False,
                },
                "membership": {
                    "leaseDuration": "15s",
                    "renewInterval": "3s",
                    "safetyMargin": "2s",
                    "skewMargin": "500ms",
                },
                "rebalance": {"interval": "30s", "theta": 0.15, "maxMoves": 8, "cooldown": "600s"},
                "rollout": {
                    "maxUnavailable": 1,
                    "minReady": "10s",
                    "progressDeadline": "600s",
                    "canary": 1,
                    "canaryAnalysis": {"period": "60s", "maxErrorRatio": 1.5, "maxQueueWaitRatio": 1.5, "maxBacklogRatio": 2},
                    "approved": True,
                    "paused": False,
                    "undo": False,
                    "rollback": "auto",
                    "resumes": 1,
                },
                "autosize": {
                    "min": 1,
                    "max": 4,
                    "signal": "busy",
                    "capacity": 100,
                    "target": 0.7,
                    "queueWaitObjective": "10s",
                },
            },
            "status": {"conditions": [_condition("Ready")]},
        },
        {
            "metadata": _meta("mapped"),
            "spec": {
                "source": {"labels": {"label": "region"}},
                "workers": {
                    "driver": "pods",
                    "template": {"name": "propeller-template", "container": "main"},
                    "injector": "selector-flag",
                    "flag": "--selector",
                },
                "handover": {"mode": "restart"},
                "assignment": {
                    "strategy": "mapping",
                    "perShard": [{"ids": ["eu"]}, {"ids": ["*"]}],
                },
            },
        },
    ),
    "shardmember": (
        {
            "metadata": _meta("orders-orders-0-x"),
            "spec": {
                "shardSet": "orders",
                "member": "orders-0",
                "incarnation": "x",
                "weight": 1,
                "version": "1",
                "leaseSeconds": 15,
            },
            "status": {
                "renewals": 5,
                "released": False,
                "leaving": False,
                "prepared": "0-7",
                "acting": "0-31",
                "stopped": [{"slot": 40, "epoch": 1, "checkpoint": "c"}],
                "load": {"0": 1500, "1": 3},
                "signals": {
                    "backlog": 3,
                    "waitP99": 0.5,
                    "errorShare": 0.1,
                    "fenced": 1,
                    "hot": [{"slot": 1, "keys": ["shop/a"]}],
                },
            },
        },
    ),
}  # fmt: skip
"""By kind, as subjects have it; in an order in which a list might be taken up."""

CUSTOM: Final[JsonObject] = _workload(
    "fancy",
    {
        "replicas": 5,
        "selector": {"matchLabels": {"app": "fancy"}},
        # Without claims, for which pods that are not there yet are not expected.
        "template": _template({k: v for k, v in POD_SPEC.items() if k not in ("volumes", "resourceClaims")}),
    },
)
"""A workload of a kind that somebody else has defined, whose template no API server looks into."""

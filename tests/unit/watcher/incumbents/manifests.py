"""Objects as the distributions of incumbents leave them in a cluster, shortened to what could matter."""

from __future__ import annotations

from typing import Any

import msgspec
import yaml

from tidewright.kube.times import rfc3339, rfc3339_micro

Object = dict[str, Any]


def raw(obj: Object) -> bytes:
    return msgspec.json.encode(obj)


def deployment(text: str, *, replicas: int = 1) -> Object:
    found: Object = yaml.safe_load(text)
    return found | {"status": {"replicas": replicas, "readyReplicas": replicas}}


CLUSTER_AUTOSCALER_CHART = """
metadata:
  name: ca-aws-cluster-autoscaler
  namespace: kube-system
  labels:
    app.kubernetes.io/instance: ca
    app.kubernetes.io/managed-by: Helm
    app.kubernetes.io/name: aws-cluster-autoscaler
    helm.sh/chart: cluster-autoscaler-9.37.0
spec:
  replicas: 1
  template:
    metadata:
      labels: {app.kubernetes.io/instance: ca, app.kubernetes.io/name: aws-cluster-autoscaler}
    spec:
      serviceAccountName: ca-aws-cluster-autoscaler
      containers:
      - name: aws-cluster-autoscaler
        image: registry.k8s.io/autoscaling/cluster-autoscaler:v1.30.0
        command:
        - ./cluster-autoscaler
        - --cloud-provider=aws
        - --namespace=kube-system
        - --node-group-auto-discovery=asg:tag=k8s.io/cluster-autoscaler/enabled
        env:
        - {name: POD_NAMESPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}
"""

CLUSTER_AUTOSCALER_EXAMPLE = """
metadata:
  name: cluster-autoscaler
  namespace: kube-system
  labels: {app: cluster-autoscaler}
spec:
  replicas: 1
  template:
    metadata:
      labels: {app: cluster-autoscaler}
    spec:
      containers:
      - name: cluster-autoscaler
        image: mirror.example.com:5000/infra/ca@sha256:0123456789abcdef
        command: [./cluster-autoscaler, --v=4, --cloud-provider=aws, --expander=least-waste]
"""

PROPORTIONAL_AUTOSCALER = """
metadata: {name: dns-autoscaler, namespace: kube-system, labels: {k8s-app: dns-autoscaler}}
spec:
  template:
    metadata: {labels: {k8s-app: dns-autoscaler}}
    spec:
      containers:
      - name: autoscaler
        image: registry.k8s.io/cpa/cluster-proportional-autoscaler:v1.8.9
        command: [/cluster-proportional-autoscaler, --namespace=kube-system]
"""

WATERMARK_CHART = """
metadata:
  name: wpa-watermarkpodautoscaler
  namespace: datadog
  labels:
    app.kubernetes.io/name: watermarkpodautoscaler
    app.kubernetes.io/instance: wpa
    helm.sh/chart: watermarkpodautoscaler-0.3.0
spec:
  replicas: 2
  template:
    metadata:
      labels: {app.kubernetes.io/name: watermarkpodautoscaler, app.kubernetes.io/instance: wpa}
    spec:
      containers:
      - name: watermarkpodautoscaler
        image: gcr.io/datadoghq/watermarkpodautoscaler:v0.9.0
        command: [watermarkpodautoscaler]
        args: [--zap-level=info]
        env:
        - {name: WATCH_NAMESPACE, value: ""}
        - {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
        - {name: OPERATOR_NAME, value: watermarkpodautoscaler}
"""

WATERMARK_KUSTOMIZE = """
metadata:
  name: controller-manager
  namespace: datadog
  labels: {control-plane: watermarkpodautoscaler-controller-manager}
spec:
  replicas: 1
  template:
    metadata: {labels: {control-plane: watermarkpodautoscaler-controller-manager}}
    spec:
      containers:
      - name: watermarkpodautoscaler
        image: gcr.io/datadoghq/watermarkpodautoscaler:latest
        command: [/manager]
        args: [--enable-leader-election]
        env:
        - {name: WATCH_NAMESPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}
"""

KRUISE_CHART = """
metadata:
  name: kruise-controller-manager
  namespace: kruise-system
  labels: {control-plane: controller-manager}
spec:
  replicas: 2
  template:
    metadata: {labels: {control-plane: controller-manager}}
    spec:
      serviceAccountName: kruise-manager
      containers:
      - name: manager
        image: openkruise/kruise-manager:v1.8.0
        command: [/manager]
        args:
        - --enable-leader-election
        - --metrics-addr=:8080
        - --leader-election-namespace=kruise-system
        - --feature-gates=
        env:
        - {name: POD_NAMESPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}
"""

KRUISE_ROLLOUT = """
metadata:
  name: kruise-rollout-controller-manager
  namespace: kruise-rollout
  labels: {control-plane: controller-manager}
spec:
  template:
    metadata: {labels: {control-plane: controller-manager}}
    spec:
      containers:
      - {name: manager, image: "openkruise/kruise-rollout:v0.6.0", command: [/manager]}
"""

PROPELLER_MANAGER_CHART = """
metadata:
  name: flytepropeller-manager
  namespace: flyte
  labels: {app.kubernetes.io/name: flytepropeller-manager, app.kubernetes.io/instance: flyte}
spec:
  replicas: 1
  template:
    metadata:
      labels: {app.kubernetes.io/name: flytepropeller-manager, app.kubernetes.io/instance: flyte}
    spec:
      containers:
      - name: flytepropeller-manager
        image: cr.flyte.org/flyteorg/flytepropeller:v1.10.0
        command:
        - flytepropeller-manager
        - --manager.pod-template-namespace
        - flyte
        - --config
        - /etc/flyte/config/*.yaml
        env:
        - {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
        - {name: POD_NAMESPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}
"""

PROPELLER_ALONE = """
metadata:
  name: flytepropeller
  namespace: flyte
  labels: {app.kubernetes.io/name: flytepropeller, app.kubernetes.io/instance: flyte}
spec:
  template:
    metadata: {labels: {app.kubernetes.io/name: flytepropeller}}
    spec:
      containers:
      - name: flytepropeller
        image: cr.flyte.org/flyteorg/flytepropeller:v1.10.0
        command: [flytepropeller, --config, /etc/flyte/config/*.yaml]
"""

OURS = """
metadata: {name: provisioning, namespace: tidewright, labels: {app.kubernetes.io/name: cluster-autoscaler}}
spec:
  template:
    metadata: {labels: {app.kubernetes.io/name: cluster-autoscaler}}
    spec:
      containers:
      - {name: provisioning, image: "registry.example.com/tidewright:0.4.0", command: [tidewright, run, provisioning]}
"""

CHARTS = {
    "provisioning": CLUSTER_AUTOSCALER_CHART,
    "autoscaler": WATERMARK_CHART,
    "spread": KRUISE_CHART,
    "shard-manager": PROPELLER_MANAGER_CHART,
}
LEADERS = {
    "provisioning": ("kube-system", "cluster-autoscaler", "ip-10-0-1-7.ec2.internal"),
    "autoscaler": ("datadog", "watermarkpodautoscaler-lock", "wpa-7f9c4d5b6-x2vqp_0b1c2d3e"),
    "spread": ("kruise-system", "kruise-manager", "kruise-controller-manager-6d8f_9a8b7c6d"),
    "shard-manager": ("flyte", "propeller-leader", "flytepropeller-manager-5c7d9_kq2m9xw8bz"),
}


def lease(
    namespace: str, name: str, holder: str, renewed: float, *, duration_s: int = 15, manager: str = ""
) -> Object:
    managed = [{"manager": manager, "operation": "Update", "time": rfc3339(renewed)}] if manager else []
    return {
        "metadata": {"name": name, "namespace": namespace, "managedFields": managed},
        "spec": {
            "holderIdentity": holder,
            "leaseDurationSeconds": duration_s,
            "renewTime": rfc3339_micro(renewed),
            "acquireTime": rfc3339_micro(renewed - 100),
            "leaseTransitions": 3,
        },
    }


def old_lock(namespace: str, name: str, holder: str, renewed: float) -> Object:
    """A ConfigMap or Endpoints by which a leader was elected before there were Leases."""
    record = {
        "holderIdentity": holder,
        "leaseDurationSeconds": 15,
        "acquireTime": rfc3339(renewed - 100),
        "renewTime": rfc3339(renewed),
        "leaderTransitions": 0,
    }
    annotations = {"control-plane.alpha.kubernetes.io/leader": msgspec.json.encode(record).decode()}
    return {"metadata": {"name": name, "namespace": namespace, "annotations": annotations}}


def written(manager: str, at: float, *, operation: str = "Update", fields: Object | None = None) -> Object:
    """The metadata of an object whose status that field manager wrote, the rest somebody with kubectl."""
    return {
        "managedFields": [
            {"manager": "kubectl-client-side-apply", "operation": "Update", "time": rfc3339(at - 5), "fieldsV1": {}},
            {
                "manager": manager,
                "operation": operation,
                "subresource": "status",
                "time": rfc3339(at),
                "fieldsType": "FieldsV1",
                "fieldsV1": fields or {"f:status": {"f:conditions": {}}},
            },
        ]
    }  # fmt: skip


def webhooks(name: str = "kruise-mutating-webhook-configuration", resource: str = "pods") -> Object:
    return {
        "metadata": {"name": name},
        "webhooks": [
            {
                "name": "mpod.kb.io",
                "rules": [{"apiGroups": [""], "operations": ["CREATE"], "resources": [resource]}],
            }
        ],
    }


def status_map(updated: str | None, *, manager: str = "cluster-autoscaler", at: float = 0.0) -> Object:
    annotations = {} if updated is None else {"cluster-autoscaler.kubernetes.io/last-updated": updated}
    fields: Object = {"f:data": {"f:status": {}}}
    entry = {"manager": manager, "operation": "Update", "time": rfc3339(at), "fieldsV1": fields}
    return {
        "metadata": {
            "name": "cluster-autoscaler-status",
            "namespace": "kube-system",
            "annotations": annotations,
            "managedFields": [entry],
        },
        "data": {"status": "autoscalerStatus: Running\n"},
    }

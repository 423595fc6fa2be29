"""Kubernetes manifests of a deployment, from the table of services: `deploy/kubernetes/`.

One Deployment and one ServiceAccount per service, a ClusterRole for the two that talk to the API
server, and a NATS of three servers with the permissions of the bus. Images are names to be replaced
(`kustomization.yaml`), passwords come from a Secret that the installation makes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml

from tidewright.actuator.allowed.bounds import Feature
from tidewright.cli.contract import actuatorroles, permissions, rbac, signedness
from tidewright.cli.services import SERVICES, Role, Service

NAMESPACE = "tidewright"
IMAGE, NATS_IMAGE = "tidewright", "nats"
NATS_TAG = "2.15-alpine"
PASSWORDS = "nats-passwords"
TOKENS = "tokens"
"""Secret with what callers have to bring: `metrics` for the metrics of all, `push` for samples, and by the name of an
endpoint what the API server brings, in the path that the actuator writes for it."""
TOKENS_AT = "/run/tidewright/tokens"
REPLICAS = 2
"""Of each service: one works, or they share the slots, and the rest stand by."""
SERVERS = 3
"""NATS servers, and copies of the log."""
PROBES, ADMISSION = 8080, 8443
INSTALLER = permissions.INSTALLER
HARDENED = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
"""What a container may do on its node: nothing."""
MAX_AGE_S = 30 * 86_400
"""How long the log keeps a message: a month."""
STORE, STORE_BYTES = "40Gi", "38GB"
"""Of each server's volume, and what JetStream may take of it: the account limits below lie beneath it."""
STORES = ("45GB", "60GB")
"""Of the log's account and of the archive's, on all servers together: the archive has what the log no longer has."""

Manifest = dict[str, Any]


def wanted(cluster: str) -> dict[str, str]:
    """The files of `deploy/kubernetes/`: name to text."""
    documents = {
        "namespace.yaml": [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}],
        "nats.yaml": nats(cluster),
        "install.yaml": installer(cluster),
        "rbac.yaml": [document for service in SERVICES for document in access(service)],
        "services.yaml": [document for service in SERVICES for document in workload(service, cluster)],
    }
    files = {name: _text(found) for name, found in documents.items()}
    for feature in Feature:
        roles = actuatorroles.manifests(feature, own_namespace=NAMESPACE)
        files[_roles_of(feature)] = f"# {feature}: {actuatorroles.WHY[feature]}.\n{_text(roles)}"
    on = [_roles_of(feature) for feature in Feature if feature in actuatorroles.BY_DEFAULT]
    files["kustomization.yaml"] = _text([kustomization(sorted([*documents, *on]))])
    files["signed/kustomization.yaml"] = _text([signedness.component(NAMESPACE)])
    return files


def _roles_of(feature: Feature) -> str:
    return f"actuator-{feature}.yaml"


def kustomization(files: Sequence[str]) -> Manifest:
    """Where an installation puts its own images."""
    return {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": list(files),
        "images": [
            {"name": IMAGE, "newName": IMAGE, "newTag": "latest"},
            {"name": NATS_IMAGE, "newName": NATS_IMAGE, "newTag": NATS_TAG},
        ],
    }


# -- services ------------------------------------------------------------------------------------------


def access(service: Service) -> list[Manifest]:
    """ServiceAccount and, where there are any, rules."""
    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": _named(service.name),
        "automountServiceAccountToken": False,
    }
    found: list[Manifest] = [account]
    subject = {"kind": "ServiceAccount", "name": service.name, "namespace": NAMESPACE}
    api = "rbac.authorization.k8s.io"
    if given := rbac.rules(service):
        role = f"tidewright-{service.name}"
        reference = {"apiGroup": api, "kind": "ClusterRole", "name": role}
        found += [
            {"apiVersion": f"{api}/v1", "kind": "ClusterRole", "metadata": {"name": role}, "rules": given},
            {
                "apiVersion": f"{api}/v1", "kind": "ClusterRoleBinding", "metadata": {"name": role},
                "roleRef": reference, "subjects": [subject],
            },
        ]  # fmt: skip
    if service.role is Role.ACTUATOR:
        found += actuatorroles.base(NAMESPACE)
    if service.role is Role.WATCHER:
        reference = {"apiGroup": api, "kind": "Role", "name": service.name}
        own = rbac.rule("", ["configmaps"], "list", "watch")
        found += [
            {"apiVersion": f"{api}/v1", "kind": "Role", "metadata": _named(service.name), "rules": [own]},
            {
                "apiVersion": f"{api}/v1", "kind": "RoleBinding", "metadata": _named(service.name),
                "roleRef": reference, "subjects": [subject],
            },
        ]  # fmt: skip
    return found


def command(service: Service, cluster: str) -> list[str]:
    """Arguments of the image for a service."""
    found = ["run", service.name, "--cluster", cluster]
    found += ["--health-host", "0.0.0.0", "--health-port", str(PROBES)]  # noqa: S104 - within a pod
    found += ["--metrics-token-file", f"{TOKENS_AT}/metrics"]
    match service.role:
        case Role.WATCHER:
            found += ["--in-cluster", "--mode", "shadow"]
            found += ["--config-map", f"{NAMESPACE}/tidewright", "--push-token-file", f"{TOKENS_AT}/push"]
        case Role.ACTUATOR:
            found += ["--in-cluster", "--own-namespace", NAMESPACE]
            found += ["--features", ",".join(sorted(actuatorroles.BY_DEFAULT))]
            for name in _tokens_of(service):
                found += ["--endpoint-token", f"{name}={TOKENS_AT}/{name}"]
        case Role.ENDPOINT:
            found += ["--host", "0.0.0.0", "--port", str(ADMISSION)]  # noqa: S104 - within a pod
            found += ["--service", f"{NAMESPACE}/{service.name}:443"]
            found += ["--token-file", f"{TOKENS_AT}/{service.name}"]
    return found


def installer(cluster: str) -> list[Manifest]:
    """The Job that makes the log, and its account: it may read which cluster this is, and nothing else."""
    api, role = "rbac.authorization.k8s.io", f"tidewright-{INSTALLER}"
    reading = rbac.rule("", ["namespaces"], "get") | {"resourceNames": ["kube-system"]}
    arguments = ["install", "--cluster", cluster, "--in-cluster"]
    arguments += ["--replicas", str(SERVERS), "--max-age", str(MAX_AGE_S)]
    labels = {"app.kubernetes.io/name": "tidewright", "app.kubernetes.io/component": INSTALLER}
    spec = {
        "serviceAccountName": INSTALLER,
        "automountServiceAccountToken": True,
        "restartPolicy": "OnFailure",
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [
            {
                "name": INSTALLER, "image": IMAGE, "args": arguments, "env": _nats_env(INSTALLER),
                "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "1Gi"}},
                "securityContext": HARDENED,
            }
        ],
    }  # fmt: skip
    return [
        {
            "apiVersion": "v1", "kind": "ServiceAccount", "metadata": _named(INSTALLER),
            "automountServiceAccountToken": False,
        },
        {"apiVersion": f"{api}/v1", "kind": "ClusterRole", "metadata": {"name": role}, "rules": [reading]},
        {
            "apiVersion": f"{api}/v1", "kind": "ClusterRoleBinding", "metadata": {"name": role},
            "roleRef": {"apiGroup": api, "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": INSTALLER, "namespace": NAMESPACE}],
        },
        {
            "apiVersion": "batch/v1", "kind": "Job", "metadata": _named(INSTALLER) | {"labels": labels},
            "spec": {"backoffLimit": 20, "template": {"metadata": {"labels": labels}, "spec": spec}},
        },
    ]  # fmt: skip


def _tokens_of(service: Service) -> list[str]:
    """Keys of the Secret that a service has beside that for metrics: no endpoint has another one's."""
    match service.role:
        case Role.WATCHER:
            return ["push"]
        case Role.ENDPOINT:
            return [service.name]
        case Role.ACTUATOR:
            return [other.name for other in SERVICES if other.role is Role.ENDPOINT]
    return []


def workload(service: Service, cluster: str) -> list[Manifest]:
    """The Deployment, and the Service before what others send to: endpoints, and pushed samples."""
    labels = {"app.kubernetes.io/name": "tidewright", "app.kubernetes.io/component": service.name}
    endpoint = service.role is Role.ENDPOINT
    ports = [{"name": "probes", "containerPort": PROBES}]
    ports += [{"name": "https", "containerPort": ADMISSION}] if endpoint else []
    container = {
        "name": service.name,
        "image": IMAGE,
        "args": command(service, cluster),
        "env": _nats_env(service.name),
        "ports": ports,
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": "probes"}, "periodSeconds": 2},
        "livenessProbe": {
            "httpGet": {"path": "/livez", "port": "probes"}, "initialDelaySeconds": 10, "periodSeconds": 10,
        },
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "1Gi"}},
        "securityContext": HARDENED,
        "volumeMounts": [{"name": "tokens", "mountPath": TOKENS_AT, "readOnly": True}],
    }  # fmt: skip
    tokens = ["metrics", *_tokens_of(service)]
    spec = {
        "serviceAccountName": service.name,
        "automountServiceAccountToken": service.role in (Role.WATCHER, Role.ACTUATOR),
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
        # Mounted as a folder: a single file of it (`subPath`) would stay as it was when the Secret changes.
        "volumes": [
            {
                "name": "tokens",
                "secret": {"secretName": TOKENS, "items": [{"key": k, "path": k} for k in tokens]},
            }
        ],
    }
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _named(service.name) | {"labels": labels},
        "spec": {
            "replicas": REPLICAS,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }
    reached: list[Manifest] = []
    if endpoint:
        reached = [{"name": "https", "port": 443, "targetPort": "https"}]
    elif service.role is Role.WATCHER:
        reached = [{"name": "push", "port": PROBES, "targetPort": "probes"}]
    if not reached:
        return [deployment]
    before = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _named(service.name) | {"labels": labels},
        "spec": {"selector": labels, "ports": reached},
    }
    return [deployment, before]


# -- the log -------------------------------------------------------------------------------------------


def nats_configuration() -> str:
    """Of each server: durable to the disk before an append is answered, and copied to the others."""
    routes = ", ".join(f"nats://nats-{n}.nats:6222" for n in range(SERVERS))
    return "\n".join(
        [
            "# Generated by `make generate`. What is lost without sync_interval: docs/log.md.",
            "server_name: $POD_NAME",
            "port: 4222",
            "http_port: 8222",
            "max_payload: 8MB",
            "jetstream {",
            '  store_dir: "/data"',
            f"  max_file_store: {STORE_BYTES}",
            "  sync_interval: always",
            "}",
            f"cluster {{ name: tidewright, port: 6222, routes: [{routes}] }}",
            'include "permissions.conf"',
            "",
        ]
    )


def nats(cluster: str) -> list[Manifest]:
    """Three servers with a volume each, one service name, and how many may be missing at a time."""
    labels = {"app.kubernetes.io/name": "nats"}
    files = {
        "nats.conf": nats_configuration(),
        "permissions.conf": permissions.configuration(cluster, STORES),
    }
    ports = [("client", 4222), ("cluster", 6222), ("monitor", 8222)]
    container = {
        "name": "nats",
        "image": NATS_IMAGE,
        "args": ["-c", "/etc/nats/nats.conf"],
        "env": [
            {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            *(_password(permissions.variable(user), user) for user in permissions.USERS),
        ],
        "ports": [{"name": name, "containerPort": port} for name, port in ports],
        "readinessProbe": {"httpGet": {"path": "/healthz", "port": "monitor"}, "periodSeconds": 5},
        "livenessProbe": {
            "httpGet": {"path": "/healthz?js-enabled-only=true", "port": "monitor"}, "initialDelaySeconds": 30,
        },
        "resources": {"requests": {"cpu": "200m", "memory": "256Mi"}, "limits": {"memory": "2Gi"}},
        "volumeMounts": [{"name": "config", "mountPath": "/etc/nats"}, {"name": "data", "mountPath": "/data"}],
    }  # fmt: skip
    apart = {
        "topologyKey": "kubernetes.io/hostname", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": labels},
    }  # fmt: skip
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": STORE}}},
    }
    return [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": _named("nats-config"), "data": files},
        {
            "apiVersion": "v1", "kind": "Service", "metadata": _named("nats") | {"labels": labels},
            "spec": {
                "clusterIP": "None", "publishNotReadyAddresses": True, "selector": labels,
                "ports": [{"name": name, "port": port} for name, port in ports],
            },
        },
        {
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": _named("nats"),
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": labels}},
        },
        {
            "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": _named("nats") | {"labels": labels},
            "spec": {
                "serviceName": "nats", "replicas": SERVERS, "podManagementPolicy": "Parallel",
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {
                        "automountServiceAccountToken": False,
                        "terminationGracePeriodSeconds": 60,
                        "topologySpreadConstraints": [apart],
                        "containers": [container],
                        "volumes": [{"name": "config", "configMap": {"name": "nats-config"}}],
                    },
                },
                "volumeClaimTemplates": [claim],
            },
        },
    ]  # fmt: skip


def _nats_env(user: str) -> list[Manifest]:
    """Where the log is, and with which password."""
    return [
        _password("TIDEWRIGHT_PASSWORD", user),
        {"name": "TIDEWRIGHT_NATS", "value": f"nats://{user}:$(TIDEWRIGHT_PASSWORD)@nats:4222"},
    ]


def _named(name: str) -> Manifest:
    return {"name": name, "namespace": NAMESPACE}


def _password(variable: str, user: str) -> Manifest:
    return {"name": variable, "valueFrom": {"secretKeyRef": {"name": PASSWORDS, "key": user}}}


class _Plain(yaml.SafeDumper):
    """Without anchors, and with text of several lines as it is."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _string(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Plain.add_representer(str, _string)


def _text(documents: Sequence[Manifest]) -> str:
    body = yaml.dump_all(
        documents, Dumper=_Plain, sort_keys=False, width=110, explicit_start=len(documents) > 1
    )
    return "# Generated by `make generate` from the table of services.\n" + body

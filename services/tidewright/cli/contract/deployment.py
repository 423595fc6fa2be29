"""Kubernetes manifests of a deployment, from the table of services: `deploy/kubernetes/`.

One Deployment and one ServiceAccount per service, a ClusterRole for the two that talk to the API
server, and a NATS of three servers with the permissions of the bus. Images are names to be replaced
(`kustomization.yaml`), passwords come from a Secret that the installation makes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from tidewright.actuator.allowed.bounds import Feature
from tidewright.asking.services import SERVICES, Role, Service
from tidewright.cli.contract import (
    actuatorroles,
    archivers,
    consoles,
    natsservers,
    network,
    permissions,
    rbac,
    signedness,
)
from tidewright.cli.contract.natsservers import CERTIFICATES, HARDENED, PASSWORDS, SERVERS

NAMESPACE = "tidewright"
IMAGE = "tidewright"
NATS_TAG = "2.15-alpine"
TOKENS = "tokens"
"""Secret with what callers have to bring: `metrics` for the metrics of all, `push` for samples, and by the name of an
endpoint what the API server brings, in the path that the actuator writes for it."""
TOKENS_AT = "/run/tidewright/tokens"
REPLICAS = 2
"""Of each service: one works, or they share the slots, and the rest stand by."""
PROBES, ADMISSION = 8080, 8443
INSTALLER = permissions.INSTALLER
NATS_URL = "tls://nats:4222"
NATS_AT = "/run/tidewright/nats"
"""Where a pod has its password and the CA of the NATS servers."""
MAX_AGE_S = 30 * 86_400
"""How long the log keeps a message: a month."""

Manifest = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a deployment goes: the name of the cluster on the log, and the namespace of its pods."""

    cluster: str
    namespace: str = NAMESPACE


def wanted(cluster: str) -> dict[str, str]:
    """The files of `deploy/kubernetes/`: name to text."""
    place = Place(cluster)
    documents = {
        "namespace.yaml": [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}],
        "nats.yaml": natsservers.manifests(cluster, NAMESPACE),
        "network.yaml": network.manifests(NAMESPACE, PROBES, ADMISSION, INSTALLER),
        "install.yaml": installer(place),
        "rbac.yaml": [document for service in SERVICES for document in access(service, NAMESPACE)],
        "services.yaml": [document for service in SERVICES for document in workload(service, place)],
    }
    files = {name: _text(manifests) for name, manifests in documents.items()}
    for feature in Feature:
        roles = actuatorroles.manifests(feature, own_namespace=NAMESPACE)
        files[_roles_of(feature)] = f"# {feature}: {actuatorroles.WHY[feature]}.\n{_text(roles)}"
    on = [_roles_of(feature) for feature in Feature if feature in actuatorroles.BY_DEFAULT]
    files["kustomization.yaml"] = _text([kustomization(sorted([*documents, *on]))])
    files["signed/kustomization.yaml"] = _text([signedness.component(NAMESPACE)])
    files["console/kustomization.yaml"] = _text([consoles.component()])
    files["console/console.yaml"] = _text(console(place))
    files["archiver/kustomization.yaml"] = _text([archivers.component()])
    files["archiver/archiver.yaml"] = _text(archiver(place))
    return files


def console(place: Place) -> list[Manifest]:
    """The web console, which who wants it adds."""
    nats = {"env": _nats_env(consoles.USER), "volume": _nats_files(consoles.USER), "mount": _NATS_MOUNT}
    arguments = consoles.command(place.cluster, TOKENS_AT, PROBES)
    return consoles.manifests(place.namespace, arguments, (TOKENS, TOKENS_AT), nats, PROBES)


def archiver(place: Place) -> list[Manifest]:
    """The archiver, which who wants it adds."""
    nats = {"env": _nats_env(archivers.NAME), "volume": _nats_files(archivers.NAME), "mount": _NATS_MOUNT}
    arguments = archivers.command(place.cluster, TOKENS_AT, PROBES)
    return archivers.manifests(place.namespace, arguments, (TOKENS, TOKENS_AT), nats, PROBES)


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
            {"name": natsservers.IMAGE, "newName": natsservers.IMAGE, "newTag": NATS_TAG},
        ],
    }


# -- services ------------------------------------------------------------------------------------------


def access(service: Service, namespace: str) -> list[Manifest]:
    """ServiceAccount and, where there are any, rules."""
    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": _named(service.name, namespace),
        "automountServiceAccountToken": False,
    }
    documents: list[Manifest] = [account]
    subject = {"kind": "ServiceAccount", "name": service.name, "namespace": namespace}
    api = "rbac.authorization.k8s.io"
    if given := rbac.rules(service):
        role = f"tidewright-{service.name}"
        reference = {"apiGroup": api, "kind": "ClusterRole", "name": role}
        documents += [
            {"apiVersion": f"{api}/v1", "kind": "ClusterRole", "metadata": {"name": role}, "rules": given},
            {
                "apiVersion": f"{api}/v1", "kind": "ClusterRoleBinding", "metadata": {"name": role},
                "roleRef": reference, "subjects": [subject],
            },
        ]  # fmt: skip
    if service.role is Role.ACTUATOR:
        documents += actuatorroles.base(namespace)
    if service.role is Role.WATCHER:
        reference = {"apiGroup": api, "kind": "Role", "name": service.name}
        own = rbac.rule("", ["configmaps"], "list", "watch")
        documents += [
            {"apiVersion": f"{api}/v1", "kind": "Role", "metadata": _named(service.name, namespace), "rules": [own]},
            {
                "apiVersion": f"{api}/v1", "kind": "RoleBinding", "metadata": _named(service.name, namespace),
                "roleRef": reference, "subjects": [subject],
            },
        ]  # fmt: skip
    return documents


def command(service: Service, place: Place) -> list[str]:
    """Arguments of the image for a service."""
    return ["run", service.name, *common(place), *own_arguments(service, place)]


def common(place: Place) -> list[str]:
    """What every service is given."""
    arguments = ["--cluster", place.cluster]
    arguments += ["--health-host", "0.0.0.0", "--health-port", str(PROBES)]  # noqa: S104 - within a pod
    return [*arguments, "--metrics-token-file", f"{TOKENS_AT}/metrics"]


def own_arguments(service: Service, place: Place, admission: int = ADMISSION) -> list[str]:
    """What a service is given beside that; an endpoint listens at `admission`."""
    match service.role:
        case Role.WATCHER:
            arguments = ["--in-cluster", "--mode", "shadow", "--config-map", f"{place.namespace}/tidewright"]
            return [*arguments, "--push-token-file", f"{TOKENS_AT}/push"]
        case Role.ACTUATOR:
            arguments = ["--in-cluster", "--own-namespace", place.namespace]
            arguments += ["--features", ",".join(sorted(actuatorroles.BY_DEFAULT))]
            for name in tokens_of(service):
                arguments += ["--endpoint-token", f"{name}={TOKENS_AT}/{name}"]
            return arguments
        case Role.ENDPOINT:
            arguments = ["--host", "0.0.0.0", "--port", str(admission)]  # noqa: S104 - within a pod
            arguments += ["--service", f"{place.namespace}/{service.name}:443"]
            return [*arguments, "--token-file", f"{TOKENS_AT}/{service.name}"]
    return []


def installer(place: Place) -> list[Manifest]:
    """The Job that makes the log, and its account: it may read which cluster this is, and nothing else."""
    api, role = "rbac.authorization.k8s.io", f"tidewright-{INSTALLER}"
    reading = rbac.rule("", ["namespaces"], "get") | {"resourceNames": ["kube-system"]}
    arguments = ["install", "--cluster", place.cluster, "--in-cluster"]
    arguments += ["--replicas", str(SERVERS), "--max-age", str(MAX_AGE_S), "--mode", "shadow"]
    arguments += ["--archive-password-file", f"{NATS_AT}/{permissions.ARCHIVE}"]
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
                "securityContext": HARDENED, "volumeMounts": [_NATS_MOUNT],
            }
        ],
        "volumes": [_nats_files(INSTALLER, permissions.ARCHIVE)],
    }  # fmt: skip
    return [
        {
            "apiVersion": "v1", "kind": "ServiceAccount", "metadata": _named(INSTALLER, place.namespace),
            "automountServiceAccountToken": False,
        },
        {"apiVersion": f"{api}/v1", "kind": "ClusterRole", "metadata": {"name": role}, "rules": [reading]},
        {
            "apiVersion": f"{api}/v1", "kind": "ClusterRoleBinding", "metadata": {"name": role},
            "roleRef": {"apiGroup": api, "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": INSTALLER, "namespace": place.namespace}],
        },
        {
            "apiVersion": "batch/v1", "kind": "Job", "metadata": _named(INSTALLER, place.namespace) | {"labels": labels},
            "spec": {"backoffLimit": 20, "template": {"metadata": {"labels": labels}, "spec": spec}},
        },
    ]  # fmt: skip


def tokens_of(service: Service) -> list[str]:
    """Keys of the Secret that a service has beside that for metrics: no endpoint has another one's."""
    match service.role:
        case Role.WATCHER:
            return ["push"]
        case Role.ENDPOINT:
            return [service.name]
        case Role.ACTUATOR:
            return [other.name for other in SERVICES if other.role is Role.ENDPOINT]
    return []


def workload(service: Service, place: Place) -> list[Manifest]:
    """The Deployment, and the Service before what others send to: endpoints, and pushed samples."""
    labels = labels_of(service.name)
    endpoint = service.role is Role.ENDPOINT
    ports = [{"name": "probes", "containerPort": PROBES}]
    ports += [{"name": "https", "containerPort": ADMISSION}] if endpoint else []
    container = {
        "name": service.name,
        "image": IMAGE,
        "args": command(service, place),
        "env": _nats_env(service.name),
        "ports": ports,
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": "probes"}, "periodSeconds": 2},
        "livenessProbe": {
            "httpGet": {"path": "/livez", "port": "probes"}, "initialDelaySeconds": 10, "periodSeconds": 10,
        },
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "1Gi"}},
        "securityContext": HARDENED,
        "volumeMounts": [{"name": "tokens", "mountPath": TOKENS_AT, "readOnly": True}, _NATS_MOUNT],
    }  # fmt: skip
    tokens = ["metrics", *tokens_of(service)]
    spec = {
        "serviceAccountName": service.name,
        "automountServiceAccountToken": service.role in (Role.WATCHER, Role.ACTUATOR),
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
        # Mounted as a folder: a single file of it (`subPath`) would stay as it was when the Secret changes.
        "volumes": [
            _nats_files(service.name),
            {
                "name": "tokens",
                "secret": {"secretName": TOKENS, "items": [{"key": k, "path": k} for k in tokens]},
            },
        ],
    }
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _named(service.name, place.namespace) | {"labels": labels},
        "spec": {
            "replicas": REPLICAS,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }
    return [deployment, *service_before(service, place, labels)]


def service_before(
    service: Service, place: Place, pods: Manifest, https: str | int = "https"
) -> list[Manifest]:
    """The Service before what others send to: endpoints, and pushed samples. `pods` are labels of who answers."""
    if service.role is Role.ENDPOINT:
        reached = {"name": "https", "port": 443, "targetPort": https}
    elif service.role is Role.WATCHER:
        reached = {"name": "push", "port": PROBES, "targetPort": "probes"}
    else:
        return []
    metadata = _named(service.name, place.namespace) | {"labels": labels_of(service.name)}
    return [
        {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"selector": pods, "ports": [reached]}}
    ]  # fmt: skip


def labels_of(component: str) -> Manifest:
    """Labels of what a component is made of."""
    return {"app.kubernetes.io/name": "tidewright", "app.kubernetes.io/component": component}


def _nats_env(user: str) -> list[Manifest]:
    """Where the log is, and who we are there: the password and the servers' CA lie in files."""
    variables = {
        "NATS": NATS_URL,
        "NATS_USER": user,
        "NATS_PASSWORD_FILE": f"{NATS_AT}/password",
        "NATS_CA": f"{NATS_AT}/ca.crt",
    }
    return [{"name": f"TIDEWRIGHT_{name}", "value": value} for name, value in variables.items()]


def _nats_files(user: str, *more: str) -> Manifest:
    """The volume with both. Not the key of the servers, which lies in the same Secret."""
    passwords = [{"key": user, "path": "password"}, *({"key": name, "path": name} for name in more)]
    sources = [
        {"secret": {"name": PASSWORDS, "items": passwords}},
        {"secret": {"name": CERTIFICATES, "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
    ]
    return {"name": "nats", "projected": {"sources": sources}}


_NATS_MOUNT = {"name": "nats", "mountPath": NATS_AT, "readOnly": True}


def _named(name: str, namespace: str) -> Manifest:
    return {"name": name, "namespace": namespace}


class _Plain(yaml.SafeDumper):
    """Without anchors, and with text of several lines as it is."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _string(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Plain.add_representer(str, _string)


def dumped(documents: Sequence[Manifest], width: int = 110) -> str:
    """Documents as YAML, keys in the order that they are given."""
    return yaml.dump_all(
        documents, Dumper=_Plain, sort_keys=False, width=width, explicit_start=len(documents) > 1
    )


def _text(documents: Sequence[Manifest]) -> str:
    return "# Generated by `make generate` from the table of services.\n" + dumped(documents)

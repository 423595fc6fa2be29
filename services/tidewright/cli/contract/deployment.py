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
    pods,
    rbac,
    signedness,
)
from tidewright.cli.contract.natsservers import HARDENED, SERVERS
from tidewright.cli.contract.pods import EVERYWHERE, IMAGE, NATS_AT, PROBES, TOKENS_AT, Manifest

NAMESPACE = "tidewright"
NATS_TAG = "2.15-alpine"
REPLICAS = 2
"""Of each service: one works, or they share the slots, and the rest stand by."""
ADMISSION = 8443
INSTALLER = permissions.INSTALLER
MAX_AGE_S = 30 * 86_400
"""How long the log keeps a message: a month."""


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
    files["console/kustomization.yaml"] = _text([component("console.yaml")])
    files["console/console.yaml"] = _text(consoles.manifests(cluster, NAMESPACE))
    files["archiver/kustomization.yaml"] = _text([component("archiver.yaml")])
    files["archiver/archiver.yaml"] = _text(archivers.manifests(cluster, NAMESPACE))
    return files


def component(file: str) -> Manifest:
    """What is added to the `components` of an installation that wants it."""
    return {"apiVersion": "kustomize.config.k8s.io/v1alpha1", "kind": "Component", "resources": [file]}


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
    documents: list[Manifest] = [pods.account(service.name, namespace)]
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
            {"apiVersion": f"{api}/v1", "kind": "Role", "metadata": pods.named(service.name, namespace), "rules": [own]},
            {
                "apiVersion": f"{api}/v1", "kind": "RoleBinding", "metadata": pods.named(service.name, namespace),
                "roleRef": reference, "subjects": [subject],
            },
        ]  # fmt: skip
    return documents


def command(service: Service, place: Place) -> list[str]:
    """Arguments of the image for a service."""
    return ["run", service.name, *common(place), *own_arguments(service, place)]


def common(place: Place) -> list[str]:
    """What every service is given."""
    return ["--cluster", place.cluster, *pods.observed()]


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
            arguments = ["--host", EVERYWHERE, "--port", str(admission)]
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
    labels = pods.labels_of(INSTALLER)
    container = {
        "name": INSTALLER, "image": IMAGE, "args": arguments, "env": pods.nats_env(INSTALLER),
        "resources": pods.RESOURCES, "securityContext": HARDENED, "volumeMounts": [pods.NATS_MOUNT],
    }  # fmt: skip
    files = pods.nats_files(INSTALLER, permissions.ARCHIVE)
    spec = pods.pod(INSTALLER, container, [files], token=True) | {"restartPolicy": "OnFailure"}
    return [
        pods.account(INSTALLER, place.namespace),
        {"apiVersion": f"{api}/v1", "kind": "ClusterRole", "metadata": {"name": role}, "rules": [reading]},
        {
            "apiVersion": f"{api}/v1", "kind": "ClusterRoleBinding", "metadata": {"name": role},
            "roleRef": {"apiGroup": api, "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": INSTALLER, "namespace": place.namespace}],
        },
        {
            "apiVersion": "batch/v1", "kind": "Job", "metadata": pods.named(INSTALLER, place.namespace) | {"labels": labels},
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
    https = {"name": "https", "containerPort": ADMISSION}
    ports = [https] if service.role is Role.ENDPOINT else []
    container = pods.container(service.name, command(service, place), ports=ports)
    volumes = [pods.nats_files(service.name), pods.tokens(["metrics", *tokens_of(service)])]
    token = service.role in (Role.WATCHER, Role.ACTUATOR)
    spec = pods.pod(service.name, container, volumes, token=token)
    running = pods.deployment(service.name, place.namespace, spec, REPLICAS)
    return [running, *service_before(service, place, pods.labels_of(service.name))]


def service_before(
    service: Service, place: Place, answering: Manifest, https: str | int = "https"
) -> list[Manifest]:
    """The Service before what others send to: endpoints, and pushed samples. `answering` are labels of its pods."""
    if service.role is Role.ENDPOINT:
        reached = {"name": "https", "port": 443, "targetPort": https}
    elif service.role is Role.WATCHER:
        reached = {"name": "push", "port": PROBES, "targetPort": "probes"}
    else:
        return []
    metadata = pods.named(service.name, place.namespace) | {"labels": pods.labels_of(service.name)}
    return [
        {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"selector": answering, "ports": [reached]}}
    ]  # fmt: skip


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

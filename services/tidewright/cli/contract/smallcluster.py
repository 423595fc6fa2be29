"""Three Deployments in place of one per service, for small clusters: services of one kind in one process.

    edge        watcher, actuator: the ServiceAccount has the rights of both
    deciders    no rights at the API server
    endpoints   none either; each listens at a port of its own

Each service keeps its user of the log, its tokens and its signing key; a process has those of its services.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tidewright.asking.services import BY_NAME, SERVICES, Role, Service
from tidewright.cli.contract import deployment, network, pods, signedness
from tidewright.cli.contract.deployment import ADMISSION, Place
from tidewright.cli.contract.pods import NATS_AT, PROBES, Manifest
from tidewright.cli.keys.manifests import KEY, secret_of
from tidewright.cli.together import KINDS, OWN

NAMES: tuple[str, ...] = tuple(dict.fromkeys(KINDS.values()))
OwnArguments = Callable[[Sequence[str], Service], list[str]]


def kind_of(service: str) -> str:
    """The Deployment that a service is in."""
    return KINDS[BY_NAME[service].role]


def services_of(kind: str) -> list[Service]:
    """The services of a Deployment."""
    return [service for service in SERVICES if KINDS[service.role] == kind]


def account(kind: str, namespace: str) -> Manifest:
    """Its ServiceAccount."""
    return pods.account(kind, namespace)


def workload(kind: str, place: Place, chosen: OwnArguments) -> list[Manifest]:
    """The Deployment, and the Services before what others send to; `chosen` makes of each service's arguments what stands there."""
    services, labels = services_of(kind), pods.labels_of(kind)
    (_, *names), arguments = ["run", *(s.name for s in services)], deployment.common(place)
    arguments += ["--nats-user", OWN, "--nats-password-file", f"{NATS_AT}/{OWN}"]
    ports: list[Manifest] = []
    reached: list[Manifest] = []
    for n, service in enumerate(services):
        own = deployment.own_arguments(service, place, ADMISSION + n)
        arguments += [_for(service, argument) for argument in chosen(own, service)]
        if service.role is Role.ENDPOINT:
            ports.append({"name": f"https-{n}", "containerPort": ADMISSION + n})
        reached += deployment.service_before(service, place, labels, f"https-{n}")
    container = pods.container(kind, ["run", *names, *arguments], ports=ports)
    # Users and passwords are each service's own, and stand in the arguments.
    shared = ("TIDEWRIGHT_NATS", "TIDEWRIGHT_NATS_CA")
    container["env"] = [variable for variable in container["env"] if variable["name"] in shared]
    tokens = sorted({"metrics", *(token for service in services for token in deployment.tokens_of(service))})
    volumes = [pods.passwords({service.name: service.name for service in services}), pods.tokens(tokens)]
    token = any(service.role in (Role.WATCHER, Role.ACTUATOR) for service in services)
    spec = pods.pod(kind, container, volumes, token=token)
    return [pods.deployment(kind, place.namespace, spec, deployment.REPLICAS), *reached]


def signed(kind: str, namespace: str) -> Manifest:
    """What its Deployment gets where commits are signed, as `signedness.patched` says it of a service; `args` beside it."""
    services = services_of(kind)
    patch = signedness.patched(services[0], namespace)
    pod = patch["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    container["args"] = ["--signing-key", f"{signedness.KEYS_AT}/{OWN}/{KEY}"]
    container["env"] = [v for v in container["env"] if v["name"] != "TIDEWRIGHT_SIGNING_KEY"]
    keys = [
        {"secret": {"name": secret_of(s.name), "items": [{"key": KEY, "path": f"{s.name}/{KEY}"}]}} for s in services
    ]  # fmt: skip
    pod["volumes"] = [
        {"name": "signing", "projected": {"sources": keys}} if volume["name"] == "signing" else volume
        for volume in pod["volumes"]
    ]
    return patch


def policy(kind: str, namespace: str) -> Manifest:
    """Who may talk to it, and to whom it may talk: what its services may, together."""
    endpoints = [n for n, s in enumerate(services_of(kind)) if s.role is Role.ENDPOINT]
    ports = [PROBES, *(ADMISSION + n for n in endpoints)]
    open_ = any(s.role in (Role.WATCHER, Role.ACTUATOR) for s in services_of(kind))
    return network.sealing(namespace, kind, *ports) if open_ else network.asking(namespace, kind, ports)


def _for(service: Service, argument: str) -> str:
    """A flag that is for this one alone."""
    return f"--{service.name}:{argument[2:]}" if argument.startswith("--") else argument

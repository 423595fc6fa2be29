"""Who may talk to whom in a deployment: a NetworkPolicy per service, from the table. NATS has its own beside it.

Each port that answers over the network wants a token or a certificate of its callers; this is the wall before it.
Who holds no credentials of the cluster has no way to its API server either: a decider or an endpoint that is taken
over reaches NATS and the names of things, nothing else.
"""

from __future__ import annotations

from typing import Any

from tidewright.asking.services import SERVICES, Role, Service
from tidewright.cli.contract import natsservers

Manifest = dict[str, Any]

CLIENTS, DNS = 4222, 53


def manifests(namespace: str, probes: int, admission: int, installer: str) -> list[Manifest]:
    """One for each service, and one for the installer, which nobody has to reach."""
    return [
        *(
            _policy(namespace, service.name, _ingress(service, probes, admission), _egress(service))
            for service in SERVICES
        ),
        _policy(namespace, installer, [], None),
    ]


def _ingress(service: Service, probes: int, admission: int) -> list[Manifest]:
    """Probes and metrics, the watcher's pushes on the same port, and what the API server calls."""
    ports = [probes, admission] if service.role is Role.ENDPOINT else [probes]
    # Without `from`, whoever it is: the API server has no pod's address.
    return [{"ports": [{"protocol": "TCP", "port": port} for port in ports]}]


def _egress(service: Service) -> list[Manifest] | None:
    """The log and name servers; None where it has to be open: to the API server, which no policy can name,
    and what the configuration names (clouds, recommenders, metrics).
    """
    if service.role in (Role.WATCHER, Role.ACTUATOR):
        return None
    return _to_the_log()


def asking(namespace: str, name: str, ports: list[int]) -> Manifest:
    """Of whoever asks the log: it reaches the log alone, and is reached on its ports."""
    reached = [{"ports": [{"protocol": "TCP", "port": port} for port in ports]}]
    return _policy(namespace, name, reached, _to_the_log())


def sealing(namespace: str, name: str, *ports: int) -> Manifest:
    """Of who talks to what no policy can name: it is reached on its ports."""
    reached = [{"ports": [{"protocol": "TCP", "port": port} for port in ports]}]
    return _policy(namespace, name, reached, None)


def _to_the_log() -> list[Manifest]:
    return [
        {
            "to": [{"podSelector": {"matchLabels": natsservers.LABELS}}],
            "ports": [{"protocol": "TCP", "port": CLIENTS}],
        },
        {"ports": [{"protocol": protocol, "port": DNS} for protocol in ("UDP", "TCP")]},
    ]


def _policy(namespace: str, name: str, ingress: list[Manifest], egress: list[Manifest] | None) -> Manifest:
    spec: Manifest = {
        "podSelector": {"matchLabels": {**natsservers.OURS, "app.kubernetes.io/component": name}},
        "policyTypes": ["Ingress"] if egress is None else ["Ingress", "Egress"],
        "ingress": ingress,
    }
    if egress is not None:
        spec["egress"] = egress
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }

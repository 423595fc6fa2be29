"""Values of the Helm chart by option, and few sets of them in which every two values of every two options meet.

What the values file has for an option is its first value here, and is not written down in a set; a test wants every entry of that file
to be an option. What one service is given is given to all of them in a set, under `services` or, for three processes, under `together`.
Two values that the chart refuses beside each other are `FORBIDDEN`, each with the reason; a test has the chart refuse them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any, Final

import covertable

from tidewright.actuator.allowed.bounds import Feature
from tidewright.asking.services import EVERY
from tidewright.cli.contract import smallcluster

Values = dict[str, Any]
Choice = Mapping[str, int]
"""By option, which of its values."""

LABELS: Final = {"release": "prometheus", "team": "a.b_c-d"}
TOLERATIONS: Final = [{"key": "system", "operator": "Exists", "effect": "NoSchedule"}]
AFFINITY: Final = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "pool", "operator": "In", "values": ["system"]}]}]
        }
    }
}  # fmt: skip
LIMITS: Final = {"limits": {"memory": "2Gi", "cpu": "2"}}
ENV: Final = [{"name": "AWS_REGION", "value": "eu-west-1"}]
ROLE: Final = {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/x"}
SERVICE: Final = "services.*."

DEFAULT: Final = object()
"""What the values file says."""

OPTIONS: Final[dict[str, tuple[Any, ...]]] = {
    "mode": (DEFAULT, "enforce"),
    "cluster": (DEFAULT, "eu-1"),
    "image.repository": (DEFAULT, "registry.example:5000/a/tidewright"),
    "image.tag": (DEFAULT, "1"),
    "image.pullPolicy": (DEFAULT, "Always"),
    "imagePullSecrets": (DEFAULT, [{"name": "registry"}]),
    "priorityClassName": (DEFAULT, "system-cluster-critical"),
    "features": (DEFAULT, ["events"], sorted(map(str, Feature))),
    "namespaces": (DEFAULT, {"autoscaler": ["shop", "bank"]}, {service: ["shop"] for service in EVERY}),
    "clouds": (DEFAULT, ["east=aws:discovery=a,b", "mgmt=clusterapi"]),
    "reads": (DEFAULT, [{"apiGroups": ["argoproj.io"], "resources": ["rollouts", "experiments"]}]),
    "config": (DEFAULT, {"modes": {"mode": "shadow"}, "autoscaler": "a: 1\nb: {x: 'y'}\n"}),
    "signing": (DEFAULT, True),
    SERVICE + "replicas": (DEFAULT, 0, 5),
    SERVICE + "tag": (DEFAULT, "2"),
    SERVICE + "resources": (DEFAULT, {}, LIMITS),
    SERVICE + "args": (DEFAULT, ["--log-level", "debug"]),
    SERVICE + "env": (DEFAULT, ENV),
    SERVICE + "volumes": (DEFAULT, [{"name": "prices", "configMap": {"name": "prices"}}]),
    SERVICE + "volumeMounts": (DEFAULT, [{"name": "nats", "mountPath": "/own", "readOnly": True}]),
    SERVICE + "podAnnotations": (DEFAULT, {"prometheus.io/scrape": "true"}),
    SERVICE + "serviceAccountAnnotations": (DEFAULT, ROLE),
    SERVICE + "nodeSelector": (DEFAULT, {"pool": "system"}),
    SERVICE + "tolerations": (DEFAULT, TOLERATIONS),
    SERVICE + "affinity": (DEFAULT, AFFINITY),
    "scaling": (
        DEFAULT,
        {"autoscaler": {"max": 6}, "shard-labels": {"max": 2}},
        {"spread": {"min": 1, "max": 32, "lag": 7}, "spread-admission": {"min": 3, "max": 3, "cpu": 50}},
    ),
    "together.enabled": (DEFAULT, True),
    "console.enabled": (DEFAULT, True),
    "console.args": (DEFAULT, ["--host-name", "tidewright.example"]),
    "console.resources": (DEFAULT, {}),
    "archiver.enabled": (DEFAULT, True),
    "archiver.archive": (DEFAULT, "s3://audit/logs"),
    "archiver.args": (DEFAULT, ["--every", "30"]),
    "archiver.env": (DEFAULT, ENV),
    "archiver.serviceAccountAnnotations": (DEFAULT, ROLE),
    "archiver.resources": (DEFAULT, {}),
    "archiver.storage.size": (DEFAULT, "1Ti"),
    "archiver.storage.className": (DEFAULT, "fast"),
    "podDisruptionBudgets": (DEFAULT, False),
    "topologySpread": (DEFAULT, [], ["kubernetes.io/hostname"]),
    "networkPolicies": (DEFAULT, False),
    "serviceMonitor.enabled": (DEFAULT, True),
    "serviceMonitor.interval": (DEFAULT, "5s"),
    "serviceMonitor.labels": (DEFAULT, LABELS),
    "prometheusRule.enabled": (DEFAULT, True),
    "prometheusRule.runbooks": (DEFAULT, "http://wiki.example.com/runbooks"),
    "prometheusRule.labels": (DEFAULT, LABELS),
    "dashboards.enabled": (DEFAULT, True),
    "dashboards.labels": (DEFAULT, {"grafana_dashboard": "yes"}),
    "log.replicas": (DEFAULT, 1, 5),
    "log.maxAgeSeconds": (DEFAULT, 86400),
    "nats.bundled": (DEFAULT, False),
    "nats.url": (DEFAULT, "nats://nats.example:4222"),
    "nats.userPrefix": (DEFAULT, "eu-"),
    "nats.servers": (DEFAULT, 1),
    "nats.image.repository": (DEFAULT, "registry.example:5000/nats"),
    "nats.image.tag": (DEFAULT, "2.15"),
    "nats.storage.size": (DEFAULT, "1Ti"),
    "nats.storage.className": (DEFAULT, "fast"),
    "nats.limits.store": (DEFAULT, "1TB"),
    "nats.limits.log": (DEFAULT, "500MB"),
    "nats.limits.archive": (DEFAULT, "2TB"),
    "nats.resources": (DEFAULT, {}, LIMITS),
    "nats.nodeSelector": (DEFAULT, {"pool": "system"}),
    "nats.tolerations": (DEFAULT, TOLERATIONS),
    "nats.affinity": (DEFAULT, AFFINITY),
    "secrets.create": (DEFAULT, False),
    "tls.source": (DEFAULT, "cert-manager", "secret"),
    "tls.issuer.name": ("ca", DEFAULT),
    "tls.issuer.kind": (DEFAULT, "ClusterIssuer"),
    "tls.days": (DEFAULT, 1),
}  # fmt: skip

FORBIDDEN: Final[Mapping[tuple[str, int, str, int], str]] = {
    ("together.enabled", 1, "scaling", 1): "scaling.autoscaler is not read while together.enabled is set",
    ("together.enabled", 1, "scaling", 2): "scaling.spread is not read while together.enabled is set",
    ("nats.bundled", 0, "nats.userPrefix", 1): "nats.userPrefix is of a NATS that several clusters share",
    ("nats.bundled", 0, "log.replicas", 2): "/log/replicas",
    ("nats.servers", 1, "log.replicas", 0): "/log/replicas",
    ("nats.servers", 1, "log.replicas", 2): "/log/replicas",
    ("tls.source", 1, "tls.issuer.name", 1): "/tls/issuer/name",
}
"""Values of two options, and what the chart says of them. Those of `nats.servers` where that is bundled."""

Pair = tuple[str, int, str, int]


def pairs() -> Iterator[Pair]:
    """Every two values of every two options but for those that are refused."""
    for one, other in combinations(OPTIONS, 2):
        for i in range(len(OPTIONS[one])):
            for j in range(len(OPTIONS[other])):
                if (one, i, other, j) not in FORBIDDEN and (other, j, one, i) not in FORBIDDEN:
                    yield one, i, other, j


def met(choice: Choice) -> Iterator[Pair]:
    """The pairs of one set."""
    for one, other in combinations(OPTIONS, 2):
        yield one, choice[one], other, choice[other]


def choices() -> list[Choice]:
    """Few sets that have all of them; the same at every run."""
    names = list(OPTIONS)
    never = [
        {"operator": "or", "conditions": [
            {"operator": "ne", "left": str(names.index(one)), "value": i},
            {"operator": "ne", "left": str(names.index(other)), "value": j},
        ]}
        for one, i, other, j in FORBIDDEN
    ]  # fmt: skip
    factors = {str(n): list(range(len(OPTIONS[name]))) for n, name in enumerate(names)}
    # Its other criterion saves one set of twenty, and takes eight times as long.
    rows = covertable.make(factors, constraints=never, criterion=covertable.criteria.simple)
    return [{names[int(n)]: i for n, i in row.items()} for row in rows]


def values_of(choice: Choice) -> Values:
    """What is written for a set of choices. Services that Kubernetes scales have no replicas of their own."""
    found: Values = {}
    together = bool(choice.get("together.enabled"))
    for name, i in choice.items():
        value = OPTIONS[name][i]
        if value is DEFAULT:
            continue
        if not name.startswith(SERVICE):
            _put(found, name.split("."), value)
            continue
        field = name.removeprefix(SERVICE)
        scaled = found.get("scaling", OPTIONS["scaling"][choice["scaling"]] if choice.get("scaling") else {})
        for service in smallcluster.NAMES if together else EVERY:
            if field != "replicas" or service not in scaled:
                _put(found, ["together" if together else "services", service, field], value)
    return found


def _put(values: Values, path: list[str], value: Any) -> None:
    *folders, last = path
    for folder in folders:
        values = values.setdefault(folder, {})
    values[last] = value

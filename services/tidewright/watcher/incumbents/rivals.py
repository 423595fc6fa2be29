"""Who does the work of each of our services elsewhere, and how their distributions can be recognised. Pure.

One entry per rival. Read from their charts, manifests and programs: names of images, programs, locks,
webhooks, and the field managers that the API server notes for their writes (the first word of a
client's user agent, which is the program's name where it says no other).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

import msgspec

from tidewright.kube.kinds import BY_KIND, WatchedKind

Scope = tuple[str, ...] | None
"""Namespaces in which a controller acts; None for all."""


class Program(msgspec.Struct, frozen=True):
    """What a Deployment's containers are started with.

    Attributes:
        namespace: of the Deployment.
        words: of command and arguments, all containers.
        variables: of the environment; None for one that is taken from the pod's own namespace.
    """

    namespace: str
    words: tuple[str, ...] = ()
    variables: Mapping[str, str | None] = {}

    def flag(self, name: str) -> str | None:
        """The value of a flag, given as `--name=value` or `--name value`; None: not given."""
        for at, word in enumerate(self.words):
            dashed, equals, value = word.partition("=")
            if dashed.lstrip("-") == name and dashed.startswith("-"):
                following = self.words[at + 1] if at + 1 < len(self.words) else ""
                return value if equals else following
        return None

    def variable(self, name: str) -> str | None:
        """The value of a variable; None: not given."""
        if name not in self.variables:
            return None
        value = self.variables[name]
        return self.namespace if value is None else value


class Rival(msgspec.Struct, frozen=True, kw_only=True):
    """A controller that does the work of one of our services.

    Attributes:
        service: ours.
        name: for people.
        image: of a container's image, the last part of its path without tag and digest.
        program: of a command's first word, the last part of its path.
        labels: any of them on a Deployment, or on its pods, shows it.
        deployments: names that it alone has.
        locks: names of the Leases that its replicas elect a leader by.
        old_lock: the kind of object that its older releases elect by, of the same name.
        worker: the program of its workers, which may hold a lock of the same name without being it.
        managers: the field managers of its writes.
        writes: the kinds whose status it writes.
        status_map: the ConfigMap that it reports in; empty for none.
        webhooks: names of its mutating webhook configurations.
        scope: where the program acts.
        lock_everywhere: a lock alone says that it acts everywhere; otherwise in the lock's namespace.
        writes_everywhere: so does a status that it wrote; otherwise it acts in that object's namespace.
        off: the program does other work, but not this.
    """

    service: str
    name: str
    image: re.Pattern[str]
    program: re.Pattern[str]
    labels: frozenset[tuple[str, str]]
    deployments: frozenset[str] = frozenset()
    locks: tuple[str, ...]
    old_lock: str = "ConfigMap"
    worker: str = ""
    managers: frozenset[str] = frozenset()
    writes: tuple[WatchedKind, ...] = ()
    status_map: str = ""
    webhooks: tuple[str, ...] = ()
    scope: Callable[[Program], Scope] = lambda _program: None
    lock_everywhere: bool = True
    writes_everywhere: bool = False
    off: Callable[[Program], bool] = lambda _program: False


def _watched(value: str | None) -> Scope:
    """A list of namespaces, as operators take it: empty or absent for all."""
    return tuple(sorted({name.strip() for name in (value or "").split(",") if name.strip()})) or None


def _autoscaled(program: Program) -> Scope:
    return _watched(program.variable("WATCH_NAMESPACE"))


def _spread(program: Program) -> Scope:
    return _watched(program.flag("namespace"))


def _sharded(program: Program) -> Scope:
    """It makes pods in the namespace of this variable, which its charts set to its own."""
    return (program.variable("POD_NAMESPACE") or program.namespace,)


def _without_spreads(program: Program) -> bool:
    gates = (program.flag("feature-gates") or "").replace(" ", "").split(",")
    return "WorkloadSpread=false" in gates


_AUTOSCALER = re.compile(r"^(.*-)?cluster-autoscaler(-(amd64|arm64|arm|ppc64le|s390x))?$")
_PROPELLER = re.compile(r"^[a-z]*propeller-manager$")
_NAME_LABELS = ("app.kubernetes.io/name", "k8s-app", "app")


def _named(*names: str) -> frozenset[tuple[str, str]]:
    return frozenset((label, name) for label in _NAME_LABELS for name in names)


_CLOUDS = (
    "aws",
    "azure",
    "gce",
    "magnum",
    "clusterapi",
    "civo",
    "oci",
    "hetzner",
    "rancher",
    "exoscale",
    "kwok",
)

RIVALS: tuple[Rival, ...] = (
    Rival(
        service="provisioning",
        name="Cluster Autoscaler",
        image=_AUTOSCALER,
        program=re.compile(r"^cluster-autoscaler$"),
        labels=_named("cluster-autoscaler", *(f"{cloud}-cluster-autoscaler" for cloud in _CLOUDS)),
        locks=("cluster-autoscaler",),
        old_lock="Endpoints",
        managers=frozenset({"cluster-autoscaler"}),
        writes=(BY_KIND["autoscaling.x-k8s.io", "ProvisioningRequest"],),
        writes_everywhere=True,  # nodes are of no namespace
        status_map="cluster-autoscaler-status",
    ),
    Rival(
        service="autoscaler",
        name="WatermarkPodAutoscaler controller",
        image=re.compile(r"^(.*-)?watermarkpodautoscaler$"),
        program=re.compile(r"^watermarkpodautoscaler$"),
        labels=_named("watermarkpodautoscaler")
        | {("control-plane", "watermarkpodautoscaler-controller-manager")},
        locks=("watermarkpodautoscaler-lock",),
        managers=frozenset({"watermarkpodautoscaler", "manager"}),
        writes=(BY_KIND["datadoghq.com", "WatermarkPodAutoscaler"],),
        scope=_autoscaled,
    ),
    Rival(
        service="spread",
        name="OpenKruise manager",
        image=re.compile(r"^(.*-)?kruise-manager$"),
        program=re.compile(r"^kruise-manager$"),
        labels=_named("kruise-manager", "kruise-controller-manager"),
        deployments=frozenset({"kruise-controller-manager"}),
        locks=("kruise-manager",),
        managers=frozenset({"kruise-manager"}),
        writes=(BY_KIND["apps.kruise.io", "WorkloadSpread"],),
        webhooks=("kruise-mutating-webhook-configuration",),
        scope=_spread,
        off=_without_spreads,
    ),
    Rival(
        service="shard-manager",
        name="propeller manager",
        image=_PROPELLER,
        program=_PROPELLER,
        labels=_named("flytepropeller-manager"),
        deployments=frozenset({"flytepropeller-manager"}),
        locks=("propeller-leader",),
        worker="flytepropeller",
        scope=_sharded,
        lock_everywhere=False,
    ),
)  # fmt: skip
"""One per service of ours that there is a rival for."""

BY_SERVICE: dict[str, Rival] = {rival.service: rival for rival in RIVALS}

LEASES = "coordination.k8s.io"
ADMISSION = "admissionregistration.k8s.io"


class Look(msgspec.Struct, frozen=True):
    """Objects of one kind that are watched: all, or those of one name in whatever namespace.

    Attributes:
        name: empty for all.
        services: of ours, of which something may be missed while it cannot be looked at.
    """

    group: str
    version: str
    plural: str
    kind: str
    name: str = ""
    services: tuple[str, ...] = ()

    @property
    def path(self) -> str:
        """Of the collection over all namespaces."""
        return (
            f"/apis/{self.group}/{self.version}/{self.plural}"
            if self.group
            else f"/api/{self.version}/{self.plural}"
        )

    @property
    def query(self) -> dict[str, str]:
        """A field selector, where it is about one name: rights that are given by name allow no other list."""
        return {"fieldSelector": f"metadata.name={self.name}"} if self.name else {}

    @property
    def right(self) -> str:
        """What is needed, for people."""
        which = f"{self.plural}.{self.group}" if self.group else self.plural
        return f"list and watch {which}" + (f" named {self.name}" if self.name else "")


BY_LOCK_KIND = {"ConfigMap": "configmaps", "Endpoints": "endpoints"}


def _looks() -> Sequence[Look]:
    everybody = tuple(rival.service for rival in RIVALS)
    looks = [Look("apps", "v1", "deployments", "Deployment", services=everybody)]
    for rival in RIVALS:
        services = (rival.service,)
        for lock in rival.locks:
            old = BY_LOCK_KIND[rival.old_lock]
            looks += [
                Look(LEASES, "v1", "leases", "Lease", lock, services),
                Look("", "v1", old, rival.old_lock, lock, services),
            ]
        if rival.status_map:
            looks.append(Look("", "v1", "configmaps", "ConfigMap", rival.status_map, services))
        for name in rival.webhooks:
            kind = "MutatingWebhookConfiguration"
            looks.append(Look(ADMISSION, "v1", "mutatingwebhookconfigurations", kind, name, services))
    return looks


LOOKS: tuple[Look, ...] = tuple(_looks())
"""Everything that is watched for their sake. The watcher's rights derive from it."""

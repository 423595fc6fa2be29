"""Every service, one line each. Supervisor, `tidewright run`, AsyncAPI and deployment derive from it."""

from __future__ import annotations

from enum import Enum
from importlib import import_module
from typing import TYPE_CHECKING, Any

import msgspec

from tidewright.asking.errors import CommandError

if TYPE_CHECKING:
    from tidewright.host.fold.inputs import Partition


class Role(Enum):
    """What a service may do, and to whom it talks."""

    WATCHER = "watcher"  # reads the cluster, writes facts
    DECIDER = "decider"  # reads the log, writes decisions; holds no cluster credentials
    ACTUATOR = "actuator"  # reads decisions, writes to the cluster, and outcomes
    ENDPOINT = "endpoint"  # is called by the API server, writes to a decider's ledgers; no credentials either


class Service(msgspec.Struct, frozen=True):
    """One service.

    Attributes:
        name: on the bus, on the command line and in the logs.
        role: decides its permissions and how it is started.
        main: `module:attribute` of what runs it, imported only when it is run. A watcher or
            actuator has `run(options, process)`; a decider is an instance of `Decider`.
        summary: for `tidewright run --help`.
        partition: of a decider: one state per slot, or one for the whole cluster.
        follows: of a decider: other services whose decisions it reads as inputs.
        of: of an endpoint: the decider whose ledgers it appends to.
        reads: of a decider: kinds of facts, as subject tokens.
        writes: of a decider or endpoint: types of decisions, as their tags name them. A test holds both to the code.
        explainer: of a decider: `module:attribute` of its `tidewright.host.fold.explainer.Explainer`.
        explains: the kinds that its explainer speaks about, said here so that nothing else is imported.
        explains_others: it speaks, too, about kinds that no service names: workloads that nobody built in.
        lister: of a decider: `module:attribute` of its `tidewright.host.fold.lister.Lister`.
        lists: the kinds whose objects are its own to list, whether it decided about them yet or not.
        plotter: of a decider: `module:attribute` of its `tidewright.host.fold.plotter.Plotter`.
    """

    name: str
    role: Role
    main: str
    summary: str
    partition: Partition = "slots"
    follows: frozenset[str] = frozenset()
    of: str = ""
    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()
    explainer: str = ""
    explains: frozenset[str] = frozenset()
    explains_others: bool = False
    lister: str = ""
    lists: frozenset[str] = frozenset()
    plotter: str = ""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


SERVICES: tuple[Service, ...] = (
    Service("watcher", Role.WATCHER, "tidewright.watcher.service:run", "What the cluster says, as facts."),
    Service(
        "autoscaler", Role.DECIDER, "tidewright.autoscaler.decide:DECIDER", "WatermarkPodAutoscalers.",
        reads=_words(
            "watermarkpodautoscaler datadogmonitor deployment replicaset statefulset workload pod metric recommendation "
            "incumbent"
        ),
        writes=_words(
            "scale-workload hold-replicas record-forecast set-status record-object-event patch-object set-timer cancel-timer"
        ),
        explainer="tidewright.autoscaler.tell.explaining:EXPLAINER",
        explains=_words("watermarkpodautoscaler deployment replicaset statefulset"),
        lister="tidewright.autoscaler.tell.listing:LISTER",
        plotter="tidewright.autoscaler.tell.plotting:PLOTTER",
        lists=_words("watermarkpodautoscaler"),
    ),
    Service(
        "provisioning", Role.DECIDER, "tidewright.provisioning.decide:DECIDER", "Nodes and ProvisioningRequests.",
        partition="cluster",
        follows=_words("autoscaler"),
        reads=_words(
            "provisioningrequest provisioningclass podtemplate cloud nodegroup node pod shape daemonset resourcequota namespace "
            "persistentvolumeclaim persistentvolume storageclass csinode csidriver csistoragecapacity "
            "resourceclaim resourceclaimtemplate resourceslice deviceclass devicetaintrule incumbent "
            "poddisruptionbudget replicationcontroller replicaset statefulset job "
            "capacitybuffer limitrange priorityclass deployment cloneset customworkload template "
            "workloadspread targetreplicas scaledworkload scaledkindrefused kindrefused"
        ),
        writes=_words(
            "accept-request attempt-request book-capacity release-capacity plan-scale-up decline-scale-up close-scale-up "
            "increase-node-group decrease-node-group create-node-group delete-node-group delete-instances back-off-group "
            "resolve-pod fill-buffer "
            "track-idle-nodes track-unneeded-nodes remove-node undo-removal mark-node evict-pod report-cluster-status "
            "propose-replacement replace-nodes end-replacement "
            "create-object delete-object patch-object set-status "
            "record-object-event set-timer cancel-timer"
        ),
        explainer="tidewright.provisioning.tell.explaining:EXPLAINER",
        explains=_words(
            "provisioningrequest capacitybuffer pod node nodegroup deployment replicaset statefulset job cloneset "
            "replicationcontroller"
        ),
        explains_others=True,
        lister="tidewright.provisioning.tell.listing:LISTER",
        plotter="tidewright.provisioning.tell.plotting:PLOTTER",
        lists=_words("nodegroup provisioningrequest capacitybuffer"),
    ),
    Service(
        "spread", Role.DECIDER, "tidewright.spread.decide:DECIDER", "WorkloadSpreads.",
        follows=_words("autoscaler"),
        reads=_words(
            "workloadspread deployment replicaset statefulset cloneset job customworkload targetreplicas kindrefused "
            "pod shape node incumbent"
        ),
        writes=_words(
            "change-ledger foresee-scale-in record-spread delete-object evict-pod patch-object set-status "
            "record-object-event set-timer"
        ),
        explainer="tidewright.spread.tell.explaining:EXPLAINER",
        explains=_words("workloadspread pod deployment replicaset statefulset cloneset job"),
        lister="tidewright.spread.tell.listing:LISTER",
        lists=_words("workloadspread"),
    ),
    Service(
        "shard-manager", Role.DECIDER, "tidewright.shardmanager.decide:DECIDER", "Shards of controllers.",
        reads=_words("shardset shardmember slotlabels serviceload podtemplate statefulset pod incumbent"),
        writes=_words(
            "begin-pass record-pass change-assignment change-rollout report-shards size-shards create-object delete-object "
            "patch-object scale-workload hold-lease set-status record-object-event set-timer"
        ),
        explainer="tidewright.shardmanager.tell.explaining:EXPLAINER",
        explains=_words("shardset shardmember podtemplate pod statefulset"),
        lister="tidewright.shardmanager.tell.listing:LISTER",
        lists=_words("shardset"),
    ),
    Service("actuator", Role.ACTUATOR, "tidewright.actuator.service:run", "Decisions made true, as outcomes."),
    Service(
        "spread-admission", Role.ENDPOINT, "tidewright.spread.admission.endpoint:run",
        "Pods of WorkloadSpreads, as they are created.", of="spread",
        writes=_words("trust-endpoint forget-endpoint"),
    ),
    Service(
        "shard-labels", Role.ENDPOINT, "tidewright.shardmanager.labels.endpoint:run",
        "The slot label on objects of ShardSets, as they are created.", of="shard-manager",
        writes=_words("trust-endpoint forget-endpoint"),
    ),
)  # fmt: skip

BY_NAME: dict[str, Service] = {service.name: service for service in SERVICES}
EVERY: tuple[str, ...] = tuple(BY_NAME)
DECIDERS: tuple[str, ...] = tuple(service.name for service in SERVICES if service.role is Role.DECIDER)


def load(service: Service) -> Any:
    """What runs a service; its module is imported here and nowhere else.

    Raises:
        CommandError: this installation does not have it.
    """
    module, _, name = service.main.partition(":")
    try:
        return getattr(import_module(module), name)
    except (ModuleNotFoundError, AttributeError) as error:
        raise CommandError(f"service {service.name} cannot be loaded from {service.main}: {error}") from error

"""The shard manager: keep a fixed set of workers alive, each with its own part of a keyspace.

Reads   fact.pod-..., fact.pod-template-..., fact.shard-set-..., fact.shard-member-...,
        fact.workload-... (StatefulSets), fact.slot-labels-scanned, fact.service-load-observed,
        config.config-set (`shardmanager`), outcomes of its effects, its timers
Writes  create-object and delete-object (pods), patch-object (a member's lease, a slot label),
        hold-lease (the original manager's lock), scale-workload, set-status,
        record-object-event, begin-pass, record-pass, change-assignment, size-shards, change-rollout, report-shards, set-timer

Three parts that do not know of each other: `propeller.passes` for fleets of the propeller manager,
`shardset.rounds` for ShardSets, `own_services` for the number of replicas of our own services. Pure: no
clock, no I/O.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidewright.events.acting import INCUMBENT
from tidewright.events.base import Decision, Event
from tidewright.host.fold.configuration import ConfigPart
from tidewright.host.fold.decider import Decider
from tidewright.host.fold.series import Exposition
from tidewright.shardmanager import holding, own_services
from tidewright.shardmanager.fold.evolve import evolve
from tidewright.shardmanager.fold.touched import Touched
from tidewright.shardmanager.propeller import passes
from tidewright.shardmanager.propeller.fleet_config import NAME
from tidewright.shardmanager.settings import problems
from tidewright.shardmanager.shardset import rounds
from tidewright.shardmanager.state import SERVICE, State
from tidewright.shardmanager.tell import exposition
from tidewright.shardmanager.tell.tally import PassTally
from tidewright.shardmanager.upcasts import UPCASTS

KINDS = frozenset(
    {"pod", "podtemplate", "statefulset", "shardset", "shardmember", "slotlabels", "serviceload", INCUMBENT}
)


def decide(state: State, _event: Event, touched: Touched) -> Sequence[Decision]:
    """What is to be done now."""
    asked_for = (
        *passes.decisions(state, touched),
        *rounds.decisions(state, touched),
        *own_services.decisions(state, touched),
    )
    return holding.recorded(state, asked_for) if asked_for else ()


DECIDER = Decider(
    service=SERVICE,
    state_version=7,
    state_type=State,
    kinds=KINDS,
    evolve=evolve,
    decide=decide,
    upcasts=UPCASTS,
    config=ConfigPart(
        name=NAME, problems=problems, component=SERVICE, held=lambda state: state.acting.of_service(SERVICE)
    ),
    exposition=Exposition(
        series=exposition.series,
        tally=PassTally,
        help=exposition.help_of_fleets(),
        types=exposition.types_of_fleets(),
    ),
)
"""What the host runs. Nothing of slot `all` is needed but the configuration, which all slots get."""

"""Groups about native mode: assignment, load, leases, gates, sizes, rollouts, injectors."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from tests.vectors.handover_traces import play
from tests.vectors.reference import propeller_gates
from tests.vectors.shard_configs import Answer, Group
from tests.vectors.suite import Case
from tidewright.sharding import keyspace, lease
from tidewright.shardmanager.shardset.assignment import assign, autosize, balance
from tidewright.shardmanager.shardset.pods import inject, rollout


def _assign(given: Case, _: Answer, __: Case) -> Answer:
    pins = {int(slot): member for slot, member in given["pins"].items()}
    made = assign.assign(given["slots"], given["previous"], given["weights"], pins)
    return {
        "quota": made.quota,
        "table": list(made.table),
        "moved": list(made.moved),
        "filled": list(made.filled),
    }


def _hotshard(given: Case, _: Answer, __: Case) -> Answer:
    made = balance.rebalance(
        given["table"],
        given["cost"],
        given["weights"],
        theta=Fraction(str(given["theta_percent"])) / 100,
        max_moves=given["max_moves"],
        cooling=given["frozen"],
    )
    moves = [[m.slot, m.source, m.target] for m in made.moves]
    return {"moves": moves, "table": list(made.table), "load": made.load}


def _gate(given: Case, _: Answer, __: Case) -> Answer:
    found = propeller_gates.gates(given["keyspace"], given["before"], given["after"])
    return {
        "gates": [
            {"new_index": g.new_index, "slots": list(g.slots), "opens_after_old": list(g.opens_after_old)}
            for g in found
        ],
        "old": [
            {"old_index": old, "feeds_new": list(fed)}
            for old, fed in enumerate(propeller_gates.feeds(found, given["before"]))
        ],
        "steps": [
            {"stop_old": s.stop_old, "then_open_new": list(s.then_open_new)}
            for s in propeller_gates.steps(found, given["before"])
        ],
    }


def _autosize(given: Case, _: Answer, __: Case) -> Answer:
    if "cur" not in given:
        slots = given["keyspace"]
        return {
            "useful_counts": keyspace.useful_counts(slots),
            "largest_range": {
                str(n): max(map(len, keyspace.shard_ranges(slots, n))) for n in range(1, slots + 1)
            },
        }
    exact = autosize.exact
    latency = exact(given["lat"]) / exact(given["slo"]) if given.get("lat") is not None else None
    demand = autosize.Demand(
        loads=autosize.known_loads(given["loads"]),
        capacity=exact(given["cap"]),
        utilisation=exact(given["util"]),
        missing=given.get("missing", 0),
        latency_ratio=latency,
    )
    limits = autosize.Limits(
        minimum=given["mn"], maximum=given["mx"], useful=tuple(given.get("useful") or ())
    )
    return {"desired": autosize.recommend(given["cur"], demand, limits)}


def _rolling(given: Case, _: Answer, __: Case) -> Answer:
    shards = tuple(
        rollout.ShardStatus(
            index=p["index"], generation=p["generation"], state=rollout.ShardState(p["state"])
        )
        for p in given["pods"]
    )
    step = rollout.next_step(
        rollout.Rollout(
            desired=given["desired_generation"],
            shards=shards,
            max_unavailable=given["max_unavailable"],
            paused=given.get("paused", False),
            last_good=given.get("last_good_generation"),
            since_progress_s=given.get("seconds_since_progress", 0.0),
            progress_deadline_s=given.get("progress_deadline_seconds", rollout.PROGRESS_DEADLINE_S),
            canary=given.get("canary", 0),
            approved=given.get("approved", False),
        )
    )
    return {"action": step.action, "index": step.index, "generation": step.generation, "reason": step.reason}


def _inject(given: Case, _: Answer, __: Case) -> Answer:
    match inject.Injector(given["profile"]):
        case inject.Injector.PROPELLER:
            index, first_and_last = given["index"], given["slots"]
            slots: Sequence[int] = keyspace.shard_range(keyspace.COMPAT_SLOTS, given["shards"], index)
            if [slots[0], slots[-1]] != first_and_last:
                slots = first_and_last
            made = inject.propeller(slots, index)
        case inject.Injector.SELECTOR_FLAG:
            excluded = "exclude_slots" in given
            slots = given["exclude_slots" if excluded else "slots"]
            made = inject.selector_flag(given["label"], slots, excluded=excluded, flag=given["flag"])
        case inject.Injector.ORDINAL_FLAGS:
            made = inject.ordinal_flags(given["index"], given["shards"])
        case inject.Injector.ORDINAL_ENV:
            made = inject.ordinal_env(given["index"], given["shards"], given["names"])
        case inject.Injector.SLOTS_ENV:
            made = inject.slots_env(given["slots"])
        case inject.Injector.DYNAMIC:
            made = inject.Injected()
    return {"args": list(made.args), "env": made.env}


def _lease(given: Case, _: Answer, __: Case) -> Answer:
    times = lease.LeaseTimes(
        duration_s=given["lease_duration"],
        safety_margin_s=given["safety_margin"],
        skew_margin_s=given["skew_margin"],
    )
    answer: Answer = {}
    if "renew_sent_at" in given:
        sent_at, acked_at = given["renew_sent_at"], given["renew_acked_at"]
        answer["act_until"] = times.act_until(sent_at)
        if not times.renewed_in_time(sent_at, acked_at):
            answer["action"] = "rejoin with new incarnation"
    if "now" in given:
        # A restarted manager has observed nothing before its start.
        observed = given.get("observed_change_at", given.get("manager_started_at", given["now"]))
        state = times.state(observed_change_at=observed, now=given["now"], released=given.get("holder") == "")
        answer["state"] = state.value
        if state is lease.LeaseState.EXPIRED:
            answer["action"] = "take lease by compare-and-swap"
        elif state is lease.LeaseState.RELEASED:
            answer["action"] = "grant at once"
    if "activation" in given:
        answer["max_gap"] = times.worst_gap(activation_s=given["activation"], poll_s=given["poll"])
    return answer


def _handover(given: Case, expected: Answer, _: Case) -> Answer:
    played = play(given["events"])
    if expected.get("forbidden"):
        # The trace shows what would happen without the rule; here a step of it must be refused.
        refused = bool(played.refused) and not played.dual_owner
        return {"dual_owner": refused or played.dual_owner, "forbidden": refused}
    return played.answer()


GROUPS: dict[str, Group] = {
    "assign": _assign,
    "hotshard": _hotshard,
    "lease": _lease,
    "handover": _handover,
    "gate": _gate,
    "autosize": _autosize,
    "rolling": _rolling,
    "inject": _inject,
}

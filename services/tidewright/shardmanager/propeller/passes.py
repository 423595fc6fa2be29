"""Compat mode's part of the decider: what fleets of the propeller manager ask for.

A pass that has something to delete or to create is recorded as begun, and goes on with the answers; one that
has not is over at once. When a pass ends, what is known of it is recorded where it differs from the last
record, and the timer for the next one is set.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy

import msgspec

from tidewright.events.base import Because, Decision, ObjectRef, Scalar
from tidewright.events.decisions import CreateObject, DeleteObject, PatchObject, SetTimer
from tidewright.events.shards import BeginPass, RecordPass
from tidewright.shardmanager.fold.touched import Look, PodChange, Touched
from tidewright.shardmanager.propeller import resize
from tidewright.shardmanager.propeller.config_hash import accepted_hashes
from tidewright.shardmanager.propeller.fleet import Fleet, KnownPod, Pass, Recorded, Verdict, recorded
from tidewright.shardmanager.propeller.fleet_config import parsed
from tidewright.shardmanager.propeller.fleet_verdict import SECOND, verdict
from tidewright.shardmanager.propeller.pods import (
    ContainerMissing,
    create_error,
    find_container,
    owner_references,
    pod_manifest,
    update_error,
)
from tidewright.shardmanager.propeller.scan import (
    Survey,
    annotations_wanted,
    is_stale,
    other_generation,
    survey,
    template_missing,
)
from tidewright.shardmanager.state import LOCK_TIMER, SCAN_TIMER, SERVICE, State

RIVAL_QUIET_INTERVALS = 6
"""Scan intervals without a new pod of another manager after which that one is taken for stopped."""


def decisions(state: State, touched: Touched) -> Iterator[Decision]:
    """What the fleets ask for now."""
    for fleet in touched.dropped:
        if fleet.local and fleet.lock is not None and fleet.lock.held_from is not None:
            yield fleet.lock.give_back(state.now)
    for key, look in sorted(touched.fleets.items()):
        known = state.fleets.get(key)
        if known is not None and known.local:
            yield from FleetRound(state, known, look, touched.pod).decisions()


class FleetRound:
    """One look at a fleet."""

    def __init__(self, state: State, fleet: Fleet, look: Look, pod: PodChange | None) -> None:
        self.state, self.look, self.now = state, look, state.now
        self.pod = pod if Look.POD in look else None
        self.acts = state.acting.held(SERVICE, fleet.namespace).acts
        self.pods = state.pods.get(fleet.namespace, {})
        self._use(fleet)

    def _use(self, fleet: Fleet) -> None:
        """The fleet as it is acted upon; the state's own is left as it is."""
        self.fleet, self.rival = fleet, fleet.rival
        self.template = self.state.templates.get(fleet.template_key)

    def decisions(self) -> Iterator[Decision]:
        yield from self._settle()
        yield from self._lock_requests()
        # What is held back takes no lock, and says what it needs all the same.
        if self.acts and not self.fleet.leads(self.now):
            yield from self._stand_by()
            return
        if self._meets_rival():
            yield from self._record(self._last())
            yield self._next_scan()
            return
        if self.fleet.void:
            return
        news = self._leads_again() or self._outlasts_rival()
        if self.rival:
            if news:
                yield from self._record(self._last())
            if self.fleet.scan_due is None:
                yield self._next_scan()
            return
        current = self.fleet.current if self.acts else None
        if current is None:
            yield from self._look(news)
        elif (result := self._result(current)) is None:
            drifted = tuple(self.fleet.drifted)
            yield from self._requests(tuple(current.deletions), tuple(current.creations), drifted)
            if news:
                yield from self._record(self._last())
        elif current.again or self._changed(current):
            yield from self._begin(result)
        else:
            yield from self._end(result)

    # The configuration.

    def _settle(self) -> Iterator[Decision]:
        """Judge an entry that is not in force, or came just now; what is recorded of that comes before all that follows."""
        before, configured = self.fleet, Look.CONFIG in self.look
        if before.asked is None and not configured:
            return
        self.look &= ~Look.CONFIG
        if self._verdict().refused:
            if not configured:
                return
            self.look &= ~Look.PASS
            self._use(before.put_back() if before.asked is None else copy(before))
        elif before.asked is None:
            yield from self._give_back(before.former)
            return
        else:
            fleet = copy(before)
            if fleet.take(parsed(before.asked), self.now):
                self.look |= Look.PASS
            self._use(fleet)
            yield from self._give_back(before)
        for record in self._record(self._last()):
            yield record
            self.fleet.was_recorded(record)

    def _verdict(self) -> Verdict:
        return self.fleet.judged or verdict(self.fleet.last_entry)

    def _give_back(self, before: Fleet | None) -> Iterator[PatchObject]:
        """The lock that the fleet had by the entry before, where that is another one."""
        lock = before.lock if before is not None else None
        mine = self.fleet.lock
        if lock is not None and lock.held_from is not None and (mine is None or mine.holder != lock.holder):
            yield lock.give_back(self.now)

    # Whether to look.

    def _due(self) -> bool:
        """Whether a pass would find something else than the last one."""
        if Look.PASS in self.look or self._leads_again():
            return True
        lock = self.fleet.lock
        if lock is not None and lock.held_anew and Look.LOCK_ANSWER in self.look:
            return True
        return self.pod is not None and self._matters(self.pod)

    def _matters(self, change: PodChange) -> bool:
        """Whether a pass would judge a pod otherwise than before."""
        before, after = change.before, change.after
        if after is None or before is None:
            return True
        if before.annotations == after.annotations and before.phase == after.phase:
            return False
        return after.phase == "Failed" or self._stale(after)

    def _stale(self, pod: KnownPod) -> bool:
        version = self.template.version if self.template else ""
        return is_stale(pod.annotations, version, accepted_hashes(self.fleet.config.shard))

    def _changed(self, current: Pass) -> bool:
        """Whether a pod has changed, while the pass was under way, so that another one has to follow."""
        return any(name in self.pods and self._stale(self.pods[name]) for name in current.changed)

    # The lock, and other managers.

    def _lock_requests(self) -> Iterator[Decision]:
        lock = self.fleet.lock
        if lock is None or not lock.due or self.fleet.void or not self.acts:
            return
        if f"hold {lock.ref.namespace}/{lock.ref.name}" not in self.state.in_flight:
            yield lock.ask(self.now)
        yield SetTimer(at=self.now, key=LOCK_TIMER + self.fleet.key, due=lock.next_at(self.now))

    def _stand_by(self) -> Iterator[Decision]:
        """Another manager may act: what is under way ends with the record of that."""
        lock = self.fleet.lock
        ended = Look.LOCK_TIMER in self.look and lock is not None and lock.held_from is not None
        if ended or Look.LOCK_ANSWER in self.look:
            yield from self._record(self._last())

    def _standing_by(self) -> bool:
        return self.fleet.recorded is not None and self.fleet.recorded.standing_by

    def _leads_again(self) -> bool:
        return self.acts and self._standing_by()

    def _meets_rival(self) -> bool:
        """Whether another manager, by another configuration, has just made a pod of the fleet."""
        if self.rival or self.pod is None or not self.fleet.scanned:
            return False
        before, after = self.pod.before, self.pod.after
        if after is None or after.ours or after.deleting or not self.fleet.has(after):
            return False
        if before is not None and before.uid in ("", after.uid):
            return False
        if not other_generation(self.fleet.config, after):
            return False
        self.rival = after.name
        return True

    def _outlasts_rival(self) -> bool:
        """Whether the other manager has made nothing for long enough to be taken for stopped."""
        if not self.rival or Look.SCAN not in self.look:
            return False
        mine = accepted_hashes(self.fleet.config.shard)
        last = max((m.at for digest, m in self.fleet.other_makers.items() if digest not in mine), default=0.0)
        if self.now < last + RIVAL_QUIET_INTERVALS * self.fleet.config.scan_interval_s:
            return False
        self.rival = ""
        return True

    # The pass.

    def _look(self, news: bool) -> Iterator[Decision]:
        """No pass is under way: begin one where that is due, and say what is new."""
        if self._due():
            yield from self._begin(self._last() if news else None)
        elif Look.MODES in self.look and not self.acts:
            plan = self._survey()
            yield from self._requests(plan.deletions, plan.creations, plan.drifted)
        elif news:
            yield from self._record(self._last())

    def _begin(self, before: Recorded | None) -> Iterator[Decision]:
        """Begin a pass, which ends at once where there is nothing to do; `before` is what to record besides."""
        plan = self._survey()
        impossible = {} if plan.deletions else self._impossible(plan.creations)
        if plan.idle or impossible:
            error = plan.error or _together(impossible)
            yield from self._end(
                Recorded(
                    running=plan.running,
                    adopted=plan.adopted,
                    foreign=plan.foreign,
                    drifted=plan.drifted,
                    pass_error=_failed(error),
                )
            )
            return
        if self.acts:
            yield BeginPass(
                at=self.now,
                target=self._template_ref(),
                application=self.fleet.config.pod_application,
                deletions=plan.deletions,
                creations=plan.creations,
                running=plan.running or 0,
                adopted=plan.adopted,
                foreign=plan.foreign,
                drifted=plan.drifted,
            )
        yield from self._requests(plan.deletions, plan.creations, plan.drifted)
        if before is not None:
            yield from self._record(msgspec.structs.replace(before, drifted=plan.drifted))

    def _survey(self) -> Survey:
        return survey(self.fleet, self.template, self.pods)

    def _result(self, current: Pass) -> Recorded | None:
        """What a pass under way has come to; None while it goes on."""
        impossible: dict[int, str] = {}
        if not current.refusal:
            if current.deletions:
                return None
            impossible = self._impossible(tuple(current.creations))
            if current.creations and not impossible:
                return None
        names = self.fleet.config.pod_names
        refused = {i: create_error(names[i], why) for i, why in current.refusals.items() if i < len(names)}
        return Recorded(
            created=current.created,
            deleted=current.deleted,
            running=None if current.refusal else current.running,
            adopted=current.adopted,
            foreign=tuple(current.foreign),
            drifted=tuple(self.fleet.drifted),
            pass_error=_failed(current.refusal or _together({**refused, **impossible})),
        )

    def _impossible(self, creations: tuple[int, ...]) -> dict[int, str]:
        """Why no pod can be made from the template, by index; empty when one can."""
        config = self.fleet.config
        if not creations:
            return {}
        if self.template is None:
            return dict.fromkeys(creations, template_missing(config))
        try:
            find_container(self.template.template.get("spec") or {}, config.pod_template_container_name)
        except ContainerMissing as error:
            return {index: update_error(config, index, error) for index in creations}
        return {}

    def _end(self, result: Recorded) -> Iterator[Decision]:
        yield from self._record(result)
        yield self._next_scan()

    def _next_scan(self) -> SetTimer:
        due = self.now + self.fleet.config.scan_interval_s
        return SetTimer(at=self.now, key=SCAN_TIMER + self.fleet.key, due=due)

    # What is asked for.

    def _requests(
        self, deletions: tuple[str, ...], creations: tuple[int, ...], drifted: tuple[str, ...]
    ) -> Iterator[Decision]:
        """The first deletion, or where none is left all creations; but for those that are under way."""
        fleet = self.fleet
        for name in deletions[:1]:
            if not self._in_flight("delete", name):
                pod = self.pods.get(name)
                yield DeleteObject(
                    at=self.now,
                    target=self._pod_ref(name, pod.uid if pod else ""),
                    because=(self._why_deleted(pod, drifted),),
                )
        if deletions or self.template is None:
            return
        manager = self.pods.get(fleet.manager_pod) if fleet.manager_pod else None
        for index in creations:
            name = fleet.config.pod_name(index)
            if self._in_flight("create", name):
                continue
            yield CreateObject(
                at=self.now,
                target=self._pod_ref(name, ""),
                manifest=pod_manifest(
                    fleet.config,
                    self.template.template,
                    self.template.version,
                    index,
                    namespace=fleet.namespace,
                    owner_references=owner_references(manager.owners if manager else ()),
                ),
                because=(Because(rule="ShardMissing", values={"shard": index, "pod": name}),),
            )

    def _in_flight(self, verb: str, name: str) -> bool:
        return f"{verb} {self.fleet.namespace}/{name}" in self.state.in_flight

    def _why_deleted(self, pod: KnownPod | None, drifted: tuple[str, ...]) -> Because:
        if pod is not None and pod.phase == "Failed":
            return Because(rule="ShardFailed", values={"pod": pod.name})
        if pod is not None and pod.name in drifted:
            args = " ".join(pod.args.get(self.fleet.config.pod_template_container_name, ()))
            return Because(rule="ArgsDrift", values={"pod": pod.name, "found": args})
        annotations = pod.annotations if pod else {}
        version = self.template.version if self.template else ""
        values: dict[str, Scalar] = {"pod": pod.name if pod else ""}
        for key, value in annotations_wanted(self.fleet.config, version).items():
            if annotations.get(key) != value:
                values |= {f"found_{key}": annotations.get(key), f"wanted_{key}": value}
        return Because(rule="ShardStale", values=values)

    def _pod_ref(self, name: str, uid: str) -> ObjectRef:
        return ObjectRef(api_version="v1", kind="Pod", namespace=self.fleet.namespace, name=name, uid=uid)

    def _template_ref(self) -> ObjectRef:
        return ObjectRef(
            api_version="v1",
            kind="PodTemplate",
            namespace=self.fleet.namespace,
            name=self.fleet.config.pod_template_name,
        )

    # What is recorded.

    def _last(self) -> Recorded:
        """What the last pass came to, as far as it was recorded."""
        return msgspec.structs.replace(self.fleet.recorded or Recorded(), drifted=tuple(self.fleet.drifted))

    def _record(self, result: Recorded) -> Iterator[RecordPass]:
        """The record of a pass, where it says something else than the last one."""
        fleet = self.fleet
        why_not = fleet.lock.why_not(self.now) if fleet.lock is not None else ""
        record = RecordPass(
            at=self.now,
            target=self._template_ref(),
            application=fleet.config.pod_application,
            created=result.created,
            deleted=result.deleted,
            running=result.running,
            adopted=result.adopted,
            foreign=result.foreign,
            drifted=result.drifted,
            error=self._error(result, why_not),
            standing_by=bool(why_not) and not fleet.void,
            rival=self.rival,
            refused=fleet.asked is not None,
            because=tuple(
                Because(rule="ConfigurationWarning", values={"message": warning})
                for warning in self._warnings()
            ),
        )
        last = fleet.recorded
        if last is None or recorded(record, last.pass_error) != last:
            yield record

    def _error(self, result: Recorded, why_not: str) -> str:
        if self.fleet.void:
            return self._verdict().refused
        if why_not:
            return why_not
        if self.rival:
            return (
                f"another manager with another configuration made pod '{self.rival}': nothing is written while it runs, "
                "stop it or give both the same configuration"
            )
        return result.pass_error

    def _warnings(self) -> list[str]:
        fleet, judged = self.fleet, self._verdict()
        aside = judged.refused and not fleet.void  # a bad edit must not take the fleet down
        resized = (
            [resize.warning(fleet.resized_from, fleet.config.shard.pod_count)] if fleet.resized_from else []
        )
        return [*((judged.refused,) if aside else judged.warnings), *[SECOND] * fleet.doubled, *resized]


def _together(errors: dict[int, str]) -> str:
    """The errors of creations, each after a newline."""
    return "".join("\n" + errors[index] for index in sorted(errors))


def _failed(error: str) -> str:
    return f"failed to create pod(s) [{error}]" if error else ""

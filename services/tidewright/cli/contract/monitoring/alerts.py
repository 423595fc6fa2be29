"""The table of alerts: what is wrong, for how long, what to look at, what to do.

Expressions know a service by the label `component`, which the chart's ServiceMonitor sets from the pod's label, and ours from
others by the job, `tidewright`. Series of the originals' names are ours alone with it: an original may run beside.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import yaml

from tidewright.asking.services import SERVICES, Role

RUNBOOKS: Final = "https://tidewright.dev/reference/runbooks/"
"""Where `docs/reference/runbooks.md` is on the site: who is woken up by an alert follows its link."""
_DECIDERS = "|".join(service.name for service in SERVICES if service.role is Role.DECIDER)
_ENDPOINTS = "|".join(service.name for service in SERVICES if service.role is Role.ENDPOINT)


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert.

    Attributes:
        name: in CamelCase, without `Tidewright`, which it gets.
        expression: PromQL.
        after: how long it has to hold, as Prometheus writes it.
        severity: critical (somebody gets up), warning (somebody looks today), info.
        summary: one line; `{{ $labels.x }}` as in Prometheus.
        meaning: what is wrong then, and what it costs.
        look: what to look at, as steps.
        do: what to do about it, as steps.
    """

    name: str
    expression: str
    after: str
    severity: str
    summary: str
    meaning: str
    look: tuple[str, ...]
    do: tuple[str, ...]

    @property
    def full_name(self) -> str:
        return f"Tidewright{self.name}"


ALERTS: Final[tuple[Alert, ...]] = (
    Alert(
        "ServiceDown", 'max by (component) (up{job="tidewright"}) == 0', "2m", "critical",
        "No replica of {{ $labels.component }} answers.",
        "What this service does stands still. Nothing is lost: it goes on from its last checkpoint.",
        ("`kubectl -n tidewright get pods`, then `describe` and `logs --previous` of its pods.",
         "`/readyz` of a pod says in words what it waits for: the log, the API server, a key."),
        ("Where it is out of memory, raise the limit; what a service needs grows with the objects that it folds.",
         "Where it waits for the log, go on with [LogSlow](#tidewrightlogslow)."),
    ),
    Alert(
        "ServiceGone",
        'count by (component) (max_over_time(up{job="tidewright"}[1d])) unless count by (component) (up{job="tidewright"})', "5m", "critical",
        "Nothing is left of {{ $labels.component }}, which ran within the last day.",
        "No pod of it has an address: none is made, none is scheduled, or the image is not there. What is not there is not scraped, and no other alert is of it.",
        ("`kubectl -n tidewright get deployments,pods`: how many are wanted, and why there is none (`describe` of the Deployment and of a pod).",),
        ("A node or quota that is missing, an image or a Secret that is not there: the pod's events name it.",
         "Scaled to nothing on purpose: silence this alert for a day, after which it is forgotten."),
    ),
    Alert(
        "NotReady", "max by (component) (tidewright_ready) == 0", "5m", "critical",
        "No replica of {{ $labels.component }} is ready.",
        "It runs and does not do its work: the log does not answer (two of three servers gone), its store is full, a key or a right is missing, or at a start all is still being listed.",
        ("`/readyz` of a pod says in words why; so does its log.",
         "Where several are not ready at once it is the log: `kubectl -n tidewright get pods -l app.kubernetes.io/name=nats`."),
        ("Servers of NATS that are away: bring them back; services go on by themselves, within seconds.",
         "A full store: [StoreFull](#tidewrightstorefull). A log that was lost: [backup](../operations/backup.md#when-the-log-is-lost)."),
    ),
    Alert(
        "StoreFull", 'sum by (component) (increase(tidewright_commits_total{result="full"}[5m])) > 0', "0m", "critical",
        "The store of the log is full: {{ $labels.component }} decides nothing.",
        "Appends are refused, for want of room or since one message is larger than `max_payload`; `/readyz` says which. Nothing is dropped and nothing is lost; whoever would decide waits, and goes on by itself when there is room.",
        ("`nats server report jetstream` with the installer's password, or the volumes: what is used, and of which limit (`nats.limits`, `nats.storage.size`).",
         "What came so much: [sizing](../operations/sizing.md); `tidewright events --tail 200` shows what most of it is."),
        ("[More room](../operations/sizing.md#more-room): larger volumes and limits. One message that is too large: `max_payload: 8MB`, and `nats-server --signal reload`.",
         "Or a shorter age, where an archiver has sealed what goes: `tidewright install --max-age SECONDS`. [Durability](../durability.md#a-full-store) says what happens meanwhile."),
    ),
    Alert(
        "StoreFills", "max(tidewright_log_store_bytes) / (max(tidewright_log_store_limit_bytes) > 0) > 0.8", "15m", "warning",
        "{{ $value | humanizePercentage }} of what the log may store is taken.",
        "At the limit appends are refused, and nothing is decided any more. Nothing is dropped before its age to make room.",
        ("How fast it grows: `deriv(tidewright_log_store_bytes[6h])`, bytes a second. A log that is younger than its age limit still grows to it.",
         "What comes so much: [sizing](../operations/sizing.md); `tidewright events --tail 200` shows what most of it is."),
        ("As in [StoreFull](#tidewrightstorefull): more room, or a shorter age where an archiver has sealed what goes.",),
    ),
    Alert(
        "SlotHalted", "max by (component) (tidewright_slots_halted) > 0", "1m", "critical",
        "{{ $labels.component }} has halted {{ $value }} of its slots.",
        "Bytes on the log do not decode, or a defect ended a decision: objects of these slots are decided by nobody, others are.",
        ("`tidewright events --class halt` and the console's Trust page name slot, sequence and why; so does `/readyz` of the service.",
         "`tidewright events --since seq:N --until seq:N` shows what lies there; `tidewright verify` whether it was altered."),
        ("A fact of a newer version: finish the upgrade, deciders before the watcher, or put the watcher back.",
         "A defect: the version before goes on from its own checkpoint; report it with `tidewright export` of that slot.",
         "Altered: [Unbelieved](#tidewrightunbelieved)."),
    ),
    Alert(
        "NobodyDecides", f'sum by (component) (tidewright_slots_owned{{component=~"{_DECIDERS}"}}) == 0', "2m", "critical",
        "No replica of {{ $labels.component }} holds a slot.",
        "Replicas run and none decides: they do not agree on who is there, or wait for the log.",
        ("`/readyz` of each replica.", "The bucket of members: each replica says that it is there twice a second."),
        ("Restart one replica; its slots are claimed within seconds.", "Where the log answers no write, [LogSlow](#tidewrightlogslow)."),
    ),
    Alert(
        "Lagging", "max by (component) (tidewright_fold_lag_events) > 5000", "5m", "warning",
        "{{ $labels.component }} is {{ $value }} events behind the log.",
        "Decisions come late. Right after a start, or an upgrade that folds the log anew, it passes by itself.",
        ("The dashboard *control plane*: events folded a second against events that come.", "Its processor: a throttled container folds slowly."),
        ("More replicas share the slots of autoscaler, spread and shard-manager; provisioning has one slot and needs a faster core.",
         "Fewer samples: an interval of 15 s is what the original does."),
    ),
    Alert(
        "Unbelieved", "sum by (component, cause) (increase(tidewright_unbelieved_messages_total[15m])) > 0", "0m", "critical",
        "Messages on the log are not believed ({{ $labels.cause }}).",
        "Somebody writes to the log past the services, or speaks for another one. Nothing came of it: what is not believed is not folded.",
        ("The log of the service names sequence and subject.", "`tidewright verify` says what on the log does not hold together.",
         "Who has the password of that account: the Secret `nats-passwords`, and who may read Secrets in the namespace."),
        ("Treat the account as taken over: new passwords, new keys (`tidewright keys`), the pods of that service replaced.",
         "Keep the archive: what was erased is in it."),
    ),
    Alert(
        "NotAllowed", "sum by (service, rule) (increase(tidewright_actuator_not_allowed_total[15m])) > 0", "0m", "critical",
        "{{ $labels.service }} asked for what it may not ({{ $labels.rule }}).",
        "The actuator refused an effect that its table does not allow. Either a service is taken over, or a feature or namespace is off that somebody relies on.",
        ("`tidewright events --class outcome` shows `NotAllowed` with the decision; `tidewright explain` of its object why it was asked for.",),
        ("A feature or namespace that should be on: `features`, `namespaces` of the chart.", "Otherwise as in [Unbelieved](#tidewrightunbelieved)."),
    ),
    Alert(
        "FewerCopies", "max by (stream) (tidewright_log_copies_wanted) - max by (stream) (tidewright_log_copies_current) > 0", "5m", "warning",
        "{{ $value }} copies of {{ $labels.stream }} are not there or not up to date.",
        "A NATS server is away, or catches up. The log goes on with the others; with one server less than most of them it stands still.",
        ("`kubectl -n tidewright get pods -l app.kubernetes.io/name=nats` and the volume of the one that is not ready.",
         "Right after a server came back it catches up: the difference goes away by itself, large logs take minutes."),
        ("A server whose volume is lost comes back empty and fetches everything from the others: delete its PersistentVolumeClaim and pod, one server at a time.",
         "A stream that was made with fewer copies: `tidewright install --replicas 3` sets them."),
    ),
    Alert(
        "SetAside", "sum by (component) (increase(tidewright_messages_set_aside_total[15m])) > 0", "0m", "warning",
        "{{ $labels.component }} left messages out that do not decode, or that only a newer version knows.",
        "A fact on the log was garbage, or of a type of a newer version, and is left out; the next fact of that object mends it.",
        ("The log of the service names sequence and subject.",),
        ("Facts of a newer version (`read past` in the log of the service): finish the upgrade, deciders before the watcher, or put the watcher back.",
         "Where it goes on, somebody writes facts who should not: only the watcher's account may."),
    ),
    Alert(
        "ActuatorBehind", "max(tidewright_actuator_open) > 500", "5m", "warning",
        "{{ $value }} decisions wait for the actuator.",
        "What is decided is not done in time. Scale-ups go first, status last, so the wait shows in status first.",
        ("`tidewright_actuator_requests_total` a second against `--qps`.", "The API server's own flow control: 429 in the actuator's log."),
        ("Raise `--qps` and `--burst` (50 and 100 by default) where the API server has room.",),
    ),
    Alert(
        "EffectsFail",
        'sum(rate(tidewright_outcomes_total{type="Failed"}[15m])) / sum(rate(tidewright_outcomes_total[15m])) > 0.1', "15m", "warning",
        "{{ $value | humanizePercentage }} of what was decided could not be done.",
        "Outcomes are failures: the API server or a cloud refuses.",
        ("`tidewright events --class outcome --follow`: which objects, which words.", "By reason: `sum by (reason) (rate(tidewright_outcomes_total[15m]))`."),
        ("Forbidden: a role of the feature is missing. Quota or StockOut: [GroupRests](#tidewrightgrouprests).",),
    ),
    Alert(
        "LogSlow", "histogram_quantile(0.99, sum by (le, component) (rate(tidewright_commit_seconds_bucket[5m]))) > 1", "5m", "warning",
        "Commits of {{ $labels.component }} take over a second.",
        "The log answers late, so everything is decided late: a slow disk, a leader that moves, two of three servers gone.",
        ("`nats server report jetstream` with the installer's password: leaders and replicas that lag.", "The volume's latency: each append is written to the disk before it is answered."),
        ("A faster volume. Where one server is slow, stop it: two go on.", "A full store: [StoreFull](#tidewrightstorefull)."),
    ),
    Alert(
        "ArchiveBehind", "max(tidewright_archive_age_seconds) > 900", "5m", "warning",
        "What came onto the log {{ $value | humanizeDuration }} ago is not sealed.",
        "Were the log lost now, all of that would be lost with it; what the log's age limit takes before it is sealed is a hole in the archive.",
        ("`/readyz` of the archiver says in words what it waits for: the folder or bucket, its key, the log.",
         "`tidewright_archive_sealed_sequence` against the end of the log; `tidewright verify --archive` whether the archive is whole."),
        ("A bucket that refuses: its credentials, its room. A key that is missing, an archive of another log: [backup](../operations/backup.md).",
         "Nobody can seal and the log is short-lived: `tidewright export` what is there."),
    ),
    Alert(
        "Errors", "sum by (component, reason) (rate(tidewright_errors_total[15m])) > 0.1", "15m", "warning",
        "{{ $labels.component }} meets errors ({{ $labels.reason }}).",
        "Something is asked again and again and not answered.",
        ("The log of the service, by that reason.",), ("By reason: rights, addresses, certificates.",),
    ),
    Alert(
        "Incumbent", "max by (service) (tidewright_incumbent_seen) == 1", "1h", "info",
        "Another controller does the work of {{ $labels.service }}.",
        "While it is seen our service decides and does not act, so that no object has two masters.",
        ("`tidewright get` and the events of the object say who was seen, and by what.",),
        ("Remove the incumbent, or tell ours to act all the same: [beside an incumbent](../incumbents.md).",),
    ),
    Alert(
        "SamplesRefused", "sum by (component) (rate(tidewright_pushed_samples_refused_total[10m])) > 0.1", "10m", "warning",
        "Pushed samples are refused.",
        "Autoscalers that live on pushes see old values, then none, and hold their replicas.",
        ("The answer to the pusher says why: field, value, and what would be valid.", "`sum by (why) (tidewright_pushed_samples_refused_total)`."),
        ("A token that was replaced, labels or bodies beyond the bounds: [the autoscaler](../autoscaler.md).",),
    ),
    Alert(
        "AdmissionSlow",
        f'histogram_quantile(0.99, sum by (le) (rate(tidewright_admission_seconds_bucket{{component=~"{_ENDPOINTS}"}}[5m]))) > 1',
        "5m", "warning",
        "Admission takes over a second.",
        "Pods are made late; after 5 s the API server goes on without an answer, and the pod gets no subset until it is seen.",
        ("[Lagging](#tidewrightlagging) of the same service: an endpoint answers from what it folded.", "`tidewright_callers_refused_total`: too many at once."),
        ("More replicas of the endpoint.",),
    ),
    Alert(
        "TooManyUnready", 'min(cluster_autoscaler_cluster_safe_to_autoscale{component="provisioning"}) == 0', "10m", "critical",
        "Too many nodes are unready: nothing is ordered or removed.",
        "As Cluster Autoscaler does, provisioning stops when more nodes are unready than `max-total-unready-percentage` and `ok-total-unready-count` allow.",
        ("`kubectl get nodes`; `tidewright explain nodegroup/NAME` says which of a group are unready, and since when.",),
        ("Find out why nodes go (network, kubelets, zone). Delete Nodes whose machines are gone for good.",),
    ),
    Alert(
        "PodsWait", 'max(cluster_autoscaler_unschedulable_pods_count{component="provisioning"}) > 0', "30m", "warning",
        "{{ $value }} pods have found no node for half an hour.",
        "Nothing that is configured gives them one: limits, quota, stock, selectors, or no cloud.",
        ("`tidewright explain pod/NAME`: each group and why not, and what would help.", "`tidewright get nodegroup`: sizes against maxima."),
        ("Raise a maximum or quota; correct a selector; configure a cloud.",),
    ),
    Alert(
        "GroupRests", 'max by (node_group, reason) (cluster_autoscaler_node_group_backoff_status{component="provisioning"}) == 1', "15m", "warning",
        "Node group {{ $labels.node_group }} is left alone after a failure ({{ $labels.reason }}).",
        "The cloud refused or did not deliver; others are tried meanwhile.",
        ("`tidewright explain nodegroup/NAME`: what the cloud said, and until when it rests.",),
        ("Quota: raise it. Stock-out: more zones or machine types. Credentials: those of the actuator.",),
    ),
)  # fmt: skip


def rules() -> str:
    """The table as Prometheus loads it from a file; a PrometheusRule of its operator has the same as its `spec`."""
    listed = [
        {
            "alert": alert.full_name,
            "expr": alert.expression,
            "for": alert.after,
            "labels": {"severity": alert.severity},
            "annotations": {
                "summary": alert.summary,
                "description": alert.meaning,
                "runbook_url": f"{RUNBOOKS}#{alert.full_name.lower()}",
            },
        }
        for alert in ALERTS
    ]
    groups = {"groups": [{"name": "tidewright", "rules": listed}]}
    text = yaml.safe_dump(groups, sort_keys=False, width=10_000, allow_unicode=True)
    return f"# Generated by `make generate` from the table of alerts.\n{text}"

"""What of WorkloadSpread only the original explains: cases that ours decides otherwise by intention, and its way.

cases       the original's answer to a case
passes      one pass over a spread's pods; groups: pods by subset and their costs; pods: all that it looks at
admission   admission against the ledger in the status; status: that ledger
matching    the target's replicas, pods and version
limits      limits read leniently

Every case is asked of ours first; one that is listed here and that ours answers as the original does fails.
"""

TAGS = {
    "spread-limit-no-number": "Q-2: a limit that is no number offers no place and says so in a condition, and validation refuses it; the original crashes in its pass",
    "spread-eviction-later": "Q-4: an eviction that a budget may still refuse frees no place until the pod is seen leaving",
    "spread-list-order": "Q-9, Q-12: free places are the limit minus what is held, whatever the order of the list",
    "spread-every-fact-wakes": "Q-10: every fact about a pod of the workload wakes its spread, also when it is annotated by nobody",
    "spread-standalone-latest": "Q-13: pods of a ReplicaSet of its own are of its latest version",
    "spread-closure-shared": "Q-14: a subset that is closed is closed for all versions",
    "spread-filter-without-selector": "Q-1: a filter without a selector takes all pods, in admission as in the controller",
    "spread-unrelated-owner": "Q-5: a pod whose owner cannot be read is refused only on account of a spread that the owner may lead to",
    "spread-current-spec": "Q-22: the choice is made by the spec as it is, not by the order and the names in the last status",
    "spread-unlimited-recorded": "a place in an unlimited subset is recorded like any other: `explain` knows why every pod is where it is",
    "spread-refused-takes-nothing": "a pod that is refused takes no place",
    "spread-at-the-second": "a span of time is over at its last instant: the original waits until the instant after",
    "spread-seen-elsewhere": "a pod that is there holds the place that it has: the original looks for it in the list that it was meant for",
    "spread-ended-pod": "a pod that has ended is not adopted, and what was in flight for it waits for its bound",
    "spread-empty-version": "a version none of whose pods is in a subset is not written",
    "spread-room-by-ledger": "an adopted pod finds room where the ledger has it, with places that are in flight: the original counts annotations",
    "spread-target-at-zero": "pods of a workload that wants none count until they are gone",
    "spread-last-known": "while the target's replicas or its version cannot be read the last known ones hold: the original stops its pass",
    "spread-wakes-to-open": "a closed subset is opened on time: the original waits for whatever wakes it",
}
"""Why cases differ; see decision record 45."""

_CASES = {
    "spread-limit-no-number": "val-ok-10 gen-052 gen-113 gen-132",
    "spread-eviction-later": "adm-08 gen-097",
    "spread-list-order": "rec-25",
    "spread-every-fact-wakes": "trg-29 trg-30",
    "spread-standalone-latest": "cost-20",
    "spread-closure-shared": "gen-032 gen-153",
    "spread-filter-without-selector": "sel-05 adm-20 gen-172",
    "spread-unrelated-owner": "adm-13",
    "spread-current-spec": "adm-05 adm-12 gen-020 gen-042",
    "spread-unlimited-recorded": "adm-02 adm-18 gen-006 gen-036 gen-037 gen-095 gen-104 gen-112 gen-138 gen-159 gen-174",
    "spread-refused-takes-nothing": "gen-031 gen-051 gen-126",
    "spread-at-the-second": "gen-012 gen-047",
    "spread-seen-elsewhere": "gen-043 gen-044 gen-079 gen-146 gen-177",
    "spread-ended-pod": "gen-007 gen-023 gen-076 gen-080 gen-125 gen-157 gen-166",
    "spread-empty-version": "gen-049 gen-139 gen-183",
    "spread-room-by-ledger": "gen-003 gen-142 gen-143",
    "spread-target-at-zero": "gen-035 gen-072 gen-140",
    "spread-last-known": "gen-170 gen-192 wver-03 wver-05",
    "spread-wakes-to-open": "gen-069",
}
CASES = {case: tag for tag, cases in _CASES.items() for case in cases.split()}
"""The case to its tag."""

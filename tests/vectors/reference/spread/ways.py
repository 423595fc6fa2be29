"""In what ours decides otherwise than the original by intention, each as a switch of the model in this package.

A set of tags (`Ways`) says which of the differences the model follows: with none it is the original, with all of them ours.
"""

from __future__ import annotations

from typing import TypeAlias

Ways: TypeAlias = frozenset[str]
"""Tags of the differences that are followed."""

LIMIT_NO_NUMBER = "spread-limit-no-number"
EVICTION_LATER = "spread-eviction-later"
LIST_ORDER = "spread-list-order"
EVERY_FACT_WAKES = "spread-every-fact-wakes"
STANDALONE_LATEST = "spread-standalone-latest"
CLOSURE_SHARED = "spread-closure-shared"
FILTER_WITHOUT_SELECTOR = "spread-filter-without-selector"
UNRELATED_OWNER = "spread-unrelated-owner"
CURRENT_SPEC = "spread-current-spec"
UNLIMITED_RECORDED = "spread-unlimited-recorded"
REFUSED_TAKES_NOTHING = "spread-refused-takes-nothing"
ONE_PLACE = "spread-one-place"
AT_THE_SECOND = "spread-at-the-second"
SEEN_ELSEWHERE = "spread-seen-elsewhere"
ENDED_POD = "spread-ended-pod"
EMPTY_VERSION = "spread-empty-version"
ROOM_BY_LEDGER = "spread-room-by-ledger"
TARGET_AT_ZERO = "spread-target-at-zero"
LAST_KNOWN = "spread-last-known"
WAKES_TO_OPEN = "spread-wakes-to-open"
PATCH_SHAPE = "spread-patch-shape"
PATCH_ONCE = "spread-patch-once"
IMAGE_TRIMMED = "spread-image-trimmed"
TARGET_SHARED = "spread-target-shared"
REMOVED_SUBSET = "spread-removed-subset"
NO_PATH = "spread-no-path"

TAGS = {
    LIMIT_NO_NUMBER: "Q-2: a limit that is no number offers no place and says so in a condition, and validation refuses it; the original crashes in its pass",
    EVICTION_LATER: "Q-4: an eviction that a budget may still refuse frees no place until the pod is seen leaving",
    LIST_ORDER: "Q-9, Q-12: free places are the limit minus what is held, and pods that are alike leave by name, whatever the order of the list",
    EVERY_FACT_WAKES: "Q-10: every fact about a pod of the workload wakes its spread, also when it is annotated by nobody",
    STANDALONE_LATEST: "Q-13: pods of a ReplicaSet of its own are of its latest version",
    CLOSURE_SHARED: "Q-14: a subset that is closed is closed for all versions",
    FILTER_WITHOUT_SELECTOR: "Q-1: a filter without a selector takes all pods, in admission as in the controller",
    UNRELATED_OWNER: "Q-5: a pod whose owner cannot be read is refused only on account of a spread that the owner may lead to",
    CURRENT_SPEC: "Q-22: the choice is made by the spec as it is, not by the order and the names in the last status",
    UNLIMITED_RECORDED: "a place in an unlimited subset is recorded like any other: `explain` knows why every pod is where it is",
    REFUSED_TAKES_NOTHING: "a pod that is refused takes no place",
    ONE_PLACE: "a pod has one place: deleted before it was seen it gives it back, and under the name of one that leaves it takes one that is free",
    AT_THE_SECOND: "a span of time is over at its last instant: the original waits until the instant after",
    SEEN_ELSEWHERE: "a pod that is there holds the place that it has: the original looks for it in the list that it was meant for",
    ENDED_POD: "a pod that has ended is not adopted, and what was in flight for it waits for its bound",
    EMPTY_VERSION: "a version none of whose pods is in a subset is not written",
    ROOM_BY_LEDGER: "an adopted pod finds room where the ledger has it, with places that are in flight: the original counts annotations",
    TARGET_AT_ZERO: "pods of a workload that wants none count until they are gone",
    LAST_KNOWN: "while the target's replicas or its version cannot be read the last known ones hold: the original stops its pass",
    WAKES_TO_OPEN: "a closed subset is opened on time: the original waits for whatever wakes it",
    PATCH_SHAPE: "a patch that applies to no pod is refused also while there is no workload on whose template it could be tried",
    REMOVED_SUBSET: "what is in flight in a subset that the spec does not have any more is waited for like any other",
    PATCH_ONCE: "a patch that cannot be tried is one error: the original goes on with what is left of the pod, and reports that as well",
    IMAGE_TRIMMED: "an image with space around it is refused: the API server would refuse every pod that gets it",
    NO_PATH: "a workload of a kind whose entry in the whitelist has no path has the replicas of its scale: by the original's reckoning it has none",
    TARGET_SHARED: "Q-23: several spreads may have one workload whose selectors exclude each other",
}
"""Why; see decision record 45."""

UNSEEN_LIFETIME_S = 30.0
LEAVING_LIFETIME_S = 15.0
"""What is in flight counts for so long; of ours these are settings, which the cases are run with."""

ORIGINAL: Ways = frozenset()
OURS: Ways = frozenset(TAGS)

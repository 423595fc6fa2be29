"""Where the original's propeller manager does what ours does not, by intention."""

TAGS = {
    "pass-leaving": "ours lets a pod that is on its way out go, instead of deleting it again with every pass",
    "pass-foreign": "ours leaves pods alone that no manager made, and reports them",
    "pass-legacy-hash": "ours knows both historical hashes, so that a fleet of an older build is adopted as it is",
    "pass-list-fails": "ours folds facts about pods: there is no list that could fail",
    "pass-native": "native mode repairs by the assignment of slots, not by a table of actions",
    "configuration-read": "ours reads a configuration strictly and names every problem; how the original guesses explains a migration",
    "gate-ranges": "ours opens a gate when no pod that was told a part of the work is left, whatever the tables are",
    "identity": "our workers' identity is that of an incarnation: the original's name comes back with the next pod",
    "release-on-cancel": "whether the original gives its lock back when it ends is the original's alone",
    "collection": "which terminated workflows a worker of the original collects is no matter of who owns them",
    "pass-two-managers": "ours stays passive beside another manager, so that the two undo nothing of each other",
}
"""Kinds of cases, and why they are not the product's."""

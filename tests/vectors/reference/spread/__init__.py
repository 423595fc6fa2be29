"""A model of WorkloadSpread as the original decides it, with a switch for each difference that is intended.

ways        the differences, and why; a set of them is what the model follows
intended    by which of them the original's answer to a case becomes ours
cases       the model's answer to a case
passes      one pass over a spread's pods; groups: pods by subset and their costs; pods: all that it looks at
admission   admission against the ledger in the status; status: that ledger
matching    the target's replicas, pods and version
limits      limits read leniently; patching: what is reported of a patch that cannot be tried
closing     subsets that take no pods

Which differences a case shows follows from what it says: nothing here knows the name of a case.
"""

from tests.vectors.reference.spread.ways import TAGS

__all__ = ["TAGS"]

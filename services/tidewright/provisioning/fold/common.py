"""What the folds of facts, decisions and outcomes share."""

from __future__ import annotations

from tidewright.host.fold.configuration import CONFIGURATION_IGNORED
from tidewright.provisioning.fold.touched import Touched
from tidewright.provisioning.group_ids import NodeGroupId
from tidewright.provisioning.scaleup import saga
from tidewright.provisioning.state import State

EVALUATE = "evaluate"
SCAN = "scan"
"""The timer that has nodes looked at which nobody may need."""
REQUEST_KIND = "ProvisioningRequest"
BUFFER_KIND = "CapacityBuffer"
DID_NOT_COME = "ExpectedPodsDidNotCome"
EXPECTED_LIMITED, UNREADABLE = "ExpectedPodsLimited", "PodTemplateUnreadable"
COUNTS_IMPOSSIBLE = "PodCountsImpossible"
NOT_READ = "WorkloadUnreadable"
OF_WORKLOADS = frozenset({EXPECTED_LIMITED, UNREADABLE, COUNTS_IMPOSSIBLE, NOT_READ})
"""Reasons of object events on workloads that are told once, until somebody changes the workload."""
BELOW_MINIMUM, BUDGET_SELECTS, BUDGET_COVERS, NO_PROVIDER_ID, OWNER_GONE = (
    "NodeGroupBelowMinimum",
    "DisruptionBudgetSelector",
    "DisruptionBudgetCoversNoPod",
    "NodeWithoutProviderID",
    "PodOwnerGone",
)
CLOUD_UNREADABLE = "CloudUnreadable"
BEGINNING = "Beginning"
"""The rule in the reasons of a plan that gives a group the size which it is to begin with, or as much of it as there may be."""
STANDING = frozenset(
    {
        BELOW_MINIMUM,
        BUDGET_SELECTS,
        BUDGET_COVERS,
        NO_PROVIDER_ID,
        OWNER_GONE,
        CLOUD_UNREADABLE,
        "GroupSettingIgnored",
        CONFIGURATION_IGNORED,
        "ClusterUnhealthy",
        "MaxNodesTotalReached",
        "PriorityConfigMapInvalid",
        "PriorityConfigMapNoGroupMatched",
        "PriorityConfigMapNotMatchedGroup",
    }
)
"""Reasons of object events about a state that lasts: told when it begins, and again now and then."""


def wake(state: State, touched: Touched) -> None:
    """Something came that an evaluation may answer."""
    touched.woken = state.woken = True
    state.last_wake = state.now
    if state.woken_at is None:
        state.woken_at = state.now


def forget_index(state: State) -> None:
    state.beside.index = None


def shrink_open(state: State, name: NodeGroupId, nodes: int, plan: str = "") -> None:
    """A group's open increase is so many nodes smaller.

    At none left it is dropped, unless plans still wait to hear of it: then an evaluation closes it.
    """
    opened = state.open.get(name)
    if opened is None:
        return
    opened.increase -= nodes
    if plan in opened.plans:
        opened.plans[plan] -= nodes
        if opened.plans[plan] <= 0:
            del opened.plans[plan]
    excess = nodes
    while excess > 0 and opened.loads:  # the last ordered go first
        last = opened.loads[-1]
        taken = min(excess, last.nodes)
        last.nodes -= taken
        excess -= taken
        if not last.nodes:
            opened.loads.pop()
    if opened.increase <= 0:
        opened.increase = 0
        if not opened.plans:
            del state.open[name]


def not_ordered(state: State, execution: saga.Execution) -> None:
    """Steps that were skipped: their groups are as they were, and wait for nothing."""
    for step in execution.steps:
        opened = state.open.get(step.group)
        if step.status == saga.SKIPPED and opened is not None and execution.plan in opened.plans:
            group = state.groups.get(step.group)
            if group is not None and group.wanted == step.size:
                group.wanted = None
            shrink_open(state, step.group, step.size - step.from_size, execution.plan)

"""A pod as it is: where it runs, or what is ordered for it, or why nothing is. Pure."""

from __future__ import annotations

from tidewright.kube.keys import PodKey
from tidewright.kube.predicates import UNMATCHED
from tidewright.kube.times import readable
from tidewright.provisioning.cluster.view import look
from tidewright.provisioning.group_ids import NodeGroupId
from tidewright.provisioning.index.indexing import index_of
from tidewright.provisioning.index.resolving import shape_of
from tidewright.provisioning.pack.classes import Item
from tidewright.provisioning.pack.templates import fits_reason
from tidewright.provisioning.scaleup.refusals import reasons_in
from tidewright.provisioning.state import State
from tidewright.provisioning.tell import clouds, folding, room
from tidewright.provisioning.tell.capitals import capital
from tidewright.provisioning.tell.labels import named_label, unknown_domain
from tidewright.provisioning.tell.opposites import smaller_pods


def standing(state: State, key: PodKey) -> list[str]:
    """Where it runs, which nodes come for it, or why none do and what would help."""
    pod = state.pods.get(key)
    if pod is None:
        return []
    if pod.node:
        return [f"It runs on node {pod.node}."]
    if pod.consumes:
        return [
            f"It consumes ProvisioningRequest {pod.consumes}: it never causes an increase by itself.",
            *(() if pod.consumes in state.requests else ("That request does not exist.",)),
        ]
    if not pod.waiting:
        return ["The scheduler has not said that it fits nowhere."]
    covered = [
        name
        for name, opened in sorted(state.open.items())
        if any(pod.shape in load.pods for load in opened.loads)
    ]
    if covered:
        sentences = [f"Nodes for pods like it are on their way in group {', '.join(covered)}."]
        for name in covered:
            opened, group = state.open[name], state.groups.get(name)
            if group is not None and group.boot_s:
                sentences.append(f"They are expected at {readable(opened.requested_at + group.boot_s)} UTC.")
        return sentences
    if not state.groups:
        return [
            clouds.NO_CLOUD
            if clouds.none_configured(state)
            else "Nothing is ordered for it: no node group is known.",
            *(text for text in clouds.all_clouds(state) if text != clouds.NO_CLOUD),
        ]
    return _declined(state, pod.shape)


def _declined(state: State, digest: str) -> list[str]:
    """Why nothing is ordered for pods of a shape, and what would help them."""
    if digest not in state.declined:
        return ["It waits for the next evaluation."]
    told = reasons_in(state.declined[digest])
    index = index_of(state)
    view, shape = look(state, index, state.now), shape_of(state, index, digest)
    reasons: dict[str, str] = {
        name: why
        for name, group in view.groups.items()
        if (template := group.group.template) is not None and (why := unknown_domain(shape, template.view))
    }
    for name, reason in told:
        known = view.groups.get(NodeGroupId(name))
        template = known.group.template if known is not None else None
        if reason and template is not None:
            own = fits_reason(shape, template)
            both = f"{reason}; {own}" if own == UNMATCHED != reason else reason
            reasons[name] = both.replace(UNMATCHED, named_label(UNMATCHED, shape, template.view))
        elif reason:
            reasons[name] = reason
    waiting = sum(state.pods[key].shape == digest for key in index.waiting)
    lacking = room.lack(state, (Item(shape, waiting),)) if waiting else None
    return [
        "Nothing is ordered for it.",
        *(f"{capital(folding.named(names))}: {reason}." for names, reason in folding.by_reason(reasons)),
        *(lacking.sentences if lacking is not None else ()),
        *smaller_pods(state, [digest]),
        *(room.more_nodes(state, lacking, would="all pods like it would fit") if lacking is not None else ()),
    ]

"""What is said of clouds: which one a group is of, what it last said, and that none is configured. Pure."""

from __future__ import annotations

from tidewright.kube.times import readable
from tidewright.provisioning.state import CloudState, GroupState, State

ABSENT = "absent"
NO_CLOUD = "No cloud is configured (--cloud of watcher and actuator): no nodes are ordered."


def none_configured(state: State) -> bool:
    """Whether the watcher has said that there is no cloud; before it has said anything, that is not known."""
    return any(cloud.state == ABSENT for cloud in state.clouds.values())


def of_cloud(name: str, cloud: CloudState) -> str:
    """What a cloud last said."""
    if cloud.state == ABSENT:
        return NO_CLOUD
    what = f"Cloud {name} ({cloud.kind})"
    if not cloud.error:
        return f"{what} answers."
    text = f"{what} does not answer ({cloud.error}: {cloud.message})"
    if not cloud.refreshed:
        return f"{text}, and has not been read yet."
    return f"{text}: what was read of it at {readable(cloud.refreshed)} UTC stays in force."


def wrong(state: State) -> str:
    """What cannot be read of clouds and groups, and why; empty when all can. For whoever is told of the whole cluster."""
    failing = {name: cloud for name, cloud in sorted(state.clouds.items()) if cloud.error}
    texts = [f"cloud {name} ({cloud.kind}): {cloud.message}" for name, cloud in failing.items()]
    texts += [
        f"node group {name} of cloud {group.cloud}: {group.message}"
        for name, group in sorted(state.groups.items())
        if group.error and group.message and group.cloud not in failing
    ]
    return "; ".join(texts)


def ignored(state: State) -> str:
    """What is said of groups at their clouds and cannot be read, so that it counts as not said; empty when nothing is."""
    return "; ".join(
        f"node group {name} of cloud {group.cloud}: {text}"
        for name, group in sorted(state.groups.items())
        for text in group.ignored
    )


def own_settings(group: GroupState) -> list[str]:
    """What a group has of its own of the settings, and what is said of it in vain."""
    own = group.own
    said = [
        f"{name} {value}"
        for name, value in (
            ("scale-down-unneeded-time", _seconds(own.unneeded_s)),
            ("scale-down-unready-time", _seconds(own.unready_s)),
            ("scale-down-utilization-threshold", _share(own.threshold)),
            ("scale-down-gpu-utilization-threshold", _share(own.gpu_threshold)),
            ("max-node-startup-time", _seconds(own.startup_s)),
            ("max-node-provision-time", _seconds(group.max_provision_s or None)),
            (
                "ignore-daemonsets-utilization",
                "" if own.ignore_daemonsets is None else str(own.ignore_daemonsets).lower(),
            ),
        )
        if value
    ]
    sentences = [f"Its cloud says for it: {', '.join(said)}."] if said else []
    if group.initial:
        sentences.append(f"It is to begin with {group.initial} nodes, which are ordered once.")
    return sentences + [f"Ignored: {text}." for text in group.ignored]


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:g} s"


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:g}"


def all_clouds(state: State) -> tuple[str, ...]:
    """Each cloud, by name."""
    return tuple(of_cloud(name, cloud) for name, cloud in sorted(state.clouds.items()))


def of_group(state: State, group: GroupState) -> list[str]:
    """Whose a group is, what that cloud last said, and whether an order of it is unclear."""
    sentences: list[str] = []
    if group.cloud:
        cloud = state.clouds.get(group.cloud)
        sentences.append(
            f"It is a group of cloud {group.cloud}{f' ({cloud.kind})' if cloud is not None else ''}."
        )
        if cloud is not None:
            sentences.append(of_cloud(group.cloud, cloud))
    if group.rest is not None:
        sentences.append(
            f"The answer to an order was lost at {readable(group.rest.since)} UTC, and its cloud is not asked twice:"
            " the group is left alone until two looks in a row have shown one size."
        )
    return sentences

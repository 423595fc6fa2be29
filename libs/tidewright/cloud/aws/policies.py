"""What watcher and actuator may do on AWS: the least, from the calls that the client makes. Pure."""

from __future__ import annotations

from typing import Any, Final

READS: Final[dict[str, tuple[str, ...]]] = {
    "autoscaling": (
        "DescribeAutoScalingGroups",
        "DescribeLaunchConfigurations",
        "DescribeScalingActivities",
    ),
    "ec2": (
        "DescribeInstanceTypes",
        "DescribeLaunchTemplateVersions",
        "GetInstanceTypesFromInstanceRequirements",
    ),
    "eks": ("DescribeNodegroup",),
}
"""The watcher's calls, by service. A test holds all of these to the client's text."""
LOOKS: Final = ("DescribeAutoScalingGroups",)
"""The actuator's look before an order."""
WRITES: Final = ("SetDesiredCapacity", "TerminateInstanceInAutoScalingGroup")
TAG: Final = "k8s.io/cluster-autoscaler/enabled"
"""The tag that the two writing calls are bound to; one's own is put in its place."""


def watcher() -> dict[str, Any]:
    """The watcher's policy document."""
    actions = [f"{service}:{name}" for service, names in READS.items() for name in names]
    return _document({"Sid": "Read", "Effect": "Allow", "Action": actions, "Resource": "*"})


def actuator() -> dict[str, Any]:
    """The actuator's policy document."""
    return _document(
        {"Sid": "Look", "Effect": "Allow", "Action": [f"autoscaling:{n}" for n in LOOKS], "Resource": "*"},
        {
            "Sid": "Write",
            "Effect": "Allow",
            "Action": [f"autoscaling:{name}" for name in WRITES],
            "Resource": "*",
            "Condition": {"StringEquals": {f"aws:ResourceTag/{TAG}": "true"}},
        },
    )


def _document(*statements: dict[str, Any]) -> dict[str, Any]:
    return {"Version": "2012-10-17", "Statement": list(statements)}

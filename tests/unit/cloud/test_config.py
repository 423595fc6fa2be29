"""The simulated cloud's file: numbers where the docs say a number, and one line for what cannot be."""

from __future__ import annotations

import pytest

from tidewright.sim.cloud.config import ConfigError, parse
from tidewright.sim.options import Delay

TEMPLATE = 'template: {capacity: {cpu: "1", memory: 1Gi, pods: "1"}}'


@pytest.mark.parametrize(
    ("boot", "delay"),
    [("0", Delay()), ("2", Delay(a_s=2.0)), ("0.5", Delay(a_s=0.5)), ('"3"', Delay(a_s=3.0)), ("uniform:1:5", Delay(kind="uniform", a_s=1.0, b_s=5.0))],
)  # fmt: skip
def test_a_delay_is_a_number_or_a_distribution(boot: str, delay: Delay) -> None:
    text = (
        f"groups: [{{id: a, boot: {boot}, delete: {boot}, faults: {{answer_delay: {boot}}}, {TEMPLATE}}}]\n"
        f"machines: [{{name: m, boot: {boot}, delete: {boot}, {TEMPLATE}}}]\n"
    )
    config = parse(text, "groups.yaml")
    group, machine = config.groups[0], config.machines[0]
    for found in (group.boot, group.delete, group.faults.answer_delay, machine.boot, machine.delete):
        assert Delay.parse(found) == delay


def test_amounts_of_a_template_need_no_quotes() -> None:
    text = (
        "groups: [{id: a, template: {capacity: {cpu: 8, memory: 32Gi, pods: 110}, allocatable: {cpu: 7.5}}}]"
    )
    template = parse(text, "groups.yaml").groups[0].template
    assert template.capacity == {"cpu": "8", "memory": "32Gi", "pods": "110"}
    assert template.allocatable == {"cpu": "7.5"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"groups: [{{id: a, boot: -1, {TEMPLATE}}}]", "groups.yaml: group 'a': boot: delay"),
        (f"groups: [{{id: a, boot: .inf, {TEMPLATE}}}]", "groups.yaml: group 'a': boot: delay"),
        (f"groups: [{{id: a, boot: true, {TEMPLATE}}}]", "groups.yaml, line 1: groups[0].boot: Expected"),
        (f"machines: [{{name: m, delete: soon, {TEMPLATE}}}]", "groups.yaml: machine 'm': delete: delay 'soon'"),
        ("groups: [{id: a, template: {capacity: {cpu: [8]}}}]", "groups.yaml, line 1: groups[0].template.capacity[...]: Expected"),
        ("groups: [{id: a, template: {capacity: {cpu: true}}}]", "groups.yaml, line 1: groups[0].template.capacity[...]: Expected"),
        ("groups: []\n---\ngroups: []\n", "groups.yaml, line 3: a second document begins"),
        ("groups:\n  - id: a\n    bot: 1\n", "groups.yaml, line 3: groups[0]: field 'bot' is not known; valid are "),
    ],
)  # fmt: skip
def test_what_cannot_be_is_one_line_that_says_what_can(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse(text, "groups.yaml")
    assert str(refused.value).startswith(said)
    assert "\n" not in str(refused.value)

"""A decider that follows another's decisions may read what came of them, of the kinds that it names."""

from __future__ import annotations

from hashlib import blake2b

import pytest

from tidewright.events.outcomes import Applied
from tidewright.host.fold.inputs import Inputs
from tidewright.log.input_set import INPUTS_BYTES, InputSet
from tidewright.log.subjects import ALL, Slot, Subjects

SUBJECTS = Subjects("prod")
BEFORE = InputSet(("pod",))
FOLLOWING = Inputs(
    "nodes",
    frozenset({"pod"}),
    SUBJECTS,
    32,
    "cluster",
    frozenset({"scaler"}),
    formerly=(BEFORE,),
    outcomes=frozenset({"deployment"}),
)
OTHERS = Inputs("nodes", frozenset({"pod"}), SUBJECTS, 32, "cluster", frozenset({"scaler"}))


@pytest.mark.parametrize(
    ("inputs", "kind", "slot", "read"),
    [
        (FOLLOWING, "deployment", Slot("7"), True),
        (FOLLOWING, "pod", Slot("7"), False),
        (FOLLOWING, "pod", ALL, True),
        (OTHERS, "deployment", Slot("7"), False),
    ],
)
def test_outcomes_of_other_slots_are_read_of_the_kinds_that_are_named(
    inputs: Inputs, kind: str, slot: Slot, read: bool
) -> None:
    assert inputs.reads(SUBJECTS.outcome(slot, kind, "shop", "web"), {ALL}, recorded=False) is read


@pytest.mark.parametrize(
    ("inputs", "decision", "folded"),
    [
        (FOLLOWING, "scaler.7.12.0", True),
        (FOLLOWING, "nodes.all.12.0", True),
        (FOLLOWING, "spread.7.12.0", False),
        (OTHERS, "scaler.7.12.0", False),
    ],
)
def test_what_came_of_whose_decisions_is_folded(inputs: Inputs, decision: str, folded: bool) -> None:
    assert inputs.concerns(Applied(at=1.0, decision=decision)) is folded


def test_a_set_of_before_leaves_them_out_and_is_called_as_it_was() -> None:
    subject = SUBJECTS.outcome(Slot("7"), "deployment", "shop", "web")
    assert FOLLOWING.token(subject) == "outcome.deployment"
    assert FOLLOWING.today.tokens - BEFORE.tokens == {"decision.scaler", "outcome.deployment"}
    assert FOLLOWING.today.digest != OTHERS.today.digest
    told = b'{"kinds":["pod"],"follows":[]}'
    assert BEFORE.digest == blake2b(told, digest_size=INPUTS_BYTES).hexdigest()

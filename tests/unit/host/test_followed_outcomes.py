"""A decider that follows another's decisions may read what came of them: of the kinds that it names, or of all but those."""

from __future__ import annotations

from dataclasses import replace
from hashlib import blake2b

import msgspec
import pytest

from tidewright.events.outcomes import Applied
from tidewright.host.fold.inputs import Inputs
from tidewright.log.checkpoint import Checkpoint
from tidewright.log.input_set import INPUTS_BYTES, InputSet, Tokens
from tidewright.log.subjects import ALL, Slot, Subjects

SUBJECTS = Subjects("prod")
BEFORE = InputSet(("pod",))
OTHERS = Inputs("nodes", frozenset({"pod"}), SUBJECTS, 32, "cluster", frozenset({"scaler"}))
FOLLOWING = replace(OTHERS, formerly=(BEFORE,), outcomes=frozenset({"deployment"}))
ALL_BUT = replace(OTHERS, formerly=(BEFORE, FOLLOWING.today), outcomes_but=frozenset({"pod"}))


@pytest.mark.parametrize(
    ("inputs", "kind", "slot", "read"),
    [
        (FOLLOWING, "deployment", Slot("7"), True),
        (FOLLOWING, "pod", Slot("7"), False),
        (FOLLOWING, "pod", ALL, True),
        (FOLLOWING, "fleet", Slot("7"), False),
        (ALL_BUT, "deployment", Slot("7"), True),
        (ALL_BUT, "fleet", Slot("7"), True),
        (ALL_BUT, "pod", Slot("7"), False),
        (ALL_BUT, "pod", ALL, True),
        (OTHERS, "deployment", Slot("7"), False),
    ],
)
def test_outcomes_of_other_slots_are_read_of_the_kinds_that_are_named_or_of_all_but_those(
    inputs: Inputs, kind: str, slot: Slot, read: bool
) -> None:
    for recorded in (False, True):
        assert inputs.reads(SUBJECTS.outcome(slot, kind, "shop", "web"), {ALL}, recorded=recorded) is read


def test_what_came_of_its_own_decisions_is_the_same_for_every_set() -> None:
    """Also about kinds that some of the sets have: what older software folded of it would seem to be missing."""
    for inputs in (FOLLOWING, ALL_BUT):
        for kind in ("deployment", "fleet", "pod"):
            assert inputs.token(SUBJECTS.outcome(ALL, kind, "shop", "web")) == ""


@pytest.mark.parametrize(
    ("inputs", "decision", "folded"),
    [
        (FOLLOWING, "scaler.7.12.0", True),
        (FOLLOWING, "nodes.all.12.0", True),
        (FOLLOWING, "spread.7.12.0", False),
        (ALL_BUT, "scaler.7.12.0", True),
        (ALL_BUT, "spread.7.12.0", False),
        (OTHERS, "scaler.7.12.0", False),
    ],
)
def test_what_came_of_whose_decisions_is_folded(inputs: Inputs, decision: str, folded: bool) -> None:
    assert inputs.concerns(Applied(at=1.0, decision=decision)) is folded


def test_a_set_of_before_leaves_them_out_and_is_called_as_it_was() -> None:
    subject = SUBJECTS.outcome(Slot("7"), "deployment", "shop", "web")
    assert FOLLOWING.token(subject) == "outcome.deployment"
    more = Tokens(frozenset({"decision.scaler", "outcome.deployment"}))
    assert FOLLOWING.today.tokens - BEFORE.tokens == more
    assert FOLLOWING.today.digest != OTHERS.today.digest
    told = b'{"kinds":["pod"],"follows":[]}'
    assert BEFORE.digest == blake2b(told, digest_size=INPUTS_BYTES).hexdigest()


def test_a_set_with_all_but_some_is_told_apart_by_who_knows_it_and_one_of_an_unknown_form_is_not_known() -> (
    None
):
    subject = SUBJECTS.outcome(Slot("7"), "fleet", "shop", "arena")
    assert ALL_BUT.token(subject) == "outcome.fleet"
    assert ALL_BUT.filters(ALL_BUT.today.tokens - FOLLOWING.today.tokens, ALL) == [
        f"{SUBJECTS.root}.outcome.*.*.>"
    ]
    today = ALL_BUT.today
    checkpoint = Checkpoint(
        at=1.0, position=1, epoch=1, incarnation="i", commit=1, inputs=today.digest, reads=today
    )
    assert FOLLOWING.named(checkpoint) == today
    newer = msgspec.structs.replace(
        checkpoint, reads=InputSet(today.kinds, today.follows)
    )  # as who does not know it reads it
    assert FOLLOWING.named(newer) is None

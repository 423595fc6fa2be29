"""Sets of tokens, some of which have all outcomes but a few: what is true of finite sets is true of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidewright.log.input_set import InputSet, Tokens

MENTIONED = ("fact.pod", "decision.scaler", "outcome.deployment", "outcome.pod", "outcome.lease")
EVERYTHING = (*MENTIONED, "fact.other", "decision.other", "outcome.fleet")
"""Some, and of each class one that no set names."""


@st.composite
def sets(draw: st.DrawFn) -> Tokens:
    named = draw(st.frozensets(st.sampled_from(MENTIONED)))
    but = draw(st.none() | st.frozensets(st.sampled_from(MENTIONED[2:])))
    return Tokens(named) if but is None else Tokens(named) | Tokens(but=but)


def of(tokens: Tokens) -> set[str]:
    return {token for token in EVERYTHING if token in tokens}


@given(sets(), sets())
def test_they_are_joined_and_taken_apart_like_sets(one: Tokens, other: Tokens) -> None:
    assert of(one | other) == of(one) | of(other)
    assert of(one & other) == of(one) & of(other)
    assert of(one - other) == of(one) - of(other)
    assert (one <= other) == (of(one) <= of(other))
    assert bool(one) == bool(of(one))
    assert (one == other) == (of(one) == of(other))


@given(sets())
def test_their_patterns_take_all_that_they_have_and_no_two_of_them_the_same(tokens: Tokens) -> None:
    def matching(token: str) -> int:
        return sum(pattern in (token, f"{token.partition('.')[0]}.*") for pattern in tokens.patterns)

    assert all(matching(token) == 1 for token in of(tokens))
    assert all(matching(token) <= 1 for token in EVERYTHING)


def test_a_set_of_inputs_that_reads_all_outcomes_but_some_has_another_name_and_those_of_before_keep_theirs() -> (
    None
):
    before = InputSet(("pod",), ("scaler",), ("deployment",))
    today = InputSet(("pod",), ("scaler",), outcomes_but=("lease", "pod"))
    assert before.digest == "ff32d106bd090815"
    assert InputSet(("pod",)).digest == "ba3b93c59fe26799"
    assert today.digest not in (before.digest, InputSet(("pod",), ("scaler",)).digest)
    assert before.tokens <= today.tokens
    assert (today.tokens - before.tokens).patterns == ["outcome.*"]
    assert "outcome.fleet" in today.tokens - before.tokens
    assert "outcome.deployment" not in today.tokens - before.tokens
    assert "outcome.pod" not in today.tokens

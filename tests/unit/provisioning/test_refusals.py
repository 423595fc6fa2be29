"""What a refusal said is kept in one text, and read again for people."""

from tidewright.events.provisioning import GroupVerdict
from tidewright.provisioning.scaleup.refusals import reasons_in, signature


def test_reasons_are_read_back_group_by_group() -> None:
    reasons = [("a", "Insufficient cpu"), ("projects/p/b", "node(s) didn't match x=y"), ("chosen", "")]
    verdicts = [GroupVerdict(group=group, reason=reason) for group, reason in reasons]
    assert reasons_in(signature(verdicts)) == reasons


def test_another_reason_is_another_refusal() -> None:
    short, full = (GroupVerdict(group="a", reason=reason) for reason in ("Insufficient cpu", "max size"))
    assert signature([short]) != signature([full])
    assert signature([]) == ""
    assert reasons_in("") == []

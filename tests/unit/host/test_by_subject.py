"""What is known of a subject by its class, slot and kind is worked out once for all objects."""

from __future__ import annotations

from tidewright.host.fold.inputs import BySubject


def test_it_is_worked_out_once_per_class_slot_and_kind() -> None:
    asked: list[str] = []

    def work_out(subject: str) -> str:
        asked.append(subject)
        return ".".join(subject.split(".")[:5])

    known = BySubject(work_out)
    subjects = [
        "tw.c.fact.3.pod.ns.a",
        "tw.c.fact.3.pod.ns.b",
        "tw.c.fact.3.pod",
        "tw.c.fact.4.pod.ns.a",
        "tw.c.fact",
    ]
    assert [known[s] for s in subjects * 2] == [".".join(s.split(".")[:5]) for s in subjects] * 2
    assert asked == [subjects[0], *subjects[3:]]


def test_what_is_kept_is_bounded_whatever_subjects_come() -> None:
    known = BySubject(len)
    known.AT_MOST = 10
    for n in range(1000):
        subject = f"tw.c.fact.0.kind-{n}.ns.name"
        assert known[subject] == len(subject)
    assert len(known) <= 10
    assert len(known._of_kind) <= 10

"""What a signature is made of: the same bytes for ever, however it is worked out."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.log.authenticated import Authority
from tidewright.log import keyfiles, signing
from tidewright.log.belief import Cause
from tidewright.log.envelope import BATCH_COMMIT, BATCH_ID, BATCH_SEQUENCE, EXPECTED, SCHEDULE
from tidewright.log.keyring import Keys
from tidewright.log.reader import Record
from tidewright.log.signer import Signer
from tidewright.log.subjects import Subjects

words = st.text(st.characters(codec="utf-8"), max_size=20)
messages = st.lists(
    st.tuples(
        words,
        st.binary(max_size=40),
        st.dictionaries(st.sampled_from(["Tw-Id", "Tw-Cause", SCHEDULE, EXPECTED]) | words, words),
    ),
    max_size=6,
)


@given(messages)
def test_a_writer_and_a_reader_digest_a_message_alike(sent: list[tuple[str, bytes, dict[str, str]]]) -> None:
    names = {BATCH_ID: "b" * 32, BATCH_SEQUENCE: "1"}

    stored = [(subject, body, headers | names) for subject, body, headers in sent]

    assert signing.manifest_of(sent) == b"".join(
        signing.digest(signing.FORMATS["2 "], *message) for message in stored
    )


def a_commit() -> list[tuple[str, bytes, dict[str, str]]]:
    return [
        ("tw.test.fact.3.pod.a.web", b'{"at":1.0}', {"Tw-Id": "watcher.1", "Tw-Writer": "watcher"}),
        ("tw.test.fact.4.pod.b.db", b"", {"Tw-Id": "watcher.2", SCHEDULE: "@at 2030-01-01T00:00:00Z"}),
        ("tw.test.checkpoint.all.watcher", b"{}", {"Tw-Id": "watcher.3", EXPECTED: "17"}),
    ]


FORMERLY = {
    "Tw-Manifest": "GFKIvxz2IOyiWwdJlGsXUnN9EpXpSXfNTQwqg/xyn1xvZ8+biiBjRZA3D0a4+Oh7zgVz",
    "Tw-Signature": "Csg30kIP1LkxHIWVWR7986veMlZu7ukVZuAFrH8LSj4Pv4bOoFlFDbXngXeQOVsK74w8lVp43NasZxEpXVJjCw==",
}
"""Of the commit above under a key of 32 times 7, as the first format has it: what lies on logs is read for ever."""
SIGNED = {
    "Tw-Manifest": "ydArLk8qr0dzBUkafaR6inOzF+h7jrzGLwOYOdcO964NZ7p1ztTv2YPY0e0eMqxgsSdz",
    "Tw-Signature": "2 l68bD7aXi+RjH4JzZZlkmgAPrgZOjZWjMOkDV0FJvWqMIdnQ+34frwNtba080TXn4bd9yJE5YoZIkCMD46GkBA==",
}
"""The same as it is written now."""


@pytest.mark.parametrize("formerly", [False, True])
def test_what_was_once_signed_is_believed_for_ever(tmp_path: Path, formerly: bool) -> None:
    authority, key = Authority(tmp_path), Ed25519PrivateKey.from_private_bytes(bytes([7]) * 32)
    keyfiles.write_private(tmp_path / "watcher.key", key)
    authority.keys["watcher"] = [key]
    keys = Keys(authority.record(), Subjects("test"))
    signer = Signer("watcher", tmp_path / "watcher.key")
    signer.follow(keys)

    sent = a_commit()
    signer.sign(sent)

    assert {name: sent[-1][2][name] for name in SIGNED} == SIGNED
    if formerly:
        sent[-1][2].update(FORMERLY)
    records = []
    for n, (subject, body, headers) in enumerate(sent, 1):
        headers |= {BATCH_ID: "b", BATCH_SEQUENCE: str(n)} | ({BATCH_COMMIT: "1"} if n == len(sent) else {})
        records.append(Record(20 + n, subject, body, headers))
    commit = signing.commit_of(records[-1], keys)
    assert [signing.judged(record, 2 - n, commit, keys) for n, record in enumerate(records)] == [None] * 3
    swapped = [records[1], records[0], records[2]]
    assert [signing.judged(record, 2 - n, commit, keys) for n, record in enumerate(swapped)] == [
        Cause.ALTERED, Cause.ALTERED, None,
    ]  # fmt: skip

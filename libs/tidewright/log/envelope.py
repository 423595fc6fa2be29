"""Who wrote a message, and why: the headers of every message on the log.

The body is what counts for folding and for verification; headers are for people, traces and audits. What a process says in each of
its messages comes first, and what is another one each time together behind it: an archive compresses that better.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping

import msgspec

from tidewright.events.version import __version__

ID = "Tw-Id"
CAUSE = "Tw-Cause"
CAUSE_SEQ = "Tw-Cause-Seq"
WRITER = "Tw-Writer"
INCARNATION = "Tw-Incarnation"
VERSION = "Tw-Version"
TRACEPARENT = "traceparent"
LEFT = "Tw-Left"
SIGNER = "Tw-Signer"
MANIFEST = "Tw-Manifest"
SIGNATURE = "Tw-Signature"
SCHEDULER = "Nats-Scheduler"
SCHEDULE = "Nats-Schedule"
EXPECTED_STREAM = "Nats-Expected-Stream"
EXPECTED = "Nats-Expected-Last-Subject-Sequence"
EXPECTED_OF = "Nats-Expected-Last-Subject-Sequence-Subject"
BATCH_ID, BATCH_SEQUENCE, BATCH_COMMIT = "Nats-Batch-Id", "Nats-Batch-Sequence", "Nats-Batch-Commit"
MAX_BATCH = 1000
"""Messages in one atomic batch; the server's limit."""


def writer_of(subject: str, headers: Mapping[str, str]) -> str:
    """Who says to have written a message; of a checkpoint its subject does. Empty for nobody."""
    _, _, cls, *place = [*subject.split(".", 4), "", ""]
    return headers.get(WRITER) or (place[1].partition(".")[0] if cls == "checkpoint" else "")


class Writer(msgspec.Struct, frozen=True):
    """One process as a writer.

    Attributes:
        service: its name on the bus.
        incarnation: random per process start, so that a restarted process is not taken for its
            former self.
        version: of the software; of a decider with a digest of its code.
    """

    service: str
    incarnation: str = msgspec.field(default_factory=lambda: secrets.token_hex(8))
    version: str = __version__

    def headers(
        self, message_id: str = "", *, cause: str = "", cause_seq: int = 0, trace: str = ""
    ) -> dict[str, str]:
        """A fresh header dict (the client writes into the one that it is given).

        Facts have no id, nor have outcomes: where they lie is what they are called by, and an outcome's body names its decision.
        """
        headers = {WRITER: self.service, INCARNATION: self.incarnation, VERSION: self.version}
        if message_id:
            headers[ID] = message_id
        if cause:
            headers[CAUSE] = cause
        if cause_seq:
            headers[CAUSE_SEQ] = str(cause_seq)
        if trace:
            headers[TRACEPARENT] = trace
        return headers

    def of_checkpoint(self, commit: int, *, version: bool = True) -> dict[str, str]:
        """Of a checkpoint, a fresh header dict: what is held against its body. Whose it is, its subject says.

        `version` where the body does not say all of it.
        """
        headers = {INCARNATION: self.incarnation}
        return headers | ({VERSION: self.version} if version else {}) | {ID: str(commit)}

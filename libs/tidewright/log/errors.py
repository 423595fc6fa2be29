"""What can go wrong with the log.

LogError
|- LogUnavailable   nobody answers, or not in time: retry with backoff
|- NoUrl            what names the servers names none: waiting does not change that
|- LogForbidden     the server refuses these credentials, or this subject
|- Conflict         an expected sequence was wrong: somebody wrote first, or an answer was lost
|- StoreFull        the server's store limit refuses the append; nothing was dropped
|  `- MessageTooLarge  the server takes no message of that size
|- WrongStream      there is no stream, or it was made with other slots
|  |- OtherCluster  it belongs to another cluster, maybe one of the same name
|  `- NoKeys        there are no keys on it, or not the key of who would sign
|- Unsound          what is on it cannot be gone on from: unreadable, or not what it was
|  `- Unbelieved    too many messages that are not believed hide the one that is asked for
|- BadKey           a file holds no key, or not one of the kind that is asked for
`- AppendRefused    the server refuses the append for another reason: a defect of ours
   `- NoConsumer    it has as many as it takes: read message by message
"""

from __future__ import annotations


class LogError(Exception):
    """Root of every error of the log that is raised on purpose."""

    reason = "LogError"


class LogUnavailable(LogError):
    """Nobody answers, or not in time."""

    reason = "LogUnavailable"


class NoUrl(LogError):
    """What names the servers is no URL, and no list of them."""

    reason = "NoUrl"


class LogForbidden(LogError):
    """The server refuses these credentials, or this subject to them."""

    reason = "LogForbidden"


class Conflict(LogError):
    """An expected sequence was wrong. The batch as a whole was refused."""

    reason = "Conflict"


class StoreFull(LogError):
    """The store limit of the server or the account is reached. Nothing was stored, nothing dropped."""

    reason = "StoreFull"


class MessageTooLarge(StoreFull):
    """A message is larger than the server takes one. Nothing was stored, nothing dropped: it waits for a higher limit as for room."""

    reason = "MessageTooLarge"


class WrongStream(LogError):
    """The stream exists, and is not ours to write."""

    reason = "WrongStream"


class OtherCluster(WrongStream):
    """The stream is that of another cluster; waiting does not change that."""

    reason = "OtherCluster"


class Unsound(LogError):
    """What is on the log cannot be gone on from. Who finds it acts on nothing until a person has looked."""

    reason = "Unsound"


class Unbelieved(Unsound):
    """What is asked for lies behind more messages that are not believed than are looked at."""

    reason = "Unbelieved"


class NoKeys(WrongStream):
    """The log has no key record that the trust anchor vouches for, or not the key of who would sign."""

    reason = "NoKeys"


class BadKey(LogError):
    """A file holds no key, or not one of the kind that is asked for."""

    reason = "BadKey"


class AppendRefused(LogError):
    """The server refused an append for a reason that no retry mends."""

    reason = "AppendRefused"


class NoConsumer(AppendRefused):
    """The server has as many consumers of a stream as it takes, whoever made them."""

    reason = "NoConsumer"

"""What can go wrong with an archive.

LogError
|- BadArchive          what lies there is not what was sealed, or cannot be gone on with
|  `- Overtaken        another archiver sealed this segment first
`- LogUnavailable
   `- StoreUnavailable the folder or bucket does not answer, or refuses
"""

from __future__ import annotations

from tidewright.log.errors import LogError, LogUnavailable


class BadArchive(LogError):
    """What lies in the archive is not what was sealed, or is not of this log or key."""

    reason = "BadArchive"


class Overtaken(BadArchive):
    """Another archiver sealed this segment first."""

    reason = "Overtaken"


class StoreUnavailable(LogUnavailable):
    """The folder or bucket does not answer, or refuses."""

    reason = "StoreUnavailable"

"""What is said of a message: believed, not believed and why, or not to be told yet."""

from __future__ import annotations

from enum import Enum
from typing import Final

from tidewright.log.belief import Cause


class Later(Enum):
    """What is said of a message whose commit the server has yet to store the rest of."""

    LATER = "later"


LATER: Final = Later.LATER
Verdict = Cause | Later | None
"""Why a message is not believed; `LATER` when that cannot be told yet; None when it is."""

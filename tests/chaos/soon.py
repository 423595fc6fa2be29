"""A service whose slots say within a second how far they have read: what is played step by step waits for that.

Otherwise a checkpoint may follow by two minutes what it covers, where nothing is decided (decision 0091).
"""

from __future__ import annotations

from tidewright.cli.main import main
from tidewright.host.loop import host

host.COMMIT_AFTER_S = host.COMMIT_FIRST_S

if __name__ == "__main__":
    main()

"""How a child of a console begins in tests: as the console has it, but for its priority.

At the lowest one a second of processor time takes minutes while as many tests run as the machine has cores for, and more.
"""

from __future__ import annotations

import threading

from tidewright.console import apart


def begin(parent: int) -> None:
    """In the child: gone when whoever asks is gone."""
    threading.Thread(target=apart._end_with, args=(parent,), daemon=True).start()

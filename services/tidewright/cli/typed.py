"""How a user types one of the commands of this installation, so that what we print can be copied."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path


def typed(name: str) -> str:
    """`name` when the shell finds it; otherwise the path of the one beside our interpreter, if it is there."""
    beside = Path(sys.executable).parent / name
    if shutil.which(name) is not None or not beside.exists():
        return name
    relative = os.path.relpath(beside)
    return str(beside) if relative.startswith("..") else relative

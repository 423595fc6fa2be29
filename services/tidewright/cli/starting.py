"""What the process of a service does without: to be imported before anything else that logs.

structlog imports rich where it is installed, for tracebacks that our logs do not have. That is a tenth of a service's start.
"""

from __future__ import annotations

import importlib
import sys

if "structlog" not in sys.modules and "rich" not in sys.modules:
    sys.modules["rich"] = None  # type: ignore[assignment]  # as if it were not installed
    try:
        importlib.import_module("structlog")
    finally:
        del sys.modules["rich"]

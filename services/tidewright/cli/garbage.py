"""How seldom a command looks for garbage: to be imported before anything that makes many objects.

A process begins with some hundred thousand objects, none of which is garbage, and most of them are made by imports. A
service has the threshold as it was from its start on.
"""

from __future__ import annotations

import gc

NEW_OBJECTS = 50_000
"""After so many new ones a command looks for garbage among them."""

gc.set_threshold(NEW_OBJECTS)

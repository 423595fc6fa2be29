"""How seldom a command looks for garbage: to be imported before anything that makes many objects.

A process begins with some hundred thousand objects, none of which is garbage, and most of them are made by imports. A
service has the threshold as it was from its start on.
"""

from __future__ import annotations

import gc

NEW_OBJECTS = 100_000
"""After so many new ones a command looks for garbage among them: more than a plain question makes in all."""

gc.set_threshold(NEW_OBJECTS)


def later() -> None:
    """Look for none until `again`: all that is made until then is there to stay."""
    gc.disable()


def again() -> None:
    """Look for some from here on, and never among what is there now."""
    gc.freeze()
    gc.enable()


def leave() -> None:
    """Look for none any more: a process that ends gives all of its memory back at once, and the interpreter looks several times.

    To be called behind everything else: what is still open then, nobody closes.
    """
    gc.freeze()

"""Parts of an evaluation by the names under which the reference tells how long they take. Spec 3.10."""

from __future__ import annotations

from typing import Final

MAIN: Final = "main"
UPDATE_STATE: Final = "updateClusterState"
FILTER: Final = "filterOutSchedulable"
SCALE_UP: Final = "scaleUp"
FIND_UNNEEDED: Final = "findUnneeded"
SCALE_DOWN: Final = "scaleDown"

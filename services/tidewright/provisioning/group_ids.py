"""Node groups by their ids, as the cloud gives them."""

from __future__ import annotations

from typing import NewType

NodeGroupId = NewType("NodeGroupId", str)
"""Tells groups from nodes, instances and plans; at run time the id itself."""

NO_GROUP = NodeGroupId("")
"""In place of an id where there is none."""

"""Forecasts are computed by nothing that may differ between processors: integers, + - x / and sqrt."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import tidewright.autoscaler.forecast as package

MODULES = sorted(Path(package.__path__[0]).glob("*.py"))
EXACT = {
    "sqrt",  # correctly rounded everywhere, by IEEE 754
}

TEXTS_AND_DATES = {"calendar", "datetime", "re", "typing"}
"""Dates of the calendar are integers; no zone that a machine knows is asked for (`zoneinfo`)."""


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.stem)
def test_only_what_is_rounded_alike_everywhere_is_computed(module: Path) -> None:
    tree = ast.parse(module.read_text(encoding="utf-8"))
    imported: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported |= {name.name.partition(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            imported.add(node.module.partition(".")[0])
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "math":
            assert node.attr in EXACT, f"{module.name}, line {node.lineno}: math.{node.attr}"
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
            base, exponent = node.left, node.right
            assert isinstance(base, ast.Constant), f"{module.name}, line {node.lineno}: a power"
            assert isinstance(exponent, ast.Constant), f"{module.name}, line {node.lineno}: a power"
    assert (
        imported
        <= {"__future__", "collections", "functools", "hashlib", "math", "msgspec", "tidewright"}
        | TEXTS_AND_DATES
    )


def test_there_is_something_to_look_at() -> None:
    assert {"season", "ripple", "load", "learnt", "asked"} <= {module.stem for module in MODULES}

"""The docstring of a package is the map of its rooms."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAPPED = ("libs/tidewright", "services/tidewright")
GENERATED = "wire"
PACKAGES = sorted(
    init.parent
    for mapped in MAPPED
    for init in (ROOT / mapped).rglob("__init__.py")
    if init.parent.name != GENERATED
)


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: str(package.relative_to(ROOT)))
def test_every_module_is_named_in_the_docstring_of_its_package(package: Path) -> None:
    said = ast.get_docstring(ast.parse((package / "__init__.py").read_text())) or ""
    rooms = {file.stem for file in package.glob("*.py")} | {
        init.parent.name for init in package.glob("*/__init__.py")
    }
    unnamed = sorted(
        room
        for room in rooms - {"__init__"}
        if not re.search(rf"(?m)(?:^\s*|[;,] ){room}/?(?:[:,]|\s)", said)
    )
    assert not unnamed, (
        f"say in the docstring of {package.relative_to(ROOT)}/__init__.py what is in: {', '.join(unnamed)}"
    )

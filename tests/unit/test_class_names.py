"""A class name has one meaning in a service, and in a library: who reads it need not ask from where it was imported."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = [
    package
    for home in ("services", "libs")
    for package in sorted((ROOT / home / "tidewright").iterdir())
    if (package / "__init__.py").is_file()
]


def places_of_classes(package: Path) -> dict[str, list[str]]:
    """Class name to where a package defines it, private ones and those within functions too."""
    places: dict[str, list[str]] = defaultdict(list)
    for file in sorted(package.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(f"{file.relative_to(package.parent)}:{node.lineno}")
    return places


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
def test_a_class_name_has_one_meaning(package: Path) -> None:
    places = places_of_classes(package)
    assert places, f"{package} defines no class: is it still the folder of a service or library?"
    twice = [f"{name}: {' and '.join(found)}" for name, found in sorted(places.items()) if len(found) > 1]
    assert not twice, "defined more than once, give each a name that says what it is: " + "; ".join(twice)


def test_every_place_of_a_name_is_seen(tmp_path: Path) -> None:
    room = tmp_path / "shop" / "room"
    room.mkdir(parents=True)
    (tmp_path / "shop" / "plans.py").write_text("class Plan: ...\nclass Step: ...\n")
    (room / "passes.py").write_text("def made():\n    class Plan: ...\n")
    assert places_of_classes(tmp_path / "shop") == {
        "Plan": ["shop/plans.py:1", "shop/room/passes.py:2"],
        "Step": ["shop/plans.py:2"],
    }

"""What is written for people: every link leads somewhere, and every record of a decision has a number of its own."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *(
            page
            for part in ("docs", "deploy", "examples", "proto", "tests")
            for page in (ROOT / part).rglob("*.md")
        ),
    ]
)
_CODE = re.compile(r"```.*?```", re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_ELSEWHERE = re.compile(r"[a-z]+:")


def anchors(page: Path) -> set[str]:
    """Of a page's headings, as forges make them; several of one name get numbers."""
    found: Counter[str] = Counter()
    named = set()
    for heading in re.findall(r"^#+ (.*)$", _CODE.sub("", page.read_text()), re.MULTILINE):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading.replace("`", "")).strip().lower()
        slug = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        named.add(f"{slug}-{found[slug]}" if found[slug] else slug)
        found[slug] += 1
    return named


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in _LINK.findall(_CODE.sub("", page.read_text())):
        if _ELSEWHERE.match(target):
            continue
        path, _, anchor = target.partition("#")
        found = (page.parent / path).resolve() if path else page
        assert found.exists(), target
        assert found.is_relative_to(ROOT), f"{target} is not in the project"
        assert not anchor or found.suffix != ".md" or anchor in anchors(found), target


def test_records_of_decisions_have_numbers_of_their_own() -> None:
    numbers = Counter(page.name[:4] for page in (ROOT / "docs" / "decisions").glob("*.md"))
    assert [number for number, many in numbers.items() if many > 1] == []
    for page in (ROOT / "docs" / "decisions").glob("*.md"):
        assert page.read_text().startswith(f"# {int(page.name[:4])}. "), page.name

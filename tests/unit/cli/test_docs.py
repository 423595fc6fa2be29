"""What is written for people: every link leads somewhere, and every record of a decision has a number of its own."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tidewright.asking.services import EVERY
from tidewright.cli.contract import site
from tidewright.cli.contract.reference import series, settings
from tidewright.events.registry import BY_NAME
from tidewright.provisioning import flags as provisioning

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


def in_navigation(part: Any) -> set[str]:
    """Pages that the site's navigation names."""
    match part:
        case str():
            return {part}
        case list():
            return set().union(*map(in_navigation, part))
        case _:
            return in_navigation(list(part.values()))


def test_the_navigation_has_every_page() -> None:
    navigation = tomllib.loads((ROOT / "zensical.toml").read_text())["project"]["nav"]
    pages = {page for page in site.pages() if not re.fullmatch(r"decisions/\d.*", page)}
    assert in_navigation(navigation) == pages


def test_the_site_is_made_and_no_link_of_it_leads_nowhere(tmp_path: Path) -> None:
    site.write(tmp_path / "build" / "pages")
    (tmp_path / "zensical.toml").write_text((ROOT / "zensical.toml").read_text())
    build = [str(Path(sys.executable).parent / "zensical"), "build", "--strict"]
    made = subprocess.run(build, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stdout + made.stderr
    assert (
        "numbers that it worked with"
        in (tmp_path / "build" / "site" / "writing-a-decider" / "index.html").read_text()
    )


def test_links_are_changed_to_where_pages_are_on_the_site() -> None:
    pages = site.pages()
    assert "[Deploying](deploying.md)" in pages["concepts.md"]
    assert "(`proto`)" in pages["index.md"]
    assert "[decisions taken](decisions/index.md)" in pages["index.md"]


def test_every_event_setting_and_series_has_its_entry() -> None:
    events = (ROOT / "docs" / "reference" / "events.md").read_text()
    assert [tag for tag in BY_NAME if f"`{tag}`" not in events] == []
    assert [key for key in provisioning.KEYS if f"| `{key}` |" not in settings.page()] == []
    known = {one.name for those in series.every().values() for one in those}
    for service in EVERY:
        for family in text_string_to_metric_families(
            (ROOT / "tests" / "recorded" / "metrics" / f"{service}.txt").read_text()
        ):
            name = family.name.removesuffix("_created")  # the client library says when a counter began
            told = {name, f"{name}_total"}
            library = family.name.startswith(("python_", "process_"))
            assert library or told & known, f"{service}: {family.name}"


def test_series_are_found_where_they_are_made() -> None:
    source = """
A = Counter("a_total", "Things.", ["kind", "why"], registry=r)
B = Histogram("b_seconds", "Times.", registry=r)
C = Counter(value for value in values)
"""
    assert list(series.made_in(source)) == [
        series.Series("a_total", "counter", ("kind", "why"), "Things."),
        series.Series("b_seconds", "histogram", (), "Times."),
    ]


def test_the_decider_of_the_docs_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs" / "writing-a-decider.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    module = ModuleType("decider_of_the_docs")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    assert len(blocks) == 4
    for block in blocks:
        exec(block, module.__dict__)  # it asserts for itself

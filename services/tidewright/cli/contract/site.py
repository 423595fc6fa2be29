"""The pages of the site (`make docs`), from where they lie in the repository: `docs/`, and a few beside it.

A link between pages leads to where its target is on the site. One to another file of the repository becomes its path, since
the site does not have it. The site's generator finds those that lead nowhere.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[4]
BROUGHT: Final = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "deploy/README.md": "deploying.md",
    "examples/README.md": "examples.md",
}
"""Pages from outside of `docs/` to their places on the site."""
RECORDS: Final = "decisions/index.md"
_CODE: Final = re.compile(r"(^```.*?^```$|^ {4}.*$)", re.DOTALL | re.MULTILINE)
_LINK: Final = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")


def pages(root: Path = ROOT) -> dict[str, str]:
    """Place on the site to Markdown, links changed."""
    sources = {there: here for here, there in BROUGHT.items() if (root / here).exists()}
    for page in (root / "docs").rglob("*.md"):
        sources[page.relative_to(root / "docs").as_posix()] = page.relative_to(root).as_posix()
    places = {here: there for there, here in sources.items()} | {"docs/decisions": RECORDS}
    made = {there: _linked((root / here).read_text(), here, there, places) for there, here in sources.items()}
    records = {place: text for place, text in sorted(made.items()) if place.startswith("decisions/")}
    return {**made, RECORDS: _list_of(records)}


def _linked(text: str, here: str, there: str, places: dict[str, str]) -> str:
    def placed(match: re.Match[str]) -> str:
        said, target = match.groups()
        path, _, anchor = target.partition("#")
        if not path or ":" in path:
            return match.group()
        found = normpath(PurePosixPath(here).parent / path)
        if (place := places.get(found)) is not None:
            return f"[{said}]({relpath(place, PurePosixPath(there).parent)}{'#' * bool(anchor)}{anchor})"
        if (ROOT / found).exists():
            return said if said.startswith("`") else f"{said} (`{found}`)"
        return match.group()

    return "".join(part if n % 2 else _LINK.sub(placed, part) for n, part in enumerate(_CODE.split(text)))


def _list_of(records: dict[str, str]) -> str:
    titles = [
        f"- [{text.partition(chr(10))[0].lstrip('# ')}]({PurePosixPath(place).name})"
        for place, text in records.items()
    ]
    return "\n".join(
        ["# Decisions", "", "What was decided, why, and what else was looked at.", "", *titles, ""]
    )


def write(folder: Path) -> None:
    """All pages and images in a folder, which has nothing else then."""
    shutil.rmtree(folder, ignore_errors=True)
    for place, text in pages().items():
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        (folder / place).write_text(text)
    shutil.copytree(ROOT / "docs" / "images", folder / "images")


if __name__ == "__main__":
    write(Path(sys.argv[1]))

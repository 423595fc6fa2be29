"""`make vectors`: run every case of the given files, and say what differed.

A file is recognised by its content, not its name. Says for how many of the covered cases a decider was asked (which is
seen, not said: `asked`), how many asked one rule through the function that is its only place in the product, how many
went through `reference/` and why, in which the product answers otherwise by intention and why, and ends with `N passed, N failed, N not covered`; the exit code is 1 when a
case failed, 2 when a file could not be read.
"""

from __future__ import annotations

import codecs
import dataclasses
import importlib
import json
import pkgutil
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import tests.vectors
from tests.vectors import reference
from tests.vectors.asked import watched
from tests.vectors.suite import Result, Suite, Verdict

SHOWN = 5  # failing cases shown per file


def suites() -> list[Suite]:
    """The suites of all adapters: every module beside this one that defines `SUITE`."""
    names = sorted(m.name for m in pkgutil.iter_modules(tests.vectors.__path__) if m.name != "__main__")
    modules = [importlib.import_module(f"tests.vectors.{name}") for name in names]
    return [module.SUITE for module in modules if hasattr(module, "SUITE")]


def files(arguments: list[str]) -> list[Path]:
    """The files named, and in the folders named those that hold JSON, whatever they are called."""
    found: list[Path] = []
    for path in map(Path, arguments):
        found.extend(filter(_is_json, sorted(path.rglob("*"))) if path.is_dir() else [path])
    return found


def _is_json(path: Path) -> bool:
    """Whether a file means to be JSON: by its name, or by how it begins, broken or not."""
    if not path.is_file() or path.name.startswith("."):
        return False
    if path.suffix == ".json":
        return True
    with path.open("rb") as file:
        return file.read(256).removeprefix(codecs.BOM_UTF8).lstrip()[:1] in (b"{", b"[")


def run(content: Any, known: list[Suite], asked: set[str]) -> tuple[str, list[Result]]:
    """All cases of one file, by the first suite that knows its schema; `asked` gets the names of deciders that are asked."""
    for suite in known:
        try:
            cases = suite.cases(content)
        except Exception as error:  # noqa: BLE001 - it says that it is of this schema, and is not
            said = f"is no file of this schema: {type(error).__name__}: {error}"
            return suite.name, [Result("the file", "", Verdict.FAILED, (said,))]
        if cases is not None:
            return suite.name, [_verdict(suite, case, index, asked) for index, case in enumerate(cases)]
    within = content.get("cases", content) if isinstance(content, dict) else content
    count = len(within) if isinstance(within, list) else 1
    return "unknown schema", [Result(f"#{i}", "", Verdict.NOT_COVERED) for i in range(count)]


def _verdict(suite: Suite, case: Any, index: int, asked: set[str]) -> Result:
    """One case's result; one that has not the form of its schema is a failed one, and the others go on."""
    asked.clear()
    try:
        result = _listed(suite.run(case))
        return dataclasses.replace(result, decided=bool(asked) and not result.reference)
    except Exception as error:  # noqa: BLE001 - whatever a malformed case leads to
        name = next(
            (str(case[k]) for k in ("id", "name") if isinstance(case, dict) and k in case), f"#{index}"
        )
        said = f"cannot be run: {type(error).__name__}: {error}"
        return Result(name, "", Verdict.FAILED, (said,))


def _listed(result: Result) -> Result:
    """A case may leave the product aside, or have it answer otherwise, only for a reason that is listed."""
    tags = [*([result.reference] if result.reference else []), *result.intended]
    unlisted = [tag for tag in tags if tag not in reference.tags()]
    if not unlisted:
        return result
    said = f"a tag that is not listed: {', '.join(unlisted)}"
    return dataclasses.replace(
        result, verdict=Verdict.FAILED, differences=(said, *result.differences), reference="", intended=()
    )


def summary(results: list[Result]) -> list[str]:
    """By what the covered cases were run, and why where it was not the product."""
    covered = [r for r in results if r.verdict is not Verdict.NOT_COVERED]
    tagged = Counter(r.reference for r in covered if r.reference)
    intended = [r for r in covered if r.intended]
    by = Counter(tag for r in intended for tag in r.intended)
    reasons = reference.tags()
    return [
        f"through a decider: {sum(r.decided for r in covered)}",
        f"through the product's one function for it: {sum(not r.decided and not r.reference for r in covered)}",
        f"through reference/: {tagged.total()}",
        *(f"  {tag}: {count} ({reasons[tag]})" for tag, count in sorted(tagged.items())),
        f"differs by intention, and would be the original's without: {len(intended)}",
        *(f"  {tag}: {count} ({reasons[tag]})" for tag, count in sorted(by.items())),
    ]


def report(path: Path, suite: str, results: list[Result]) -> None:
    """One file's counts, per stage where something is not passed, and its first differences."""
    total = Counter(r.verdict for r in results)
    print(f"{path.name} ({suite}): " + ", ".join(f"{total[v]} {v.value}" for v in Verdict))
    stages: dict[str, Counter[Verdict]] = {}
    for result in results:
        stages.setdefault(result.stage, Counter())[result.verdict] += 1
    for stage, counts in stages.items():
        if counts[Verdict.PASSED] != counts.total():
            print(f"  {stage or '-'}: " + ", ".join(f"{counts[v]} {v.value}" for v in Verdict if counts[v]))
    failing = [r for r in results if r.verdict is Verdict.FAILED]
    for result in failing[:SHOWN]:
        print(f"  FAILED {result.name}")
        for difference in result.differences[:SHOWN]:
            print(f"    {difference}")
    if len(failing) > SHOWN:
        print(f"  ... and {len(failing) - SHOWN} more")


def print_besides(name: str, content: Any, known: list[Suite]) -> None:
    """What a suite says of the cases of a file beside how they came out."""
    for suite in known:
        if suite.name == name and all(isinstance(case, dict) for case in suite.cases(content) or ()):
            for line in suite.besides(suite.cases(content) or ()):
                print(f"  {line}")


def main(arguments: list[str]) -> int:
    with watched() as asked:
        return _main(arguments, asked)


def _main(arguments: list[str], asked: set[str]) -> int:
    known = suites()
    everything: list[Result] = []
    unreadable = False
    paths = files(arguments)
    if not paths:
        print(
            f"no case files in {' '.join(arguments) or 'nothing'}: name files or folders of JSON",
            file=sys.stderr,
        )
        return 2
    for path in paths:
        try:
            content = json.loads(path.read_text(encoding="utf-8-sig"))
        except (OSError, ValueError) as error:
            print(f"{path}: cannot be read: {error}", file=sys.stderr)
            unreadable = True
            continue
        name, results = run(content, known, asked)
        report(path, name, results)
        print_besides(name, content, known)
        everything.extend(results)
    print("\n".join(summary(everything)))
    total = Counter(r.verdict for r in everything)
    print(", ".join(f"{total[v]} {v.value}" for v in Verdict))
    return 2 if unreadable else int(bool(total[Verdict.FAILED]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""`make bench`: every benchmark, each in its own process; a table, and `build/bench.json`.

    python -m tests.bench [WORD] [--size small|full] [--out FILE] [--kubeconfig FILE]

A module of this package takes part by naming its benchmarks in `BENCHES`. The exit code is 1 when a
benchmark failed to run; a missed target is said in the table and in the file, and is no failure: the
machine is shared.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib
import os
import pkgutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

import tests.bench
from tests.bench.figures import KUBECONFIG, Bench, Figure

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
NOT_BENCHES = {"__main__", "figures"}


def benches(naming: str = "") -> Iterator[Bench]:
    """All benchmarks of this package, by module name; or those of the modules in which this name is written."""
    for module in sorted(m.name for m in pkgutil.iter_modules(tests.bench.__path__)):
        if module not in NOT_BENCHES and naming in (HERE / f"{module}.py").read_text():
            yield from getattr(importlib.import_module(f"tests.bench.{module}"), "BENCHES", ())


def measured(bench: Bench, size: str) -> list[Figure] | str:
    """The figures of one benchmark from a process of its own, or why there are none."""
    with tempfile.TemporaryDirectory(prefix="tidewright-bench-") as folder:
        out = Path(folder) / "figures.json"
        # Nothing is found that whoever runs it, or the benchmark before, has kept, and nothing is left to them.
        own = {name: f"{folder}/{name}" for name in ("XDG_STATE_HOME", "XDG_CACHE_HOME")}
        command = [
            sys.executable,
            "-m",
            "tests.bench",
            "--one",
            bench.name,
            "--size",
            size,
            "--out",
            str(out),
        ]
        # It leads a group: what it has started (servers, replicas) ends with it, whichever way this ends.
        with subprocess.Popen(
            command, cwd=ROOT, env=os.environ | own, stdout=sys.stderr.fileno(), process_group=0
        ) as process:
            try:
                returncode = process.wait(bench.within_s)
            except subprocess.TimeoutExpired:
                return f"not done within {bench.within_s:g} s"
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
        if returncode:
            return f"ended with {returncode}"
        return msgspec.json.decode(out.read_bytes(), type=list[Figure])


def table(figures: Sequence[Figure]) -> Table:
    """All figures for a person."""
    shown = Table("figure", "value", "unit", "target", "", "baseline", "ratio", box=None, pad_edge=False)
    for column in (1, 3, 6):
        shown.columns[column].justify = "right"
    for f in figures:
        sign = "≤" if f.better == "lower" else "≥"
        verdict = {None: "", True: "[green]met[/]", False: "[red]MISSED[/]"}[f.met]
        beside = f.baseline if f.baseline_value is None else f"{f.baseline}: {f.baseline_value:,g}"
        shown.add_row(
            f.name, f"{f.value:,g}", f.unit, "" if f.target is None else f"{sign} {f.target:,g}", verdict,
            beside, "" if f.ratio is None else f"{f.ratio:,g}",
        )  # fmt: skip
    return shown


def one(name: str, size: str, out: Path) -> int:
    """The child's part: run one benchmark here and write what it found.

    It imports what this benchmark needs, not what all others do: that would be in its memory, and in each look
    for garbage. What is imported is out of those looks, as in a service (`host.process`).
    """
    bench = next(b for b in benches(f'"{name}"') if b.name == name)
    gc.freeze()
    figures = bench.run("small" if size == "small" else "full")
    out.write_bytes(msgspec.json.encode(list(figures)))
    return 0


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench", description="Benchmarks, each beside its target."
    )
    parser.add_argument("word", nargs="?", default="", help="only benchmarks with this in their name")
    parser.add_argument(
        "--size", choices=("small", "full"), default="full", help="small: only to see that they run"
    )
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "bench.json")
    parser.add_argument(
        "--kubeconfig",
        type=Path,
        help="an API server to try things on, for those benchmarks that use one, too",
    )
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.one:
        return one(options.one, options.size, options.out)
    if options.kubeconfig is not None:
        os.environ[KUBECONFIG] = str(options.kubeconfig.resolve())
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the benchmark's group ends, too
    console = Console(width=None if sys.stdout.isatty() else 160)
    every = list(benches())
    chosen = [bench for bench in every if options.word in bench.name]
    if not chosen:
        names = ", ".join(bench.name for bench in every)
        print(f"no benchmark has {options.word!r} in its name; there are: {names}", file=sys.stderr)
        return 2
    figures, failures = list[Figure](), list[str]()
    began = time.monotonic()
    for bench in chosen:
        begun = time.monotonic()
        print(f"{bench.name} ...", file=sys.stderr, flush=True)
        match measured(bench, options.size):
            case str(why):
                failures.append(f"{bench.name}: {why}")
            case found:
                figures += found
        print(f"{bench.name}: {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_bytes(msgspec.json.format(msgspec.json.encode(figures), indent=2) + b"\n")
    console.print(table(figures))
    print(f"all: {(time.monotonic() - began) / 60:.1f} min", file=sys.stderr)
    for failure in failures:
        print(f"failed: {failure}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

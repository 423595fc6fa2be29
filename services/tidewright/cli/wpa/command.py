"""`tidewright wpa dry-run ...`, and the same as the kubectl plugin `kubectl wpa dry-run ...`."""

from __future__ import annotations

import asyncio
import csv
import sys
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter

from tidewright.asking.errors import BadInput, CommandError, translated
from tidewright.cli.commands import BY_NAME, with_examples
from tidewright.cli.options import ClusterOptions
from tidewright.kube.csvtext import lines

if TYPE_CHECKING:
    from tidewright.cli.wpa.objects import Object
    from tidewright.kube.client import Kube

ENABLED, DISABLED = "enabled", "disabled"

app = App(name="wpa", help_format="plaintext", help_epilogue=BY_NAME["wpa"].epilogue)
dry_run = App(
    name="dry-run",
    help="Let WatermarkPodAutoscalers decide without scaling, or scale again.",
    help_format="plaintext",
)
app.command(dry_run)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Which:
    """Which objects are meant; a name wins over a selector.

    Attributes:
        label_selector: Those with these labels.
        all: All of the namespace.
        all_namespaces: Of every namespace; so does -n "".
        namespace: Of this namespace; that of the kubeconfig's context by default.
    """

    label_selector: Annotated[str, Parameter(name=["--label-selector", "-l"])] = ""
    all: Annotated[bool, Parameter(negative="")] = False
    all_namespaces: Annotated[bool, Parameter(name=["--all-namespaces", "-A"], negative="")] = False
    namespace: Annotated[str | None, Parameter(name=["--namespace", "-n"])] = None


Name = Annotated[str, Parameter(help="The object.")]


def _run(cluster: ClusterOptions | None, work: Callable[[Kube], Awaitable[int]]) -> int:
    from tidewright.kube.client import Kube

    at = cluster or ClusterOptions()

    async def run() -> int:
        async with await Kube.connect(at.kubeconfig, at.in_cluster, at.context) as kube:
            return await work(kube)

    with translated():
        return asyncio.run(run())


async def _meant(kube: Kube, name: str, which: Which | None, cluster: ClusterOptions | None) -> list[Object]:
    from tidewright.cli.wpa.objects import current_namespace, meant

    on, at = which or Which(), cluster or ClusterOptions()
    namespace = on.namespace if on.namespace is not None else current_namespace(at.kubeconfig, at.context)
    space = "" if on.all_namespaces else namespace
    return await meant(kube, name, on.label_selector, space, everything=on.all)


@dry_run.command(name="list")
def list_(
    name: Name = "",
    /,
    *,
    which: Which | None = None,
    cluster: ClusterOptions | None = None,
    output: Annotated[
        Literal["", "csv"], Parameter(name=["--output", "-o"], help="csv: NAMESPACE,NAME,enabled|disabled.")
    ] = "",
) -> int:
    """Whether they decide without scaling."""

    async def work(kube: Kube) -> int:
        for it in await _meant(kube, name, which, cluster):
            if output == "csv":
                print(f"{it.namespace},{it.name},{ENABLED if it.dry else DISABLED}")
            else:
                print(f"{it} dry-run option is: {_go(it.dry)}")
        return 0

    return _run(cluster, work)


@dry_run.command
def enable(name: Name = "", /, *, which: Which | None = None, cluster: ClusterOptions | None = None) -> int:
    """Decide without scaling from now on."""
    return _set(name, which, cluster, dry=True)


@dry_run.command
def disable(name: Name = "", /, *, which: Which | None = None, cluster: ClusterOptions | None = None) -> int:
    """Scale again from now on."""
    return _set(name, which, cluster, dry=False)


def _set(name: str, which: Which | None, cluster: ClusterOptions | None, *, dry: bool) -> int:
    async def work(kube: Kube) -> int:
        for it in await _meant(kube, name, which, cluster):
            await _make(kube, it, dry=dry)
        return 0

    return _run(cluster, work)


async def _make(kube: Kube, it: Object, *, dry: bool) -> None:
    """Patch one object; a refusal is said and does not keep the others from it."""
    from tidewright.cli.wpa.objects import set_dry
    from tidewright.kube.errors import KubeError

    try:
        await set_dry(kube, it, dry=dry)
    except KubeError as error:
        print(f"error: {it}: {error}", file=sys.stderr)
    else:
        print(f"{it} dry-run option is now {_go(dry)}")


@dry_run.command
def revert(
    *,
    csv_file: Annotated[
        Path | None,
        Parameter(name=["--filename", "-f"], help="As `list -o csv` wrote it; - or none: from stdin."),
    ] = None,
    cluster: ClusterOptions | None = None,
) -> int:
    """Make them what a saved list says."""
    rows = _saved(csv_file)

    async def work(kube: Kube) -> int:
        from tidewright.cli.wpa.objects import meant

        for namespace, name, dry in rows:
            try:
                (it,) = await meant(kube, name, "", namespace, everything=False)
            except CommandError as error:
                print(f"error: WatermarkPodAutoscaler '{namespace}/{name}': {error}", file=sys.stderr)
                continue
            if it.dry != dry:
                await _make(kube, it, dry=dry)
        return 0

    return _run(cluster, work)


def _saved(file: Path | None) -> list[tuple[str, str, bool]]:
    """The rows of a saved list; what is wrong with one is said, and it is left out or taken as enabled."""
    if file is None or str(file) == "-":
        if file is None and sys.stdin.isatty():
            raise BadInput("give the saved list with -f FILE, or pipe it in")
        return list(_rows(lines(sys.stdin)))
    try:
        with file.open(encoding="utf-8", newline="") as opened:
            return list(_rows(lines(opened)))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadInput(f"--filename {file}: cannot be read: {error}") from error


def _rows(text: Iterable[str]) -> Iterable[tuple[str, str, bool]]:
    for number, row in enumerate(csv.reader(text), start=1):
        if not row:
            continue
        if len(row) != 3:
            print(
                f"line {number}: {len(row)} columns, 3 are needed (NAMESPACE,NAME,enabled): skipped",
                file=sys.stderr,
            )
            continue
        namespace, name, word = (cell.strip() for cell in row)
        if word not in (ENABLED, DISABLED):
            print(
                f"line {number}: {word!r} is neither enabled nor disabled: taken as enabled", file=sys.stderr
            )
        yield namespace, name, word != DISABLED


def _go(value: bool) -> str:
    return "true" if value else "false"


def plugin() -> None:
    """The console script `kubectl-wpa`, which kubectl runs as `kubectl wpa`."""
    from tidewright.cli.main import run

    sys.exit(run(["wpa", *sys.argv[1:]]))


with_examples(app, "wpa")

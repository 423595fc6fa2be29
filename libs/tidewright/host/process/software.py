"""Which software decided: its version, and a digest of the code that a decision depends on.

A version number says too little to an auditor: between two releases code changes, and a log that was
written by other code of the same number would look as if its decisions were wrong. So decisions say
`0.1.0+5f0c8a1be2d4`: the version, and as its local part (PEP 440) a digest of the sources of the
decider's own package and of those that every decider is made of. Who has the same sources has the
same digest, however and wherever they are installed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from functools import cache
from hashlib import blake2b
from importlib import import_module
from pathlib import Path
from typing import Any

from tidewright.events.version import __version__
from tidewright.host.fold.decider import Decider

SHARED = ("tidewright.events", "tidewright.host", "tidewright.kube")
"""What deciders may depend on besides their own package."""
DIGEST_BYTES = 6


def software_of(decider: Decider[Any, Any]) -> str:
    """`<version>+<digest of the code>` of a decider; the bare version where no sources are installed."""
    module = decider.decide.__module__
    own = module.rpartition(".")[0]
    if own:
        return _software((own, *SHARED))
    file = getattr(sys.modules[module], "__file__", None)  # of no package: a script, or what a shell was told
    return _software(SHARED, Path(file) if file else None)


def software_in(*packages: str) -> str:
    """The same of everything in some packages."""
    return _software(packages)


@cache
def _software(packages: tuple[str, ...], script: Path | None = None) -> str:
    digest, file_count = blake2b(digest_size=DIGEST_BYTES), 0
    if script is not None:
        digest.update(script.read_bytes())
    for package in packages:
        for folder in sorted(import_module(package).__path__):
            for parts in sorted(_sources(folder)):
                with open(os.path.join(folder, *parts), "rb") as file:  # noqa: PTH118, PTH123  # see `_sources`
                    source = file.read()
                digest.update(f"{package}/{'/'.join(parts)} {len(source)}\n".encode())
                digest.update(source)
                file_count += 1
    return f"{__version__}+{digest.hexdigest()}" if file_count else __version__


def _sources(folder: str, within: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The sources in a folder, as the parts of their paths in it. With bare names: who asks a log waits for the digest, and
    paths take most of its time.
    """
    with os.scandir(os.path.join(folder, *within)) as entries:  # noqa: PTH118
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _sources(folder, (*within, entry.name))
            elif entry.name.endswith(".py"):
                yield (*within, entry.name)

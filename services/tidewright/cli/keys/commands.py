"""`tidewright keys new`, `install`, `show` and `archiver`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from tidewright.asking.answers.form import builtins
from tidewright.asking.errors import BadInput, translated
from tidewright.asking.options import AskedLogOptions, LogOptions, Output, emit
from tidewright.asking.tables import plain
from tidewright.cli.answers import KeyRecordOfLog
from tidewright.cli.contract.writing import WRITES
from tidewright.cli.keys import manifests
from tidewright.cli.keys.folder import ROOT, KeyFolder
from tidewright.log import keyfiles
from tidewright.log.connection import Log
from tidewright.log.keyrecord import install_keys

Folder = Annotated[Path, Parameter(help="Folder with the keys; keep it, and the root key above all.")]


def new(
    folder: Folder,
    /,
    *,
    renew: Annotated[tuple[str, ...], Parameter(help="Service that gets another key; repeatable.")] = (),
    namespace: Annotated[str, Parameter(help="Of the Kubernetes manifests.")] = "tidewright",
) -> int:
    """Make a root key and a key per service as files, with a Kubernetes Secret for each; what is there stays."""
    keys = KeyFolder(folder)
    new_files = keys.make(renew)
    written = manifests.write(keys, namespace, tuple(WRITES))
    for path in new_files:
        print(f"{path}: made, {keyfiles.key_id(keyfiles.read_private(path).public_key())}")
    print(f"{len(written)} manifests for Kubernetes written beside them; trust anchor: {keys.anchor}")
    if keys.key(ROOT) in new_files:
        print(f"Keep {keys.key(ROOT)} where no service runs: it decides whom every service believes.")
    if renew:
        print(
            f"Next: `tidewright keys install {folder}`, then give the services their new keys; see deploy/README.md."
        )
    return 0


def install(
    folder: Folder,
    /,
    *,
    history: Annotated[
        bool,
        Parameter(
            help="Take all that is on the log now as written before it had keys (after an import).",
            negative=(),
        ),
    ] = False,
    log: LogOptions | None = None,
) -> int:
    """Say on the log whose signature counts for what, signed with the root key. Safe to repeat."""
    on, keys = log or LogOptions(), KeyFolder(folder)

    async def run() -> str:
        async with await Log.connect(
            on.nats, on.cluster, credentials=on.identity(), name="install", timeout_s=5.0
        ) as it:
            await it.adopt_slots()
            return await install_keys(it, keys.root(), keys.services(), history=history)

    with translated():
        said = asyncio.run(run())
    print(f"key record of {on.cluster}: {said}")
    return 0


def show(*, log: AskedLogOptions | None = None, output: Output = "table") -> int:
    """The key record on the log, and whether the trust anchor vouches for it (`--trust`)."""
    on = log or AskedLogOptions()

    async def run() -> KeyRecordOfLog:
        async with await Log.connect(on.nats, on.cluster, credentials=on.identity(), timeout_s=5.0) as it:
            it.authenticate(anchors=keyfiles.read_anchors(on.trust) if on.trust else None)
            await it.adopt_slots()
            keys = await it.key_record()
            if keys is None:
                return KeyRecordOfLog(cluster=on.cluster, generation=0, services={})
            said = keys.said
            return KeyRecordOfLog(
                cluster=on.cluster, generation=said.generation, log=said.log, history=said.history, root=said.root,
                vouched=on.trust is not None,
                services={
                    entry.service: tuple(keyfiles.key_id(keyfiles.decoded(key)) for key in entry.keys)
                    for entry in said.services
                },
            )  # fmt: skip

    with translated():
        record = asyncio.run(run())
    emit(builtins(record), output, lambda: plain(_table(record)))
    return 0


def _table(record: KeyRecordOfLog) -> str:
    if not record.services:
        return f"the log of {record.cluster} has no key record: nothing on it is authenticated"
    vouched = "the trust anchor vouches for it" if record.vouched else "not checked: pass --trust root.pub"
    head = f"generation {record.generation}, by root key {record.root} ({vouched}); "
    head += f"sequences up to {record.history} were written before"
    width = max(map(len, record.services))
    return "\n".join(
        [head, *(f"  {name:{width}}  {', '.join(keys)}" for name, keys in record.services.items())]
    )


def archiver(
    file: Annotated[Path, Parameter(help="The archiver's key; FILE.pub and FILE.next are beside it.")], /
) -> int:
    """Make the archiver's key, or, where there is one, the key that is to follow it. The archiver makes its first one itself."""
    from tidewright.archive.keys import ArchiverKeys, made

    keys = ArchiverKeys(file)
    path = keys.next if file.exists() else file
    try:
        key = made(path)
    except FileExistsError as error:
        raise BadInput(
            f"{path} is there already, and has not followed yet: the next segment that is sealed names it; where files cannot be "
            f"renamed (a Secret), move it to {file} yourself once that is so"
        ) from error
    except OSError as error:
        raise BadInput(f"{path} cannot be written: {error.strerror}") from error
    print(f"{path}: made, {keyfiles.key_id(key.public_key())}; its public half: {path}.pub")
    return 0

"""Where segments lie: names with bytes, of which none is ever there in part.

A name is created once: of two that create it, one is told so. That is what keeps two archivers from sealing the same segment.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol, TypeVar
from urllib.parse import unquote, urlsplit

from tidewright.archive.errors import StoreUnavailable
from tidewright.log.errors import BadKey

T = TypeVar("T")

PARTIAL = ".partial"


class BadUrl(BadKey):
    """An archive's URL names no folder and no bucket."""

    reason = "BadUrl"


class Store(Protocol):
    """A folder or bucket."""

    url: str
    """For people."""

    async def names(self) -> list[str]:
        """What is there.

        Raises:
            StoreUnavailable: it does not answer, or refuses; as every method does.
        """
        ...

    async def read(self, name: str) -> bytes | None:
        """The bytes under a name; None when there are none."""
        ...

    async def end(self, name: str, size: int) -> bytes:
        """The last bytes under a name, at most `size`."""
        ...

    async def create(self, name: str, data: bytes) -> bool:
        """Store bytes under a new name as a whole; False when it is there already."""
        ...

    async def replace(self, name: str, data: bytes) -> None:
        """Store bytes as a whole in place of those that are there."""
        ...


class FolderStore:
    """A folder of a file system."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = str(folder)

    async def names(self) -> list[str]:
        return await self._asked(self._names)

    def _names(self) -> list[str]:
        if not self.folder.is_dir():
            return []
        return sorted(path.name for path in self.folder.iterdir() if not path.name.endswith(PARTIAL))

    async def read(self, name: str) -> bytes | None:
        def read() -> bytes | None:
            try:
                return (self.folder / name).read_bytes()
            except FileNotFoundError:
                return None

        return await self._asked(read)

    async def end(self, name: str, size: int) -> bytes:
        def end() -> bytes:
            with (self.folder / name).open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - size))
                return file.read()

        return await self._asked(end)

    async def create(self, name: str, data: bytes) -> bool:
        def create() -> bool:
            partial = self._written(name, data)
            try:
                # Unlike a rename, a link is refused where the name is there.
                os.link(partial, self.folder / name)
            except FileExistsError:
                return False
            finally:
                partial.unlink()
            self._reached_disk()
            return True

        return await self._asked(create)

    async def replace(self, name: str, data: bytes) -> None:
        def replace() -> None:
            self._written(name, data).replace(self.folder / name)
            self._reached_disk()

        await self._asked(replace)

    def _written(self, name: str, data: bytes) -> Path:
        self.folder.mkdir(parents=True, exist_ok=True)
        partial = self.folder / f".{name}.{secrets.token_hex(6)}{PARTIAL}"
        with partial.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        return partial

    def _reached_disk(self) -> None:
        descriptor = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    async def _asked(self, what: Callable[[], T]) -> T:
        try:
            return await asyncio.to_thread(what)
        except OSError as error:
            raise StoreUnavailable(
                f"archive {self.folder} cannot be used: {error.strerror or error}"
            ) from error


@asynccontextmanager
async def opened(url: str, cluster: str) -> AsyncIterator[Store]:
    """The part of an archive that is of one cluster.

    Args:
        url: a folder's path, `file:///FOLDER`, or `s3://BUCKET/PREFIX`.
        cluster: its name.

    Raises:
        BadUrl: it is none of these, or the extra `aws` is not installed.
    """
    from tidewright.log.subjects import escape

    place = escape(cluster)
    parts = urlsplit(url)
    if parts.scheme == "s3":
        try:
            from tidewright.archive.s3 import s3_store
        except ModuleNotFoundError as error:
            raise BadUrl(
                f"{url}: archives in S3 come with `pip install 'tidewright[aws]'` ({error})"
            ) from error
        if not parts.netloc:
            raise BadUrl(f"{url}: it names no bucket; valid is s3://BUCKET or s3://BUCKET/PREFIX")
        async with s3_store(parts.netloc, "/".join(filter(None, (parts.path.strip("/"), place)))) as store:
            yield store
        return
    if parts.scheme not in ("", "file") or (parts.scheme and parts.netloc) or not parts.path:
        raise BadUrl(f"{url!r} is no archive: valid are a folder, file:///FOLDER and s3://BUCKET/PREFIX")
    folder = Path(unquote(parts.path) if parts.scheme else url)
    yield FolderStore(folder / place)

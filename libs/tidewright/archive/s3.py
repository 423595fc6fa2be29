"""Segments in a bucket of what speaks S3; where and as whom is the SDK's own configuration (`AWS_ENDPOINT_URL_S3`, `AWS_REGION`, ...).

A name is created under the condition that it is not there (`If-None-Match: *`), which AWS, MinIO and Ceph know.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from aiobotocore.config import AioConfig
from aiobotocore.session import get_session
from botocore.exceptions import BotoCoreError, ClientError

from tidewright.archive.errors import StoreUnavailable

TIMEOUT_S = 30
ABSENT = frozenset(("NoSuchKey", "404", "NotFound"))
THERE = frozenset(("PreconditionFailed", "412"))
MEANWHILE = "ConditionalRequestConflict"
TRIES = 5
"""Of a creation that meets another one at the same moment."""


class S3Store:
    """What lies under a prefix of a bucket."""

    def __init__(self, client: Any, bucket: str, prefix: str) -> None:
        self._client, self._bucket, self._prefix = client, bucket, f"{prefix}/"
        self.url = f"s3://{bucket}/{prefix}"

    async def names(self) -> list[str]:
        names: list[str] = []
        more: dict[str, str] = {}
        while True:
            answer = await self._ask("list_objects_v2", Prefix=self._prefix, **more)
            names += [entry["Key"].removeprefix(self._prefix) for entry in answer.get("Contents") or ()]
            if not answer.get("IsTruncated"):
                return sorted(name for name in names if "/" not in name)
            more = {"ContinuationToken": answer["NextContinuationToken"]}

    async def read(self, name: str) -> bytes | None:
        return await self._get(name)

    async def end(self, name: str, size: int) -> bytes:
        data = await self._get(name, Range=f"bytes=-{size}")
        if data is None:
            raise StoreUnavailable(f"archive {self.url}: {name} is there no longer")
        return data

    async def create(self, name: str, data: bytes) -> bool:
        for _ in range(TRIES):
            try:
                await self._put(name, data, IfNoneMatch="*")
            except _Refused as refused:
                if refused.code in THERE:
                    return False
                if refused.code != MEANWHILE:
                    raise self._failed("put_object", refused.__cause__ or refused) from refused
            else:
                return True
        raise StoreUnavailable(f"archive {self.url}: {name} is written by others all the time")

    async def replace(self, name: str, data: bytes) -> None:
        try:
            await self._put(name, data)
        except _Refused as refused:
            raise self._failed("put_object", refused.__cause__ or refused) from refused

    async def _put(self, name: str, data: bytes, **more: str) -> None:
        await self._called("put_object", Key=self._prefix + name, Body=data, **more)

    async def _get(self, name: str, **more: str) -> bytes | None:
        try:
            answer = await self._called("get_object", Key=self._prefix + name, **more)
            async with answer["Body"] as body:
                data: bytes = await body.read()
                return data
        except _Refused as refused:
            if refused.code in ABSENT:
                return None
            raise self._failed("get_object", refused.__cause__ or refused) from refused
        except (OSError, TimeoutError) as error:
            raise self._failed("get_object", error) from error

    async def _ask(self, operation: str, **parameters: Any) -> Mapping[str, Any]:
        try:
            return await self._called(operation, **parameters)
        except _Refused as refused:
            raise self._failed(operation, refused.__cause__ or refused) from refused

    async def _called(self, operation: str, **parameters: Any) -> Mapping[str, Any]:
        try:
            answer: Mapping[str, Any] = await getattr(self._client, operation)(
                Bucket=self._bucket, **parameters
            )
        except ClientError as error:
            raise _Refused(str(error.response.get("Error", {}).get("Code", ""))) from error
        except (BotoCoreError, OSError, TimeoutError) as error:
            raise self._failed(operation, error) from error
        return answer

    def _failed(self, operation: str, error: BaseException) -> StoreUnavailable:
        return StoreUnavailable(f"archive {self.url}: {operation}: {error}")


class _Refused(Exception):
    """S3 answered with an error."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


@asynccontextmanager
async def s3_store(bucket: str, prefix: str) -> AsyncIterator[S3Store]:
    """The store under a prefix of a bucket.

    Raises:
        StoreUnavailable: the SDK's configuration names no region, or cannot be read.
    """
    config = AioConfig(connect_timeout=TIMEOUT_S, read_timeout=TIMEOUT_S, retries={"total_max_attempts": 3})
    try:
        made = get_session().create_client("s3", config=config)
        client = await made.__aenter__()
    except BotoCoreError as error:
        raise StoreUnavailable(f"archive s3://{bucket}/{prefix}: {error}") from error
    try:
        yield S3Store(client, bucket, prefix)
    finally:
        await made.__aexit__(None, None, None)

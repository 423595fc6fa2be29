"""An archive in a bucket is one in a folder: against moto, as the SDK is configured."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from tests.unit.archive.world import recorded, seal_all, stretches
from tests.unit.cloud.contract.of_aws import CREDENTIALS, moto, raw_client
from tidewright.archive.errors import Overtaken, StoreUnavailable
from tidewright.archive.keys import ArchiverKeys
from tidewright.archive.reading import SeveralFiles, checked
from tidewright.archive.sealing import Sealer
from tidewright.archive.store import opened

BUCKETS = itertools.count()


@pytest.fixture
async def bucket(monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", moto())
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    name = f"archive-{next(BUCKETS)}"
    async with raw_client("s3") as client:
        await client.create_bucket(Bucket=name)
    return name


async def test_a_bucket_holds_an_archive_of_each_cluster(bucket: str, tmp_path: Path) -> None:
    for place in (f"s3://{bucket}/logs/", f"s3://{bucket}"):
        async with opened(place, "chaos") as store, opened(place, "other") as other:
            key, cut = tmp_path / "key", stretches(3)
            await seal_all(store, key, cut[:2])
            one, another = (Sealer(store, ArchiverKeys(key)) for _ in range(2))
            for sealer in (one, another):
                await sealer.look()
            await one.seal(cut[2])
            with pytest.raises(Overtaken):
                await another.seal(cut[2])
            segments = await checked(store, tmp_path)
            assert list(SeveralFiles(tmp_path, segments.files).records()) == list(recorded()[1])
            assert await other.names() == []
            assert await store.read("none") is None


async def test_a_bucket_that_is_not_there_is_an_outage(bucket: str) -> None:
    async with opened(f"s3://{bucket}-none", "chaos") as store:
        for asking in (store.names(), store.create("x", b""), store.replace("x", b"")):
            with pytest.raises(StoreUnavailable, match=f"archive s3://{bucket}-none/chaos"):
                await asking

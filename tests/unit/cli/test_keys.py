"""`tidewright keys`: keys as files, and the record on the log that is made of them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
import yaml

from tests.answers import fits
from tests.nats_server import EmbeddedServer
from tidewright.asking.services import SERVICES
from tidewright.cli.contract.permissions import publishes
from tidewright.cli.contract.writing import WRITES
from tidewright.cli.keys import manifests
from tidewright.cli.keys.folder import KeyFolder
from tidewright.cli.main import run
from tidewright.log import errors, keyfiles
from tidewright.log.connection import Log, Message
from tidewright.log.keyrecord import install_keys
from tidewright.log.signer import Signer


def test_keys_are_made_once_and_are_for_their_owner_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "keys"
    assert run(["keys", "new", str(folder)]) == 0
    assert "Keep" in capsys.readouterr().out
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert {f"{name}.key" for name in ("root", *WRITES)} <= before.keys()
    private = [*folder.glob("*.key"), *folder.glob("*.secret.yaml")]
    assert {path.stat().st_mode & 0o777 for path in private} == {0o600}
    secret = yaml.safe_load((folder / "spread.secret.yaml").read_text())
    assert secret["metadata"] == {"name": "signing-spread", "namespace": "tidewright"}
    assert secret["stringData"]["signing.key"].encode() == before["spread.key"]
    assert before["spread.key"] != before["watcher.key"]

    assert run(["keys", "new", str(folder), "--renew", "spread"]) == 0
    after = {path.name: path.read_bytes() for path in folder.iterdir()}
    changed = {name for name in after if after[name] != before.get(name)}
    assert changed == {"spread.key", "spread.secret.yaml"} | (after.keys() - before.keys())
    assert len(list(folder.glob("spread.*.pub"))) == 2, "the former one counts until its file is deleted"
    assert run(["keys", "new", str(folder), "--renew", "nobody"]) == 2
    assert "no such service: valid are watcher" in capsys.readouterr().err


@pytest.mark.parametrize("service", SERVICES, ids=lambda s: s.name)
def test_the_bus_and_the_key_record_agree_on_what_a_service_writes(service: object) -> None:
    name = service.name  # type: ignore[attr-defined]
    allowed = {one for one in publishes(service, "prod") if one.startswith("tw.")}  # type: ignore[arg-type]
    assert {f"tw.prod.{one}" for one in WRITES[name]} == allowed


async def test_the_record_is_installed_once_and_changed_when_it_differs(
    log: Log, nats: EmbeddedServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (await log.commit([Message(log.subjects.config("x"), b"before")])).last_seq
    folder = KeyFolder(tmp_path / "keys")
    where = ["--nats", nats.url, "--cluster", "test"]
    arguments = ["keys", "install", str(folder.path), *where]
    assert await asyncio.to_thread(run, ["keys", "new", str(folder.path)]) == 0
    for said in ("made, generation 1", "is as it should be"):
        capsys.readouterr()
        assert await asyncio.to_thread(run, arguments) == 0
        assert said in capsys.readouterr().out
    folder.make(["spread"])
    assert await asyncio.to_thread(run, arguments) == 0
    assert "changed, generation 2" in capsys.readouterr().out
    shown = ["keys", "show", *where, "--trust", str(folder.anchor), "-o", "json"]
    assert await asyncio.to_thread(run, shown) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["generation"], found["history"], found["vouched"]) == (2, before, True)
    assert len(found["services"]["spread"]) == 2
    fits("keys.show", found)
    other = KeyFolder(tmp_path / "other")
    other.make()
    shown[shown.index(str(folder.anchor))] = str(other.anchor)
    assert await asyncio.to_thread(run, shown) == 2
    assert "the trust anchor vouches for" in capsys.readouterr().err


async def test_a_service_signs_with_its_file_and_is_believed(
    log: Log, nats: EmbeddedServer, tmp_path: Path
) -> None:
    folder = KeyFolder(tmp_path)
    folder.make()
    await install_keys(log, folder.root(), folder.services())
    async with (
        await Log.connect(nats.url, "test", timeout_s=10.0) as writer,
        await Log.connect(nats.url, "test", timeout_s=10.0) as reader,
    ):
        writer.authenticate(signer=Signer("spread-admission", folder.key("spread-admission")))
        reader.authenticate(anchors=keyfiles.read_anchors(folder.anchor))
        await writer.adopt_slots()
        await reader.adopt_slots()
        ledger = log.subjects.ledger(log.slot_of("shop"), "spread", "shop", "web")
        await writer.commit([Message(ledger, b"entry")])
        last = await reader.last(ledger)
        assert last is not None
        assert last.body == b"entry"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is no private key in PEM form"),
        (None, "cannot be read: No such file"),
        (
            b"-----BEGIN PRIVATE KEY-----\nMFECAQEwBQYDK2VuBCIEIA==\n-----END PRIVATE KEY-----\n",
            "no private key",
        ),
    ],
)
def test_a_file_without_a_key_says_so(tmp_path: Path, content: bytes | None, words: str) -> None:
    path = tmp_path / "a.key"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(errors.BadKey, match=words):
        keyfiles.read_private(path)
    with pytest.raises(errors.BadKey, match=r"holds no Ed25519 public key|cannot be read"):
        keyfiles.read_anchors(path)


def test_the_component_mounts_what_keys_new_writes(tmp_path: Path) -> None:
    folder = KeyFolder(tmp_path)
    folder.make()
    written = [
        yaml.safe_load(path.read_text()) for path in manifests.write(folder, "tidewright", tuple(WRITES))
    ]
    there = {
        (one["kind"], one["metadata"]["name"]): set(one.get("stringData") or one["data"]) for one in written
    }
    component = yaml.safe_load(
        (Path(__file__).parents[3] / "deploy/kubernetes/signed/kustomization.yaml").read_text()
    )
    assert len(component["patches"]) == len(SERVICES)
    for patch in component["patches"]:
        spec = yaml.safe_load(patch["patch"])["spec"]["template"]["spec"]
        [container] = spec["containers"]
        mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        env = {one["name"]: one["value"] for one in container["env"]}
        secret, config = spec["volumes"]
        [key] = there["Secret", secret["secret"]["secretName"]]
        [anchor] = there["ConfigMap", config["configMap"]["name"]]
        assert env == {
            "TIDEWRIGHT_SIGNING_KEY": f"{mounts['signing']}/{key}",
            "TIDEWRIGHT_TRUST": f"{mounts['trust']}/{anchor}",
        }
        assert secret["secret"]["secretName"] == f"signing-{container['name']}"

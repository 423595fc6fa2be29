"""A whole signed stack under attack: whoever may publish anything on the bus, and has no key, changes nothing."""

from __future__ import annotations

import asyncio
import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import tidewright
from tests.e2e.up.test_up import Up, start
from tidewright.events import registry
from tidewright.events.base import ObjectRef
from tidewright.events.config import KeysSet
from tidewright.events.decisions import CreateObject
from tidewright.events.outcomes import Applied
from tidewright.kube.client import Kube
from tidewright.kube.errors import KubeError
from tidewright.log.connection import Log, Message
from tidewright.log.subjects import ALL

__all__ = ["start"]
WITHIN_S = 150.0
"""Two whole stacks come up here, one after the other, on a machine that may be busy."""
RUN = "watcher,provisioning,actuator,spread-admission"
EVIL = ObjectRef(api_version="v1", kind="ConfigMap", namespace="default", name="evil")


def forgeries(log: Log) -> list[Message]:
    """One of each kind: a decision to act on, outcomes, facts, checkpoints that silence or break, settings, keys."""
    names, slot = log.subjects, log.slot_of("default")
    decision = CreateObject(
        at=1.0, id=f"provisioning.{ALL}.7.0", target=EVIL,
        manifest={"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "evil", "namespace": "default"}},
    )  # fmt: skip
    outcome = registry.encode(Applied(at=1.0, decision="provisioning.all.7.0"))
    far = b'{"type":"checkpoint.actuator.v1","at":1,"epoch":99,"incarnation":"x","commit":1,"position":1000000000}'
    return [
        Message(
            names.decision(ALL, "provisioning", "configmap", "default", "evil"), registry.encode(decision)
        ),
        Message(names.decision(slot, "autoscaler", "deployment", "default", "x"), b"garbage"),
        Message(names.outcome(ALL, "configmap", "default", "evil"), outcome),
        Message(names.fact(slot, "pod", "default", "x"), b"garbage"),
        Message(names.ledger(slot, "spread", "default", "x"), b"garbage"),
        Message(names.checkpoint(ALL, "actuator"), far),
        Message(names.checkpoint(ALL, "actuator"), b"garbage"),
        Message(names.checkpoint(ALL, "provisioning"), b"garbage"),
        Message(names.checkpoint(ALL, "watcher", "node"), b"garbage"),
        Message(names.config("clock"), b'{"type":"config.clock-set.v1","at":1,"wall":0,"log":9e9,"speed":9}'),
        Message(names.config("keys"), registry.encode(KeysSet(at=1.0, log="x", generation=9))),
    ]


def doubts(up: Up, program: str) -> bool:
    return up.count(program, "a message on the log is not believed") >= 1


async def asked(*arguments: str) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        *tidewright(*arguments), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(WITHIN_S):
        out, _ = await process.communicate()
    return process.returncode or 0, out.decode()


@pytest.mark.timeout(400)
async def test_what_is_forged_has_no_effect_and_the_services_go_on(
    start: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.e2e.up.test_up.WITHIN_S", WITHIN_S)
    up = await start("--sign", "--services", RUN)
    await up.ready()
    url = up.said(r"log +(\S+),")
    trust = ("--trust", str(tmp_path / "data" / "keys" / "root.pub"))
    log = ("--nats", url)
    code, out = await asked("verify", *log, *trust)
    assert (code, "are signed by their writers" in out) == (0, True), out

    async with await Log.connect(url, "local", timeout_s=10.0) as attacker:
        await attacker.adopt_slots()
        forged = forgeries(attacker)
        for message in forged:
            await attacker.commit([message])
        last = (await attacker.bounds())[1]
    assert await up.end() == 0

    # Keys are found again in the folder, and everybody starts from what is believed.
    again = await start("--services", RUN)
    await again.ready()
    await again.until(lambda: again.count("spread-admission", "the API server trusts this replica") == 1)
    await again.until(lambda: again.count("actuator", "acting") == 1)
    for program in ("actuator", "provisioning", "spread-admission"):  # each in its own time
        await again.until(functools.partial(doubts, again, program))
    log = ("--nats", again.said(r"log +(\S+),"))
    async with await Kube.connect(Path(again.said(r"export KUBECONFIG=(\S+)"))) as kube:
        with pytest.raises(KubeError, match="evil") as refused:
            await kube.request("GET", "/api/v1/namespaces/default/configmaps/evil")
    assert refused.value.status == 404
    code, out = await asked("verify", *log, *trust, "-o", "json")
    found = json.loads(out)
    assert code == 1
    assert {d["cause"] for d in found["first"]} == {"not authenticated"}
    assert len([d for d in found["first"] if d["sequence"] <= last]) == len(forged) == found["differences"]

"""The admission endpoint against a real nats-server, over TLS."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from functools import partial
from typing import Any

import aiohttp
import msgspec
import pytest

from tests.nats_server import EmbeddedServer
from tests.unit.spread.cluster import (
    HASH,
    NAMESPACE,
    SPREAD,
    Replica,
    deciding,
    deployment,
    new_pod,
    observed,
    replicas,
    review,
    say,
    spec,
    spread_fact,
    spread_of,
    subset_of,
)
from tests.waiting import until
from tidewright.events import registry
from tidewright.events.base import JsonObject
from tidewright.events.config import ConfigSet
from tidewright.events.facts import TemplateObserved
from tidewright.events.spread import ChangeLedger, KindRefused
from tidewright.host.loop.host import Host
from tidewright.host.webhook import certificates
from tidewright.kube.customworkloads import WHITELIST_CONFIG_MAP, WHITELIST_KEY
from tidewright.log import errors
from tidewright.log.connection import Log, Message
from tidewright.spread.admission import books
from tidewright.spread.admission import endpoint as admission
from tidewright.spread.admission.books import Book
from tidewright.spread.ledger import ledger as ledgers
from tidewright.spread.state import State


def placed_in(book: Book) -> int:
    return len(book.ledger.placed)


def in_force(replica: Replica) -> bool:
    book = replica.books.find(NAMESPACE, SPREAD)
    return book is not None and book.spread is not None


async def test_500_pods_by_8_clients_at_3_replicas_one_killed_land_exactly(
    nats: EmbeddedServer, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(books, "GIVE_UP_S", 60.0)  # nobody is refused for want of processor time
    await say(log, spread_fact(spec(100, 150, None)), *deployment(500))
    async with deciding(log) as host, replicas(nats, 3) as endpoints:
        await until(lambda: all(map(in_force, endpoints)))
        queue = list(range(500))
        alive = list(endpoints)
        admitted: dict[int, str | None] = {}

        async def client(which: int) -> None:
            while queue:
                n = queue.pop()
                pod = new_pod(n)
                for attempt in range(20):
                    replica = alive[(which + attempt) % len(alive)]
                    try:
                        made = await replica.admit(f"request-{n}", pod)
                    except (aiohttp.ClientError, ConnectionError, RuntimeError):
                        continue  # that replica is gone: the same request goes to another one
                    break
                admitted[n] = subset_of(made)
                await say(log, observed(made, f"web-{n}"))
                if len(admitted) >= 200 and len(alive) == 3:
                    killed = alive.pop()
                    await killed.stop()

        await asyncio.gather(*(client(n) for n in range(8)))
        assert Counter(admitted.values()) == {"a": 100, "b": 150, "c": 250}

        def counted() -> bool:
            spread = spread_of(host)
            return spread is not None and not spread.ledger.placed and len(spread.pods) == 500

        await until(counted)
        spread = spread_of(host)
        assert spread is not None
        assert list(spread.ledger.counts.values()) == [{"a": 100, "b": 150, "c": 250}]
        assert len(alive) == 2


def of_role(role: str, pod: JsonObject) -> JsonObject:
    metadata = {**pod["metadata"], "labels": {**pod["metadata"]["labels"], "role": role}}
    return {**pod, "metadata": metadata}


async def test_pods_of_two_spreads_of_one_workload_go_to_the_ledger_of_their_own(
    nats: EmbeddedServer, log: Log
) -> None:
    names = ("chief", "worker")
    facts = []
    for name in names:
        given = spec(2, None, targetFilter={"selector": {"matchLabels": {"role": name}}})
        facts.append(msgspec.structs.replace(spread_fact(given), name=name, uid=f"ws-{name}"))
    await say(log, *facts, *deployment(9))
    async with deciding(log), replicas(nats, 2) as endpoints:
        await until(
            lambda: all(
                (book := replica.books.find(NAMESPACE, name)) is not None and book.spread is not None
                for replica in endpoints
                for name in names
            )
        )
        roles = [*names, "other"] * 3
        admitted = await asyncio.gather(
            *(
                endpoints[n % 2].admit(f"request-{n}", of_role(role, new_pod(n)))
                for n, role in enumerate(roles)
            )
        )
        placed = Counter((role, subset_of(pod)) for role, pod in zip(roles, admitted, strict=True))
        assert placed == {
            ("chief", "a"): 2, ("chief", "b"): 1, ("worker", "a"): 2, ("worker", "b"): 1, ("other", None): 3,
        }  # fmt: skip
        for name in names:
            book = endpoints[0].books.find(NAMESPACE, name)
            assert book is not None
            await until(partial(placed_in, book), lambda count: count == 3)
            assert book.ledger.counts == {HASH: {"a": 2, "b": 1}}


async def test_a_retried_request_finds_its_own_place(nats: EmbeddedServer, log: Log) -> None:
    await say(log, spread_fact(spec(1, None)), *deployment(2))
    async with deciding(log), replicas(nats, 2) as (one, other):
        await until(lambda: in_force(one) and in_force(other))
        assert subset_of(await one.admit("r1", new_pod())) == "a"
        book = other.books.find(NAMESPACE, SPREAD)
        assert book is not None
        await until(partial(placed_in, book))
        assert subset_of(await other.admit("r1", new_pod())) == "a"
        assert subset_of(await other.admit("r2", new_pod())) == "b"


async def first_placed(endpoint: Replica, host: Host[State], log: Log) -> JsonObject:
    """A pod `web-1` that was admitted, created and seen."""
    await until(lambda: in_force(endpoint))
    first = await endpoint.admit("r1", new_pod())
    await say(log, observed(first, "web-1"))
    await until(lambda: (s := spread_of(host)) is not None and "web-1" in s.pods and not s.ledger.placed)
    first["metadata"]["name"] = "web-1"
    return first


async def evict(endpoint: Replica, **options: Any) -> None:
    eviction = {"kind": "Eviction", "metadata": {"name": "web-1"}, **options}
    asked = review("e1", eviction, subResource="eviction", name="web-1")
    assert await endpoint.post("/validate-pod", asked) == {"uid": "e1", "allowed": True}


async def test_a_deleted_pods_place_is_offered_at_once(nats: EmbeddedServer, log: Log) -> None:
    await say(log, spread_fact(spec(1, None)), *deployment(2))
    async with deciding(log) as host, replicas(nats, 1) as (endpoint,):
        first = await first_placed(endpoint, host, log)
        answered = await endpoint.post(
            "/validate-pod", review("d1", None, operation="DELETE", oldObject=first)
        )
        assert answered["allowed"]
        assert subset_of(await endpoint.admit("r3", new_pod())) == "a"


async def test_who_replaces_an_evicted_pod_waits_for_its_place(
    nats: EmbeddedServer, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As long as a busy machine takes until the decider has said that the place is free.
    monkeypatch.setattr(admission, "EVICTED_WAIT_S", 60.0)
    monkeypatch.setattr(ledgers, "EVICTED_WITHIN_S", 60.0)
    await say(log, spread_fact(spec(1, None)), *deployment(2))
    async with deciding(log) as host, replicas(nats, 1) as (endpoint,):
        first = await first_placed(endpoint, host, log)
        await evict(endpoint)
        replacement = asyncio.create_task(endpoint.admit("r2", new_pod()))
        leaving = msgspec.structs.replace(observed(first, "web-1"), deleting_at=time.time())
        await say(log, leaving)
        assert subset_of(await replacement) == "a"
        book = endpoint.books.find(NAMESPACE, SPREAD)
        assert book is not None
        assert not book.ledger.evicting


async def test_an_eviction_that_a_budget_refuses_frees_nothing(nats: EmbeddedServer, log: Log) -> None:
    await say(log, spread_fact(spec(1, None)), *deployment(2))
    async with deciding(log) as host, replicas(nats, 1) as (endpoint,):
        await first_placed(endpoint, host, log)
        await evict(endpoint, deleteOptions={"dryRun": ["All"]})
        book = endpoint.books.find(NAMESPACE, SPREAD)
        assert book is not None
        assert not book.ledger.evicting
        await evict(endpoint)
        assert list(book.ledger.evicting) == ["web-1"]
        assert subset_of(await endpoint.admit("r2", new_pod())) == "b"
        (counts,) = book.ledger.counts.values()
        assert counts == {"a": 1, "b": 1}


async def test_a_pod_whose_owner_may_not_be_read_goes_in_untouched_and_is_told(
    nats: EmbeddedServer, log: Log
) -> None:
    entry = {
        "Group": "games.example.com",
        "Kind": "GameSet",
        "subResources": [{"Group": "games.example.com", "Kind": "Game"}],
    }
    whitelist = {WHITELIST_KEY: msgspec.json.encode({"workloads": [entry]}).decode()}
    setting = ConfigSet(at=time.time(), name=WHITELIST_CONFIG_MAP, data=whitelist)
    await log.commit([Message(log.subjects.config(WHITELIST_CONFIG_MAP), registry.encode(setting))])
    given = spec(1, None)
    given["targetRef"] = {"apiVersion": "games.example.com/v1", "kind": "GameSet", "name": "arena"}
    refused = KindRefused(
        at=time.time(),
        name="Game.games.example.com",
        group="games.example.com",
        kind="Game",
        error="games is forbidden",
    )
    await say(log, refused, spread_fact(given))
    pod = new_pod()
    owner = {
        "apiVersion": "games.example.com/v1",
        "kind": "Game",
        "name": "g",
        "uid": "g",
        "controller": True,
    }
    pod["metadata"]["ownerReferences"] = [owner]
    async with deciding(log), replicas(nats, 1) as (endpoint,):
        await until(lambda: in_force(endpoint))
        answered = await endpoint.post("/mutate-pod", review("r1", pod))
        assert answered["allowed"]
        assert "patch" not in answered
        assert answered["warnings"] == ["no WorkloadSpread takes this pod: Game shop/g: games is forbidden"]


async def test_a_dry_run_and_a_pod_of_nobody_go_in_untouched(nats: EmbeddedServer, log: Log) -> None:
    await say(log, spread_fact(spec(1, None)), *deployment(2))
    async with deciding(log), replicas(nats, 1) as (endpoint,):
        await until(lambda: in_force(endpoint))
        answered = await endpoint.post("/mutate-pod", review("r1", new_pod(), dryRun=True))
        assert answered == {"uid": "r1", "allowed": True}
        stranger = new_pod()
        stranger["metadata"]["ownerReferences"] = []
        assert await endpoint.post("/mutate-pod", review("r2", stranger)) == {"uid": "r2", "allowed": True}
        assert not endpoint.books.find(NAMESPACE, SPREAD).ledger.placed  # type: ignore[union-attr]  # in force


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"not json", 400),
        (b"{}", 400),
        (
            b'{"apiVersion":"admission.k8s.io/v2","kind":"AdmissionReview","request":{"uid":"1","operation":"CREATE"}}',
            400,
        ),
        (b'"' + b"x" * (9 << 20) + b'"', 413),
    ],
    ids=["garbage", "empty", "another version", "oversized"],
)
async def test_what_is_no_review_is_refused_clearly(
    nats: EmbeddedServer, log: Log, body: bytes, status: int
) -> None:
    async with replicas(nats, 1) as (endpoint,):
        assert endpoint.client is not None
        url = f"https://127.0.0.1:{endpoint.endpoint.server.port}/mutate-pod"
        async with endpoint.client.post(url, data=body) as response:
            assert response.status == status


BROKEN: list[JsonObject] = [
    {"metadata": 3},
    {"metadata": {"ownerReferences": 3}},
    {"metadata": {"ownerReferences": [{"controller": True, "kind": 3}]}},
    {"metadata": {"annotations": {"apps.kruise.io/matched-workloadspread": 3}}},
    {"metadata": {"annotations": 3}},
    {"status": 3},
]


async def test_an_object_that_is_no_pod_is_refused_with_a_reason(nats: EmbeddedServer, log: Log) -> None:
    async with replicas(nats, 1) as (endpoint,):
        for broken in BROKEN:
            for asked in (
                ("/mutate-pod", review("r1", broken)),
                ("/validate-pod", review("d1", None, operation="DELETE", oldObject=broken)),
            ):
                answered = await endpoint.post(*asked)
                assert not answered["allowed"], broken
                assert answered["status"]["code"] == 400
                assert answered["status"]["message"].startswith("the object is no pod: ")


@pytest.mark.parametrize(
    "broken",
    [
        {"tolerations": 7},
        {"affinity": "x"},
        {"affinity": {"nodeAffinity": [3]}},
        {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": 3}}},
        "a",
    ],
)
async def test_a_pod_whose_spec_takes_no_rules_is_refused_and_the_next_one_is_placed(
    nats: EmbeddedServer, log: Log, broken: object
) -> None:
    async with replicas(nats, 1) as (endpoint,), deciding(log):
        tolerated = spec(1, None)
        tolerated["subsets"][0]["tolerations"] = [{"operator": "Exists"}]
        await say(log, spread_fact(tolerated), *deployment(2))
        await until(lambda: in_force(endpoint))
        async with asyncio.timeout(90):
            answered = await endpoint.post("/mutate-pod", review("r1", {**new_pod(), "spec": broken}))
            assert not answered["allowed"]
            assert answered["status"]["code"] == 400
            assert answered["status"]["message"].startswith("the object is no pod: ")
            admitted = await endpoint.admit("r2", new_pod())
        assert subset_of(admitted) in ("a", "b")


async def test_the_log_away_means_refused_or_recorded_later_as_the_spread_says(
    nats: EmbeddedServer, log: Log
) -> None:
    await say(log, spread_fact(spec(5, None)), *deployment(2))
    async with deciding(log), replicas(nats, 1) as (endpoint,):
        await until(lambda: in_force(endpoint))
        # What was asked when the server stopped is waited for so long, as in production; 10 s are for a busy machine.
        endpoint.log.timeout_s = log.timeout_s = 2.0
        await nats.stop()
        answered = await endpoint.post("/mutate-pod", review("r1", new_pod()))
        assert not answered["allowed"]
        assert answered["status"]["code"] == 503
        await nats.start()
        annotated = spread_fact(spec(5, None), 2, annotations={"tidewright.dev/spread-fail-open": "true"})

        async def told() -> None:
            async with asyncio.timeout(90):
                while True:
                    try:
                        await say(log, annotated)
                        return
                    except errors.LogUnavailable:  # the connection comes back in its own time
                        await asyncio.sleep(0.1)

        await told()
        book = endpoint.books.find(NAMESPACE, SPREAD)
        assert book is not None
        await until(lambda: book.ledger.rules is not None and book.ledger.rules.fail_open)
        await nats.stop()
        assert subset_of(await endpoint.admit("r2", new_pod())) == "a"
        await nats.start()
        await until(lambda: "r2" in book.ledger.placed)


async def test_spreads_are_validated_with_warnings(nats: EmbeddedServer, log: Log) -> None:
    async with replicas(nats, 1) as (endpoint,):
        bad = {"metadata": {"name": "x"}, "spec": spec("40", None)}
        bad["spec"]["subsets"][1]["minReplicas"] = 2
        path = "/validate-apps-kruise-io-workloadspread"
        answered = await endpoint.post(path, review("v1", bad))
        assert not answered["allowed"]
        assert "maxReplicas '40' is no percentage" in answered["status"]["message"]
        assert answered["warnings"] == [
            "spec.subsets[1].minReplicas is in no version of this API and has no effect"
        ]
        good = {"metadata": {"name": "x"}, "spec": spec("40%", None)}
        assert (await endpoint.post(path, review("v2", good)))["allowed"]


async def test_a_patch_is_tried_on_the_targets_template(nats: EmbeddedServer, log: Log) -> None:
    pod_spec = {
        "containers": [{"name": "main", "image": "web:1"}],
        "volumes": [{"name": "v", "emptyDir": {}}],
    }
    template = TemplateObserved(at=time.time(), digest="d1", namespace=NAMESPACE, spec=pod_spec)
    target, replica_set = deployment(2)
    await say(log, template, msgspec.structs.replace(target, template="d1"), replica_set)
    path = "/validate-apps-kruise-io-workloadspread"
    async with replicas(nats, 1) as (endpoint,):

        async def refused(patch: JsonObject, target: str = "web") -> str:
            given = spec(1, None)
            given["targetRef"]["name"] = target
            given["subsets"][0]["patch"] = patch
            answered = await endpoint.post(path, review("v", {"metadata": {"name": "x"}, "spec": given}))
            return "" if answered["allowed"] else str(answered["status"]["message"])

        mount = {"name": "main", "volumeMounts": [{"name": "other", "mountPath": "/data"}]}
        said = await refused({"spec": {"containers": [mount]}})
        assert said.startswith("spec.subsets[0].patch.")
        assert 'Not found: "other"' in said
        assert await refused({"spec": {"containers": [{"name": "second"}]}})  # it has no image
        assert not await refused(
            {"spec": {"containers": [{**mount, "volumeMounts": [{"name": "v", "mountPath": "/data"}]}]}}
        )
        assert not await refused({"spec": {"containers": [mount]}}, "not-there")  # nothing to try it on


async def test_a_refresh_of_a_spread_says_its_ledger_again(nats: EmbeddedServer, log: Log) -> None:
    await say(log, spread_fact(spec(1, None)), *deployment(2))
    async with deciding(log) as host, replicas(nats, 1) as (endpoint,):
        await until(lambda: in_force(endpoint))
        await endpoint.admit("r1", new_pod())
        await until(lambda: (s := spread_of(host)) is not None and "r1" in s.ledger.placed)
        await say(log, spread_fact(spec(1, None), refresh=True))
        ledger = log.subjects.ledger(log.slot_of(NAMESPACE), "spread", NAMESPACE, SPREAD)
        async with log.reader([ledger]) as reader, asyncio.timeout(90):
            events: list[object] = []
            while not any(isinstance(e, ChangeLedger) and e.counts for e in events):
                events += [registry.decode(record.body) for record in await reader.fetch()]
        said = events[-1]
        assert isinstance(said, ChangeLedger)
        assert (said.counts, said.through) == ({HASH: {"a": 1}}, "r1")
        assert said.rules is not None
        assert said.rules.uid == "ws"


async def test_a_renewed_certificate_is_served_without_a_restart(nats: EmbeddedServer, log: Log) -> None:
    async with replicas(nats, 1) as (endpoint,):
        before = endpoint.endpoint.server.certificate.ca_pem
        endpoint.endpoint.server.serve_with(certificates.make(endpoint.endpoint.server.hosts))
        assert endpoint.endpoint.server.certificate.ca_pem != before
        assert endpoint.client is not None
        await endpoint.client.close()
        endpoint.trust()
        body = msgspec.json.encode(
            {
                "kind": "ConversionReview",
                "request": {"uid": "c", "desiredAPIVersion": "apps.kruise.io/v1beta1"},
            }
        )
        answered = await endpoint.post("/convert", body)
        assert answered["result"] == {"status": "Success"}

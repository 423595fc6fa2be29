"""Addresses and files that an object names, as somebody writes them who wants to see more than is theirs."""

from __future__ import annotations

import gzip
import ipaddress
import socket
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.unit.watcher.cluster import Cluster
from tests.unit.watcher.test_recommenders import ask, recommender, with_target
from tests.unit.watcher.test_service import cluster
from tidewright.watcher.outbound import CheckedResolver, Hosts, NotAllowed
from tidewright.watcher.tls import BadTls, Tls, merged

__all__ = ["cluster"]

SERVICES = Hosts(ours="tidewright")


@pytest.mark.parametrize(
    ("url", "asked"),
    [
        ("http://recommender.models.svc/v1?x=1", "http://recommender.models.svc/v1?x=1"),
        ("https://recommender.models.svc.cluster.local:8443", "https://recommender.models.svc.cluster.local:8443"),
        ("http://pod-0.recommender.models.svc/", "http://pod-0.recommender.models.svc/"),
        ("http://recommender:80/v1", "http://recommender.shop.svc:80/v1"),
    ],
)  # fmt: skip
def test_services_of_the_cluster_are_asked(url: str, asked: str) -> None:
    assert SERVICES.target(url, "shop").geturl() == asked


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("file:///etc/passwd", "valid are http"),
        ("gopher://recommender.models.svc/", "valid are http"),
        ("http:///x", "valid are http"),
        ("http://example.com/", "--recommender-hosts names"),
        ("http://recommender.models.svc.example.com/", "--recommender-hosts names"),
        ("http://svc/", "svc.shop.svc"),
        ("http://127.0.0.1:9/", "address 127.0.0.1 is not asked"),
        ("http://10.0.0.1/", "address 10.0.0.1 is not asked"),
        ("http://169.254.169.254/latest/meta-data", "address 169.254.169.254 is not asked"),
        ("http://[::1]/", "address ::1 is not asked"),
        ("http://[::ffff:127.0.0.1]/", "is not asked"),
        ("http://[fe80::1%25eth0]/", "other characters"),
        ("http://2130706433/", "neither a name nor an address"),
        ("http://0x7f.1/", "neither a name nor an address"),
        ("http://0177.0.0.1/", "neither a name nor an address"),
        ("http://127.1/", "neither a name nor an address"),
        ("http://1.2.3.4.svc/", "--recommender-hosts names"),
        ("http://user:secret@recommender.models.svc/", "user or password"),
        ("http://recommender.models.svc:http/", "cannot be read"),
        ("http://kubernetes.default.svc/api", "--recommender-hosts names"),
        ("http://nats.tidewright.svc:8222/", "--recommender-hosts names"),
        ("http://nats-0.nats.tidewright.svc.cluster.local:8222/", "--recommender-hosts names"),
        ("http://①②⑦.0.0.1/", "other characters"),
        ("http://" + "a" * 3000 + ".svc/", "at most 2048"),
    ],
)
def test_nothing_else_is(url: str, why: str) -> None:
    if "svc.shop.svc" in why:  # a short name is a Service of the object's namespace, whatever it is
        assert SERVICES.target(url, "shop").hostname == why
        return
    with pytest.raises(NotAllowed) as refused:
        SERVICES.target(url, "shop")
    assert why in str(refused.value)
    assert len(str(refused.value)) < 500
    assert "secret" not in str(refused.value)


def test_the_operator_names_more() -> None:
    hosts = Hosts(["models.example.com", "*.corp.example", "10.1.0.0/16", "127.0.0.1", "short"])
    for url in (
        "http://models.example.com/", "http://a.corp.example:81/", "http://10.1.2.3/", "http://127.0.0.1:9/",
        "http://short/", "http://[::ffff:10.1.2.3]/",
    ):  # fmt: skip
        assert hosts.target(url, "shop").geturl() == url
    for url in ("http://other.example.com/", "http://corp.example/", "http://10.2.0.1/", "http://127.0.0.2/"):
        with pytest.raises(NotAllowed):
            hosts.target(url, "shop")
    for entry in ("http://x", "a b", "*", "*.*.x", "2130706433.5"):
        with pytest.raises(ValueError, match="is no host name"):
            Hosts([entry])


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "0.0.0.0", "169.254.169.254", "224.0.0.1", "255.255.255.255", "100.100.100.200",
        "::1", "::", "fe80::1", "ff02::1", "fd00:ec2::254", "::ffff:127.0.0.1", "::ffff:169.254.169.254",
        "::127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::",
    ],
)  # fmt: skip
def test_a_name_that_has_such_an_address_is_not_asked(address: str) -> None:
    resolver = CheckedResolver(Hosts(["*.example.com"]))
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with pytest.raises(NotAllowed, match="its host has the address"):
        resolver.checked("a.example.com", 80, [(socket.AF_INET, "10.0.0.1"), (family, address)])
    named = Hosts(["*.example.com", address])
    named.check(ipaddress.ip_address(address))  # unless the operator names that very address


def test_addresses_of_the_cluster_and_of_the_world_are() -> None:
    resolver = CheckedResolver(Hosts(["*.example.com"]))
    found = [(socket.AF_INET, "10.96.0.7"), (socket.AF_INET, "93.184.216.34"), (socket.AF_INET6, "fd12::7")]
    assert [one["host"] for one in resolver.checked("a.example.com", 80, found)] == [
        text for _, text in found
    ]


@pytest.mark.parametrize("canonical", ["intranet.corp.example", "x.other.svc.evil.example"])
def test_a_service_that_stands_for_a_name_elsewhere_is_none_of_the_cluster(canonical: str) -> None:
    resolver, found = CheckedResolver(SERVICES), [(socket.AF_INET, "10.0.0.7")]
    with pytest.raises(NotAllowed, match=r"stands for .*, which is no Service of the cluster"):
        resolver.checked("alias.shop.svc", 80, found, canonical)
    for own in (
        "alias.shop.svc.cluster.local.",
        "alias.shop.svc.corp.internal",
        "",
        "b.shop.svc.cluster.local",
    ):
        assert resolver.checked("alias.shop.svc", 80, found, own)


async def test_a_name_that_resolves_to_this_machine_reaches_nothing(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rebinding: whatever the name resolved to before, the connection goes to what was checked for it."""
    with_target(cluster)
    asked: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(request.path)
        return web.json_response({"targetReplicas": 7})

    answers = iter(["127.0.0.2", "127.0.0.1", "127.0.0.1"])

    def getaddrinfo(host: str, port: int, *_: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, host, (next(answers), port))]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    async with recommender(answer) as url:
        there = url.replace("127.0.0.1", "model.shop.svc")
        first = await ask(cluster, there, hosts=Hosts(["127.0.0.2"]))
        second = await ask(cluster, there, hosts=Hosts(["127.0.0.2"]))
    assert asked == []
    assert (first.error_class, second.error_class) == ("unavailable", "forbidden")
    assert "which is this machine's" in second.error


async def test_a_url_into_this_machine_is_refused_without_a_word_of_what_is_there(cluster: Cluster) -> None:
    with_target(cluster)
    asked: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(request.path)
        return web.Response(status=401, text="what nobody may read")

    async with recommender(answer) as url:
        for host in ("127.0.0.1", "[::ffff:127.0.0.1]", "2130706433", "localhost.localdomain"):
            fact = await ask(cluster, url.replace("127.0.0.1", host), hosts=Hosts())
            assert (fact.error_class, "is not asked" in fact.error) == ("forbidden", True)
            assert "nobody may read" not in fact.error
    assert asked == []


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_leads_nowhere_else(status: int, cluster: Cluster) -> None:
    with_target(cluster)
    inside: list[str] = []

    async def secret(request: web.Request) -> web.Response:
        inside.append(request.path)
        return web.json_response({"targetReplicas": 19})

    async def answer(request: web.Request) -> web.Response:
        where = elsewhere if request.path == "/" else request.path
        return web.Response(status=status, headers={"Location": where}, text="what nobody may read")

    async with recommender(secret) as elsewhere, recommender(answer) as url:
        fact = await ask(cluster, url)
    assert (inside, fact.target_replicas) == ([], 0)
    assert fact.error
    assert "nobody may read" not in fact.error


async def test_a_redirect_within_the_same_place_is_followed_a_few_times(cluster: Cluster) -> None:
    with_target(cluster)

    async def answer(request: web.Request) -> web.Response:
        if request.path == "/moved":
            return web.json_response({"targetReplicas": 7})
        return web.Response(
            status=307, headers={"Location": "/moved" if request.path == "/" else request.path}
        )

    async with recommender(answer) as url:
        assert (await ask(cluster, url)).target_replicas == 7
        assert (await ask(cluster, f"{url}round")).error == "unexpected response code: 307"


async def test_an_answer_that_is_packed_is_not_unpacked(cluster: Cluster) -> None:
    with_target(cluster)
    packed = gzip.compress(bytes(2**28), 1)

    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=packed[: 2**19], headers={"Content-Encoding": "gzip"})

    async with recommender(answer) as url:
        fact = await ask(cluster, url)
    assert fact.error_class == "garbage"


@pytest.mark.parametrize("member", ["caFile", "certFile", "keyFile"])
def test_objects_name_no_files_but_those_of_one_folder(member: str, tmp_path: Path) -> None:
    folder = tmp_path / "allowed"
    folder.mkdir()
    (folder / "in.pem").write_text("x")
    (tmp_path / "out.pem").write_text("x")
    (folder / "link.pem").symlink_to(tmp_path / "out.pem")
    with pytest.raises(BadTls, match="objects may name no files here"):
        merged({member: str(folder / "in.pem")}, Tls())
    assert merged({member: str(folder / "in.pem")}, Tls(), folder) != Tls()
    said = set()
    for file in (
        "/etc/passwd", "/nowhere", str(folder / ".." / "out.pem"), str(folder / "link.pem"), "in.pem",
        f"{folder}-more/in.pem", str(folder / "in.pem\0"),
    ):  # fmt: skip
        with pytest.raises(BadTls) as refused:
            merged({member: file}, Tls(), folder)
        said.add(str(refused.value))
    # Nothing tells which of them is there.
    assert said == {
        f"spec.recommender.tlsConfig.{member} is not in {folder}, the folder of files that objects may name"
    }

"""The wire of externalgrpc, from the table of its fields and not from our own messages; and its configuration."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import pytest

from tests.certificates import Authority
from tests.unit.cloud.contract.of_externalgrpc import ExternalGrpcBench
from tidewright.cloud.calls import Calls
from tidewright.cloud.errors import (
    Conflict,
    Forbidden,
    Invalid,
    NotImplementedByCloud,
    QuotaExceeded,
    Unavailable,
)
from tidewright.cloud.externalgrpc.client import ExternalGrpcProvider
from tidewright.cloud.externalgrpc.config import GrpcConfig, config_of
from tidewright.cloud.externalgrpc.server import CloudServer
from tidewright.cloud.provider import GroupOptions, Instance, InstanceState

PACKAGE = "clusterautoscaler.cloudprovider.v1.externalgrpc.CloudProvider"


# --- Bytes by hand: a key is the field's number and its wire type -----------------------------------


def varint(number: int) -> bytes:
    number &= 2**64 - 1  # negative numbers are of ten bytes
    out = b""
    while number > 0x7F:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def text(field: int, value: str | bytes) -> bytes:
    content = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(content)) + content


def entry(field: int, key: str, value: bytes) -> bytes:
    return text(field, text(1, key) + value)


GROUP = text(1, "g") + number(2, 1) + number(3, 9) + text(4, "a group")
QUANTITY_4 = text(2, text(1, "4"))
NODE = (
    text(
        1,
        text(1, "template")
        + entry(11, "kind", text(2, "m4"))
        + entry(11, "kubernetes.io/hostname", text(2, "x")),
    )
    + text(2, text(3, "p://1") + text(5, text(1, "dedicated") + text(2, "batch") + text(3, "NoSchedule")))
    + text(3, entry(1, "cpu", QUANTITY_4) + entry(2, "cpu", text(2, text(1, "3500m"))) + number(99, 1))
)
"""A core/v1 Node with a field that nobody here knows."""
STATUS = number(1, 2) + text(2, text(1, "STOCKOUT") + text(2, "none left") + number(3, 1))

Answer = Callable[[bytes], bytes]


@asynccontextmanager
async def server(**answers: Answer) -> AsyncIterator[ExternalGrpcProvider]:
    """A server that knows bytes alone, and our client at it."""

    def method(answer: Answer) -> grpc.RpcMethodHandler:
        async def handle(request: bytes, context: grpc.aio.ServicerContext) -> bytes:
            return answer(request)

        return grpc.unary_unary_rpc_method_handler(handle)

    running = grpc.aio.server()
    running.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(PACKAGE, {n: method(a) for n, a in answers.items()}),)
    )
    port = running.add_insecure_port("127.0.0.1:0")
    await running.start()
    provider = ExternalGrpcProvider(GrpcConfig(address=f"127.0.0.1:{port}"), Calls("c", per_s=1000))
    try:
        yield provider
    finally:
        await provider.cleanup()
        await running.stop(None)


async def test_our_client_understands_a_server_of_the_original() -> None:
    asked: dict[str, bytes] = {}

    def heard(name: str, answer: bytes) -> Answer:
        def hear(request: bytes) -> bytes:
            asked[name] = request
            return answer

        return hear

    async with server(
        Refresh=heard("Refresh", b""),
        NodeGroups=heard("NodeGroups", text(1, GROUP)),
        GPULabel=heard("GPULabel", text(1, "gpu-type")),
        NodeGroupTargetSize=heard("NodeGroupTargetSize", number(1, 3)),
        NodeGroupIncreaseSize=heard("NodeGroupIncreaseSize", b""),
        NodeGroupDecreaseTargetSize=heard("NodeGroupDecreaseTargetSize", b""),
        NodeGroupDeleteNodes=heard("NodeGroupDeleteNodes", b""),
        NodeGroupNodes=heard("NodeGroupNodes", text(1, text(1, "p://1") + text(2, STATUS))),
        NodeGroupTemplateNodeInfo=heard("NodeGroupTemplateNodeInfo", text(2, NODE)),
        NodeGroupGetOptions=heard(
            "NodeGroupGetOptions",
            text(1, b"\x09" + b"\0\0\0\0\0\0\xe0?" + text(10, number(1, 60)) + number(6, 1)),
        ),
        NodeGroupForNode=heard("NodeGroupForNode", text(1, GROUP)),
    ) as provider:
        await provider.refresh()
        (group,) = provider.node_groups()
        assert (group.id, group.min_size, group.max_size, group.debug) == ("g", 1, 9, "a group")
        assert provider.gpu_label() == "gpu-type"
        fresh = await provider.group("g")
        assert await fresh.target_size() == 3
        assert asked["NodeGroupTargetSize"] == text(1, "g")
        await fresh.increase_size(2, key="k", expect=3)
        assert asked["NodeGroupIncreaseSize"] == number(1, 2) + text(2, "g")
        await fresh.decrease_target_size(-1, key="k", expect=5)
        assert asked["NodeGroupDecreaseTargetSize"] == number(1, -1) + text(2, "g")
        (instance,) = await fresh.nodes()
        assert (instance.id, instance.state) == ("p://1", InstanceState.CREATING)
        assert instance.error is not None
        assert (instance.error.error_class, instance.error.code) == (1, "STOCKOUT")
        await fresh.delete_nodes(["p://1"], key="k")
        assert asked["NodeGroupDeleteNodes"] == text(1, text(1, "p://1")) + text(2, "g")
        template = await group.template()
        assert (template.capacity, template.allocatable) == ({"cpu": "4"}, {"cpu": "3500m"})
        assert template.labels == {"kind": "m4"}
        assert [(t.key, t.value, t.effect) for t in template.taints] == [("dedicated", "batch", "NoSchedule")]
        options = await group.options(GroupOptions(scale_down_unneeded_s=600.0, max_node_startup_s=900.0))
        assert options == GroupOptions(
            scale_down_utilization_threshold=0.5,
            zero_or_max_node_scaling=True,
            scale_down_unneeded_s=600.0,
            max_node_startup_s=900.0,
            max_node_provision_s=60.0,
        )
        assert asked["NodeGroupGetOptions"] == text(1, "g") + text(2, text(8, number(1, 600)))
        found = await provider.node_group_for_node("p://1", {"a": "b"})
        assert found is not None
        assert asked["NodeGroupForNode"] == text(1, text(1, "p://1") + entry(3, "a", text(2, "b")))


async def test_what_a_server_does_not_implement_is_not_there() -> None:
    async with server(
        Refresh=lambda request: b"", NodeGroups=lambda request: text(1, GROUP), GPULabel=lambda request: b""
    ) as provider:
        await provider.refresh()
        (group,) = provider.node_groups()
        with pytest.raises(NotImplementedByCloud):
            await group.template()
        defaults = GroupOptions(scale_down_unneeded_s=600.0)
        assert await group.options(defaults) == defaults
        with pytest.raises(NotImplementedByCloud):
            await provider.pod_price({"cpu": 1000}, 0, 3600)


async def test_the_last_answer_stays_when_groups_cannot_be_listed() -> None:
    answers = [text(1, GROUP)]

    def groups(request: bytes) -> bytes:
        return answers.pop()

    async with server(
        Refresh=lambda request: b"", NodeGroups=groups, GPULabel=lambda request: b""
    ) as provider:
        await provider.refresh()
        with pytest.raises(Unavailable):
            await provider.refresh()
        assert [group.id for group in provider.node_groups()] == ["g"]


@pytest.mark.parametrize(
    ("code", "to_a_read", "to_an_order"),
    [
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "Throttled", QuotaExceeded),
        (grpc.StatusCode.UNKNOWN, "Unavailable", Invalid),
        (grpc.StatusCode.UNAUTHENTICATED, "Forbidden", Forbidden),
        (grpc.StatusCode.FAILED_PRECONDITION, "Conflict", Conflict),
        (grpc.StatusCode.DEADLINE_EXCEEDED, "Unavailable", Unavailable),
    ],
)
def test_codes_of_others_are_classes(
    code: grpc.StatusCode, to_a_read: str, to_an_order: type[Exception]
) -> None:
    from tidewright.cloud.externalgrpc.errors import of_rpc

    error = grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), details="why")
    assert of_rpc(error, "Call", changes=False).reason == to_a_read
    assert isinstance(of_rpc(error, "Call", changes=True), to_an_order)
    assert of_rpc(error, "Call", changes=True).message == "Call: why"


async def test_a_client_of_the_original_understands_our_server() -> None:
    async with ExternalGrpcBench() as bench:
        await bench.define("g", minimum=1, size=1)
        (machine,) = await bench.running("g")
        async with grpc.aio.insecure_channel(bench.provider._config.address) as channel:  # type: ignore[attr-defined]

            async def ask(method: str, request: bytes = b"") -> bytes:
                answer: bytes = await channel.unary_unary(f"/{PACKAGE}/{method}")(request)
                return answer

            await ask("Refresh")
            debug = text(4, "g (1..10, target 1)")
            assert await ask("NodeGroups") == text(1, text(1, "g") + number(2, 1) + number(3, 10) + debug)
            assert await ask("NodeGroupTargetSize", text(1, "g")) == number(1, 1)
            running = text(1, text(1, machine) + text(2, number(1, 1)))
            assert await ask("NodeGroupNodes", text(1, "g")) == running
            assert await ask("NodeGroupForNode", text(1, text(1, "elsewhere"))) == text(1, b"")
            found = await ask("NodeGroupForNode", text(1, text(1, machine)))
            assert found.startswith(text(1, text(1, "g") + number(2, 1) + number(3, 10) + debug)[:3])
            assert await ask("NodeGroupIncreaseSize", number(1, 2) + text(2, "g")) == b""
            assert await ask("NodeGroupTargetSize", text(1, "g")) == number(1, 3)
            assert await ask("NodeGroupDecreaseTargetSize", number(1, -2) + text(2, "g")) == b""
            template = await ask("NodeGroupTemplateNodeInfo", text(1, "g"))
            assert entry(1, "cpu", QUANTITY_4) in template
            assert entry(2, "cpu", QUANTITY_4) in template
            assert text(4, text(1, "Ready") + text(2, "True")) in template
            assert b"k8s\0" not in template
            options = await ask("NodeGroupGetOptions", text(1, "g") + text(2, text(8, number(1, 600))))
            assert text(8, number(1, 600)) in options
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await ask("NodeGroupTargetSize", text(1, "nowhere"))
            assert refused.value.code() is grpc.StatusCode.NOT_FOUND
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await ask("PricingNodePrice", text(1, text(1, machine)))
            assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_with_certificates_both_sides_show_one(tmp_path: Path) -> None:
    ours, theirs = Authority(tmp_path), Authority(tmp_path, "others")
    cert, key = ours.issue("server")
    credentials = grpc.ssl_server_credentials(
        ((key.read_bytes(), cert.read_bytes()),), ours.ca.read_bytes(), require_client_auth=True
    )
    running = CloudServer({})
    await running.start("127.0.0.1:0", credentials)

    def client(authority: Authority, ca: Path) -> ExternalGrpcProvider:
        own, own_key = authority.issue("client")
        return ExternalGrpcProvider(
            GrpcConfig(address=f"127.0.0.1:{running.port}", cert=str(own), key=str(own_key), cacert=str(ca)),
            Calls("c"),
        )

    good = client(ours, ours.ca)
    await good.refresh()
    assert good.node_groups() == []
    await good.cleanup()
    wrong = client(ours, theirs.ca)
    with pytest.raises(Forbidden) as refused:
        await wrong.refresh()
    assert f"Refresh 127.0.0.1:{running.port}" in refused.value.message
    assert "cacert has to be the authority of the server's certificate" in refused.value.message
    await wrong.cleanup()
    stranger = client(theirs, ours.ca)
    with pytest.raises(Unavailable, match="refuse the one that it is shown"):
        await stranger.refresh()
    await stranger.cleanup()
    await running.stop()


def test_the_configuration_is_a_file_of_the_original_or_an_address(tmp_path: Path) -> None:
    assert config_of("cloud.svc:8086") == GrpcConfig(address="cloud.svc:8086")
    file = tmp_path / "cloud.yaml"
    file.write_text("address: cloud:1\ngrpc_timeout: 1m30s\ncert: a\nkey: b\ncacert: c\n")
    config = config_of(str(file))
    assert (config.address, config.host, config.timeout_s) == ("cloud:1", "cloud", 90.0)
    for content, said in (
        ("{}", "address"),
        ("address: cloud", "address 'cloud': write host:port"),
        ("address: cloud:1\ncert: a", "there must be key and cacert"),
        ("address: cloud:1\ngrpc_timeout: soon", "soon"),
        ("address: cloud:1\nport: 1", "valid are address, cert, key, cacert, grpc_timeout"),
    ):
        file.write_text(content)
        with pytest.raises(ValueError, match=r"cloud\.yaml") as refused:
            config_of(str(file))
        assert said in str(refused.value)
    with pytest.raises(ValueError, match="neither HOST:PORT nor a file"):
        config_of(str(tmp_path / "nowhere"))


def test_an_instance_without_a_state_says_nothing_of_it() -> None:
    from tidewright.cloud.externalgrpc import objects
    from tidewright.cloud.externalgrpc.wire import externalgrpc_pb2 as wire

    message = wire.NodeGroupNodesResponse.FromString(
        text(1, text(1, "a")) + text(1, text(1, "b") + text(2, b""))
    )
    assert objects.instances_of(message) == (Instance(id="a"), Instance(id="b"))

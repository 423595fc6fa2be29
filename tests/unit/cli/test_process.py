"""Children beside what else the parent does."""

from __future__ import annotations

import asyncio

import grpc

from tidewright.cli import process


async def test_children_start_while_the_parent_serves_grpc() -> None:
    async def echo(request: bytes, _context: object) -> bytes:
        return request

    handlers = {"Say": grpc.unary_unary_rpc_method_handler(echo)}
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("echo", handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()

    async def ask() -> None:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            say = channel.unary_unary("/echo/Say")
            while True:
                await say(b"x")

    asking = [asyncio.create_task(ask()) for _ in range(4)]
    endings = []
    for _ in range(40):
        child = await process.spawn(("true",), {})
        endings.append(process.ending(await child.wait()))
    for task in asking:
        task.cancel()
    await asyncio.gather(*asking, return_exceptions=True)
    await server.stop(0)
    assert set(endings) == {"exit code 0"}

"""A large cluster in the embedded API server: 5,000 nodes and 150,000 pods, their memory, and a list of all pods.

The pods are bound, as they are in a cluster: with a node, a status, conditions. What is weighed is the API
server alone, in its own process; beside it, the bytes of the objects themselves.
"""

from __future__ import annotations

import asyncio
import re
import time

import msgspec
import psutil
import uvloop

from tests.bench.figures import Bench, Figure, Size, figure
from tests.bench.sim_clients import Clients, request
from tests.bench.sim_writes import CLIENTS, NAMESPACES, namespaces, pod, serving
from tidewright.sim.kubelets.nodes import node_manifest

MEMORY_TARGET_GIB, LIST_TARGET_S = 2.5, 30.0
PAGE = 500
_CONTINUE = re.compile(rb'"continue":"([^"]*)"')
_CONDITIONS = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")


def nodes(count: int) -> list[bytes]:
    capacity = {"cpu": "32", "memory": "128Gi", "pods": "110"}
    return [
        request(
            "POST",
            "/api/v1/nodes",
            msgspec.json.encode(node_manifest(f"node-{n}", capacity=capacity, now=0.0)),
        )
        for n in range(count)
    ]


def pods(first: int, count: int, machines: int) -> tuple[list[bytes], list[bytes]]:
    """Creates of bound pods, and patches that set their status, as a kubelet does."""
    made, statuses = [], []
    for n in range(first, first + count):
        obj = msgspec.json.decode(pod(f"web-{n}"))
        obj["spec"]["nodeName"] = f"node-{n % machines}"
        path = f"/api/v1/namespaces/team-{n % NAMESPACES}/pods"
        made.append(request("POST", path, msgspec.json.encode(obj)))
        at = "2026-11-21T11:00:02Z"
        status = {
            "phase": "Running", "hostIP": "10.1.0.1", "podIP": f"10.0.{n // 250 % 250}.{n % 250}", "startTime": at,
            "conditions": [{"type": kind, "status": "True", "lastTransitionTime": at} for kind in _CONDITIONS],
            "containerStatuses": [{"name": "main", "ready": True, "restartCount": 0, "image": "x", "imageID": "x",
                                   "state": {"running": {"startedAt": at}}}],
        }  # fmt: skip
        body = msgspec.json.encode({"status": status})
        statuses.append(request("PATCH", f"{path}/web-{n}/status", body, "application/merge-patch+json"))
    return made, statuses


async def list_all(url: str) -> tuple[int, int, float]:
    """Pages through all pods: how many, how many bytes, how many seconds."""
    host, port = url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=2**24)
    token, count, size = "", 0, 0
    begun = time.perf_counter()
    while True:
        writer.write(request("GET", f"/api/v1/pods?limit={PAGE}" + (f"&continue={token}" if token else "")))
        head = await reader.readuntil(b"\r\n\r\n")
        body = await reader.readexactly(int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0]))
        size += len(body)
        count += body.count(b'"containers":')
        found = _CONTINUE.search(body, 0, 1000)
        if found is None or not found[1]:
            writer.close()
            return count, size, time.perf_counter() - begun
        token = found[1].decode()


def run(size: Size) -> list[Figure]:
    machines, total = (5_000, 150_000) if size == "full" else (100, 3_000)
    with serving("api") as (url, process):
        namespaces(url)
        Clients(url, [nodes(machines)]).run()
        for first in range(0, total, 15_000):
            for requests in pods(first, min(15_000, total - first), machines):
                Clients(url, [requests[part::CLIENTS] for part in range(CLIENTS)]).run()
        weight = psutil.Process(process.pid).memory_info().rss / 2**30
        count, length, seconds = uvloop.run(list_all(url))
    if count != total:
        raise RuntimeError(f"{count} pods were listed, not {total}")
    return [
        figure(f"sim_size/{machines}_nodes_{total}_pods_memory", weight, "GiB", "lower", MEMORY_TARGET_GIB,
               baseline="the JSON of the pods alone", baseline_value=length / 2**30),
        figure(f"sim_size/list_of_{total}_pods_by_{PAGE}", seconds, "s", "lower", LIST_TARGET_S),
    ]  # fmt: skip


BENCHES = (Bench("sim_size", run),)

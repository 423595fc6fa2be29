"""Faults of simulated nodes and pods on request, and the cluster's clock, over HTTP.

/sim/clock                    GET   `{wall, log, speed}`: log time now, and how fast it runs
/sim/nodes                    GET   our nodes, and which of them are lost or failed
/sim/nodes/NODE               POST  `{"action": "lose" | "return" | "fail" | "recover"}`
/sim/pods/NAMESPACE/POD       POST  `{"action": "crash"}`: its containers end in place

Served beside every API server, and by the embedded one itself.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from aiohttp import web

from tidewright.kube.errors import KubeError
from tidewright.log.clock import Clock
from tidewright.sim.kubelets.kubelets import Kubelets

PATHS: Final = ("/sim/clock", "/sim/nodes", "/sim/pods")
_NODE_ACTIONS: Final = ("lose", "return", "fail", "recover")


class _Asked(msgspec.Struct, forbid_unknown_fields=True):
    action: str


class _FaultRefused(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class NodeFaults:
    """Answers the requests above; `kubelets` is None where nodes have none."""

    def __init__(self, kubelets: Kubelets | None, clock: Clock) -> None:
        self._kubelets = kubelets
        self._clock = clock

    async def handle(self, http: web.BaseRequest) -> web.StreamResponse:
        """Answer one request; refusals are Status objects."""
        try:
            return _json(await self._answer(http))
        except _FaultRefused as refusal:
            return _status(refusal.status, str(refusal))
        except KubeError as error:
            return _status(error.status or 503, error.message)

    async def _answer(self, http: web.BaseRequest) -> Any:
        parts = [part for part in http.path.split("/") if part][1:]
        match http.method, parts:
            case "GET", ["clock"]:
                wall = self._clock.wall_of(self._clock.now())
                return {"wall": wall, "log": self._clock.log_of(wall), "speed": self._clock.speed}
            case "GET", ["nodes"]:
                return self._listing()
            case "POST", ["nodes", node]:
                return await self._node(node, await _action(http))
            case "POST", ["pods", namespace, name]:
                return self._pod(namespace, name, await _action(http))
        known = {"clock": "GET", "nodes": "GET and, with a name, POST", "pods": "POST with NAMESPACE/NAME"}
        raise _FaultRefused(405, f"{http.method} {http.path}: valid is {known.get(parts[0], 'nothing')}")

    def _listing(self) -> list[dict[str, Any]]:
        kubelets = self._kubelets
        if kubelets is None:
            return []
        return [
            {"name": name, "lost": name in kubelets.lost, "failed": name in kubelets.failed}
            for name in kubelets.nodes
        ]

    async def _node(self, name: str, action: str) -> dict[str, Any]:
        kubelets = self._kubelets
        if action not in _NODE_ACTIONS:
            raise _FaultRefused(
                400, f"action {action!r} of node {name}: valid are {', '.join(_NODE_ACTIONS)}"
            )
        if kubelets is None or name not in kubelets.nodes:
            known = ", ".join(kubelets.nodes[:5]) if kubelets is not None else ""
            raise _FaultRefused(404, f"no simulated node {name}; there are {known or 'none'}")
        match action:
            case "lose":
                kubelets.lose(name)
            case "return":
                kubelets.restore(name)
            case _:
                await kubelets.fail(name, ready=action == "recover")
        return {"node": name, "action": action}

    def _pod(self, namespace: str, name: str, action: str) -> dict[str, Any]:
        if action != "crash":
            raise _FaultRefused(400, f"action {action!r} of pod {namespace}/{name}: valid is crash")
        if self._kubelets is None or not self._kubelets.crash(namespace, name):
            raise _FaultRefused(404, f"no pod {namespace}/{name} runs on a simulated node")
        return {"pod": f"{namespace}/{name}", "action": action}


async def _action(http: web.BaseRequest) -> str:
    try:
        return msgspec.json.decode(await http.read(), type=_Asked).action
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _FaultRefused(400, f'{error}; a body looks like {{"action": "lose"}}') from error


def _json(content: Any, status: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(content), status=status, content_type="application/json")


def _status(code: int, message: str) -> web.Response:
    reason = {400: "BadRequest", 404: "NotFound", 405: "MethodNotAllowed"}.get(code, "ServiceUnavailable")
    content = {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code,
    }  # fmt: skip
    return _json(content, code)

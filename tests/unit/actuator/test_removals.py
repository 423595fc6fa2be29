"""What the actuator makes of a server's answers about evictions, and its last look before instances are deleted."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import parse_qsl

import msgspec
import pytest

from tidewright.actuator import requests, verdict
from tidewright.actuator.allowance import Allowance
from tidewright.actuator.apply import Applier
from tidewright.actuator.nodelooks import MANY
from tidewright.actuator.occupied import PODS_EACH
from tidewright.actuator.verdict import Again, Closed, Done, Refused, Result
from tidewright.events.base import JsonObject, ObjectRef
from tidewright.events.decisions import DeleteObject, EvictPod
from tidewright.events.outcomes import Failed
from tidewright.events.provisioning import DeleteInstances
from tidewright.kube.discovery import Discovery
from tidewright.kube.errors import error_of
from tidewright.kube.taints import DRAIN, TO_BE_DELETED

EVICT = EvictPod(
    at=1.0,
    id="d.1",
    target=ObjectRef(api_version="v1", kind="Pod", namespace="shop", name="web-1", uid="u"),
    node="n1",
    grace_period_s=20,
)
DELETE = DeleteInstances(
    at=1.0,
    id="d.2",
    target=ObjectRef(api_version="cloud/v1", kind="NodeGroup", name="g"),
    instances=("i",),
    nodes=("n1",),
    uids=("un",),
)


_PATHS = {"/eviction": "eviction", "/pods?": "pods", "continue=": "page2", "/nodes?": "page1"}


class Server:
    """An API server with an answer for each path; the longest beginning counts."""

    def __init__(self, **answers: tuple[int, JsonObject]) -> None:
        self.answers = answers
        self.bodies: list[JsonObject] = []

    async def request(self, method: str, path: str, **options: Any) -> Any:
        if options.get("body"):
            self.bodies.append(msgspec.json.decode(options["body"]))
        kind = next((kind for end, kind in _PATHS.items() if end in path), "node")
        status, body = self.answers[kind]
        content = msgspec.json.encode(body)
        if status >= 400:
            raise error_of(status, content)
        return SimpleNamespace(body=content)


def applier(server: Server) -> Applier:
    return Applier(cast("Any", server), cast("Discovery", None))


async def free() -> None:
    """The budget of a test has no end."""


def status_of(code: int, reason: str, **details: Any) -> tuple[int, JsonObject]:
    return code, {"kind": "Status", "reason": reason, "message": "no", "code": code, "details": details}


async def evicted(code: int, reason: str, **details: Any) -> Result:
    return await applier(Server(eviction=status_of(code, reason, **details))).attempt(EVICT, Allowance(free))


async def test_a_budget_ends_an_eviction_at_once_and_says_which_it_was() -> None:
    causes = [{"reason": "DisruptionBudget", "message": "The disruption budget web needs 2 healthy pods"}]
    result = await evicted(429, "TooManyRequests", causes=causes, retryAfterSeconds=10)
    assert result == Closed(
        verdict.DISRUPTION_BUDGET, "no The disruption budget web needs 2 healthy pods", 10
    )
    outcome = verdict.outcome(EVICT, result, 2.0, 1)
    assert isinstance(outcome, Failed)
    assert (outcome.reason, outcome.retry_after_s) == ("DisruptionBudget", 10)


async def test_a_server_that_has_too_much_to_do_is_asked_again() -> None:
    assert isinstance(await evicted(429, "TooManyRequests", retryAfterSeconds=1), Again)


async def test_a_pod_that_is_gone_is_evicted_and_one_that_is_refused_is_not() -> None:
    assert await evicted(404, "NotFound") == Done(found=True)
    assert await evicted(409, "Conflict") == Done(found=True)
    assert isinstance(await evicted(403, "Forbidden"), Refused)


@pytest.mark.parametrize("code", [400, 403, 404, 409, 429, 500, 503])
async def test_what_a_webhook_denies_is_refused_whatever_its_status_says(code: int) -> None:
    """It chooses the status itself: with that of a pod that is gone the pod is there all the same."""
    denied = 'admission webhook "vpodeviction.kb.io" denied the request: not now'
    answer = status_of(code, "Denied")
    server = Server(eviction=(code, {**answer[1], "message": denied}))
    found = await applier(server).attempt(EVICT, Allowance(free))
    assert isinstance(found, Refused)
    assert denied in found.message


@pytest.mark.parametrize("code", [404, 409])
async def test_what_a_webhook_denies_is_not_taken_for_gone(code: int) -> None:
    denied = 'admission webhook "guard.example.com" denied the request: not now'
    answer = status_of(code, "Denied")
    server = Server(node=(code, {**answer[1], "message": denied}))
    found = await applier(server).attempt(
        DeleteObject(at=1.0, id="d.3", target=EVICT.target), Allowance(free)
    )
    assert isinstance(found, Refused)
    assert denied in found.message


def test_an_eviction_asks_for_the_grace_period_that_was_decided() -> None:
    body = msgspec.json.decode(requests.eviction_body(EVICT, "u"))
    assert body["deleteOptions"] == {"preconditions": {"uid": "u"}, "gracePeriodSeconds": 20}


def drained(*, uid: str = "un", marked: bool = True) -> tuple[int, JsonObject]:
    taints = [{"key": TO_BE_DELETED, "effect": "NoSchedule"}]
    annotations = {DRAIN: "d"} if marked else {}
    return 200, {"metadata": {"uid": uid, "annotations": annotations}, "spec": {"taints": taints}}


@pytest.mark.parametrize(
    ("node", "pods", "reason"),
    [
        (drained(), [], ""),
        (drained(), [{"metadata": {"name": "web-2", "namespace": "shop"}}], "NodeNotEmpty"),
        (drained(), [{"metadata": {"deletionTimestamp": "now"}}], ""),
        (drained(uid="other"), [], "Conflict"),
        (drained(marked=False), [], "Conflict"),
        (status_of(404, "NotFound"), [], ""),
        (status_of(503, "ServiceUnavailable"), [], "Unavailable"),
    ],
)
async def test_no_instance_is_deleted_but_of_a_node_that_is_drained_and_empty(
    node: tuple[int, JsonObject], pods: list[JsonObject], reason: str
) -> None:
    server = Server(node=node, pods=(200, {"items": pods}))
    found = await applier(server).occupied(DELETE, Allowance(free))
    assert (found.reason if found is not None else "") == reason


class Listing:
    """An API server of some nodes and pods that lists no more than it is asked for, and remembers what it was asked."""

    def __init__(self, nodes: dict[str, JsonObject], pods: list[JsonObject]) -> None:
        self.nodes, self.pods = nodes, pods
        self.asked: list[str] = []

    async def request(self, method: str, path: str, **options: Any) -> Any:
        self.asked.append(path)
        name, _, query = path.removeprefix("/api/v1/").partition("?")
        kind, _, one = name.partition("/")
        asked = dict(parse_qsl(query))
        if one:
            if one not in self.nodes:
                raise error_of(404, b"{}")
            return SimpleNamespace(body=msgspec.json.encode(self.nodes[one]))
        items = list(self.nodes.values()) if kind == "nodes" else self.pods
        if node := asked.get("fieldSelector", "").removeprefix("spec.nodeName="):
            items = [pod for pod in items if pod["spec"]["nodeName"] == node]
        most = int(asked.get("limit", len(items)))
        metadata = {"continue": "more"} if len(items) > most else {}
        return SimpleNamespace(body=msgspec.json.encode({"metadata": metadata, "items": items[:most]}))


def _several(count: int) -> tuple[DeleteInstances, dict[str, JsonObject]]:
    """A deletion of nodes `n0`, `n1`, ... and those, drained."""
    names = tuple(f"n{i}" for i in range(count))
    nodes = {name: drained(uid=f"u{name}")[1] for name in names}
    for name, node in nodes.items():
        node["metadata"]["name"] = name
    uids = tuple(f"u{name}" for name in names)
    return msgspec.structs.replace(DELETE, instances=names, nodes=names, uids=uids), nodes


def _on(node: str, name: str) -> JsonObject:
    return {"metadata": {"name": name, "namespace": "shop"}, "spec": {"nodeName": node}}


def _other_nodes(count: int) -> dict[str, JsonObject]:
    return {f"other-{i}": {"metadata": {"name": f"other-{i}", "uid": "u"}} for i in range(count)}


@pytest.mark.parametrize(
    ("others", "pods_elsewhere", "by_lists"),
    [
        (0, 0, True),
        (4 * MANY, PODS_EACH * MANY, True),
        (5 * MANY, 0, False),
        (0, PODS_EACH * MANY + 1, False),
    ],
    ids=["alone", "hardly more", "more nodes", "more pods"],
)
@pytest.mark.parametrize(
    ("spoil", "reason"),
    [("", ""), ("pod", "NodeNotEmpty"), ("mark", "Conflict"), ("uid", "Conflict"), ("gone", "")],
)
async def test_many_nodes_are_looked_at_as_each_alone_would_be_by_two_lists_where_those_are_short(
    *, others: int, pods_elsewhere: int, by_lists: bool, spoil: str, reason: str
) -> None:
    effect, nodes = _several(MANY)
    pods = [_on("elsewhere", f"p{i}") for i in range(pods_elsewhere)]
    if spoil == "pod":
        pods = [_on("n3", "web-2"), *pods[1:]]
    elif spoil == "gone":
        del nodes["n3"]
    elif spoil == "mark":
        nodes["n3"]["metadata"]["annotations"] = {}
    elif spoil:
        nodes["n3"]["metadata"]["uid"] = "other"
    server = Listing(nodes | _other_nodes(others), pods)
    found = await Applier(cast("Any", server), cast("Discovery", None)).occupied(effect, Allowance(free))
    assert (found.reason if found is not None else "") == reason
    assert found is None or "n3" in found.message
    assert found is None or (isinstance(found, Refused) and found.result == {"nodes": ["n3"]})
    lists = [path for path in server.asked if "limit=" in path]
    assert (len(server.asked) == 2) == by_lists
    assert [path.partition("?")[0] for path in lists] == ["/api/v1/nodes", "/api/v1/pods"][: len(lists)]


async def test_a_few_nodes_are_looked_at_one_by_one() -> None:
    effect, nodes = _several(MANY - 1)
    server = Listing(nodes, [])
    assert (
        await Applier(cast("Any", server), cast("Discovery", None)).occupied(effect, Allowance(free)) is None
    )
    assert len(server.asked) == 2 * (MANY - 1)


_OF_I = {"metadata": {"name": "n1"}, "spec": {"providerID": "i"}}
_OTHER = {"metadata": {"name": "n0"}, "spec": {"providerID": "j"}}
_NAMED_AS_I = {"metadata": {"name": "i"}, "spec": {}}
_NOT_YET_KNOWN = {
    "metadata": {"name": "n1"},
    "spec": {"taints": [{"key": "node.cloudprovider.kubernetes.io/uninitialized", "effect": "NoSchedule"}]},
}
_OF_NO_CLOUD = {"metadata": {"name": "on-premises"}, "spec": {}}


@pytest.mark.parametrize(
    ("nodes", "there", "pods", "reason"),
    [
        (("",), [_OTHER], [], ""),
        (("",), [_OTHER, _OF_I], [], "Conflict"),
        (("",), [_NAMED_AS_I], [], "Conflict"),
        (("",), [_NOT_YET_KNOWN], [], "Conflict"),
        (("",), [_OF_NO_CLOUD], [], ""),
        (("n1",), [_OF_I], [], ""),
        (("n1",), [_OF_I], [{"metadata": {"name": "web-2", "namespace": "shop"}}], "NodeNotEmpty"),
    ],
)
async def test_no_instance_is_deleted_that_became_a_node_meanwhile_or_has_pods(
    nodes: tuple[str, ...], there: list[JsonObject], pods: list[JsonObject], reason: str
) -> None:
    """The actuator may come to a decision long after it was taken, and an earlier version names no uids."""
    server = Server(
        page1=(200, {"items": [], "metadata": {"continue": "t&1"}}),
        page2=(200, {"items": there}),
        pods=(200, {"items": pods}),
    )
    found = await applier(server).occupied(
        msgspec.structs.replace(DELETE, nodes=nodes, uids=()), Allowance(free)
    )
    assert (found.reason if found is not None else "") == reason

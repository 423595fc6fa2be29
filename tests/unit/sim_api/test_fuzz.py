"""Whatever is asked, the API server answers with a reason and goes on: never 500, never dead."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.e2e.api.crontabs import crontab, definition
from tests.waiting import until
from tidewright.sim.api.http.answers import Answer, Headers
from tidewright.sim.api.server import ApiServer

GROUP = "fuzz.tidewright.test"
POD: dict[str, Any] = {
    "metadata": {"name": "p", "labels": {"a": "b"}, "finalizers": ["example.com/hold"]},
    "spec": {
        "containers": [
            {
                "name": "main",
                "image": "x",
                "ports": [{"containerPort": 80}],
                "env": [{"name": "A", "value": "b"}],
                "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}},
                "readinessProbe": {"httpGet": {"port": 80}},
            }
        ],
        "tolerations": [{"key": "a", "operator": "Exists"}],
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"a": "b"}},
            }
        ],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}
                    ]
                }
            }
        },
        "volumes": [{"name": "v", "emptyDir": {}}],
    },
    "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
}
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": POD["spec"]}
SELECTOR = {"matchLabels": {"a": "b"}}
OBJECTS: dict[str, dict[str, Any]] = {
    "/api/v1/namespaces/default/pods": POD,
    "/api/v1/namespaces/default/configmaps": {"metadata": {"name": "p"}, "data": {"a": "b"}},
    "/api/v1/namespaces/default/secrets": {"metadata": {"name": "p"}, "stringData": {"a": "b"}},
    "/api/v1/namespaces/default/services": {"metadata": {"name": "p"}, "spec": {"ports": [{"port": 80}], "selector": {"a": "b"}}},
    "/api/v1/namespaces/default/events": {"metadata": {"name": "p"}, "involvedObject": {"kind": "Pod", "name": "p"}, "reason": "R"},
    "/api/v1/namespaces/default/resourcequotas": {"metadata": {"name": "p"}, "spec": {"hard": {"pods": "1k"}}},
    "/api/v1/namespaces/default/limitranges": {"metadata": {"name": "p"}, "spec": {"limits": [{"type": "Container", "max": {"cpu": "1"}}]}},
    "/api/v1/namespaces": {"metadata": {"name": "p"}},
    "/api/v1/nodes": {"metadata": {"name": "p"}, "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}, "status": {"capacity": {"cpu": "1"}}},
    "/apis/apps/v1/namespaces/default/deployments": {"metadata": {"name": "p"}, "spec": {"replicas": 0, "selector": SELECTOR, "template": TEMPLATE, "strategy": {"rollingUpdate": {"maxSurge": "25%"}}}},
    "/apis/apps/v1/namespaces/default/statefulsets": {"metadata": {"name": "p"}, "spec": {"selector": SELECTOR, "template": TEMPLATE, "serviceName": "p"}},
    "/apis/apps/v1/namespaces/default/daemonsets": {"metadata": {"name": "p"}, "spec": {"selector": SELECTOR, "template": TEMPLATE}},
    "/apis/batch/v1/namespaces/default/jobs": {"metadata": {"name": "p"}, "spec": {"template": TEMPLATE, "completions": 1}},
    "/apis/batch/v1/namespaces/default/cronjobs": {"metadata": {"name": "p"}, "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": TEMPLATE}}}},
    "/apis/policy/v1/namespaces/default/poddisruptionbudgets": {"metadata": {"name": "p"}, "spec": {"minAvailable": "50%", "selector": SELECTOR}},
    "/apis/scheduling.k8s.io/v1/priorityclasses": {"metadata": {"name": "p"}, "value": 5},
    "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers": {"metadata": {"name": "p"}, "spec": {"maxReplicas": 2, "scaleTargetRef": {"kind": "Deployment", "name": "p"}}},
    "/apis/coordination.k8s.io/v1/namespaces/default/leases": {"metadata": {"name": "p"}, "spec": {"holderIdentity": "x"}},
    "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings": {"metadata": {"name": "p"}, "roleRef": {"kind": "Role", "name": "r"}, "subjects": [{"kind": "User", "name": "u"}]},
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions": definition("other.tidewright.test"),
    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews": {"spec": {"resourceAttributes": {"verb": "get"}}},
    f"/apis/{GROUP}/v1/namespaces/default/crontabs": crontab(GROUP, "p", replicas=1),
}  # fmt: skip
PATCHES = (
    "application/merge-patch+json", "application/json-patch+json", "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)  # fmt: skip
OTHER_MEDIA = ("application/yaml", "text/plain", "application/vnd.kubernetes.protobuf", "")
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=8), st.sampled_from(["p", "a", "1", "-1", "25%", "1Gi", "2026-11-21T00:00:00Z", "A b", "x" * 300]),
)  # fmt: skip
values = st.recursive(
    scalars,
    lambda below: st.one_of(
        st.lists(below, max_size=3),
        st.dictionaries(st.sampled_from(["name", "a", "metadata", "spec", "$patch", "op", "path", "f:x", ""]), below, max_size=3),
    ),
    max_leaves=6,
)  # fmt: skip
queries = st.lists(
    st.sampled_from([
        "dryRun=All", "dryRun=x", "fieldManager=me", "fieldManager=", "force=true", "fieldValidation=Strict",
        "fieldValidation=x", "limit=1", "limit=x", "limit=-1", "continue=x", "continue=e30", "resourceVersion=0",
        "resourceVersion=x", "resourceVersion=99999999999999999999", "resourceVersionMatch=Exact", "labelSelector=a%3Db",
        "labelSelector=%21%21", "fieldSelector=metadata.name%3Dp", "fieldSelector=x%3D1", "propagationPolicy=Orphan",
        "propagationPolicy=x", "gracePeriodSeconds=-5", "gracePeriodSeconds=x", "pretty=true", "%ff=%00",
    ]),
    max_size=2,
)  # fmt: skip
subresources = st.sampled_from(
    [*[""] * 9, "/status", "/scale", "/binding", "/eviction", "/finalize", "/resize", "/x"]
)
accepts = st.sampled_from([
    *["application/json"] * 9, "", "*/*", "application/json;as=Table;v=v1;g=meta.k8s.io", "text/html",
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
])  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value in an object."""
    yield path
    if isinstance(value, dict):
        for key, below in value.items():
            yield from places(below, (*path, key))
    elif isinstance(value, list):
        for index, below in enumerate(value):
            yield from places(below, (*path, index))


def put(obj: Any, path: tuple[Any, ...], value: Any) -> Any:
    """A copy of an object with another value at a path."""
    if not path:
        return value
    changed = copy.deepcopy(obj)
    at = changed
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value
    return changed


@st.composite
def bodies(draw: st.DrawFn, valid: dict[str, Any]) -> bytes:
    """Something like the object: it, it with other values in places, other JSON, or bytes."""
    choice = draw(st.integers(0, 9))
    if choice == 0:
        return draw(st.binary(max_size=40))
    if choice == 1:
        return msgspec.json.encode(draw(values))
    if choice == 2:
        operation = st.fixed_dictionaries(
            {"op": st.sampled_from(["add", "remove", "replace", "test", "move", "copy", "x"])},
            optional={
                "path": st.sampled_from(["/spec", "/metadata/labels/a", "/metadata/name", "", "x", "/spec/containers/-"]),
                "from": st.sampled_from(["/spec", "/nope"]),
                "value": values,
            },
        )  # fmt: skip
        return msgspec.json.encode(draw(st.lists(operation, max_size=3)))
    obj: Any = valid
    for _ in range(draw(st.integers(0, 3))):
        found = list(places(obj))
        obj = put(obj, draw(st.sampled_from(found)), draw(values))
    if choice == 3 and isinstance(obj, dict) and isinstance(obj.get("metadata"), dict):
        extra = draw(
            st.sampled_from(
                ["resourceVersion", "uid", "ownerReferences", "managedFields", "generateName", "annotations"]
            )
        )
        obj = put(obj, ("metadata", extra), draw(values))
    return msgspec.json.encode(obj)


@st.composite
def requests(draw: st.DrawFn) -> tuple[str, str, Headers, bytes]:
    collection = draw(st.sampled_from(sorted(OBJECTS)))
    method = draw(st.sampled_from(["POST", "POST", "PATCH", "PATCH", "PUT", "GET", "DELETE"]))
    target = collection
    if method in {"PATCH", "PUT"} or (method != "POST" and draw(st.booleans())):
        target += draw(st.sampled_from([*["/p"] * 9, "/none", "/%2e%2e", "/A%20b"])) + draw(subresources)
    query = "&".join(draw(queries))
    usual = PATCHES * 3 if method == "PATCH" else ("application/json",) * 12
    headers = Headers(
        {"content-type": draw(st.sampled_from((*usual, *OTHER_MEDIA))), "accept": draw(accepts)}
    )
    return method, f"{target}?{query}" if query else target, headers, draw(bodies(OBJECTS[collection]))


@pytest.fixture
async def server() -> Any:
    async with ApiServer() as running:
        frontend = running._frontend  # the handler itself: thousands of requests without sockets
        made = [("/api/v1/namespaces/default/pods", POD)]
        made += [(path, obj) for path, obj in OBJECTS.items() if obj.get("metadata", {}).get("name") == "p"]
        made.insert(0, ("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition(GROUP)))
        for path, obj in made:
            await frontend.answer("POST", path, Headers(), msgspec.json.encode(obj))
        yield running


@settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(asked=st.lists(requests(), min_size=1, max_size=4))
async def test_no_request_is_a_server_error(
    server: ApiServer, asked: list[tuple[str, str, Headers, bytes]]
) -> None:
    for method, target, headers, body in asked:
        answer: Answer = await server._frontend.answer(method, target, headers, body)  # as above
        # what the API server itself answers 5xx is told plainly; a defect is an internal error
        assert answer.code < 500 or b"Internal error occurred" not in answer.body, (
            method, target, dict(headers), body, answer.body,
        )  # fmt: skip
        if answer.code >= 400 and b"404 page not found" not in answer.body:
            status = msgspec.json.decode(answer.body)
            assert (status["kind"], status["status"], status["code"]) == ("Status", "Failure", answer.code)
            assert status["message"]
    await asyncio.sleep(0)
    alive = await server._frontend.answer("GET", "/api/v1/namespaces/kube-system", Headers(), b"")
    assert alive.code == 200


@pytest.mark.parametrize("amount", [b"true", b"false", b'"much"', b"{}"])
async def test_what_is_no_quantity_is_refused_in_a_template_too(server: ApiServer, amount: bytes) -> None:
    body = (
        b'{"metadata":{"name":"q"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":'
        b'{"a":"b"}},"spec":{"containers":[{"name":"c","image":"x","resources":{"requests":{"name":'
        + amount
        + b"}}}]}}}}"
    )
    headers = Headers({"content-type": "application/json"})
    answer = await server._frontend.answer(
        "POST", "/apis/apps/v1/namespaces/default/daemonsets", headers, body
    )
    assert answer.code == 400


lines = st.sampled_from([
    b"GET /api/v1/nodes HTTP/1.1\r\n", b"POST /api/v1/namespaces HTTP/1.1\r\n", b"GET  /x HTTP/1.1\r\n", b"PATCH * HTTP/1.1\r\n",
    b"BREW /pot HTTP/1.1\r\n", b"GET /api/v1/nodes?watch=1&timeoutSeconds=1 HTTP/1.1\r\n", b"GET /version HTTP/1.0\r\n",
    b"Host: x\r\n", b"Content-Length: 5\r\n", b"Content-Length: -1\r\n", b"Content-Length: 99999999\r\n", b"Content-Length: 1, 2\r\n",
    b"Transfer-Encoding: chunked\r\n", b"Connection: close\r\n", b"Expect: 100-continue\r\n", b"Upgrade: websocket\r\n",
    b"no colon\r\n", b": empty\r\n", b"a b: c\r\n", b"\r\n", b"\r\n", b"{}\r\n", b"2\r\n{}\r\n0\r\n\r\n", b"\x00\xff\x16\x03\x01",
])  # fmt: skip


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(sent=st.lists(st.lists(lines, max_size=8), min_size=1, max_size=3))
async def test_no_bytes_stop_the_server(server: ApiServer, sent: list[list[bytes]]) -> None:
    host, port = server.url.removeprefix("http://").split(":")
    async with asyncio.timeout(90):
        for parts in sent:
            _, writer = await asyncio.open_connection(host, int(port))
            for part in parts:
                writer.write(part)
                await asyncio.sleep(0)
            writer.close()
        reader, writer = await asyncio.open_connection(host, int(port))
        # in two pieces, and another behind it
        writer.write(b"GET /api/v1/namespaces/kube-system HTTP/1.1\r\nHo")
        await writer.drain()
        writer.write(b"st: x\r\n\r\nGET /api/v1/namespaces/none HTTP/1.1\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        while b"HTTP/1.1 404" not in await reader.readline():
            pass
        writer.close()


async def test_a_body_that_is_too_large_is_refused(server: ApiServer) -> None:
    host, port = server.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"POST /api/v1/namespaces HTTP/1.1\r\nHost: x\r\nContent-Length: 9999999\r\n\r\n")
    async with asyncio.timeout(90):
        assert (await reader.readline()).startswith(b"HTTP/1.1 413")
    writer.close()


async def test_hundreds_of_watches_and_slow_ones(server: ApiServer) -> None:
    """A reader that does not read holds nobody up, and everybody else is told everything."""
    host, port = server.url.removeprefix("http://").split(":")
    path = "/api/v1/namespaces/default/configmaps"
    ask = f"GET {path}?watch=true&fieldSelector=metadata.name%3Dw HTTP/1.1\r\nHost: x\r\n\r\n".encode()
    open_ = [await asyncio.open_connection(host, int(port)) for _ in range(300)]
    for _, writer in open_:
        writer.write(ask)
    async with asyncio.timeout(60):
        await until(lambda: len(server._frontend.watches) >= len(open_))
        body = msgspec.json.encode({"metadata": {"name": "w"}, "data": {"a": "x" * 1000}})
        made = await server._frontend.answer("POST", path, Headers(), body)
        assert made.code == 201
        reading, gone = open_[:200], open_[200:250]
        for _, writer in gone:
            writer.close()
        for reader, _ in reading:
            found = await reader.readuntil(b'"type":"ADDED"')
            assert found.startswith(b"HTTP/1.1 200")
    for _, writer in open_:
        writer.close()


@pytest.mark.parametrize("depth", [200, 450, 900, 20_000])
async def test_what_is_nested_too_deeply_is_refused(server: ApiServer, depth: int) -> None:
    answers = server._frontend.answer
    nested = b'{"a":' * depth + b"1" + b"}" * depth
    body = b'{"metadata":{"name":"deep"},"spec":%s}' % nested
    for path in (f"/apis/{GROUP}/v1/namespaces/default/crontabs", "/api/v1/namespaces/default/pods"):
        found = await answers("POST", path, Headers({"content-type": "application/json"}), body)
        assert found.code in {400, 422}
    merge = Headers({"content-type": "application/merge-patch+json"})
    found = await answers("PATCH", "/api/v1/namespaces/default/configmaps/p", merge, b'{"data":%s}' % nested)
    assert found.code in {400, 422}


async def test_aliases_are_not_written_out_without_end(server: ApiServer) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    body = "\n".join(["metadata: {name: bomb}", *lines]).encode()
    yaml = Headers({"content-type": "application/yaml"})
    found = await server._frontend.answer("POST", "/api/v1/namespaces/default/configmaps", yaml, body)
    assert found.code == 400
    assert b"excessive aliasing" in found.body

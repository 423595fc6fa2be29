"""What the pods of a source are like: which pod is the model, and what each answer of the API server means."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tidewright.actuator.resolving import Model, Resolver, model
from tidewright.actuator.verdict import Again, Done, Refused, Result
from tidewright.events.base import JsonObject, ObjectRef
from tidewright.events.provisioning import ResolvePod
from tidewright.kube.discovery import Resource
from tidewright.kube.errors import KubeError

BUFFER = ObjectRef(
    api_version="autoscaling.x-k8s.io/v1beta1", kind="CapacityBuffer", namespace="ns", name="b"
)
TEMPLATE = {
    "metadata": {"labels": {"a": "b"}},
    "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]},
}


def pod(name: str, created: str, phase: str = "Running", **metadata: Any) -> JsonObject:
    return {
        "metadata": {"name": name, "creationTimestamp": created, **metadata},
        "spec": {"nodeName": "n", "containers": [{"name": name, "image": "i"}]},
        "status": {"phase": phase},
    }


class Server:
    """Answers by path, and remembers what it was sent; an answer that is an error is raised."""

    def __init__(self, **answers: Any) -> None:
        self.answers, self.sent = answers, []  # type: ignore[var-annotated]  # pairs of path and body

    async def ask(self, method: str, path: str, body: bytes | None) -> JsonObject:
        self.sent.append((f"{method} {path}", msgspec.json.decode(body) if body else None))
        last = path.partition("?")[0].rpartition("/")[2]
        answer = self.answers.get(f"{method}_{last}".lower(), KubeError(404, "NotFound", f"{last} not found"))
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[no-any-return]  # as it was given

    async def place(self, source: ObjectRef) -> Resource:
        group = source.api_version.rpartition("/")[0]
        if group == "nowhere.io":
            raise KubeError(404, "NotFound", f'no matches for kind "{source.kind}"')
        return Resource(group, "v1", f"{source.kind.lower()}s", source.kind, True, True)

    async def resolved(self, kind: str, api_version: str = "v1", *, admission: bool = True) -> Result:
        source = ObjectRef(api_version=api_version, kind=kind, namespace="ns", name="x")
        effect = ResolvePod(at=1.0, target=BUFFER, source=source, admission=admission)
        return await Resolver(self.ask, self.place).attempt(effect)


async def test_a_template_is_tried_and_what_admission_made_of_it_is_told() -> None:
    changed = {"metadata": {"labels": {"a": "b", "injected": "yes"}}, "spec": {"priority": 7, "containers": [
        {"name": "c", "image": "i", "env": [{"name": "SECRET", "value": "s3cret"}], "resources": {"limits": {"cpu": "2"}}},
    ], "volumes": [{"name": "kube-api-access-x1", "projected": {}}]}}  # fmt: skip
    server = Server(get_x={"template": TEMPLATE}, post_pods=changed)
    answer = await server.resolved("PodTemplate")
    assert isinstance(answer, Done)
    resources = {"limits": {"cpu": "2"}, "requests": {"cpu": "2"}}
    assert answer.result == {
        "template": {
            "metadata": {"labels": {"a": "b", "injected": "yes"}},
            "spec": {"priority": 7, "containers": [{"name": "c", "image": "i", "resources": resources}]},
        }
    }
    path, body = server.sent[-1]
    assert path == "POST /api/v1/namespaces/ns/pods?dryRun=All"
    assert body["metadata"]["generateName"] == "fake-pod-"
    assert "nodeName" not in body["spec"]


async def test_without_admission_the_source_is_read_only() -> None:
    server = Server(get_x={"template": TEMPLATE})
    assert isinstance(await server.resolved("PodTemplate", admission=False), Done)
    assert [path for path, _ in server.sent] == ["GET /api/v1/namespaces/ns/podtemplates/x"]


@pytest.mark.parametrize(
    ("answers", "stage"),
    [({}, "template"), ({"get_x": {"template": TEMPLATE}, "post_pods": KubeError(403, "Forbidden", "no")}, "admission")],
)  # fmt: skip
async def test_a_refusal_says_at_which_stage_it_was(answers: dict[str, Any], stage: str) -> None:
    answer = await Server(**answers).resolved("PodTemplate")
    assert isinstance(answer, Refused)
    assert answer.result == {"stage": stage}


async def test_a_server_that_is_unwell_is_asked_again() -> None:
    unwell = KubeError(503, "ServiceUnavailable", "later")
    for server in (Server(get_x=unwell), Server(get_x={"template": TEMPLATE}, post_pods=unwell)):
        assert isinstance(await server.resolved("PodTemplate"), Again)
    assert isinstance(await Server(get_scale=unwell).resolved("Deployment", "apps/"), Again)


async def test_the_newest_running_pod_of_a_workload_is_the_model_and_is_not_tried() -> None:
    pods = {"items": [pod("old", "2026-01-01T00:00:00Z"), pod("new", "2026-01-02T00:00:00Z")]}
    scale = {"spec": {"replicas": 5}, "status": {"replicas": 2, "selector": "a=b"}}
    workload = {"spec": {"replicas": 5, "template": TEMPLATE}}
    server = Server(get_scale=scale, get_pods=pods, get_x=workload)
    answer = await server.resolved("Deployment", "apps/")
    assert isinstance(answer, Done)
    assert answer.result["replicas"] == 5
    assert answer.result["live"] is True
    assert answer.result["template"]["spec"] == {"containers": [{"name": "new", "image": "i"}]}
    assert not any(path.startswith("POST") for path, _ in server.sent)


async def test_a_kind_that_is_not_served_is_named() -> None:
    answer = await Server().resolved("Fleet", "nowhere.io/")
    assert isinstance(answer, Refused)
    assert answer.message.startswith("failed to resolve scalable object: ")
    assert 'no matches for kind "Fleet"' in answer.message


def test_pods_that_failed_or_go_are_no_model_nor_is_any_without_a_selector() -> None:
    gone = pod("gone", "2026-01-03T00:00:00Z", deletionTimestamp="2026-01-04T00:00:00Z")
    failed = pod("failed", "2026-01-03T00:00:00Z", "Failed")
    workload = {"spec": {"replicas": 3, "template": TEMPLATE}}
    found = model("apps", "ReplicaSet", scale=None, pods=[gone, failed], workload=workload)
    assert found == Model(template=TEMPLATE, replicas=3)


@pytest.mark.parametrize(
    ("group", "kind", "spec", "replicas"),
    [("batch", "Job", {"parallelism": 4}, 4), ("apps", "StatefulSet", {}, 1), ("", "ReplicationController", {"replicas": 0}, 0)],
)  # fmt: skip
def test_how_many_a_workload_wants_is_in_its_own_member(
    group: str, kind: str, spec: JsonObject, replicas: int
) -> None:
    found = model(group, kind, scale=None, pods=[], workload={"spec": {**spec, "template": TEMPLATE}})
    assert isinstance(found, Model)
    assert found.replicas == replicas

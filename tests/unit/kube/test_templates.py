"""The form of pod templates: said once per content, without what may be secret."""

from __future__ import annotations

import msgspec
import pytest

from tidewright.events.base import JsonObject
from tidewright.events.facts import TemplateObserved
from tidewright.kube.projection.reading import Malformed
from tidewright.kube.projection.workloads import workload
from tidewright.kube.templates import LEFT_OUT, Templates

SECRET = "s3cret"


def deployment(spec: JsonObject, revision: str = "1", **more: object) -> bytes:
    template = {"metadata": {"labels": {"app": "web", "pod-template-hash": revision}}, "spec": spec}
    return msgspec.json.encode(
        {"metadata": {"name": "web", "namespace": "shop"}, "spec": {"template": template, **more}}
    )


def template(raw: bytes) -> TemplateObserved:
    found = workload("apps/v1", "Deployment")(raw).shape
    assert isinstance(found, TemplateObserved)
    return found


def test_no_text_that_may_be_secret_is_told() -> None:
    probe = {
        "exec": {"command": ["check", SECRET]},
        "httpGet": {"path": "/", "httpHeaders": [{"name": "Auth", "value": SECRET}]},
    }
    container: JsonObject = {
        "name": "main",
        "image": "web:1",
        "command": ["run", SECRET],
        "args": [f"--password={SECRET}"],
        "env": [
            {"name": "PASSWORD", "value": SECRET},
            {"name": "EMPTY", "value": ""},
            {"name": "FROM", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
        ],
        "livenessProbe": probe,
        "readinessProbe": probe,
        "startupProbe": probe,
        "lifecycle": {"postStart": probe, "preStop": probe},
    }
    volumes = [
        {"name": "c", "csi": {"driver": "d", "volumeAttributes": {"key": SECRET}}},
        {"name": "f", "flexVolume": {"driver": "d", "options": {"key": SECRET}}},
    ]
    spec = {name: [container] for name in ("containers", "initContainers", "ephemeralContainers")}
    told = template(deployment({**spec, "volumes": volumes}))
    assert SECRET not in msgspec.json.encode(told).decode()
    (main,) = told.spec["containers"]
    assert main["args"] == [LEFT_OUT]
    assert [variable.get("value") for variable in main["env"]] == [LEFT_OUT, "", None]
    assert told.spec["volumes"][0]["csi"]["volumeAttributes"] == {"key": LEFT_OUT}


def test_revisions_that_differ_in_labels_alone_are_one_content() -> None:
    spec = {"containers": [{"name": "main", "image": "web:1"}]}
    assert template(deployment(spec)).digest == template(deployment(spec, "2")).digest
    assert template(deployment(spec)).digest != template(deployment({**spec, "hostNetwork": True})).digest


def test_claims_are_told_by_name() -> None:
    claims = [{"metadata": {"name": "data"}, "spec": {"storageClassName": "fast"}}]
    assert template(deployment({}, volumeClaimTemplates=claims)).claims == ("data",)


def test_the_same_bytes_are_read_once() -> None:
    templates = Templates()
    assert templates.of("a", b"{}", b"null") is templates.of("a", b"{}", b"null")
    assert templates.of("b", b"{}", b"null").digest != templates.of("a", b"{}", b"null").digest


@pytest.mark.parametrize("spec", [3, {"containers": 3}, {"containers": ["x"]}, {"volumes": [{"csi": 3}]}])
def test_a_template_that_cannot_be_read_names_the_workload(spec: object) -> None:
    with pytest.raises(Malformed, match="Deployment shop/web"):
        workload("apps/v1", "Deployment")(deployment(spec))  # type: ignore[arg-type]  # malformed on purpose

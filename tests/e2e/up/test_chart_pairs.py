"""Every two values of every two options of the chart, as an API server takes them that knows every field."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import yaml

from tests import chartvalues
from tests.e2e.up.test_chart import CHART
from tidewright.kube.client import Kube
from tidewright.kube.discovery import Discovery

helm = pytest.importorskip("helm_python", reason="helm-python-sdk has no wheel for this platform")

OF_OTHERS = {"Certificate", "Issuer", "PrometheusRule", "ServiceMonitor"}
"""Kinds of operators that a cluster may have; this one has not."""


@pytest.mark.slow
async def test_what_is_rendered_of_every_two_values_is_taken(
    kube: Kube, namespace: str, installed: list[str]
) -> None:
    del installed  # definitions are there
    discovery = Discovery(kube)
    query = {"dryRun": "All", "fieldValidation": "Strict", "fieldManager": "chart", "force": "true"}
    taken: set[bytes] = set()
    with helm.Chart.load(CHART) as chart:
        for choice in chartvalues.choices():
            values = chartvalues.values_of(choice)
            files = chart.render(values, name="tidewright", namespace=namespace)
            texts = [text for name, text in files.items() if not name.endswith("NOTES.txt")]
            for document in (d for text in texts for d in yaml.load_all(text, Loader=yaml.CSafeLoader) if d):
                if "namespace" in document["metadata"]:  # also of one that values name: it is only tried
                    document["metadata"]["namespace"] = namespace
                if document["kind"] in OF_OTHERS or (body := msgspec.json.encode(document)) in taken:
                    continue
                taken.add(body)
                path = await path_of(discovery, document, namespace)
                await kube.request(
                    "PATCH", path, query=query, body=body, content_type="application/apply-patch+yaml"
                )


async def path_of(discovery: Discovery, document: dict[str, Any], namespace: str) -> str:
    """Where an object lies."""
    resource = await discovery.resource(document["apiVersion"], document["kind"])
    assert resource is not None, document["kind"]
    metadata = document["metadata"]
    return resource.item(namespace if resource.namespaced else "", metadata["name"])

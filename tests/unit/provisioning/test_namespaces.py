"""Affinity that selects namespaces by their labels. Spec 3.4."""

from __future__ import annotations

from tests.unit.provisioning.claimworld import (
    CHECK,
    provisioned,
    told,
)
from tests.vectors.provisioning_life import Cluster
from tidewright.events import facts as f


def test_terms_select_namespaces_by_their_labels() -> None:
    cluster = Cluster()
    cluster.add_node("n1")
    cluster.add_node("n2")
    told(cluster, "Namespace", "other", metadata={"labels": {"team": "red"}})
    shape = "0" * 32
    cluster.tell(f.ShapeObserved(at=cluster.now, digest=shape, requests={"cpu": 1}, namespace="other", labels={"app": "x"}))  # fmt: skip
    cluster.tell(f.PodObserved(at=cluster.now, namespace="other", name="x", uid="x", shape=shape, phase="Running", node="n1"))  # fmt: skip
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"app": "x"}},
        "namespaceSelector": {"matchLabels": {"team": "red"}},
    }
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    cluster.template("apart", "3", affinity=affinity)
    cluster.request("two", CHECK, [("apart", 2)])
    cluster.settle()
    assert not provisioned(cluster, "two")
    told(cluster, "Namespace", "other", metadata={"labels": {"team": "blue"}})
    cluster.advance(70)
    assert provisioned(cluster, "two")

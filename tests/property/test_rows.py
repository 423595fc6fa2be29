"""Estimates where some shapes look at one another: those that do not are counted, as if placed one by one."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tidewright.kube.podshape import NodeView, PodShape
from tidewright.kube.podspecs import of_fields
from tidewright.provisioning.pack.classes import Item
from tidewright.provisioning.pack.estimate import reference_order
from tidewright.provisioning.pack.grid import Grid
from tidewright.provisioning.pack.rows import Rows
from tidewright.provisioning.pack.templates import Estimate, Template

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"


def term(key: str, app: str) -> dict[str, Any]:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}


def apart(key: str, app: str) -> dict[str, Any]:
    terms = [term(key, app)]
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


def spread(key: str, app: str) -> dict[str, Any]:
    constraint = {"maxSkew": 1, "topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
    return {"topologySpreadConstraints": [constraint]}


TERMS = st.sampled_from(
    [
        {},
        {},
        {"hostPorts": [{"hostPort": 80}]},
        apart(HOST, "a"),
        apart(HOST, "b"),
        apart(ZONE, "b"),
        spread(HOST, "a"),
        spread(ZONE, "b"),
    ]
)


@st.composite
def shapes(draw: st.DrawFn) -> PodShape:
    requests = {"cpu": draw(st.integers(1, 6)) * 100, "memory": draw(st.integers(0, 3))}
    labels = {"app": draw(st.sampled_from("abc"))}
    return of_fields(requests=requests, scheduling=draw(TERMS), namespace="ns", labels=labels)


@given(
    st.lists(st.tuples(shapes(), st.integers(1, 12)), min_size=1, max_size=5),
    st.lists(st.tuples(shapes(), st.integers(0, 2)), max_size=3),
    st.integers(0, 6),
)
def test_counting_is_placing_one_by_one(
    found: list[tuple[PodShape, int]], there: list[tuple[PodShape, int]], limit: int
) -> None:
    items = list({shape.digest: Item(shape, count) for shape, count in found}.values())
    view = NodeView(name="template", labels={ZONE: "z"}, allocatable={"cpu": 1000, "memory": 6, "pods": 5})
    template = Template(view=view)
    cluster = Grid()
    rows = cluster.add_copies(view, ["n0", "n1"])
    for shape, pods in there:
        cluster.put(shape, rows[0], pods)
    order = reference_order(items, template)

    class OneByOne(Rows):
        def _place(self, item: Item, grow: bool) -> tuple[int, bool]:
            return self._walk(item, grow)

    counted = Rows(items, template, limit, cluster).pack(order)
    walked = OneByOne(items, template, limit, cluster).pack(order)
    assert (counted.nodes, counted.placed) == (walked.nodes, walked.placed)
    assert sorted(layouts(counted)) == sorted(layouts(walked))


def layouts(made: Estimate) -> list[tuple[int, list[tuple[str, int]]]]:
    return [(layout.nodes, sorted(layout.pods.items())) for layout in made.layouts]

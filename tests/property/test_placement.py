"""Where one more pod may run, beside the scheduler's filters written a second time: pod by pod, node by node.

The second writing takes pods and nodes as the API has them and follows the documentation of Kubernetes'
filters; it shares no code with what it judges.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tidewright.kube.podshape import NodeView
from tidewright.kube.podspecs import amounts, of_template
from tidewright.kube.taints import taints_of
from tidewright.provisioning.pack.grid import Grid
from tidewright.provisioning.pack.topology import Walk

Json = dict[str, Any]
ZONE, HOST, RACK = "topology.kubernetes.io/zone", "kubernetes.io/hostname", "rack"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"

# --- The second writing ---


def selects(selector: Json | None, labels: Json) -> bool:
    if selector is None:
        return False
    for key, value in (selector.get("matchLabels") or {}).items():
        if labels.get(key) != value:
            return False
    return all(expressed(one, labels) for one in selector.get("matchExpressions") or ())


def expressed(one: Json, labels: Json) -> bool:
    key, operator, values = one["key"], one["operator"], one.get("values") or []
    there = key in labels
    if operator == "In":
        return there and labels[key] in values
    if operator == "NotIn":
        return not there or labels[key] not in values
    if operator == "Exists":
        return there
    if operator == "DoesNotExist":
        return not there
    if not there or not labels[key].lstrip("-").isdigit():
        return False
    return int(labels[key]) > int(values[0]) if operator == "Gt" else int(labels[key]) < int(values[0])


def attracted(spec: Json, node: Json) -> bool:
    """Node selector and required node affinity."""
    labels, name = node["labels"], node["name"]
    if any(labels.get(k) != v for k, v in (spec.get("nodeSelector") or {}).items()):
        return False
    required = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(REQUIRED)
    if required is None:
        return True
    for term in required["nodeSelectorTerms"]:
        by_label, by_name = term.get("matchExpressions") or [], term.get("matchFields") or []
        if not by_label and not by_name:
            continue
        if all(expressed(e, labels) for e in by_label) and all(
            expressed(e, {"metadata.name": name}) for e in by_name
        ):
            return True
    return False


def tolerated(spec: Json, taints: Iterable[Json]) -> bool:
    for taint in taints:
        if taint["effect"] == "PreferNoSchedule":
            continue
        for t in spec.get("tolerations") or ():
            if t.get("effect") not in (None, "", taint["effect"]):
                continue
            if t.get("key") not in (None, "", taint["key"]):
                continue
            if t.get("operator") == "Exists" or (t.get("key") and t.get("value", "") == taint["value"]):
                break
        else:
            return False
    return True


def term_means(term: Json, owner: Json, other: Json) -> bool:
    """Whether an affinity term of one pod means another pod."""
    spaces, by_label = term.get("namespaces") or [], term.get("namespaceSelector")
    home = owner["metadata"]["namespace"]
    if by_label is None:
        if other["metadata"]["namespace"] not in (spaces or [home]):
            return False
    elif by_label and other["metadata"]["namespace"] not in spaces:
        return False
    labels, own = other["metadata"]["labels"], owner["metadata"]["labels"]
    if any(k in own and labels.get(k) != own[k] for k in term.get("matchLabelKeys") or ()):
        return False
    if any(k in own and labels.get(k) == own[k] for k in term.get("mismatchLabelKeys") or ()):
        return False
    return selects(term.get("labelSelector"), labels)


def terms_of(pod: Json, kind: str) -> list[Json]:
    return list(((pod["spec"].get("affinity") or {}).get(kind) or {}).get(REQUIRED) or ())


def ports_of(pod: Json) -> list[tuple[str, str, int]]:
    return [
        (port.get("hostIP") or "0.0.0.0", port.get("protocol") or "TCP", port["hostPort"])
        for container in pod["spec"]["containers"]
        for port in container.get("ports") or ()
        if port.get("hostPort")
    ]


def milli(pod: Json) -> int:
    return sum(int(c["resources"]["requests"]["cpu"].rstrip("m")) for c in pod["spec"]["containers"])


def feasible(pod: Json, nodes: list[Json]) -> set[str]:
    """Names of the nodes that all filters let through; each node has its `pods`."""
    found = set()
    everything = [(node, other) for node in nodes for other in node["pods"]]
    for node in nodes:
        spec, there, labels = pod["spec"], node["pods"], node["labels"]
        if node["unschedulable"] and not tolerated(
            spec, [{"key": "node.kubernetes.io/unschedulable", "value": "", "effect": "NoSchedule"}]
        ):
            continue
        if not tolerated(spec, node["taints"]) or not attracted(spec, node):
            continue
        if sum(map(milli, there)) + milli(pod) > node["cpu"] or len(there) >= node["room"]:
            continue
        if any(
            a[1:] == b[1:] and (a[0] == b[0] or "0.0.0.0" in (a[0], b[0]))
            for a in ports_of(pod)
            for other in there
            for b in ports_of(other)
        ):
            continue
        if repelled(pod, labels, everything) or not beside(pod, labels, everything):
            continue
        if all(even(pod, one, node, nodes) for one in spec.get("topologySpreadConstraints") or ()):
            found.add(node["name"])
    return found


def repelled(pod: Json, labels: Json, everything: list[tuple[Json, Json]]) -> bool:
    for where, other in everything:
        for term in terms_of(other, "podAntiAffinity"):
            key = term["topologyKey"]
            if (
                key in where["labels"]
                and labels.get(key) == where["labels"][key]
                and term_means(term, other, pod)
            ):
                return True
        for term in terms_of(pod, "podAntiAffinity"):
            key = term["topologyKey"]
            if (
                key in where["labels"]
                and labels.get(key) == where["labels"][key]
                and term_means(term, pod, other)
            ):
                return True
    return False


def beside(pod: Json, labels: Json, everything: list[tuple[Json, Json]]) -> bool:
    terms = terms_of(pod, "podAffinity")
    matching = [(w, o) for w, o in everything if all(term_means(t, pod, o) for t in terms)]
    places = {(t["topologyKey"], w["labels"][t["topologyKey"]]) for t in terms for w, _ in matching if t["topologyKey"] in w["labels"]}  # fmt: skip
    if any(t["topologyKey"] not in labels for t in terms):
        return False
    if all((t["topologyKey"], labels[t["topologyKey"]]) in places for t in terms):
        return True
    return not places and all(term_means(t, pod, pod) for t in terms)


def even(pod: Json, constraint: Json, node: Json, nodes: list[Json]) -> bool:
    key, spec = constraint["topologyKey"], pod["spec"]
    keys = [one["topologyKey"] for one in spec["topologySpreadConstraints"]]
    own = pod["metadata"]["labels"]

    def means(other: Json) -> bool:
        if other["metadata"]["namespace"] != pod["metadata"]["namespace"]:
            return False
        labels = other["metadata"]["labels"]
        if any(k in own and labels.get(k) != own[k] for k in constraint.get("matchLabelKeys") or ()):
            return False
        return selects(constraint.get("labelSelector"), labels)

    if key not in node["labels"]:
        return False
    counts: dict[str, int] = {}
    for one in nodes:
        if any(k not in one["labels"] for k in keys):
            continue
        if constraint.get("nodeAffinityPolicy", "Honor") == "Honor" and not attracted(spec, one):
            continue
        if constraint.get("nodeTaintsPolicy", "Ignore") == "Honor" and not tolerated(spec, one["taints"]):
            continue
        domain = one["labels"][key]
        counts[domain] = counts.get(domain, 0) + sum(map(means, one["pods"]))
    least = min(counts.values(), default=0)
    if len(counts) < constraint.get("minDomains", 1):
        least = 0
    here = counts.get(node["labels"][key], 0)
    return bool(here + means(pod) - least <= constraint["maxSkew"])


# --- Scenes ---

LABELS = st.fixed_dictionaries(
    {},
    optional={
        "app": st.sampled_from("ab"),
        "rev": st.sampled_from("12"),
        "size": st.sampled_from(["1", "7", "x"]),
    },
)
EXPRESSIONS = st.one_of(
    st.fixed_dictionaries(
        {"key": st.sampled_from(["app", "rev"]), "operator": st.sampled_from(["In", "NotIn"]), "values": st.lists(st.sampled_from(["a", "b", "1"]), min_size=1, max_size=2)}
    ),
    st.fixed_dictionaries({"key": st.sampled_from(["app", "rev"]), "operator": st.sampled_from(["Exists", "DoesNotExist"])}),
)  # fmt: skip
SELECTORS = st.one_of(
    st.none(),
    st.fixed_dictionaries({"matchLabels": LABELS}),
    st.fixed_dictionaries({"matchExpressions": st.lists(EXPRESSIONS, min_size=1, max_size=2)}),
)
KEYS = st.sampled_from([ZONE, HOST, RACK])
SPACES = st.fixed_dictionaries(
    {},
    optional={
        "namespaces": st.lists(st.sampled_from(["n1", "n2"]), max_size=1),
        "namespaceSelector": st.just({}),
    },
)


@st.composite
def terms(draw: st.DrawFn) -> Json:
    found: Json = {"topologyKey": draw(KEYS), "labelSelector": draw(SELECTORS), **draw(SPACES)}
    if draw(st.integers(0, 3)) == 0:
        found["matchLabelKeys" if draw(st.booleans()) else "mismatchLabelKeys"] = ["rev"]
    return found


@st.composite
def spreads(draw: st.DrawFn) -> Json:
    found: Json = {
        "maxSkew": draw(st.integers(1, 2)),
        "topologyKey": draw(KEYS),
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": draw(SELECTORS),
    }
    for name, values in (
        ("minDomains", st.integers(1, 3)),
        ("nodeAffinityPolicy", st.sampled_from(["Honor", "Ignore"])),
        ("nodeTaintsPolicy", st.sampled_from(["Honor", "Ignore"])),
        ("matchLabelKeys", st.just(["rev"])),
    ):
        if draw(st.integers(0, 2)) == 0:
            found[name] = draw(values)
    return found


NODE_TERMS = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "matchExpressions": st.lists(
                st.one_of(
                    st.fixed_dictionaries({"key": st.just("size"), "operator": st.sampled_from(["Gt", "Lt"]), "values": st.just(["3"])}),
                    st.fixed_dictionaries({"key": st.just(ZONE), "operator": st.sampled_from(["In", "NotIn"]), "values": st.just(["z1"])}),
                    st.fixed_dictionaries({"key": st.just(RACK), "operator": st.sampled_from(["Exists", "DoesNotExist"])}),
                ),
                max_size=2,
            ),
            "matchFields": st.just([{"key": "metadata.name", "operator": "NotIn", "values": ["w0"]}]),
        },
    ),
    min_size=1,
    max_size=2,
)  # fmt: skip
TOLERATIONS = st.lists(
    st.sampled_from(
        [
            {"operator": "Exists"},
            {"key": "k", "operator": "Exists", "effect": "NoSchedule"},
            {"key": "k", "value": "v"},
            {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"},
        ]
    ),
    max_size=2,
)


@st.composite
def pods(draw: st.DrawFn) -> Json:
    spec: Json = {
        "containers": [{"name": "c", "resources": {"requests": {"cpu": f"{draw(st.integers(1, 4))}00m"}}}],
        "tolerations": draw(TOLERATIONS),
    }
    affinity: Json = {}
    if draw(st.integers(0, 3)) == 0:
        affinity["nodeAffinity"] = {REQUIRED: {"nodeSelectorTerms": draw(NODE_TERMS)}}
    for kind in ("podAffinity", "podAntiAffinity"):
        if draw(st.integers(0, 3)) == 0:
            affinity[kind] = {REQUIRED: draw(st.lists(terms(), min_size=1, max_size=2))}
    if affinity:
        spec["affinity"] = affinity
    if draw(st.integers(0, 2)) == 0:
        found = draw(
            st.lists(spreads(), min_size=1, max_size=2, unique_by=lambda one: str(one["topologyKey"]))
        )
        spec["topologySpreadConstraints"] = found
    if draw(st.integers(0, 3)) == 0:
        spec["nodeSelector"] = {ZONE: "z1"}
    if draw(st.integers(0, 3)) == 0:
        ip = draw(st.sampled_from(["", "10.0.0.1", "10.0.0.2"]))
        spec["containers"][0]["ports"] = [{"containerPort": 1, "hostPort": 80, "hostIP": ip}]
    return {
        "metadata": {"namespace": draw(st.sampled_from(["n1", "n2"])), "labels": draw(LABELS)},
        "spec": spec,
    }


@st.composite
def worlds(draw: st.DrawFn) -> list[Json]:
    found = []
    for i in range(draw(st.integers(1, 4))):
        labels = draw(LABELS) | {HOST: f"w{i}"}
        for key, values in ((ZONE, ["z1", "z2"]), (RACK, ["r1", "r2"])):
            if draw(st.integers(0, 4)):
                labels[key] = draw(st.sampled_from(values))
        effect = draw(st.sampled_from(["NoSchedule", "NoExecute", "PreferNoSchedule"]))
        value = draw(st.sampled_from(["v", ""]))
        found.append(
            {
                "name": f"w{i}",
                "labels": labels,
                "taints": [{"key": "k", "value": value, "effect": effect}]
                if not draw(st.integers(0, 2))
                else [],
                "unschedulable": not draw(st.integers(0, 4)),
                "cpu": 1000,
                "room": draw(st.integers(1, 4)),
                "pods": draw(st.lists(pods(), max_size=2)),
            }
        )
    return found


@given(worlds(), pods())
def test_a_pod_may_run_where_all_filters_let_it(nodes: list[Json], pod: Json) -> None:
    grid = Grid()
    for node in nodes:
        view = NodeView(
            name=node["name"],
            labels=node["labels"],
            taints=taints_of(node["taints"]),
            allocatable=amounts({"cpu": f"{node['cpu']}m", "pods": node["room"]}),
            unschedulable=node["unschedulable"],
        )
        row = grid.add_node(view)
        for other in node["pods"]:
            grid.put(of_template(other, other["metadata"]["namespace"]), row)
    shape = of_template(pod, pod["metadata"]["namespace"])
    assert not shape.error
    allowed = Walk(grid, shape).allowed()
    assert {name for name, row in grid.rows.items() if allowed[row]} == feasible(pod, nodes)
    assert grid.fork().place(shape, 1) == bool(feasible(pod, nodes))

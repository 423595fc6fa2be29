"""Orders of which other comes than was ordered: taken back too late, or of a group that vanishes."""

from __future__ import annotations

from tests.unit.provisioning.removalworld import Removing
from tests.vectors.provisioning_life import Cluster
from tidewright.events import outcomes as o
from tidewright.events import provisioning as p
from tidewright.events.base import Decision
from tidewright.events.decisions import SetStatus

ATOMIC = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
QUICK = {
    "balance-similar-node-groups": True, "scale-down-unneeded-time": "1s", "scale-down-delay-after-add": "1s",
    "scan-interval": "1s",
}  # fmt: skip


class AtOnce(Removing):
    """A cloud whose machines are nodes at once: seen they are when they are to be taken back already."""

    def _act(self, decision: Decision) -> None:
        match decision:
            case p.IncreaseNodeGroup() if decision.target.name not in self.refuse:
                self._inbox.append(
                    o.Applied(at=self.now, decision=decision.id, result={"size": decision.size})
                )
            case p.DecreaseNodeGroup():
                group = self.groups[decision.target.name]
                group.target, names = decision.from_size, [f"n{i}" for i in range(decision.from_size)]
                group.instances = [p.Instance(id=f"sim://{name}", state="running") for name in names]
                for name in names:
                    self.objects[name] = {
                        "metadata": {"name": name, "uid": f"uid-{name}", "annotations": {}}, "spec": {},
                    }  # fmt: skip
                self._inbox += [self._group_fact(decision.target.name), *map(self.fact_of, names)]
                self._inbox.append(
                    o.Applied(at=self.now, decision=decision.id, found=True, result={"size": group.target})
                )
            case _:
                super()._act(decision)


def test_nodes_that_came_while_they_were_taken_back_go_though_nothing_more_is_heard_of_them() -> None:
    """Between the decision and its answer their group was to have none: no pass of scale-down looked forward to them."""
    cluster = AtOnce(dict(QUICK))
    for name in ("a", "b"):
        cluster.add_group(name, cpu=4000, maximum=2)
    cluster.refuse["b"] = "Forbidden"
    cluster.template("worker", "3")
    cluster.request("train", ATOMIC, [("worker", 4)])
    cluster.settle()
    assert [(d.target.name, d.size) for d in cluster.of(p.DecreaseNodeGroup)] == [("a", 0)]
    cluster.advance(30.0)
    assert sorted(cluster.deleted) == ["n0", "n1"]
    assert cluster.groups["a"].target == 0


def test_what_was_ordered_of_a_group_that_vanishes_is_told_once() -> None:
    """That its nodes do not come, and not again that they are ordered, which booked their room anew."""
    cluster = Cluster({}, boots=False)
    for name in ("g", "other"):
        cluster.add_group(name, cpu=8000, maximum=10 if name == "g" else 0)
    cluster.template("worker", "7")
    cluster.request("train", ATOMIC, [("worker", 3)])
    cluster.settle()
    for name in ("other", "g"):
        before = len(cluster.of(SetStatus))
        cluster.tell(p.NodeGroupGone(at=cluster.now, namespace="", name=name))
        assert len(cluster.of(SetStatus)) == before
    cluster.advance(1.0)
    assert cluster.conditions("train")["CapacityReady"].reason == "NodesMissing"
    assert len(cluster.object_events("CapacityNotReady")) == 1
    assert len(cluster.of(p.BookCapacity)) == 1

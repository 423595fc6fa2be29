"""Instances that came to nothing and may not be deleted: asked for ever more seldom, and gone when they may be."""

from __future__ import annotations

import pytest

from tests.vectors.provisioning_life import Cluster
from tidewright.events import outcomes as o
from tidewright.events import provisioning as p
from tidewright.events.base import Decision


class Refusing(Cluster):
    """A cloud that deletes nothing while `refuses` says so."""

    refuses: type[o.Rejected] | type[o.Failed] | None = o.Rejected

    def _act(self, decision: Decision) -> None:
        if isinstance(decision, p.DeleteInstances) and self.refuses is not None:
            self._inbox.append(
                self.refuses(at=self.now, decision=decision.id, reason="Forbidden", message="no")
            )
            return
        super()._act(decision)


@pytest.mark.parametrize("outcome", [o.Rejected, o.Failed])
@pytest.mark.parametrize("failed", [True, False])
def test_a_refused_deletion_is_asked_for_ever_more_seldom(
    failed: bool, outcome: type[o.Rejected] | type[o.Failed]
) -> None:
    cluster = Refusing({"max-node-provision-time": "5m"}, boots=False)
    cluster.refuses = outcome
    cluster.add_group("g", target=1)
    late = p.Instance(
        id="sim://late", state="creating", error_class=int(failed), error_code="X" if failed else ""
    )
    cluster.groups["g"].instances = [late]
    cluster.observe_group("g")
    cluster.advance(3600.0)
    asked = len(cluster.of(p.DeleteInstances))
    assert 2 <= asked <= 12
    cluster.refuses = None
    cluster.advance(601.0)
    assert len(cluster.of(p.DeleteInstances)) == asked + 1
    assert cluster.groups["g"].instances == []

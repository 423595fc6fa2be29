"""Which cluster this is: what may not be read cannot be checked, which is said."""

from __future__ import annotations

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from tests.unit.watcher.cluster import Cluster, refusal
from tidewright.kube.client import Kube
from tidewright.kube.clusterid import PATH, cluster_id


@pytest.mark.parametrize(
    ("code", "reason", "said"),
    [(403, "Forbidden", ["which cluster this is may not be read"]), (404, "NotFound", [])],
)
async def test_an_identity_that_may_not_be_read_is_none_and_is_warned_of(
    tmp_path: Path, code: int, reason: str, said: list[str]
) -> None:
    async with Cluster().serving() as cluster, await Kube.connect(cluster.kubeconfig(tmp_path)) as kube:
        assert await cluster_id(kube) == "cluster-1"
        cluster.answers[PATH] = refusal(code, reason, "no")
        with capture_logs() as lines:
            assert await cluster_id(kube, patience_s=5.0) == ""
    warnings = [line["event"].split(",")[0] for line in lines if line["log_level"] == "warning"]
    assert warnings == said

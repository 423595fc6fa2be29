"""Metrics: traces as step functions, loads shared by ready pods, pushes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tidewright.kube.selectors import LabelSelector
from tidewright.sim.controllers.cache import Cache
from tidewright.sim.metrics.trace import Trace, TraceError
from tidewright.sim.metrics.values import Metrics, Push
from tidewright.sim.options import MetricOptions, Source

CSV = "timestamp,value\n2014-04-10 00:04:00,94.0\n2014-04-10 00:09:00,56.0\n2014-04-10 00:14:00,187\n"
START = 1397088240.0
EVERYTHING = LabelSelector()


def test_a_trace_holds_each_value_until_the_next() -> None:
    trace = Trace.parse(CSV.splitlines(), "elb.csv")
    assert [trace.at(START + after) for after in (-60, 0, 299, 300, 600, 9000)] == [94, 94, 94, 56, 187, 187]
    assert trace.duration_s == 900
    assert trace.at(START + 900 + 300, repeat=True) == 56


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "elb.csv, line 1: no column timestamp and no column value; found nothing"),
        ("time,value\n1,2\n", "no column timestamp; found time, value"),
        ("timestamp,value\n", "no rows after the header"),
        ("timestamp,value\nyesterday,2\n", "elb.csv, line 2: timestamp 'yesterday' is no time"),
        ("timestamp,value\n1,x\n", "elb.csv, line 2: value 'x' is no number"),
        ("timestamp,value\n1,nan\n", "value 'nan' is no number"),
        ("timestamp,value\n1\n", "value '' is no number"),
        ("timestamp,value\n1,1,234\n", "line 2: 3 cells, where the header has 2"),
        ("timestamp,value,value\n1,1,2\n", "line 1: more than one column value"),
        ("timestamp,value\n-5,1\n", "timestamp '-5' is no time"),
        ("timestamp,value\n1e300,1\n", "timestamp '1e300' is no time"),
        ('timestamp,value\n1,"5\n', "no CSV: unexpected end of data"),
        ("timestamp,value\n2,1\n2,1\n", "elb.csv, line 3: timestamp '2' is not after the one before it"),
    ],
)
def test_a_malformed_trace_is_named_with_line_and_reason(text: str, message: str) -> None:
    with pytest.raises(TraceError) as refused:
        Trace.parse(text.splitlines(), "elb.csv")
    assert message in str(refused.value)


def test_what_a_spreadsheet_writes_is_read(tmp_path: Path) -> None:
    path = tmp_path / "load.csv"
    path.write_bytes(
        b"\xef\xbb\xbftimestamp,value\r\n2014-04-10 00:04:00,94\r\n\r\n2014-04-10 00:09:00,56\r\n"
    )
    assert Trace.load(path).values == [94, 56]


def test_a_file_that_is_no_text_is_a_trace_error(tmp_path: Path) -> None:
    (tmp_path / "load.csv").write_bytes(b"\xff\xfe\x00t")
    with pytest.raises(TraceError, match=r"load\.csv: cannot be read: it is no text in UTF-8"):
        Trace.load(tmp_path / "load.csv")


def test_a_missing_file_is_a_trace_error(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"none\.csv: cannot be read"):
        Trace.load(tmp_path / "none.csv")


def pod(name: str, *, ready: bool = True, app: str = "web") -> bytes:
    conditions: list[dict[str, Any]] = [{"type": "Ready", "status": "True" if ready else "False"}]
    return msgspec.json.encode(
        {
            "metadata": {
                "name": name,
                "namespace": "default",
                "uid": name,
                "resourceVersion": "1",
                "labels": {"app": app},
            },
            "spec": {"nodeName": "n1", "containers": [{"name": "main"}]},
            "status": {"phase": "Running", "conditions": conditions},
        }
    )


def world(*metrics: MetricOptions) -> tuple[Cache, Metrics]:
    cache = Cache()
    for raw in (pod("a"), pod("b"), pod("c", ready=False), pod("d", app="db")):
        cache.pods.absorb(raw)
    return cache, Metrics(cache, metrics)


def test_an_anchored_trace_begins_at_its_anchor(tmp_path: Path) -> None:
    path = tmp_path / "elb.csv"
    path.write_text(CSV, encoding="utf-8")
    _, metrics = world(
        MetricOptions(name="requests", source=Source.TRACE, trace=path, anchor=1000.0, factor=2.0)
    )
    assert metrics.external("default", "requests", EVERYTHING, 1300.0) == [({}, 112_000)]


def test_a_shared_load_falls_as_ready_pods_come() -> None:
    cache, metrics = world(MetricOptions(name="requests", value=90.0, selector="app=web", shared=True))
    assert metrics.external("default", "requests", EVERYTHING, 0.0) == [({}, 45_000)]
    cache.pods.absorb(pod("e"))
    assert metrics.external("default", "requests", EVERYTHING, 0.0) == [({}, 30_000)]


def test_the_selector_chooses_series_by_their_labels() -> None:
    _, metrics = world(
        MetricOptions(name="requests", value=1.0, labels={"app": "web"}),
        MetricOptions(name="requests", value=2.0, labels={"app": "db"}),
        MetricOptions(name="requests", value=3.0, labels={"app": "web"}, namespace="other"),
    )
    web = LabelSelector.parse("app=web")
    assert metrics.external("default", "requests", web, 0.0) == [({"app": "web"}, 1000)]
    assert metrics.external("default", "unknown", web, 0.0) is None


def test_a_resource_load_is_shared_by_the_ready_pods_and_others_idle() -> None:
    cache, metrics = world(MetricOptions(name="cpu", resource=True, value=3.0, selector="app=web"))
    usage = metrics.pod_usage(cache.pods.objects.values(), 0.0)
    assert {key[1]: used["cpu"] for key, used in usage.items()} == {"a": 1500, "b": 1500, "c": 1, "d": 1}


def test_pushes_replace_and_forget() -> None:
    _, metrics = world()
    metrics.push(Push(name="queue", value=5.0))
    metrics.push(Push(name="queue", value=6.0))
    assert metrics.external("default", "queue", EVERYTHING, 0.0) == [({}, 6000)]
    metrics.push(Push(name="queue", value=None))
    assert metrics.external("default", "queue", EVERYTHING, 0.0) is None

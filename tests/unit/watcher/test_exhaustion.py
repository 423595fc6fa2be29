"""What users may write into a cluster to have the watcher or a decider run out of memory, of time or of stack."""

from __future__ import annotations

import subprocess
import sys
from contextlib import aclosing
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from aiohttp import web

from tests.hostile.mutations import own
from tests.hostile.objects import OBJECTS
from tests.unit.kube.api import Api, event, pod, serving
from tidewright.autoscaler.api.spec import InvalidSpec, compiled
from tidewright.events import registry
from tidewright.events.shards import ShardSetObserved
from tidewright.events.spread import WorkloadSpreadObserved
from tidewright.host.loop.fenced import InFlight
from tidewright.kube import metricquery, yamltext
from tidewright.kube.client import Kube
from tidewright.kube.customworkloads import BadWhitelist, whitelist_of
from tidewright.kube.listwatch import Added, Page, list_watch
from tidewright.kube.projection import reading
from tidewright.kube.projection.pods import pod as project_pod
from tidewright.kube.projection.reading import Malformed, identity, unapplied
from tidewright.kube.projection.resources import resource
from tidewright.kube.workloadspreads.placements import placement_of
from tidewright.log.connection import Log
from tidewright.log.envelope import Writer
from tidewright.log.subjects import ALL
from tidewright.watcher.appender import MAX_FACT_BYTES, Appender
from tidewright.watcher.configuration import BadPart, read_part
from tidewright.watcher.labelscan import LabelScanner
from tidewright.watcher.metric_queries import custom_target

DEEP = b"[" * 5000 + b"]" * 5000

CONFINED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (2 * 2**30, 2 * 2**30))
resource.setrlimit(resource.RLIMIT_CPU, (30, 30))
{setup}
try:
    print({ask})
except Exception as error:
    print(type(error).__name__, error)
"""
"""A child that is ended when it takes too much, whatever the machine is busy with."""


def confined(setup: str, ask: str) -> str:
    code = CONFINED.format(setup=setup, ask=ask)
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=300, check=False)
    assert ended.returncode == 0, (ended.returncode, ended.stderr[-2000:])
    return ended.stdout.decode()


LAUGHS = "a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9)
)
MERGES = "a0: &a0 {k: v}\n" + "".join(
    f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 10)}]}}\n" for n in range(1, 9)
)


@pytest.mark.parametrize("text", [LAUGHS, MERGES])
def test_aliases_that_stand_for_a_billion_values_are_refused_before_they_are_made(text: str) -> None:
    assert len(text) < 1000
    said = confined(
        f"from tidewright.watcher.configuration import read_part\ntext = {text!r}",
        "len(str(read_part('autoscaler', text)))",
    )
    assert said.startswith("BadPart key 'autoscaler', line ")
    assert "more than 50000 values" in said


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: &a [*a]", "alias *a stands for what it is in"),
        ("a: " + "[" * 65 + "]" * 65, "nested too deeply; valid are at most 64 levels"),
        ("a: " + "[" * 400_000, "nested too deeply"),
        ("a: [" + "1," * 60_000 + "]", "more than 50000 values"),
        ("a: " + "9" * 5000, "a number of 5000 characters"),
        ("a: 1" + ":1" * 5000, "a number of 10001 characters"),
        ("a: 2001-13-01", "month must be in 1..12"),
        ("a: " + "x" * 2**20, "bytes; valid are at most 1048576"),
        ("a: &b [*b0]\nc: *b", "undefined alias"),
    ],
)
def test_a_part_that_is_too_much_is_refused_by_key_and_by_what_is_valid(text: str, problem: str) -> None:
    with pytest.raises(BadPart) as refused:
        read_part("autoscaler", text)
    assert str(refused.value).startswith("key 'autoscaler'")
    assert problem in str(refused.value)


def test_aliases_that_save_typing_stay() -> None:
    text = "limits: &l {low: 1, high: 2}\na: *l\nb: {<<: *l, high: 3}\nc: " + "x1 " * 200
    assert read_part("autoscaler", text).data["b"] == {"low": 1, "high": 3}
    assert read_part("autoscaler", text).data["a"] == {"low": 1, "high": 2}
    many = "\n---\n".join(["a: &a [1]\nb: *a"] * 3)
    assert len(yamltext.many(many, "f", "anything")) == 3


def test_an_expression_that_backtracks_for_ever_does_not() -> None:
    said = confined(
        "from tidewright.provisioning.scaleup.expander import Option, by_priority\n"
        "options = [Option(group='a' * 64 + '-eu')]",
        "by_priority(options, {'10': ['(a+)+$', '(a|aa)+$', '(.*a){30}$']})",
    )
    assert "PriorityConfigMapNoGroupMatched" in said


def nested(levels: int) -> dict[str, Any]:
    found: Any = "x"
    for _ in range(levels):
        found = {"a": found}
    return {"a": found}


@pytest.mark.parametrize("levels", [100, 900])
def test_an_object_that_is_nested_deeply_is_named_and_left_out(levels: int) -> None:
    raw = msgspec.json.encode({"metadata": {"name": "w", "namespace": "shop"}, "spec": nested(levels)})
    with pytest.raises(Malformed, match="WorkloadSpread shop/w cannot be read: it is nested too deeply"):
        resource("WorkloadSpread", WorkloadSpreadObserved)(raw)


def test_one_that_is_nested_as_deeply_as_servers_allow_is_named_too() -> None:
    raw = b'{"metadata":{"name":"w","namespace":"shop"},"spec":{"a":' + DEEP + b"}}"
    with pytest.raises(Malformed, match="WorkloadSpread shop/w cannot be read"):
        resource("WorkloadSpread", WorkloadSpreadObserved)(raw)
    assert identity(raw).name == "w"


async def test_one_object_that_is_nested_deeply_hides_no_other_of_its_list() -> None:
    odd = b'{"metadata":{"name":"odd","resourceVersion":"3"},"x":' + DEEP + b"}"
    body = b'{"metadata":{"resourceVersion":"9"},"items":[%s,%s]}' % (odd, msgspec.json.encode(pod("a", "1")))
    api = Api()
    api.lists = [web.Response(body=body, content_type="application/json")]
    api.watches = [[b'{"type":"ADDED","object":' + odd + b"}\n" + event("ADDED", pod("b", "10"))]]
    found: list[str] = []
    async with serving(api), Kube.at(api.url) as kube:
        stream = list_watch(kube, "/api/v1/pods")
        async with aclosing(stream):
            async for item in stream:
                if isinstance(item, Page):
                    found += [identity(raw).name for raw in item.objects]
                elif isinstance(item, Added):
                    found.append(identity(item.raw).name)
                if len(found) == 4:
                    break
    assert found == ["odd", "a", "odd", "b"]
    assert len(api.queries(watch=False)) == 1


def test_what_deciders_read_of_annotations_and_configuration_is_refused_and_not_their_end() -> None:
    text = DEEP.decode()
    assert placement_of('{"name": ' + text + "}") is None
    with pytest.raises(BadWhitelist):
        whitelist_of('{"workloads": ' + text + "}")
    with pytest.raises(registry.NotAnEvent):
        registry.decode(b'{"type":"config.config-set.v1","at":1.0,"name":"a","data":{"a":' + DEEP + b"}}")


def test_long_annotations_are_not_copied_into_facts() -> None:
    before = reading.left_out.total()
    kept = unapplied({"long": "x" * 2**18, "short": "y", "deployment.kubernetes.io/revision": "1"})
    assert kept == {"short": "y"}
    assert reading.left_out.total() == before + 1
    some = {f"a{n}": "x" * 2**14 for n in range(20)}
    assert sum(map(len, unapplied(some).values())) <= reading.MAX_ANNOTATIONS


@pytest.mark.parametrize(
    ("metadata", "problem"),
    [
        ({"labels": {f"l{n}": "x" * 60 for n in range(2000)}}, "metadata.labels have"),
        ({"ownerReferences": [{"kind": "A", "name": "b"}] * 101}, "metadata.ownerReferences has 101 entries"),
        ({"finalizers": ["a/b"] * 201}, "metadata.finalizers has 201 entries"),
    ],
)
def test_metadata_that_no_object_needs_is_refused_by_field(metadata: dict[str, Any], problem: str) -> None:
    raw = msgspec.json.encode({"metadata": {"name": "p", "namespace": "shop", **metadata}})
    with pytest.raises(Malformed, match=f"Pod shop/p cannot be read: {problem}"):
        project_pod(raw)


async def test_a_fact_that_the_log_does_not_take_holds_up_no_other(log: Log) -> None:
    appender = Appender(log, Writer("watcher"), "config", InFlight())
    await appender.claim()
    subjects = [log.subjects.fact(ALL, "node", "", name) for name in ("a", "b", "c")]
    for size in (MAX_FACT_BYTES + 1, log.max_message_bytes + 1):
        await appender.say(
            [(subjects[0], b"{}"), (subjects[1], b"x" * size), (subjects[2], b"{}")],
            resource_version="7",
            at=1.0,
        )
    found = [await log.last(subject) for subject in subjects]
    assert [None if one is None else one.body for one in found] == [b"{}", None, b"{}"]
    assert (appender.set_aside, appender.position.resource_version) == (2, "7")


def test_an_object_of_thousands_of_metrics_asks_for_few_and_is_told() -> None:
    def entry(n: int) -> dict[str, Any]:
        body = {
            "metricName": f"m{n}",
            "metricSelector": {"matchLabels": {"a": "b"}},
            "highWatermark": "2",
            "lowWatermark": "1",
        }
        return {"type": "External", "external": body}

    spec: dict[str, Any] = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "minReplicas": 1,
        "maxReplicas": 5,
        "metrics": [entry(n) for n in range(5000)],
    }
    assert len(metricquery.queries(spec)) == metricquery.MAX_METRICS
    with pytest.raises(InvalidSpec, match="metrics has 5000 entries; at most 50 are asked for"):
        compiled(spec, namespace="shop", name="w")
    compiled({**spec, "metrics": spec["metrics"][:50]}, namespace="shop", name="w")


async def test_objects_of_any_kind_that_cannot_be_read_do_not_end_the_search_for_slots() -> None:
    body = b'{"items":[{"metadata":{"name":"a","namespace":"shop"},"spec":' + DEEP + b"}]}"
    place = SimpleNamespace(group="x.example", version="v1", collection=lambda _: "/apis/x.example/v1/things")

    async def request(*_: Any, **__: Any) -> Any:
        return SimpleNamespace(body=body)

    async def resources(*_: Any) -> Any:
        return [place]

    kube: Any = SimpleNamespace(request=request)
    discovery: Any = SimpleNamespace(resources=resources)
    nothing: Any = None
    scanner = LabelScanner(kube, discovery, nothing, nothing, nothing)
    spec = {
        "workers": {"injector": "propeller"},
        "keyspace": {"slots": 8},
        "source": {"customResource": {"group": "x.example", "kind": "Thing"}},
    }
    scanner.observe(ShardSetObserved(at=1.0, namespace="shop", name="s", spec=spec))
    assert list(scanner._sets) == [("shop", "s")], "the set is one that is looked for"
    assert await scanner._look(("shop", "s")) is None


async def test_a_fact_whose_name_no_server_takes_holds_up_no_other_and_ends_no_connection(log: Log) -> None:
    """A line of more than 4,096 bytes ends it, for all that go over it."""
    appender = Appender(log, Writer("watcher"), "config", InFlight())
    await appender.claim()
    subjects = [log.subjects.fact(ALL, "metric", "", name) for name in ("a", "b" * 5000, "c")]
    await appender.say([(subject, b"{}") for subject in subjects], resource_version="7", at=1.0)
    found = [await log.last(subjects[n]) for n in (0, 2)]
    assert [None if one is None else one.body for one in found] == [b"{}", b"{}"]
    assert (appender.set_aside, appender.position.resource_version) == (1, "7")


@pytest.mark.parametrize(
    ("path", "text", "says"),
    [
        (
            ("metrics", 0, "external", "metricName"),
            "m" * 5000,
            r"metrics\[0\].external: its name and selector have 50",
        ),
        (("metrics", 0, "external", "metricName"), "m." * 800, r"its name and selector have 32"),
        (
            ("scaleTargetRef", "name"),
            "w" * 5000,
            "scaleTargetRef.name has 5000 characters: expected 253 at most",
        ),
        (
            ("scaleTargetRef", "kind"),
            "w" * 5000,
            "scaleTargetRef.kind has 5000 characters: expected 253 at most",
        ),
    ],
)
def test_names_that_are_too_long_for_the_bus_are_not_asked_for_and_told(
    path: tuple[str | int, ...], text: str, says: str
) -> None:
    spec: Any = own(OBJECTS["watermarkpodautoscaler"][0]["spec"])
    spec["scaleTargetRef"] = {"apiVersion": "example.com/v1", "kind": "Fancy", "name": "web"}
    spec["metrics"] = spec["metrics"][:1]
    assert len(list(metricquery.queries(spec))) == 1
    assert custom_target("shop", spec) is not None
    part = spec
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = text
    with pytest.raises(InvalidSpec, match=says):
        compiled(spec, namespace="shop", name="w")
    assert not metricquery.queries(spec) or custom_target("shop", spec) is None

"""Prometheus series: the reference's names and labels, from the state alone."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from tests.unit.autoscaler.world import NS, World, one, sample, wpa
from tidewright.autoscaler.decide import DECIDER
from tidewright.autoscaler.state import State
from tidewright.autoscaler.tell.exposition import Sample, samples
from tidewright.events.autoscaler import WatermarkPodAutoscalerGone
from tidewright.events.config import ConfigSet
from tidewright.events.decisions import ScaleWorkload
from tidewright.host.fold.series import Exposition
from tidewright.host.process import exposition

BASE = {
    "wpa_name": "wpa",
    "wpa_namespace": NS,
    "resource_namespace": NS,
    "namespace": NS,
    "resource_name": "web",
    "resource_kind": "Deployment",
    "target_name": "web",
}


def shown(world: World) -> list[Sample]:
    return list(samples(world.fold.state))


def test_the_series_of_an_object_that_has_scaled() -> None:
    world = World()
    world.start(replicas=2)
    world.apply(one(world.feed(sample(101, 40_000)), ScaleWorkload), 102)
    found = shown(world)
    for expected in (
        Sample("wpa_controller_value", {**BASE, "metric_name": "rps"}, 20_000),
        Sample("wpa_controller_high_watermark", {**BASE, "metric_name": "rps"}, 10_000),
        Sample("wpa_controller_high_watermak", {**BASE, "metric_name": "rps"}, 10_000),
        Sample("wpa_controller_low_watermak", {**BASE, "metric_name": "rps"}, 5_000),
        Sample("wpa_controller_replicas_scaling_proposal", {**BASE, "metric_name": "rps"}, 4),
        Sample("wpa_controller_replicas_scaling_effective", BASE, 3),
        Sample("wpa_controller_transition_countdown", {**BASE, "transition": "upscale"}, 59),
        Sample("wpa_controller_transition_countdown", {**BASE, "transition": "downscale"}, 299),
        Sample("wpa_controller_restricted_scaling", {**BASE, "reason": "within_bounds"}, 0),
        Sample("wpa_controller_conditions", {**BASE, "condition": "able_to_scale"}, 1),
        Sample("wpa_controller_scaling_active", BASE, 1),
        Sample("wpa_controller_dry_run", BASE, 0),
        Sample("wpa_controller_upscale_replicas_total", BASE, 1, counter=True),
        Sample("wpa_controller_downscale_replicas_total", BASE, 0, counter=True),
    ):
        assert expected in found
    names = [(s.name, tuple(sorted(s.labels.items()))) for s in found]
    assert len(names) == len(set(names))


def test_a_scrape_changes_nothing() -> None:
    scraped, left_alone = World(), World()
    for world in (scraped, left_alone):
        world.start(replicas=2, readinessDelaySeconds=30)
        world.feed(sample(101, 15_000))
    assert shown(scraped) == shown(scraped)
    assert scraped.feed(sample(116, 40_000)) == left_alone.feed(sample(116, 40_000))


def test_labels_that_the_policy_names_are_carried() -> None:
    world = World(labels_as_tags=["team", "absent"])
    world.feed(wpa(100, labels={"team": "checkout", "other": "x", "app.kubernetes.io/name": "shop"}))

    def told() -> dict[str, str]:
        return next(s.labels for s in shown(world) if s.name == "wpa_controller_labels_info")

    assert told()["team"] == "checkout"
    assert "absent" not in told()
    assert "other" not in told()
    # The installation's policy may change afterwards; names are written as scrapers write them.
    world.feed(ConfigSet(at=101, name="autoscaler", data={"labels_as_tags": ["app.kubernetes.io/name"]}))
    assert told()["app_kubernetes_io_name"] == "shop"
    assert "team" not in told()


def test_what_is_gone_has_no_series() -> None:
    world = World()
    world.start(replicas=2)
    world.feed(WatermarkPodAutoscalerGone(at=103, namespace=NS, name="wpa"))
    assert shown(world) == []


async def test_a_scrape_groups_the_series_of_all_objects_and_says_what_they_are() -> None:
    world = World()
    world.start(replicas=2)
    world.apply(one(world.feed(sample(101, 40_000)), ScaleWorkload), 102)
    assert DECIDER.exposition is not None
    text = await exposition.text(DECIDER.exposition, lambda: [world.fold.state, State()])
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert families["wpa_controller_upscale_replicas"].type == "counter"
    assert families["wpa_controller_value"].samples[0].value == 20_000
    assert len(families["wpa_controller_conditions"].samples) == len(
        [s for s in shown(world) if s.name == "wpa_controller_conditions"]
    )
    assert all(family.documentation for family in families.values())


async def test_labels_with_quotes_and_line_ends_are_escaped() -> None:
    def odd(_: None) -> list[Sample]:
        return [Sample("a", {"l": 'say "x"\\ \n'}, 0.5)]

    text = await exposition.text(Exposition(series=odd, help={}), lambda: [None])
    (family,) = text_string_to_metric_families(text)
    assert (family.samples[0].labels, family.samples[0].value) == ({"l": 'say "x"\\ \n'}, 0.5)

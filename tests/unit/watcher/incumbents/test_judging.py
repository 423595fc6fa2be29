"""From signs to what is said: each alone is enough, nothing is said twice, and what stopped is gone after a while."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.unit.watcher.incumbents import manifests
from tests.unit.watcher.incumbents.manifests import CHARTS, LEADERS, Object, deployment, raw
from tidewright.events.incumbents import IncumbentObserved
from tidewright.watcher.incumbents.judging import MOST_SHOWN, QUIET_S, Book
from tidewright.watcher.incumbents.rivals import BY_SERVICE
from tidewright.watcher.incumbents.signs import read, sign_of_writes

NOW = 1_790_000_000.0
"""Both clocks begin here; a test moves them together."""


class Story:
    """A book that is told objects as they come, and what it says of it, at a time that the test moves."""

    def __init__(self, book: Book | None = None) -> None:
        self.book = book or Book()
        self.now = NOW

    def sees(self, kind: str, obj: Object) -> None:
        key, sign = read(kind, raw(obj))
        self.book.seen(key, sign, self.now, self.now)

    def loses(self, kind: str, namespace: str, name: str) -> None:
        self.book.seen((kind, namespace, name), None, self.now, self.now)

    def polls(self, service: str, namespace: str, *metas: Object) -> None:
        rival = BY_SERVICE[service]
        kind = rival.writes[0].kind
        sign = sign_of_writes(rival, kind, namespace, metas)
        self.book.seen((kind, namespace, ""), sign, self.now, self.now)

    def says(self) -> list[IncumbentObserved]:
        """What is news; it counts as said."""
        facts = [
            msgspec.structs.replace(fact, at=self.now, since=fact.since or self.now)
            for fact in self.book.news(self.now)
        ]
        for fact in facts:
            self.book.told(fact)
        return facts

    def says_one(self) -> IncumbentObserved:
        (fact,) = self.says()
        return fact

    def later(self, seconds: float) -> None:
        self.now += seconds

    def lease(self, service: str, **more: Any) -> None:
        self.sees("Lease", manifests.lease(*LEADERS[service], self.now, **more))


@pytest.fixture
def story() -> Story:
    return Story()


def test_nothing_seen_is_nothing_said(story: Story) -> None:
    assert story.says() == []


@pytest.mark.parametrize("service", CHARTS)
def test_a_deployment_alone_is_enough(story: Story, service: str) -> None:
    story.sees("Deployment", deployment(CHARTS[service]))
    fact = story.says_one()
    assert (fact.service, fact.present, fact.since) == (service, True, NOW)
    assert [one.kind for one in fact.evidence] == ["Deployment"]


@pytest.mark.parametrize("service", LEADERS)
def test_a_lease_alone_is_enough(story: Story, service: str) -> None:
    story.lease(service)
    fact = story.says_one()
    assert (fact.service, fact.present) == (service, True)
    assert fact.evidence[0].name == LEADERS[service][1]


@pytest.mark.parametrize("service", ["provisioning", "autoscaler", "spread"])
def test_a_field_manager_alone_is_enough(story: Story, service: str) -> None:
    manager = max(BY_SERVICE[service].managers)
    story.polls(service, "shop", manifests.written(manager, NOW))
    fact = story.says_one()
    assert (fact.service, fact.present) == (service, True)
    assert fact.covers("shop")
    assert fact.covers("other") is (service == "provisioning")  # what has nodes to act on acts everywhere


def test_the_status_map_alone_is_enough(story: Story) -> None:
    story.sees("ConfigMap", manifests.status_map(None, at=NOW))
    fact = story.says_one()
    assert (fact.service, fact.everywhere) == ("provisioning", True)


def test_a_webhook_alone_is_enough(story: Story) -> None:
    story.sees("MutatingWebhookConfiguration", manifests.webhooks())
    fact = story.says_one()
    assert (fact.service, fact.everywhere) == ("spread", True)


def test_renewals_are_not_said(story: Story) -> None:
    story.sees("Deployment", deployment(CHARTS["provisioning"]))
    story.lease("provisioning")
    assert len(story.says()) == 1
    for _ in range(1000):
        story.later(2.0)
        story.lease("provisioning")
        assert story.says() == []


def test_other_evidence_is_said_with_the_moment_of_the_first(story: Story) -> None:
    story.sees("Deployment", deployment(CHARTS["provisioning"]))
    story.says()
    story.later(5.0)
    story.lease("provisioning")
    fact = story.says_one()
    assert fact.since == NOW
    assert {one.kind for one in fact.evidence} == {"Deployment", "Lease"}


def test_a_lease_that_is_not_renewed_is_stale_and_after_a_quiet_time_the_incumbent_is_gone(
    story: Story,
) -> None:
    story.lease("provisioning")
    story.says()
    story.later(29.0)
    assert story.book.next_at(story.now) == NOW + 30.0
    assert story.says() == []
    story.later(1.0)
    assert story.says() == []
    assert story.book.next_at(story.now) == story.now + QUIET_S
    story.later(QUIET_S)
    fact = story.says_one()
    assert (fact.present, fact.evidence, fact.quiet_s) == (False, (), QUIET_S)
    assert fact.since == story.now
    assert story.says() == []


def test_asking_twice_gives_the_same_answer(story: Story) -> None:
    story.lease("provisioning")
    story.says()
    story.later(30.0)
    story.says()
    story.later(QUIET_S)
    assert story.book.news(story.now) == story.book.news(story.now) != []


def test_a_restart_within_the_quiet_time_is_no_gap(story: Story) -> None:
    story.sees("Deployment", deployment(CHARTS["autoscaler"]))
    story.says()
    story.sees("Deployment", deployment(CHARTS["autoscaler"], replicas=0))
    assert story.says() == []
    story.later(QUIET_S - 1)
    assert story.says() == []
    story.sees("Deployment", deployment(CHARTS["autoscaler"]))
    assert story.says() == []
    story.later(QUIET_S)
    assert story.says() == []


@pytest.mark.parametrize("deleted", [True, False])
def test_a_deployment_that_stops_is_gone_after_the_quiet_time(story: Story, deleted: bool) -> None:
    story.sees("Deployment", deployment(CHARTS["autoscaler"]))
    story.says()
    if deleted:
        story.loses("Deployment", "datadog", "wpa-watermarkpodautoscaler")
    else:
        story.sees("Deployment", deployment(CHARTS["autoscaler"], replicas=0))
    story.says()
    story.later(QUIET_S)
    assert not story.says_one().present


def test_one_that_comes_back_is_said_anew(story: Story) -> None:
    story.sees("Deployment", deployment(CHARTS["autoscaler"]))
    story.says()
    story.sees("Deployment", deployment(CHARTS["autoscaler"], replicas=0))
    story.says()
    story.later(QUIET_S)
    story.says()
    story.later(100.0)
    story.sees("Deployment", deployment(CHARTS["autoscaler"]))
    fact = story.says_one()
    assert (fact.present, fact.since) == (True, story.now)


def test_a_leftover_lease_is_no_sign(story: Story) -> None:
    story.sees("Lease", manifests.lease(*LEADERS["provisioning"], NOW - 86_400))
    assert story.says() == []
    story.later(10.0)
    story.sees("Lease", manifests.lease(*LEADERS["provisioning"], NOW - 86_398))
    assert story.says_one().present  # it moves: whatever its clock says


def test_a_clock_that_is_a_minute_off_hides_nothing(story: Story) -> None:
    story.sees("Lease", manifests.lease(*LEADERS["provisioning"], NOW - 75))
    assert story.says_one().present


def test_a_lock_that_is_given_back_ends_at_once(story: Story) -> None:
    story.lease("spread")
    story.says()
    story.sees("Lease", manifests.lease("kruise-system", "kruise-manager", "", story.now))
    story.says()
    story.later(QUIET_S)
    assert not story.says_one().present


def test_a_webhook_that_stays_behind_does_not_hold_back(story: Story) -> None:
    story.sees("Deployment", deployment(CHARTS["spread"]))
    story.sees("MutatingWebhookConfiguration", manifests.webhooks())
    assert {one.kind for one in story.says_one().evidence} == {"Deployment", "MutatingWebhookConfiguration"}
    story.sees("Deployment", deployment(CHARTS["spread"], replicas=0))
    story.says()
    story.later(QUIET_S)
    assert not story.says_one().present


def test_writes_from_before_it_stopped_do_not_hold_back_and_those_from_after_do(story: Story) -> None:
    story.sees("Deployment", deployment(CHARTS["autoscaler"]))
    story.polls("autoscaler", "shop", manifests.written("manager", NOW))
    story.says()
    story.later(5.0)
    story.sees("Deployment", deployment(CHARTS["autoscaler"], replicas=0))
    story.polls("autoscaler", "shop", manifests.written("manager", NOW))
    story.says()
    story.later(QUIET_S)
    assert not story.says_one().present
    story.later(5.0)
    story.polls("autoscaler", "shop", manifests.written("manager", story.now))
    assert story.says_one().present


def test_writes_end_by_time(story: Story) -> None:
    story.polls("autoscaler", "shop", manifests.written("manager", NOW))
    story.says()
    story.later(300.0)
    story.polls("autoscaler", "shop", manifests.written("manager", NOW))
    story.says()
    story.later(QUIET_S)
    assert not story.says_one().present


def test_old_writes_are_leftovers(story: Story) -> None:
    story.polls("autoscaler", "shop", manifests.written("manager", NOW - 3600))
    assert story.says() == []


# -- where ---------------------------------------------------------------------------------------


def in_namespace(namespace: str, watched: str) -> Object:
    found = deployment(manifests.WATERMARK_CHART)
    found["metadata"]["namespace"] = namespace
    found["spec"]["template"]["spec"]["containers"][0]["env"][0]["value"] = watched
    return found


def test_several_of_them_act_in_the_namespaces_of_all(story: Story) -> None:
    story.sees("Deployment", in_namespace("team-a", "shop,cart"))
    story.sees("Deployment", in_namespace("team-b", "games"))
    fact = story.says_one()
    assert (fact.everywhere, fact.namespaces) == (False, ("cart", "games", "shop"))
    assert [fact.covers(n) for n in ("shop", "games", "other", "")] == [True, True, False, False]


def test_a_lock_beside_its_deployment_does_not_widen_where_it_acts(story: Story) -> None:
    story.sees("Deployment", in_namespace("datadog", "shop"))
    story.lease("autoscaler")
    assert story.says_one().namespaces == ("shop",)


def test_a_lock_elsewhere_is_of_another_one(story: Story) -> None:
    story.sees("Deployment", in_namespace("team-a", "shop"))
    story.lease("autoscaler")
    assert story.says_one().everywhere


def test_a_deployment_with_namespaces_and_a_webhook_is_where_the_deployment_is(story: Story) -> None:
    found = deployment(manifests.KRUISE_CHART)
    found["spec"]["template"]["spec"]["containers"][0]["args"].append("--namespace=games")
    story.sees("Deployment", found)
    story.sees("MutatingWebhookConfiguration", manifests.webhooks())
    assert story.says_one().namespaces == ("games",)


def test_many_namespaces_are_all_named_and_the_evidence_is_cut(story: Story) -> None:
    for n in range(50):
        story.polls("autoscaler", f"team-{n:02}", manifests.written("manager", NOW))
    fact = story.says_one()
    assert len(fact.namespaces) == 50
    assert len(fact.evidence) == MOST_SHOWN
    assert fact.evidence[-1].shows == "and 31 more"


# -- rights, and another process ---------------------------------------------------------------


def test_a_right_that_is_lacking_is_said_once_and_when_it_is_there(story: Story) -> None:
    right = "list and watch leases.coordination.k8s.io named cluster-autoscaler"
    assert story.book.unseen(("provisioning",), right, lacking=True)
    assert not story.book.unseen(("provisioning",), right, lacking=True)
    fact = story.says_one()
    assert (fact.service, fact.present, fact.unseen) == ("provisioning", False, (right,))
    assert story.says() == []
    assert story.book.unseen(("provisioning",), right, lacking=False)
    assert story.says_one().unseen == ()


def test_who_takes_over_goes_on_from_what_was_said(story: Story) -> None:
    story.lease("provisioning")
    story.says()
    other = Story()
    other.book.told(story.book.said["provisioning"])
    other.now = NOW + 4
    assert other.says() == []  # nothing is listed yet: that is not yet a quiet time
    other.later(1.0)
    other.lease("provisioning")
    assert other.says() == []
    third = Story()
    third.book.told(story.book.said["provisioning"])
    third.says()
    third.later(QUIET_S)
    assert not third.says_one().present


def test_a_fact_said_again_is_no_difference(story: Story) -> None:
    story.lease("provisioning")
    said = story.says_one()
    story.book.told(msgspec.structs.replace(said, at=story.now + 9, refresh=True))
    assert story.says() == []

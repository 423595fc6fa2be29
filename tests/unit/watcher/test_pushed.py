from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.watcher.remotewrite import compressed, request, series
from tidewright.host.ports.tokens import Token
from tidewright.watcher import pushed, remotewrite
from tidewright.watcher.metric_queries import Query
from tidewright.watcher.pushed import LIFETIME_S, POD_LIFETIME_S, BadPush, Pushed, Sample
from tidewright.watcher.remotewrite import MAX_DECODED_BYTES, STALE

NOW = 1_795_262_400.0
QUERY = Query("shop", "external/requests/app=web")
ELSEWHERE = Query("other", "external/requests/app=web")


def sample(value: float = 5.0, **fields: Any) -> Sample:
    given: dict[str, Any] = {
        "metric": "requests",
        "namespace": "shop",
        "labels": {"app": "web"},
        "value": value,
    }
    return Sample(**(given | fields))


@pytest.fixture
def table() -> Pushed:
    made = Pushed()
    made.want(QUERY)
    made.want(ELSEWHERE)
    return made


def test_a_pushed_sample_answers_the_queries_of_its_namespace_that_select_it(table: Pushed) -> None:
    taken = table.take([sample(1.5, timestamp=NOW - 3)], NOW)
    (fact,) = taken.facts
    assert (fact.namespace, fact.name, fact.series_milli) == ("shop", QUERY.name, (1500,))
    assert fact.sampled_at == NOW - 3
    assert (taken.used, taken.unused, taken.old, len(taken.refused)) == (1, 0, 0, 0)


def test_a_sample_without_a_namespace_moves_nobody(table: Pushed) -> None:
    taken = table.take([sample(namespace=""), sample(metric="unknown", namespace="")], NOW)
    assert (taken.facts, taken.used, taken.unused, dict(taken.refused.by_why)) == ([], 0, 1, {"namespace": 1})
    (error,) = taken.refused.first
    assert (error.field, error.status) == ("samples[0].namespace", 400)
    assert "requests{app=web}" in str(error)
    assert not table.lives(QUERY, NOW)


def test_a_sample_without_a_namespace_is_for_all_where_its_metric_was_said_to_be_shared() -> None:
    table = Pushed({"requests"})
    table.want(QUERY)
    table.want(ELSEWHERE)
    assert {fact.namespace for fact in table.take([sample(namespace="")], NOW).facts} == {"shop", "other"}
    bound = Token(b"", frozenset({"shop"}))
    assert table.take([sample(namespace="")], NOW, bound).refused.by_why == {"token": 1}


def test_a_token_for_one_namespace_moves_no_other(table: Pushed) -> None:
    bound = Token(b"", frozenset({"shop"}))
    taken = table.take([sample(), sample(namespace="other")], NOW, bound)
    assert [fact.namespace for fact in taken.facts] == ["shop"]
    (error,) = taken.refused.first
    assert (error.field, error.status, error.why) == ("samples[1].namespace", 403, "token")


def test_labels_are_bounded_in_number_and_length(table: Pushed) -> None:
    many = {"app": "web", **{f"l{n}": "x" for n in range(pushed.MAX_LABELS)}}
    long = {"app": "web", "l": "x" * (pushed.MAX_TEXT + 1)}
    taken = table.take([sample(labels=many), sample(labels=long)], NOW)
    assert (taken.facts, taken.refused.by_why, taken.refused.status) == ([], {"labels": 2}, 413)
    assert all(len(str(error)) < 500 for error in taken.refused.first)


def test_series_are_bounded_over_all_queries_and_those_that_are_over_make_room(
    table: Pushed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pushed, "MAX_LIVE", 3)
    some = [sample(labels={"app": "web", "n": str(n)}) for n in range(2)]
    more = [sample(labels={"app": "web", "n": str(n)}, namespace="other") for n in range(2)]
    taken = table.take(some + more, NOW)
    assert ([len(fact.series_milli) for fact in taken.facts], taken.refused.by_why) == ([2, 1], {"series": 1})
    assert len(table.take(more, NOW + LIFETIME_S).refused) == 0


def test_refusals_are_counted_and_a_few_kept(table: Pushed) -> None:
    taken = table.take([sample(namespace="")] * 1000, NOW)
    assert (len(taken.refused), len(taken.refused.first)) == (1000, pushed.SAID)


@pytest.mark.parametrize("other", [{"metric": "x"}, {"labels": {"app": "db"}}, {"namespace": "third"}])
def test_what_nobody_asks_for_is_counted_and_left_out(table: Pushed, other: dict[str, Any]) -> None:
    taken = table.take([sample(**other)], NOW)
    assert (taken.facts, taken.unused) == ([], 1)


def test_the_series_of_a_query_are_summed_until_they_end(table: Pushed) -> None:
    table.take([sample(1, labels={"app": "web", "pod": "a"}, timestamp=NOW - 9)], NOW)
    (fact,) = table.take([sample(2, labels={"app": "web", "pod": "b"})], NOW).facts
    assert fact.series_milli == (1000, 2000)
    assert fact.sampled_at == NOW - 9  # as fresh as the oldest part
    (fact,) = table.take([sample(0, labels={"app": "web", "pod": "a"}, ended=True)], NOW).facts
    assert fact.series_milli == (2000,)
    assert table.take([sample(0, labels={"app": "web", "pod": "b"}, ended=True)], NOW).facts == []
    assert not table.lives(QUERY, NOW)  # polled again


def test_series_of_pods_answer_a_resource_query_pod_by_pod(table: Pushed) -> None:
    cpu = Query("shop", "resource/cpu/app=web")
    table.want(cpu)

    def used(pod: str, value: float, **fields: Any) -> Sample:
        labels = {"app": "web", "pod": pod, **fields.pop("labels", {})}
        return sample(value, metric="cpu", labels={k: v for k, v in labels.items() if v}, **fields)

    taken = table.take(
        [
            used("a", 0.25, labels={"container": "c"}),
            used("a", 0.5, labels={"container": "proxy"}),
            used("b", 0.1, timestamp=NOW - 2),
            used("", 9.0),  # of no pod
        ],
        NOW,
    )
    assert (taken.used, taken.unused) == (3, 1)
    (fact,) = taken.facts
    assert (fact.name, fact.pods_milli, fact.series_milli) == (cpu.name, {"a": 750, "b": 100}, ())
    assert fact.sampled_at == NOW - 2
    # A pod that is pushed no longer has gone, and counts no longer.
    (fact,) = table.take([used("b", 0.2)], NOW + POD_LIFETIME_S).facts
    assert fact.pods_milli == {"b": 200}
    assert not table.lives(cpu, NOW + 2 * POD_LIFETIME_S)
    table.forget(cpu)
    assert table.take([used("a", 1.0)], NOW).facts == []


def test_a_series_that_is_no_longer_pushed_is_polled_again(table: Pushed) -> None:
    table.take([sample()], NOW)
    assert table.lives(QUERY, NOW + LIFETIME_S - 1)
    assert not table.lives(QUERY, NOW + LIFETIME_S)


def test_a_sample_older_than_the_last_changes_nothing(table: Pushed) -> None:
    table.take([sample(1, timestamp=NOW)], NOW)
    taken = table.take([sample(2, timestamp=NOW - 1), sample(3, timestamp=NOW - LIFETIME_S)], NOW)
    assert (taken.facts, taken.old) == ([], 2)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_value_that_is_no_number_fails_the_query_and_is_refused(table: Pushed, value: float) -> None:
    taken = table.take([sample(value), sample(7, namespace="other")], NOW)
    assert [error.field for error in taken.refused.first] == ["samples[0].value"]
    by_space = {fact.namespace: fact for fact in taken.facts}
    assert (by_space["shop"].error_class, by_space["shop"].series_milli) == ("garbage", ())
    assert by_space["other"].series_milli == (7000,)
    assert table.take([sample(4)], NOW).facts[0].series_milli == (4000,)


def test_a_stamp_ahead_of_the_clock_is_refused_and_changes_nothing(table: Pushed) -> None:
    taken = table.take([sample(timestamp=NOW + 3600)], NOW)
    assert taken.facts == []
    assert "samples[0].timestamp of requests is" in str(taken.refused.first[0])


def test_too_many_series_are_refused(table: Pushed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pushed, "MAX_SERIES", 2)
    many = [sample(1, labels={"app": "web", "pod": str(n)}) for n in range(3)]
    taken = table.take(many, NOW)
    assert taken.facts[0].series_milli == (1000, 1000)
    assert (taken.refused.first[0].status, taken.refused.first[0].field) == (413, "samples[2].labels")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b'[{"value": 1}]', "samples[0]"),
        (b'[{"metric": "m", "value": "1"}]', "samples[0].value"),
        (b'[{"metric": "m", "value": 1, "labels": {"a": 2}}]', "samples[0].labels[...]"),
        (b'{"metric": "m", "value": 1, "unit": "s"}', "samples"),
        (b"[", "body"),
        (b"<html>", "body"),
        (b'[{"metric": "m", "value": NaN}]', "body"),
    ],
)
def test_json_that_cannot_be_read_names_the_field(body: bytes, field: str) -> None:
    with pytest.raises(BadPush) as refused:
        pushed.decode_json(body)
    assert refused.value.field == field


def test_an_unknown_field_is_answered_with_those_that_are_known() -> None:
    with pytest.raises(
        BadPush, match=r"`unit`.*valid are metric, value, namespace, labels, timestamp, ended"
    ):
        pushed.decode_json(b'[{"metric": "m", "value": 1, "unit": "s"}]')


def test_remote_write_gives_the_newest_sample_of_each_series() -> None:
    body = compressed(
        series({"__name__": "requests", "namespace": "shop", "app": "web"}, (1.0, 1000), (2.0, 3000))
        + series({"__name__": "other"}, (7.5, -5))
        + series({"__name__": "ended"}, (STALE.to_bytes(8, "little"), 4000))
        + series({"__name__": "without"})
        + b"\x1a\x00"  # metadata
    )
    one, two, three = remotewrite.decode(body)
    assert one == Sample(
        metric="requests",
        namespace="shop",
        labels={"namespace": "shop", "app": "web"},
        value=2.0,
        timestamp=3.0,
    )
    assert (two.metric, two.value, two.timestamp) == ("other", 7.5, -0.005)
    assert three.ended


def test_the_second_version_of_remote_write_names_its_labels_by_symbols() -> None:
    labels = {"__name__": "requests", "namespace": "shop", "app": "web"}
    body = compressed(request((labels, 2.5, 3000), ({"__name__": "other", "app": "requests"}, 7.0, -5)))
    one, two = remotewrite.decode(body, remotewrite.SECOND)
    assert one == Sample(
        metric="requests",
        namespace="shop",
        labels={"namespace": "shop", "app": "web"},
        value=2.5,
        timestamp=3.0,
    )
    assert (two.metric, two.labels, two.timestamp) == ("other", {"app": "requests"}, -0.005)


@pytest.mark.parametrize("places", [b"\x01", b"\x01\x63", b"\x63\x01"])
def test_symbols_that_are_not_there_are_refused(places: bytes) -> None:
    sample_ = b"\x12\x02\x10\x01"
    series_ = b"\x0a" + bytes([len(places)]) + places + sample_
    body = b"\x22\x00\x22\x08__name__" + b"\x2a" + bytes([len(series_)]) + series_
    with pytest.raises(BadPush, match=r"timeseries\[0\].labels_refs are pairs of places among 2 symbols"):
        remotewrite.decode(compressed(body), remotewrite.SECOND)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"not snappy at all, really", "body"),
        (compressed(b"\x0a\x7f"), "body"),
        (compressed(b"\x0b"), "body"),
        (compressed(b"\xff" * 12), "body"),
        (compressed(series({"app": "web"}, (1.0, 1))), "timeseries[0].labels"),
    ],
)
def test_remote_write_that_cannot_be_read_names_the_part(body: bytes, field: str) -> None:
    with pytest.raises(BadPush) as refused:
        remotewrite.decode(body)
    assert (refused.value.field, refused.value.status) == (field, 400)


def test_a_series_without_samples_is_left_out_whatever_its_labels() -> None:
    odd = b"\x0a\x04\x0a\x02\x08\x01"
    assert [s.metric for s in remotewrite.decode(compressed(series({"__name__": "m"}, (1.0, 1))))] == ["m"]
    with pytest.raises(BadPush, match=r"timeseries\[0\].labels"):
        remotewrite.decode(compressed(odd))


@given(st.binary(max_size=200), st.sampled_from([remotewrite.FIRST, remotewrite.SECOND]))
def test_any_bytes_are_samples_or_a_refusal(body: bytes, message: str) -> None:
    for given_ in (body, compressed(body)):
        try:
            samples = remotewrite.decode(given_, message)
        except BadPush as refusal:
            assert refusal.field  # noqa: PT017  # either is right
        else:
            assert all(s.metric for s in samples)


@pytest.mark.parametrize("message", [remotewrite.FIRST, remotewrite.SECOND])
def test_a_small_block_of_millions_of_empty_parts_is_given_up(
    message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remotewrite, "MAX_PARTS", 10_000)
    metadata = compressed(b"\x1a\x00" * (2**20))
    series_ = compressed(b"\x0a\x00" * (2**20) if message == remotewrite.FIRST else b"\x2a\x00" * (2**20))
    assert len(metadata) < 2**18
    for body in (metadata, series_):
        with pytest.raises(BadPush) as refused:
            remotewrite.decode(body, message)
        assert (refused.value.status, refused.value.why) == (413, "samples")


def test_a_series_of_too_many_labels_is_refused_before_they_are_read() -> None:
    labels = {"__name__": "m", **{f"l{n}": "x" for n in range(pushed.MAX_LABELS)}}
    with pytest.raises(BadPush, match=r"timeseries\[0\].labels are more than 64"):
        remotewrite.decode(compressed(series(labels, (1.0, 1))))
    with pytest.raises(BadPush, match=r"timeseries\[0\].labels are more than 64"):
        remotewrite.decode(compressed(request((labels, 1.0, 1))), remotewrite.SECOND)


def test_a_block_that_would_grow_too_large_is_not_unpacked() -> None:
    with pytest.raises(BadPush) as refused:
        remotewrite.decode(compressed(bytes(MAX_DECODED_BYTES + 1)))
    assert refused.value.status == 413

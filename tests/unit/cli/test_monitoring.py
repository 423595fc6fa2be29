"""Alerts and dashboards against what services really answer on `/metrics`, and against their runbooks."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import msgspec
import promql_parser
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tidewright.asking.services import EVERY
from tidewright.cli.contract.monitoring.alerts import ALERTS, rules
from tidewright.cli.contract.monitoring.dashboards import DASHBOARDS, files
from tidewright.cli.contract.monitoring.runbooks import page

ROOT = Path(__file__).resolve().parents[3]
RECORDED = ROOT / "tests" / "recorded" / "metrics"
SCRAPED = {"component"}
"""Labels that scraping adds."""
UNSAMPLED = {
    "tidewright_actuator_not_allowed_total": {"service", "rule"},
    "tidewright_admission_requests_total": {"path", "answer"},
    "tidewright_callers_refused_total": set(),
    "tidewright_errors_total": {"reason"},
    "tidewright_incumbent_seen": {"service"},
    "tidewright_pushed_samples_refused_total": {"why"},
    "tidewright_shard_labels_requests_total": {"answer"},
    "tidewright_unbelieved_messages_total": {"cause"},
    "cluster_autoscaler_evicted_pods_total": set(),
    "wpa_controller_downscale_replicas_total": set(),
}
"""Series that have no sample while all is well, with their labels in the code; those that any label would do for have none here."""


def recorded() -> dict[str, set[str]]:
    """Series of all services and their labels."""
    found: dict[str, set[str]] = {"up": {"job"}}
    for service in (*EVERY, "archiver"):
        for family in text_string_to_metric_families((RECORDED / f"{service}.txt").read_text()):
            name = family.name + "_total" if family.type == "counter" else family.name
            found.setdefault(name, UNSAMPLED.get(name, set()))
            for sample in family.samples:
                found.setdefault(sample.name, set()).update(sample.labels)
    return found


SERIES = recorded()
EXPRESSIONS = {alert.full_name: alert.expression for alert in ALERTS} | {
    f"{dashboard.name}: {panel.title} {n}": expression.replace("$namespace", "a").replace("$autoscaler", "a")
    for dashboard in DASHBOARDS
    for panel in dashboard.panels
    for n, (expression, _) in enumerate(panel.lines)
}


def asked(
    expression: promql_parser.Expr, by: frozenset[str] = frozenset()
) -> Iterator[tuple[str, frozenset[str]]]:
    """Series that an expression reads, and the labels that it wants of each."""
    match expression:
        case promql_parser.AggregateExpr():
            modifier = expression.modifier
            yield from asked(expression.expr, by | frozenset(modifier.labels if modifier else ()))
        case promql_parser.BinaryExpr():
            yield from asked(expression.lhs, by)
            yield from asked(expression.rhs, by)
        case promql_parser.Call():
            for argument in expression.args:
                yield from asked(argument, by)
        case promql_parser.ParenExpr():
            yield from asked(expression.expr, by)
        case promql_parser.MatrixSelector():
            yield from asked(expression.vector_selector, by)
        case promql_parser.VectorSelector():
            yield expression.name or "", by | {matcher.name for matcher in expression.matchers.matchers}
        case promql_parser.NumberLiteral() | promql_parser.StringLiteral():
            return
        case _:
            raise AssertionError(f"{type(expression).__name__}: this test does not know what it reads")


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_every_expression_finds_its_series_with_its_labels(name: str) -> None:
    wanted = dict(asked(promql_parser.parse(EXPRESSIONS[name])))
    assert wanted
    for series, labels in wanted.items():
        assert series in SERIES, f"no service answers {series}"
        assert labels - SCRAPED <= SERIES[series], f"{series} has the labels {sorted(SERIES[series])}"


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_no_expression_takes_the_series_of_an_original_that_runs_beside_for_ours(name: str) -> None:
    for selector in re.findall(
        r"\b((?:up|(?:cluster_autoscaler|wpa_controller)_\w+)\b(?:\{[^}]*\})?)", EXPRESSIONS[name]
    ):
        assert 'job="tidewright"' in selector or 'component="' in selector, selector


def test_the_test_would_find_a_series_that_nobody_has() -> None:
    ((series, labels),) = asked(
        promql_parser.parse("sum by (component, queue) (rate(tidewright_decisions_total[5m]))")
    )
    assert series in SERIES
    assert labels - SCRAPED - SERIES[series] == {"queue"}


def test_every_alert_has_a_runbook_that_its_link_leads_to() -> None:
    listed = yaml.safe_load(rules())["groups"][0]["rules"]
    assert len({rule["alert"] for rule in listed}) == len(listed) == len(ALERTS)
    headings = {heading.lower() for heading in re.findall(r"^## (\w+)$", page(), re.MULTILINE)}
    for rule in listed:
        url, _, anchor = rule["annotations"]["runbook_url"].partition("#")
        home = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]["Homepage"]
        place = url.removeprefix(f"{home}/").rstrip("/")
        assert (ROOT / "docs" / f"{place}.md").read_text() == page()
        assert anchor in headings


def test_runbooks_link_to_what_is_there() -> None:
    headings = {heading.lower() for heading in re.findall(r"^## (\w+)$", page(), re.MULTILINE)}
    for target in re.findall(r"\]\(([^)]+)\)", page()):
        file, _, anchor = target.partition("#")
        if file:
            assert (ROOT / "docs" / "reference" / file).resolve().is_file(), target
        else:
            assert anchor in headings, target


def test_labels_in_summaries_are_those_that_the_alert_keeps() -> None:
    for alert in ALERTS:
        kept = {label for _, labels in asked(promql_parser.parse(alert.expression)) for label in labels}
        assert set(re.findall(r"\$labels\.(\w+)", alert.summary)) <= kept, alert.name


def test_dashboards_are_what_grafana_takes() -> None:
    for text in files().values():
        found = msgspec.json.decode(text)
        assert {panel["id"] for panel in found["panels"]} == set(range(1, len(found["panels"]) + 1))
        places = [(p["gridPos"]["x"], p["gridPos"]["y"]) for p in found["panels"]]
        assert len(set(places)) == len(places)

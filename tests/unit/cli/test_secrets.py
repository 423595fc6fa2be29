"""Nothing secret in arguments, logs and messages."""

from __future__ import annotations

import io

import pytest
import structlog

from tidewright.cli import main
from tidewright.cli.metricsflags import SourceFlags
from tidewright.host.process import process
from tidewright.log.redaction import redacted


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "watcher", "--external-metrics-url", "http://user:s3cret@metrics/"],
        ["run", "watcher", "--resource-metrics-url=https://user:s3cret@metrics/"],
        ["run", "actuator", "--cloud", "simulated=http://:s3cret@cloud:1"],
        ["run", "actuator", "--cloud", "simulated=http://user:s3/cr@et@cloud:1"],
        ["run", "autoscaler", "--nats", "nats://autoscaler:s3cret@host:4222"],
        ["explain", "wpa/shop", "--nats=tls://a:1,tls://reader:s3cret@b:2"],
        ["verify", "--nats", "reader:s3cret@host"],
        ["events", "--nats", "nats://s3cret-token@host"],
        ["install", "--archive-nats", "nats://archive:s3cret@host"],
    ],
)
def test_a_password_in_an_argument_is_refused_and_not_repeated(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    code = main.run(arguments)
    said = capsys.readouterr().err
    assert (code, "s3c" in said) == (2, False)
    assert "can be read by everybody on this machine" in said


def test_what_the_environment_says_is_not_made_an_argument_of_a_child(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TIDEWRIGHT_EXTERNAL_METRICS_URL", "http://user:s3cret@metrics")
    flags = SourceFlags(external_metrics_url="http://user:s3cret@metrics", config_map="a/b")
    assert flags.arguments() == ("--config-map", "a/b")
    assert SourceFlags(recommender_hosts=("a", "b")).arguments() == (
        "--recommender-hosts", "a", "--recommender-hosts", "b",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("nats://a:b@host:4222", "nats://***@host:4222"),
        ("at nats://a:p@ss@one:1,nats://b:c@two:2 nobody", "at nats://***@one:1,nats://***@two:2 nobody"),
        ('{"url": "https://token@host/path?x=a@b"}', '{"url": "https://***@host/path?x=a@b"}'),
        ("Authorization: Bearer abcdefgh12345678", "Authorization: Bearer ***"),
        ("http://user:s3/cr@et@cloud:1/x failed", "http://***@cloud:1/x failed"),
        ("http://host:80/a@b and http://host/c:d@e", "http://host:80/a@b and http://host/c:d@e"),
        ("mail a@b.example, http://host/a@b", "mail a@b.example, http://host/a@b"),
    ],
)
def test_texts_lose_what_is_secret(text: str, shown: str) -> None:
    assert redacted(text) == shown


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_no_line_of_a_log_has_a_password_wherever_it_came_from(
    log_format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = io.StringIO()
    monkeypatch.setattr(process, "STDERR", written)
    before = structlog.get_config()
    try:
        process.configure_logs("debug", log_format, service="x")
        logger = structlog.get_logger("secrets")
        url = "nats://user:s3cret@host"
        try:
            int(url)
        except ValueError as error:
            logger.exception("failed", at=url, urls=[url, {"a": url}], error=error)
    finally:
        structlog.configure(**before)
        structlog.contextvars.clear_contextvars()
    assert "nats://***@host" in written.getvalue()
    assert "s3cret" not in written.getvalue()

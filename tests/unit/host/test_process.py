"""How a process ends, and what it says then."""

from __future__ import annotations

import pytest

from tidewright.host.process import EXIT_FAILED, EXIT_UNAVAILABLE, EXIT_USAGE, ProcessOptions, run
from tidewright.log import errors


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (errors.LogUnavailable("nobody answers"), EXIT_UNAVAILABLE, "nobody answers"),
        (
            ExceptionGroup("parts", [ExceptionGroup("part", [errors.LogUnavailable("no answer in 1 s")])]),
            EXIT_UNAVAILABLE,
            "no answer in 1 s",
        ),
        (
            ExceptionGroup("parts", [KeyError("x"), errors.WrongStream("another cluster")]),
            EXIT_USAGE,
            "another cluster",
        ),
        (ExceptionGroup("parts", [RuntimeError("a defect")]), EXIT_FAILED, "RuntimeError: a defect"),
    ],
)
def test_the_cause_is_said_and_not_the_group_it_came_in(
    error: Exception, code: int, words: str, capfd: pytest.CaptureFixture[str]
) -> None:
    async def main(process: object) -> None:
        raise error

    assert run(ProcessOptions("watcher"), main) == code
    last = capfd.readouterr().err.strip().splitlines()[-1]
    assert f'"error": "{words}"' in last

"""Which clouds there are, and how many calls they get."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from tidewright.cloud import providers
from tidewright.cloud.calls import NEEDS_PEOPLE_S, Calls, pause_s
from tidewright.cloud.errors import Forbidden, Throttled, Unavailable
from tidewright.cloud.providers import CloudSpec, Kind, spec_of, specs_of


def test_a_cloud_is_a_name_a_kind_and_what_the_kind_needs() -> None:
    spec = spec_of("east=simulated:http://127.0.0.1:8080")
    assert spec == CloudSpec("east", "simulated", "http://127.0.0.1:8080")
    assert spec_of(spec.text) == spec
    assert spec_of("simulated=http://there:1") == CloudSpec("simulated", "simulated", "http://there:1")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("east", "write NAME=KIND[:CONFIG], KIND one of "),
        ("east=azure:x", "write NAME=KIND[:CONFIG], KIND one of "),
        ("East=simulated:http://a", "letters a-z, digits and dashes"),
        ("none=simulated:http://a", "not 'none'"),
        (
            "east=simulated",
            "simulated needs the URL of a simulated cloud, as in east=simulated:http://127.0.0.1:8080",
        ),
    ],
)
def test_what_is_no_cloud_is_refused_with_what_would_be(text: str, said: str) -> None:
    with pytest.raises(ValueError, match="cloud ") as refused:
        spec_of(text)
    assert said in str(refused.value)


def test_two_clouds_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="cloud 'a': configured 2 times"):
        specs_of(["a=simulated:http://x", "b=simulated:http://x", "a=simulated:http://y"])


def test_a_kind_that_is_not_installed_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = Kind("nowhere", "nothing", extra="moon", needs="no_such_module")
    monkeypatch.setitem(providers.KINDS, "moon", elsewhere)
    with pytest.raises(ValueError, match=r"pip install 'tidewright\[moon\]'"):
        spec_of("m=moon")


async def test_a_call_that_hangs_ends_as_one_without_an_answer() -> None:
    calls = Calls("east", timeout_s=0.05)
    with pytest.raises(Unavailable, match=r"cloud east: GET /groups: no answer within 0.05 s"):
        async with calls.call("GET /groups"):
            await asyncio.Event().wait()
    assert calls.made == {"GET": 1}


async def test_a_cloud_gets_no_more_calls_than_its_budget() -> None:
    calls = Calls("east", per_s=0.5)  # one at once, the next one two seconds later
    async with calls.call("first"):
        pass

    async def second() -> None:
        async with calls.call("second"):
            pass

    waiting = asyncio.create_task(second())
    for _ in range(10):
        await asyncio.sleep(0)
    assert not waiting.done()
    assert calls.made == {"first": 1}
    waiting.cancel()


def test_what_a_failure_says_about_the_next_call() -> None:
    assert [pause_s(Unavailable(""), n) for n in (1, 2, 3, 99)] == [1.0, 2.0, 4.0, 60.0]
    assert pause_s(Throttled(""), 1) == 4.0
    assert pause_s(Throttled("", retry_after_s=90.0), 1) == 90.0
    assert pause_s(Forbidden(""), 7) == NEEDS_PEOPLE_S


def test_without_extras_the_base_installation_says_which_one_a_cloud_needs() -> None:
    """In a process of its own, which has none of them: nothing else may look for their modules."""
    program = (
        "import importlib.util as util, sys\n"
        "gone = ('aiobotocore', 'botocore', 'grpc', 'google')\n"
        "class Gone:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] in gone: raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Gone())\n"
        "found = util.find_spec\n"
        "util.find_spec = lambda name, package=None: None if name in gone else found(name, package)\n"
        "from tidewright.cli import main\n"
        "import tidewright.watcher.service, tidewright.actuator.service\n"
        "for line in sys.argv[1:]: print(main.run(line.split()))\n"
    )
    lines = ("version", "run watcher --cloud a=aws:asg:tag=x", "run actuator --cloud g=externalgrpc:h:1",
             "cloud serve --cloud s=simulated:http://x")  # fmt: skip
    done = subprocess.run([sys.executable, "-c", program, *lines], capture_output=True, text=True, check=True)
    (extras,) = [line for line in done.stdout.splitlines() if line.startswith("extras ")]
    assert not {"aws", "grpc"} & set(extras.split())
    assert [line for line in done.stdout.splitlines() if line.isdecimal()] == ["0", "2", "2", "69"]
    assert "aws is not part of this installation: pip install 'tidewright[aws]'" in done.stderr
    assert "externalgrpc is not part of this installation: pip install 'tidewright[grpc]'" in done.stderr
    assert "`cloud serve` is not part of this installation: pip install 'tidewright[grpc]'" in done.stderr

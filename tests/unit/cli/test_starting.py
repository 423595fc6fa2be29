"""What the process of a service does without."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

KUBECONFIG = {
    "apiVersion": "v1", "kind": "Config", "clusters": [{"cluster": {"server": "http://127.0.0.1:9"}, "name": "c"}],
    "users": [{"name": "u", "user": {}}], "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
    "current-context": "x",
}  # fmt: skip
SERVICE = """
import asyncio, importlib, sys
import tidewright.cli.main
importlib.import_module(sys.argv[2])
import tidewright.watcher.service, tidewright.actuator.service
from pathlib import Path
from tidewright.kube.client import Kube
asyncio.run(asyncio.wait_for(Kube.connect(Path(sys.argv[1])), 90))
print(*sorted(sys.modules))
"""


@pytest.mark.parametrize("command", ["tidewright.cli.run", "tidewright.cli.up"])
def test_a_service_imports_neither_what_draws_on_terminals_nor_models_of_the_whole_api(
    tmp_path: Path, command: str
) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(KUBECONFIG))
    started = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SERVICE, str(path), command],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    imported = started.stdout.split()
    assert "structlog.dev" in imported
    assert "aiohttp.connector" in imported
    assert not [name for name in imported if name.split(".")[0] in ("rich", "kubernetes_asyncio")]


CONSOLE = """
import sys
import tidewright.cli.webconsole, tidewright.console.server
print(*sorted(sys.modules))
"""


def test_the_first_page_of_a_console_waits_for_nothing_that_it_does_not_ask() -> None:
    started = subprocess.run(
        [sys.executable, "-c", CONSOLE], capture_output=True, text=True, timeout=120, check=True
    )
    imported = set(started.stdout.split())
    assert "tidewright.console.overview" in imported
    assert not imported & {
        "tidewright.cli.stack",
        "tidewright.autoscaler.state",
        "tidewright.asking.comparing",
        "yaml",
    }


WHOLE = """
import sys
from tidewright.kube.library import library
used = library()
import kubernetes_asyncio.client.models, kubernetes_asyncio.config
assert kubernetes_asyncio.client.models.V1Pod and kubernetes_asyncio.client.ApiClient
assert kubernetes_asyncio.client.rest.RESTClientObject and kubernetes_asyncio.config.load_kube_config
assert used.config.load_kube_config and used.configuration and used.rest
"""


def test_who_wants_the_rest_of_the_library_afterwards_has_it() -> None:
    answer = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", WHOLE],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr

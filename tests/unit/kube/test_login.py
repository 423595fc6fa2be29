"""A configuration that cannot be used is refused by what is wrong with it, once and in one line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tidewright.kube.client import Kube
from tidewright.kube.errors import KubeError
from tidewright.kube.library import library

GOOD = """apiVersion: v1
kind: Config
current-context: here
clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]
contexts: [{name: here, context: {cluster: c, user: u}}]
users: [{name: u, user: {}}]
"""
PLUGIN = (
    "{exec: {apiVersion: client.authentication.k8s.io/v1, command: no-such-plugin, interactiveMode: Never}}"
)


async def refused(
    kubeconfig: Path | None = None, context: str | None = None, in_cluster: bool = False
) -> str:
    with pytest.raises(KubeError) as caught:
        await Kube.connect(kubeconfig, in_cluster, context)
    assert caught.value.reason == "Configuration"
    assert "\n" not in caught.value.message
    return caught.value.message


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "it is empty, or no kubeconfig"),
        ("a: [", "while parsing a flow node"),
        ("- a list", "it is empty, or no kubeconfig"),
        (GOOD.replace("user: {}", f"user: {PLUGIN}"), "no-such-plugin"),
        (GOOD.replace("user: {}", "user: {client-certificate: /no/such, client-key: /no/such}"), "/no/such"),
    ],
)
async def test_a_file_is_refused_by_what_is_wrong_with_it(
    content: str, said: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "config"
    path.write_text(content)
    message = await refused(path)
    assert message.startswith(f"kubeconfig {path}: ")
    assert said in message
    assert capfd.readouterr().err == ""  # the loader's own words would stand there twice


async def test_of_a_file_that_may_not_be_read_it_is_said_to_whom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "config"
    path.write_text(GOOD)

    async def closed(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))  # as for who is not root

    monkeypatch.setattr(library().config, "load_kube_config", closed)
    assert await refused(path) == (
        f"kubeconfig {path}: user {os.getuid()}, as whom this runs, may not read {path}"
    )


async def test_a_context_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(GOOD)
    assert await refused(path, context="there") == f"kubeconfig {path}: it has no context 'there'"


async def test_where_nothing_is_named_it_is_said_where_one_was_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    assert await refused() == "kubeconfig ~/.kube/config: no such file, and KUBECONFIG is not set"
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/a:{tmp_path}/b")
    assert await refused() == f"kubeconfig {tmp_path}/a:{tmp_path}/b: no such file"


async def test_outside_of_a_pod_there_is_no_service_account(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    assert await refused(in_cluster=True) == (
        "the pod's service account: this is no pod of a cluster, KUBERNETES_SERVICE_HOST is not set"
    )

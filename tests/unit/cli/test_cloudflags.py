"""Clouds as flags, also as a manifest of Cluster Autoscaler has them."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tidewright.asking.errors import BadInput
from tidewright.cli import main
from tidewright.cli.cloud.held import held, identity
from tidewright.cli.cloudflags import CloudFlags
from tidewright.cloud.aws.client import AwsProvider
from tidewright.cloud.aws.config import NamedGroup, TagSelector
from tidewright.cloud.providers import Surroundings, spec_of


def test_flags_of_cluster_autoscaler_say_what_a_cloud_has() -> None:
    flags = CloudFlags(
        cloud_provider="aws", nodes=("1:3:x",), node_group_auto_discovery=("asg:tag=a,b", "asg:tag=c")
    )
    options = flags.options()
    assert options["clouds"] == ("aws=aws",)
    provider = spec_of("aws=aws").provider(
        Surroundings(discovery=options["cloud_discovery"], nodes=options["cloud_nodes"])
    )
    assert isinstance(provider, AwsProvider)
    assert provider.config.named == (NamedGroup("x", 1, 3),)
    # Each flag is an alternative, where the original makes one conjunction of all of them.
    assert provider.config.selectors == (TagSelector((("a", ""), ("b", ""))), TagSelector((("c", ""),)))


def test_the_config_is_that_of_clouds_without_their_own(tmp_path: Path) -> None:
    file = tmp_path / "cloud.yaml"
    file.write_text("address: cloud:8086\n")
    flags = CloudFlags(cloud=("rpc=externalgrpc",), cloud_config=str(file))
    assert flags.options()["clouds"] == ("rpc=externalgrpc",)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (CloudFlags(cloud=("a=aws",)), "cloud 'a=aws': no group would be ours"),
        (CloudFlags(cloud=("g=externalgrpc",)), "or give --cloud-config FILE"),
        (CloudFlags(cloud=("k=kwok:a/b/c",)), "cloud 'k=kwok:a/b/c': kwok:a/b/c: write [NAMESPACE/]NAME"),
        (CloudFlags(cloud_provider="azure"), "KIND one of aws, clusterapi, externalgrpc, kwok, simulated"),
        (CloudFlags(cloud_provider="aws", nodes=("3:1:x",)), "write MIN:MAX:NAME"),
        (
            CloudFlags(node_group_auto_discovery=("mig:name=a",)),
            "--node-group-auto-discovery 'mig:name=a': write asg:tag=... or clusterapi:...",
        ),
    ],
)
def test_what_cannot_be_a_cloud_is_refused_with_the_remedy(flags: CloudFlags, said: str) -> None:
    with pytest.raises(BadInput) as refused:
        flags.options()
    assert said in str(refused.value)


def test_serving_needs_a_cloud_and_not_one_that_is_served(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["cloud", "serve"]) == 2
    assert "--cloud: name what is to be served" in capsys.readouterr().err
    assert main.run(["cloud", "serve", "--cloud", "a=externalgrpc:there:1"]) == 2
    assert "it speaks the protocol already" in capsys.readouterr().err
    assert main.run(["cloud", "serve", "--cloud", "a=simulated:http://x", "--tls-cert", "c"]) == 2
    assert "--tls-key, --tls-ca: missing" in capsys.readouterr().err


def test_a_cluster_is_known_by_its_address_and_a_file_by_what_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def cluster(name: str, server: str) -> Surroundings:
        context = {"name": "one", "context": {"cluster": "it"}}
        clusters = [{"name": "it", "cluster": {"server": server}}]
        content = {"current-context": "one", "contexts": [context], "clusters": clusters}
        (tmp_path / name).write_text(yaml.safe_dump(content))
        return Surroundings(kubeconfig=tmp_path / name)

    first, copied = cluster("first", "https://there:6443"), cluster("copied", "https://there:6443/")
    other = cluster("other", "https://elsewhere:6443")
    kwok = spec_of("k=kwok:ns/name")
    assert identity(kwok, first) == identity(kwok, copied) != identity(kwok, other)
    (tmp_path / "aws.yaml").write_text("{}")
    here, full = spec_of("a=aws:aws.yaml"), spec_of(f"b=aws:{tmp_path}/aws.yaml")
    assert identity(here, first) == identity(full, other)
    assert identity(spec_of("a=simulated:http://x:1/"), first) == identity(
        spec_of("b=simulated:http://x:1"), other
    )


def test_a_cloud_that_is_served_is_refused_to_a_stack_and_the_other_way_round() -> None:
    served = (spec_of("east=simulated:http://there:1"), spec_of("k=kwok:ns/name"))
    own = (spec_of("other-name=simulated:http://there:1"),)
    around = Surroundings(kubeconfig=Path("/a"))
    with held("server", "tidewright cloud serve", served, around):
        with (
            pytest.raises(BadInput) as refused,
            held("stack", "tidewright run watcher", own, Surroundings()),
        ):
            raise AssertionError("it was let in")
        assert "--cloud other-name=simulated:http://there:1: `tidewright cloud serve` (process " in str(
            refused.value
        )
        elsewhere = (spec_of("east=simulated:http://there:2"), spec_of("k=kwok:ns/name"))
        with held("stack", "tidewright run watcher", elsewhere, Surroundings(kubeconfig=Path("/b"))):
            pass  # another server, and the same names in another cluster
    with (
        held("stack", "tidewright run watcher", own, Surroundings()),
        pytest.raises(BadInput, match="`tidewright run watcher`"),
        held("server", "tidewright cloud serve", served, around),
    ):
        raise AssertionError("it was let in")
    with held("server", "tidewright cloud serve", served, around):
        pass  # nobody has it any more

"""What the watcher takes about metrics and configuration: of `tidewright run watcher`, and partly of `up`."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Group, Parameter

from tidewright.asking.environment import READ, read, variable
from tidewright.asking.errors import BadInput
from tidewright.cli.options import ANY_PORT, named_object

PUSH_TOKEN = "TIDEWRIGHT_PUSH_TOKEN"  # noqa: S105 - the name of a variable
"""Environment: tokens for pushes. There is no such option: everybody on a machine sees arguments."""
METRICS = Group("Metrics, recommenders and configuration", sort_key=5)


def host_patterns(type_: object, values: tuple[str, ...] | None) -> None:
    """Refuse what names no host; for `Parameter(validator=)`.

    Raises:
        ValueError: an entry does not.
    """
    del type_
    from tidewright.watcher.outbound import Hosts

    Hosts(values or ())


@Parameter(name="*", group=METRICS)
@dataclass(frozen=True, kw_only=True)
class SourceFlags:
    """Where metrics and configuration come from.

    Attributes:
        external_metrics_url: Take external.metrics.k8s.io from here instead of the API server.
        resource_metrics_url: Take metrics.k8s.io from here instead of the API server.
        config_map: NAMESPACE/NAME of the services' configuration.
        recommender_hosts: What objects may have asked as recommenders beside Services of the cluster: names,
            *.DOMAIN, addresses, networks. This machine is asked only where its address is named.
    """

    external_metrics_url: Annotated[str, read("--external-metrics-url")] = ""
    resource_metrics_url: Annotated[str, read("--resource-metrics-url")] = ""
    config_map: Annotated[str, Parameter(validator=named_object)] = ""
    recommender_hosts: Annotated[
        tuple[str, ...], Parameter(validator=host_patterns, consume_multiple=True)
    ] = ()

    def arguments(self) -> tuple[str, ...]:
        """As arguments of `tidewright run watcher`, which reads itself what the environment says."""
        options = {f"--{f.name.replace('_', '-')}": getattr(self, f.name) for f in fields(self)}
        given = (
            (name, value)
            for name, value in options.items()
            if name not in READ or value != os.environ.get(variable(name))
        )
        return tuple(
            part
            for name, value in given
            for item in (value if isinstance(value, tuple) else (value,))
            if item
            for part in (name, item)
        )


@Parameter(name="*", group=METRICS)
@dataclass(frozen=True, kw_only=True)
class MetricsFlags:
    """Pushed metrics, and TLS towards recommenders whose objects say nothing else.

    Attributes:
        push_token_file: File with the tokens that `POST /v1/metrics` has to bring, one a line; a line may name
            the namespaces that its token is good for. Or `TIDEWRIGHT_PUSH_TOKEN` in the environment.
        push_host: Address of a port of its own for pushes; beyond this machine it needs a token.
        push_port: That port, 0 for a free one; without it pushes come to the port of the probes.
        push_certificate_file: Certificate to serve --push-port with, PEM; read again when it changes.
        push_key_file: Its key, PEM.
        push_shared_metrics: Metrics that belong to no namespace: pushed without one, they are for all.
        recommender_tls_folder: Folder with the files that objects may name in `tlsConfig`; without it, none.
        recommender_cluster: Name of the cluster that recommenders are told; `K8S_CLUSTER_NAME` by default.
        tls_ca_file: Certificates that are trusted, PEM.
        tls_cert_file: Our certificate, PEM; needs --tls-key-file.
        tls_key_file: Its key, PEM.
        tls_server_name: Name expected in a recommender's certificate.
        tls_insecure_skip_verify: Trust any certificate.
    """

    push_token_file: Path | None = None
    push_host: str = "127.0.0.1"
    push_port: Annotated[int | None, Parameter(validator=ANY_PORT)] = None
    push_certificate_file: Path | None = None
    push_key_file: Path | None = None
    push_shared_metrics: Annotated[tuple[str, ...], Parameter(consume_multiple=True)] = ()
    recommender_tls_folder: Path | None = None
    recommender_cluster: str = ""
    tls_ca_file: str = ""
    tls_cert_file: str = ""
    tls_key_file: str = ""
    tls_server_name: str = ""
    tls_insecure_skip_verify: bool = False

    def options(self) -> dict[str, Any]:
        """As the watcher's options.

        Raises:
            BadInput: a certificate without its key, or the other way round, or it or an address for no port.
        """
        from tidewright.watcher.pushport import PushOptions
        from tidewright.watcher.tls import Tls

        if bool(self.tls_cert_file) != bool(self.tls_key_file):
            missing = "--tls-key-file" if self.tls_cert_file else "--tls-cert-file"
            raise BadInput(f"{missing}: a certificate and its key are given together")
        tls = Tls(
            ca_file=self.tls_ca_file,
            cert_file=self.tls_cert_file,
            key_file=self.tls_key_file,
            server_name=self.tls_server_name,
            insecure_skip_verify=self.tls_insecure_skip_verify,
        )
        if bool(self.push_certificate_file) != bool(self.push_key_file):
            missing = "--push-key-file" if self.push_certificate_file else "--push-certificate-file"
            raise BadInput(f"{missing}: a certificate and its key are given together")
        if self.push_certificate_file is not None and self.push_port is None:
            raise BadInput("--push-certificate-file: give --push-port too, probes are served without TLS")
        if self.push_host != MetricsFlags.push_host and self.push_port is None:
            raise BadInput(
                f"--push-host {self.push_host} without --push-port: pushes come to the port of the probes, --health-host"
            )
        push = PushOptions(
            token_file=self.push_token_file,
            token=os.environ.get(PUSH_TOKEN, ""),
            host=self.push_host,
            port=self.push_port,
            certificate_file=self.push_certificate_file,
            key_file=self.push_key_file,
            shared_metrics=self.push_shared_metrics,
        )
        return {
            "recommender_tls": tls,
            "recommender_tls_folder": self.recommender_tls_folder,
            "cluster_name": self.recommender_cluster,
            "push": push,
        }

"""What the watcher takes about metrics and configuration: of `tidewright run watcher`, and partly of `up`."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Group, Parameter

from tidewright.cli.errors import BadInput
from tidewright.cli.options import named_object

METRICS = Group("Metrics, recommenders and configuration", sort_key=5)


@Parameter(name="*", group=METRICS)
@dataclass(frozen=True, kw_only=True)
class SourceFlags:
    """Where metrics and configuration come from.

    Attributes:
        external_metrics_url: Take external.metrics.k8s.io from here instead of the API server.
        resource_metrics_url: Take metrics.k8s.io from here instead of the API server.
        config_map: NAMESPACE/NAME of the services' configuration.
    """

    external_metrics_url: str = ""
    resource_metrics_url: str = ""
    config_map: Annotated[str, Parameter(validator=named_object)] = ""

    def arguments(self) -> tuple[str, ...]:
        """As arguments of `tidewright run watcher`."""
        given = ((f.name, getattr(self, f.name)) for f in fields(self))
        return tuple(
            part for name, value in given if value for part in (f"--{name.replace('_', '-')}", value)
        )


@Parameter(name="*", group=METRICS)
@dataclass(frozen=True, kw_only=True)
class MetricsFlags:
    """Pushed metrics, and TLS towards recommenders whose objects say nothing else.

    Attributes:
        push_token_file: File with the token that `POST /v1/metrics` has to bring; none by default.
        recommender_cluster: Name of the cluster that recommenders are told; `K8S_CLUSTER_NAME` by default.
        tls_ca_file: Certificates that are trusted, PEM.
        tls_cert_file: Our certificate, PEM; needs --tls-key-file.
        tls_key_file: Its key, PEM.
        tls_server_name: Name expected in a recommender's certificate.
        tls_insecure_skip_verify: Trust any certificate.
    """

    push_token_file: Path | None = None
    recommender_cluster: str = ""
    tls_ca_file: str = ""
    tls_cert_file: str = ""
    tls_key_file: str = ""
    tls_server_name: str = ""
    tls_insecure_skip_verify: bool = False

    def options(self) -> dict[str, Any]:
        """As the watcher's options.

        Raises:
            BadInput: a certificate without its key, or the other way round.
        """
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
        return {
            "recommender_tls": tls,
            "cluster_name": self.recommender_cluster,
            "push_token_file": self.push_token_file,
        }

"""The client's configuration: the file that Cluster Autoscaler takes as `--cloud-config`, or an address alone."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import yaml

from tidewright.kube.durations import parse_duration

TIMEOUT_S = 5.0
_ADDRESS = re.compile(r"(\[[0-9a-fA-F:]+\]|[A-Za-z0-9._-]+):(\d{1,5})")


class GrpcConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the server is.

    Attributes:
        address: `host:port`.
        cert, key, cacert: files in PEM; with `cert` both sides show a certificate, without it nothing is encrypted.
        grpc_timeout: of one call, a duration as Go writes it.
    """

    address: str
    cert: str = ""
    key: str = ""
    cacert: str = ""
    grpc_timeout: str = ""

    @property
    def timeout_s(self) -> float:
        """Wall seconds for one call."""
        return parse_duration(self.grpc_timeout) if self.grpc_timeout else TIMEOUT_S

    @property
    def host(self) -> str:
        """Of the address: the name that the server's certificate must have."""
        return self.address.rpartition(":")[0].strip("[]")


def config_of(text: str) -> GrpcConfig:
    """What `externalgrpc:CONFIG` says: `HOST:PORT` without encryption, or a file.

    Raises:
        ValueError: it is neither, or says something that cannot be; the message names file and field.
    """
    if _ADDRESS.fullmatch(text):
        return GrpcConfig(address=text)
    try:
        config = msgspec.convert(yaml.safe_load(Path(text).read_text(encoding="utf-8")) or {}, GrpcConfig)
        timeout_s = config.timeout_s
    except OSError as error:
        raise ValueError(
            f"{text}: neither HOST:PORT nor a file that can be read: {error.strerror}"
        ) from error
    except (yaml.YAMLError, msgspec.ValidationError, ValueError) as error:
        raise ValueError(f"{text}: {error}; valid are address, cert, key, cacert, grpc_timeout") from error
    if not _ADDRESS.fullmatch(config.address):
        raise ValueError(f"{text}: address {config.address!r}: write host:port")
    if timeout_s <= 0:
        raise ValueError(f"{text}: grpc_timeout {config.grpc_timeout!r}: more than 0, as in 5s")
    if config.cert and not (config.key and config.cacert):
        raise ValueError(f"{text}: with cert there must be key and cacert, too")
    return config

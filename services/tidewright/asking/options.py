"""Where the log is that is asked, as options, and the one `-o` of all answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from cyclopts import Group, Parameter

from tidewright.asking.environment import read
from tidewright.asking.errors import BadInput
from tidewright.asking.tables import as_yaml, plain

if TYPE_CHECKING:
    from tidewright.log.identity import Identity

THE_LOG = Group("Log", sort_key=10)
IDENTITY = Group("Identity", sort_key=11)
WHO = Parameter(group=IDENTITY)


def not_negative(kind: Any, value: Any) -> None:
    """As the library's validator, which is imported where such an option is given: a plain question has none."""
    from cyclopts import validators

    validators.Number(gte=0)(kind, value)


Output: TypeAlias = Annotated[
    Literal["table", "wide", "json", "yaml", "name"],
    Parameter(name=["--output", "-o"], help="How to print the result."),
]
At: TypeAlias = Annotated[str, Parameter(help="As of this log time, so long ago, or seq:N; now by default.")]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class IdentityOptions:
    """Who we are to the NATS servers.

    Attributes:
        nats_credentials: Credentials file of an account's user, as `nsc` makes it.
        nats_user: User of the NATS server.
        nats_password_file: File with the user's password, read at every connection.
        nats_ca: PEM file with the CA of the NATS servers' certificates; with it, nothing is said in the clear.
        nats_cert: PEM file with our own certificate, where they ask for one; read at every connection.
        nats_key: PEM file with its key.
    """

    nats_credentials: Annotated[Path | None, read("--nats-credentials"), WHO] = None
    nats_user: Annotated[str, read("--nats-user"), WHO] = ""
    nats_password_file: Annotated[Path | None, read("--nats-password-file"), WHO] = None
    nats_ca: Annotated[Path | None, read("--nats-ca"), WHO] = None
    nats_cert: Annotated[Path | None, read("--nats-cert"), WHO] = None
    nats_key: Annotated[Path | None, read("--nats-key"), WHO] = None

    def identity(self) -> Identity:
        """As the log is connected with."""
        from tidewright.log.identity import Identity  # the help does without the client library

        return Identity(
            credentials=self.nats_credentials, user=self.nats_user, password_file=self.nats_password_file,
            ca=self.nats_ca, cert=self.nats_cert, key=self.nats_key,
        )  # fmt: skip


@Parameter(name="*", group=THE_LOG)
@dataclass(frozen=True, kw_only=True)
class LogOptions(IdentityOptions):
    """Where the log is.

    Attributes:
        nats: URL of the NATS server, or of several with commas between them; in TIDEWRIGHT_NATS a user and password may be part of it.
        cluster: Name of the cluster: each has a stream of its own.
    """

    nats: Annotated[str, read("--nats")] = "nats://127.0.0.1:4222"
    cluster: Annotated[str, read("--cluster")] = "local"

    def of_a_service(self) -> dict[str, Any]:
        """As the options of a service name them."""
        return {"nats_url": self.nats, "cluster": self.cluster, "nats_credentials": self.identity()}


@Parameter(name="*", group=THE_LOG)
@dataclass(frozen=True, kw_only=True)
class AskedLogOptions(LogOptions):
    """Where the log is that is asked.

    Attributes:
        data: Data folder of `tidewright up` or `demo`: the log that is kept there, whether they run or not.
        trust: Root keys (root.pub) that vouch for everybody's: nothing else on the log is believed.
        archive: Sealed archive (folder, file:// or s3://BUCKET/PREFIX) that is read before what the log still has.
        archive_key: Public key that the archive has to be sealed with, as the archiver writes it (archiver.key.pub).
    """

    data: Path | None = None
    trust: Annotated[Path | None, read("--trust")] = None
    archive: str = ""
    archive_key: Path | None = None


def emit(
    value: Any,
    output: Output,
    table: Callable[[], str],
    *,
    wide: Callable[[], str] | None = None,
    names: Callable[[], Iterable[str]] | None = None,
) -> None:
    """Print a result on stdout in the wanted form; the forms for people are made when they are asked for.

    Args:
        value: what JSON and YAML are made of.
        output: the form.
        table: makes the one for people.
        wide: the form with everything; `table` where there is no more.
        names: the objects of the result, as KIND/NAME.

    Raises:
        BadInput: the names of a result that names no objects.
    """
    match output:
        case "table" | "wide":
            print((wide if wide is not None and output == "wide" else table)())
        case "name":
            if names is None:
                raise BadInput(
                    "-o name: there are no objects in this answer; valid are table, wide, json, yaml"
                )
            for name in names():
                print(plain(name))
        case "json":
            print(json.dumps(value, indent=2))
        case "yaml":
            print(as_yaml(value), end="")

"""Which Auto Scaling groups are ours, where, and what the file of a cloud says. Pure but for reading files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import yaml

from tidewright.kube import quantities

ASG: Final = "asg:"
DISCOVERY: Final = f"{ASG}tag="


class TagSelector(msgspec.Struct, frozen=True):
    """Tags that a group must have, all of them; an empty value matches any."""

    tags: tuple[tuple[str, str], ...]

    def matches(self, tags: Mapping[str, str]) -> bool:
        """Whether a group with these tags is selected."""
        return all(key in tags and value in ("", tags[key]) for key, value in self.tags)


class NamedGroup(msgspec.Struct, frozen=True):
    """A group by its name, with limits of ours."""

    name: str
    min_size: int
    max_size: int


class AwsFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file of a cloud.

    Attributes:
        region: empty for the SDK's rules.
        discovery: as `--node-group-auto-discovery`: `asg:tag=KEY[=VALUE],...`; each one an alternative.
        nodes: as `--nodes`: `MIN:MAX:NAME`.
        reserved: what machines keep for themselves, by resource, taken off the capacity of templates.
        prices: file with the price of an hour by instance type; without it prices are not known.
        endpoint: URL of the services, in place of AWS's own.
    """

    region: str = ""
    discovery: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    reserved: dict[str, str] = {}
    prices: str = ""
    endpoint: str = ""


class AwsConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What a cloud is, read."""

    selectors: tuple[TagSelector, ...] = ()
    named: tuple[NamedGroup, ...] = ()
    region: str = ""
    reserved: dict[str, str] = {}
    prices: dict[str, float] = {}
    endpoint: str = ""


def selector_of(text: str) -> TagSelector:
    """Read `asg:tag=KEY[=VALUE][,KEY[=VALUE]...]`.

    Raises:
        ValueError: it is none.
    """
    if not text.startswith(DISCOVERY):
        raise ValueError(
            f"{text!r}: write {DISCOVERY}KEY[=VALUE],..., as in {DISCOVERY}k8s.io/cluster-autoscaler/enabled"
        )
    tags = []
    for part in text.removeprefix(DISCOVERY).split(","):
        key, _, value = part.partition("=")
        if not key:
            raise ValueError(f"{text!r}: a tag without a key")
        tags.append((key, value))
    return TagSelector(tuple(tags))


def named_of(text: str) -> NamedGroup:
    """Read `MIN:MAX:NAME`.

    Raises:
        ValueError: it is none.
    """
    low, _, rest = text.partition(":")
    high, _, name = rest.partition(":")
    if not (low.isdecimal() and high.isdecimal() and name) or int(low) > int(high):
        raise ValueError(f"{text!r}: write MIN:MAX:NAME, 0 <= MIN <= MAX, as in 1:10:workers")
    return NamedGroup(name, int(low), int(high))


def config_of(text: str) -> AwsConfig:
    """What `aws:CONFIG` says: `asg:tag=...`, or a file.

    Raises:
        ValueError: it is neither, or selects nothing; the message names file and field.
    """
    if text.startswith(ASG):
        return AwsConfig(selectors=(selector_of(text),))
    try:
        said = msgspec.convert(yaml.safe_load(Path(text).read_text(encoding="utf-8")) or {}, AwsFile)
        config = AwsConfig(
            selectors=tuple(map(selector_of, said.discovery)),
            named=tuple(map(named_of, said.nodes)),
            region=said.region,
            reserved=_reserved(said.reserved),
            prices=_prices(said.prices),
            endpoint=said.endpoint,
        )
    except OSError as error:
        raise ValueError(
            f"{text}: neither asg:tag=... nor a file that can be read: {error.strerror}"
        ) from error
    except (yaml.YAMLError, msgspec.ValidationError, ValueError) as error:
        fields = ", ".join(AwsFile.__struct_fields__)
        raise ValueError(f"{text}: {error}; valid are {fields}") from error
    if not config.selectors and not config.named:
        raise ValueError(f"{text}: neither discovery nor nodes: no group would be ours")
    return config


def _prices(path: str) -> dict[str, float]:
    if not path:
        return {}
    try:
        content: Any = yaml.safe_load(Path(path).read_text(encoding="utf-8")) or {}
        return msgspec.convert(content, dict[str, Annotated[float, msgspec.Meta(ge=0)]])
    except OSError as error:
        raise ValueError(f"prices: {path}: cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, msgspec.ValidationError) as error:
        raise ValueError(
            f"prices: {path}: {error}; write TYPE: PRICE OF AN HOUR, as in m5.large: 0.096"
        ) from error


def _reserved(amounts: dict[str, str]) -> dict[str, str]:
    for name, amount in amounts.items():
        try:
            quantities.parse(amount)
        except ValueError as error:
            raise ValueError(f"reserved: {name}: {error}") from error
    return amounts

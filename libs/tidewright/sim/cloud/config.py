"""The simulated cloud's configuration: a YAML file typed by people, so unknown fields are refused."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from tidewright.cloud.provider import GroupOptions, NodeTemplate
from tidewright.kube.yamltext import BadYaml, converted
from tidewright.sim.options import Delay

DEFAULT = Path(__file__).with_name("default.yaml")
"""Node groups of the embedded cluster when nobody says otherwise."""


VALID = "a mapping with groups, machines, quotas, gpu_label, seed (docs/provisioning.md)"

DelayText: TypeAlias = str | float
"""A number of seconds, or a distribution, as `Delay.parse` reads it."""


class ConfigError(ValueError):
    """The file cannot be used; the message names the file, the field and what would be valid."""


class GroupFaults(msgspec.Struct, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What goes wrong in a group. Chances are 0 to 1; all draws come from the cloud's seed.

    Attributes:
        stock: instances that the cloud can give at most; None without limit.
        stock_refuses: an order beyond the stock is refused at once; otherwise it is accepted and the
            instances without stock report an error.
        instance_failure: chance that an instance never comes up and reports an error.
        never_registers: chance that an instance runs and no node ever appears.
        surplus: a cloud that lies: every order makes so many instances more than asked for; or fewer,
            below 0, while the size says otherwise.
        call_failure: chance that a call is answered `Unavailable` and nothing was done.
        lost_answer: chance that a call is done but its answer never arrives.
        throttled: chance that a call is answered `Throttled`.
        spoils: how many calls these three chances spoil at most, from now on; None without limit.
        answer_delay: how long calls take, as `Delay.parse` reads it.
    """

    stock: int | None = None
    stock_refuses: bool = True
    instance_failure: float = 0.0
    never_registers: float = 0.0
    surplus: int = 0
    call_failure: float = 0.0
    lost_answer: float = 0.0
    throttled: float = 0.0
    spoils: int | None = None
    answer_delay: DelayText = "0"


class GroupConfig(msgspec.Struct, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One node group.

    Attributes:
        min, max, initial: nodes.
        boot: from the order to the appearance of the Node object, as `Delay.parse` reads it.
        delete: from the deletion call to the disappearance of the Node object.
        zones: instances take them in turn; the template's zone label follows.
        atomic: the group has a native all-or-nothing increase.
        price_per_hour: None when unknown.
    """

    id: str
    min: int = 0
    max: int = 100
    initial: int = 0
    boot: DelayText = "60"
    delete: DelayText = "5"
    zones: tuple[str, ...] = ()
    atomic: bool = False
    price_per_hour: float | None = None
    machine_type: str = ""
    template: NodeTemplate
    options: GroupOptions = msgspec.field(default_factory=GroupOptions)
    faults: GroupFaults = msgspec.field(default_factory=GroupFaults)
    autoprovisioned: bool = False


class MachineConfig(msgspec.Struct, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A machine type that auto-provisioned groups can be made of."""

    name: str
    template: NodeTemplate
    zones: tuple[str, ...] = ()
    price_per_hour: float = 0.0
    max: int = 100
    boot: DelayText = "60"
    delete: DelayText = "5"


class CloudConfig(msgspec.Struct, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The whole cloud.

    Attributes:
        quotas: account limits by resource name (`cpu` in cores, `memory` in bytes, `nodes`, extended
            ones in devices) over all instances.
        gpu_label: the node label that marks GPU nodes.
    """

    seed: int = 0
    groups: tuple[GroupConfig, ...] = ()
    machines: tuple[MachineConfig, ...] = ()
    quotas: dict[str, int] = {}
    gpu_label: str = ""


def load(path: Path) -> CloudConfig:
    """Read and check a file.

    Raises:
        ConfigError: it cannot be read, or says something that cannot be.
    """
    try:
        return parse(path.read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from error


def _quantities_as_text(document: Any) -> Any:
    """Quantities of templates as text, as they are in a Node: people write `cpu: 8`. What is of another form stays."""
    for field in ("groups", "machines"):
        entries = document.get(field) if isinstance(document, dict) else None
        for entry in entries if isinstance(entries, list) else ():
            template = entry.get("template") if isinstance(entry, dict) else None
            if not isinstance(template, dict):
                continue
            for amounts in ("capacity", "allocatable"):
                if isinstance(quantities := template.get(amounts), dict):
                    template[amounts] = {name: _quantity_text(amount) for name, amount in quantities.items()}
    return document


def _quantity_text(amount: Any) -> Any:
    return str(amount) if isinstance(amount, int | float) and not isinstance(amount, bool) else amount


def parse(text: str, name: str) -> CloudConfig:
    """Read and check YAML; `name` is said in errors.

    Raises:
        ConfigError: see `load`.
    """
    try:
        config = converted(text, name, CloudConfig, VALID, prepared=_quantities_as_text)
    except BadYaml as error:
        raise ConfigError(str(error)) from error
    check(config, name)
    return config


def check(config: CloudConfig, name: str) -> None:
    """Refuse what types cannot express.

    Raises:
        ConfigError: repeated ids, contradictory sizes, delays that cannot be read.
    """
    seen: set[str] = set()
    for group in config.groups:
        where = f"{name}: group {group.id!r}"
        if not group.id or group.id in seen:
            raise ConfigError(f"{where}: ids must be given and differ")
        seen.add(group.id)
        if not 0 <= group.min <= group.max:
            raise ConfigError(f"{where}: min {group.min}, max {group.max}; need 0 <= min <= max")
        if not group.min <= group.initial <= group.max and group.initial:
            raise ConfigError(f"{where}: initial {group.initial} is not within {group.min} and {group.max}")
        _check_delay(where, "faults.answer_delay", group.faults.answer_delay)
        _check_delays(where, group)
        _check_price(where, group.price_per_hour)
    for machine in config.machines:
        _check_delays(f"{name}: machine {machine.name!r}", machine)
        _check_price(f"{name}: machine {machine.name!r}", machine.price_per_hour)


def _check_price(where: str, price: float | None) -> None:
    if price is not None and not 0 <= price < math.inf:
        raise ConfigError(
            f"{where}: price_per_hour {price:g}: expected 0 or more, or none where it is not known"
        )


def _check_delays(where: str, config: GroupConfig | MachineConfig) -> None:
    _check_delay(where, "boot", config.boot)
    _check_delay(where, "delete", config.delete)


def _check_delay(where: str, field: str, delay: DelayText) -> None:
    try:
        Delay.parse(delay)
    except ValueError as error:
        raise ConfigError(f"{where}: {field}: {error}") from error

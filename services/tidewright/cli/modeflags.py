"""Which services act: the same flags of `up` and of `tidewright run watcher`, which puts them on the log."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Group, Parameter

from tidewright.asking.errors import BadInput
from tidewright.asking.services import SERVICES, Role

if TYPE_CHECKING:
    from tidewright.watcher.modes import OperatorModes, Services

MODES = Group("Modes", sort_key=3)
Given = Literal["enforce", "shadow"]


@Parameter(name="*", group=MODES)
@dataclass(frozen=True, kw_only=True)
class ModeFlags:
    """Who acts.

    Attributes:
        mode: shadow: decide, and write nothing to the cluster; enforce: act.
        enforce: Services that act while the others are in shadow, with spaces or commas between them.
        act_in: Label selector of namespaces: objects of others are left alone, as in shadow.
        regardless: Services that act although another controller is seen at their work.
    """

    mode: Given | None = None
    enforce: Annotated[tuple[str, ...], Parameter(consume_multiple=True)] = ()
    act_in: str = ""
    regardless: Annotated[tuple[str, ...], Parameter(consume_multiple=True)] = ()

    def wanted(self, default: Given | None = None) -> OperatorModes | None:
        """What is asked for; `default` where no mode is. None: nothing is.

        Raises:
            BadInput: a service that is none, a selector that is none, or modes that contradict one another.
        """
        from tidewright.watcher.modes import BadModes, OperatorModes, check

        enforced, regardless = _names(self.enforce), _names(self.regardless)
        if self.mode == "enforce" and enforced:
            raise BadInput(
                "--enforce names the services that act while others are in shadow: not with --mode enforce"
            )
        mode = (
            "shadow"
            if enforced
            else self.mode or default or ("enforce" if self.act_in or regardless else None)
        )
        if mode is None:
            return None
        modes = OperatorModes(
            mode=mode,
            services=dict.fromkeys(enforced, "enforce"),
            namespaces=self.act_in,
            regardless=regardless,
        )
        try:
            check(modes, services())
        except BadModes as error:
            raise BadInput(f"--mode, --enforce, --act-in, --regardless: {error}") from error
        return modes


def arguments(modes: OperatorModes) -> tuple[str, ...]:
    """Modes as arguments of `tidewright run watcher`."""
    parts: list[str] = []
    enforced = [name for name, mode in modes.services.items() if mode == "enforce"]
    parts += ["--enforce", *enforced] if enforced else ["--mode", modes.mode]
    parts += ["--act-in", modes.namespaces] if modes.namespaces else []
    parts += ["--regardless", *modes.regardless] if modes.regardless else []
    return tuple(parts)


def services() -> Services:
    """The services that have a mode."""
    from tidewright.watcher.modes import Services

    return Services(
        {
            service.name: tuple(endpoint.name for endpoint in SERVICES if endpoint.of == service.name)
            for service in SERVICES
            if service.role is Role.DECIDER
        }
    )


def _names(given: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for text in given for name in text.replace(",", " ").split()))

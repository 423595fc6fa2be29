"""What an event touched: what `evolve` says to `decide`, and all that passes between the two."""

from __future__ import annotations

import msgspec

from tidewright.autoscaler.api.spec import Rules
from tidewright.autoscaler.state import Autoscaler, Ordered
from tidewright.events.outcomes import Applied, Failed, Rejected


class Ended(msgspec.Struct, frozen=True):
    """A scale of an object whose outcome has come."""

    namespace: str
    scaler: Autoscaler
    rules: Rules
    ordered: Ordered
    outcome: Applied | Rejected | Failed


class Touched(msgspec.Struct, frozen=True, kw_only=True):
    """What an event touched.

    Attributes:
        namespace: of the object that is `gone` or `altered`.
        gone: the object that is no longer there, while its timer is set.
        altered: the object whose own fact shows another one than before: spec, annotations, deletion.
        looks: objects to look at, each with its namespace, in the order in which they are to be.
        owners: likewise, where an object between pods and their target may have led somewhere else.
        ended: the scale whose outcome the event is.
        said_again: the object, if it asks for forecasts and its fact was said once more, for retention's sake.
    """

    namespace: str = ""
    gone: Autoscaler | None = None
    altered: Autoscaler | None = None
    looks: tuple[tuple[str, Autoscaler], ...] = ()
    owners: tuple[tuple[str, Autoscaler], ...] = ()
    ended: Ended | None = None
    said_again: Autoscaler | None = None


NOTHING = Touched()


def looking(namespace: str, scaler: Autoscaler) -> Touched:
    """One object has to look."""
    return Touched(looks=((namespace, scaler),))

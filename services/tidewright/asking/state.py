"""Any aggregate as of any moment."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from tidewright.asking import lookups
from tidewright.asking.answers.form import stamp
from tidewright.asking.answers.state import LastFact, ObjectState
from tidewright.asking.explain import speakers_on
from tidewright.asking.lines import line, title
from tidewright.asking.lookups import Found
from tidewright.asking.objects import KNOWN
from tidewright.asking.point_in_time import Moment
from tidewright.asking.rendering import by_others
from tidewright.asking.service_state import Asked, Hands, hands_on, restored
from tidewright.asking.source import Source
from tidewright.host.fold.explainer import Reference
from tidewright.kube.times import readable


@dataclass
class StateOf:
    """What was known of an object at a moment.

    Attributes:
        last_word: the last fact about it.
        held: service to what it held of the object.
        hands: service to who folded and who decided, where these are two.
    """

    log: str
    asked: Reference
    moment: Moment
    last_word: Found | None = None
    held: dict[str, dict[str, Any]] = field(default_factory=dict)
    hands: dict[str, Hands] = field(default_factory=dict)


async def state_of(source: Source, asked: Reference, moment: Moment) -> StateOf:
    """The state of an object as of a moment.

    Raises:
        BadInput: nothing on the log is about such an object.
    """
    known = StateOf(source.name, asked, moment)
    words = await lookups.last_words(source, asked, moment.bound)
    known.last_word = words[0] if words else None
    for service, explainer in await speakers_on(source, asked.kind) if words or asked.kind in KNOWN else ():
        about = Asked.about(source, service, asked.namespace)
        fold = await restored(source, about, moment.seq)
        aggregate = explainer.aggregate(fold.state, asked)
        if aggregate is not None:
            if (hands := await hands_on(source, about, moment.bound)).folded_by:
                known.hands[service.name] = hands
            known.held[service.name] = {
                name: msgspec.to_builtins(part, str_keys=True)
                for name, part in aggregate.items()
                if part is not None
            }
    if known.last_word is None and not known.held:
        from tidewright.asking.suggestions import unknown

        raise await unknown(source, asked, moment)
    return known


def answer(known: StateOf) -> ObjectState:
    """For programs."""
    word = known.last_word
    fact = None
    if word is not None:
        fact = LastFact(sequence=word.seq, at=stamp(word.event.at), event=msgspec.to_builtins(word.event))
    return ObjectState(
        log=known.log,
        sequence=known.moment.seq,
        at=stamp(known.moment.at),
        kind=known.asked.kind,
        namespace=known.asked.namespace,
        name=known.asked.name,
        fact=fact,
        state=known.held,
        hands=by_others(known.hands),
    )


def as_text(known: StateOf) -> str:
    """For people."""
    import yaml

    moment, word = known.moment, known.last_word
    lines = [f"{known.asked}, {moment.told(known.log)}"]
    if word is not None:
        lines.append(
            f"  last seen  {readable(word.event.at)}  {word.seq}  {title(word.event)}  {line(word.event)}"
        )
    for service, held in known.held.items():
        told = f" ({known.hands[service].told})" if service in known.hands else ""
        lines += ["", f"{service}{told}:"]
        text = yaml.safe_dump(held, sort_keys=False, allow_unicode=True, default_flow_style=None, width=120)
        lines += [f"  {row}" for row in text.splitlines()]
    return "\n".join(lines)

"""An object that nothing on the log is about: what the user may have meant."""

from __future__ import annotations

from difflib import get_close_matches

from tidewright.asking.errors import BadInput
from tidewright.asking.objects import KNOWN, SHORT
from tidewright.asking.point_in_time import Moment
from tidewright.asking.source import Source
from tidewright.host.fold.explainer import Reference
from tidewright.kube.times import readable
from tidewright.log.batched_get import TooMany
from tidewright.log.subjects import escape, slot_of, unescape

NAMED_AT_MOST = 5


async def unknown(source: Source, asked: Reference, moment: Moment) -> BadInput:
    """The error for an object that is unknown as of a moment; it names similar ones that are known."""
    root = source.subjects.root
    slot, space = slot_of(asked.namespace, source.slots), escape(asked.namespace)
    here = await _known(source, f"{root}.fact.{slot}.{asked.kind}.{space}.*", moment)
    names = sorted({name for _, _, name in here})
    when = "" if moment.end else f" as of {readable(moment.at)} UTC"
    text = f"{asked}: nothing on {source.name} is about it{when}"
    if names:
        close = get_close_matches(asked.name, names, NAMED_AT_MOST, 0.5) or names[:NAMED_AT_MOST]
        return BadInput(f"{text}; known there are {', '.join(f'{asked.kind}/{name}' for name in close)}")
    elsewhere = await _known(source, f"{root}.fact.*.{asked.kind}.*.{escape(asked.name)}", moment)
    if elsewhere:
        spaces = sorted(namespace or "no namespace" for _, namespace, _ in elsewhere)
        return BadInput(f"{text}; there is one in {', '.join(spaces[:NAMED_AT_MOST])}: pass -n NAMESPACE")
    if asked.kind not in KNOWN:
        meant = get_close_matches(asked.kind, sorted({*KNOWN, *SHORT}), 1)
        perhaps = f" (did you mean {meant[0]}?)" if meant else ""
        text = f"{text}; {asked.kind!r} is no kind that a service knows{perhaps}"
    kinds = await _known(source, f"{root}.fact.{slot}.*.{space}.*", moment)
    if kinds:
        known = ", ".join(sorted({kind for kind, _, _ in kinds}))
        return BadInput(f"{text}; known kinds there are {known}")
    return BadInput(f"{text}, nor about anything in that namespace")


async def _known(source: Source, pattern: str, moment: Moment) -> list[tuple[str, str, str]]:
    """Kind, namespace and name of the objects whose facts match; nothing when they are too many to look at."""
    try:
        records = await source.last([pattern], moment.seq)
    except TooMany:
        return []
    objects = [source.subjects.parse(record.subject).rest for record in records]
    return [(kind, unescape(namespace), unescape(name)) for kind, namespace, name in objects]

"""The annotation that says where a pod belongs.

Placement       read: which spread, which subset, which ledger key
annotation      written: byte-compatible with the reference
"""

from __future__ import annotations

import msgspec


class Placement(msgspec.Struct, frozen=True):
    """The annotation: `uid` is the ledger key of a pod that had no name yet when it was placed."""

    name: str = ""
    subset: str = ""
    uid: str = ""


_usual = msgspec.json.Decoder(Placement)


def placement_of(text: str | None) -> Placement | None:
    """Read the annotation; the case of keys does not matter. None: absent, or it cannot be read."""
    if not text:
        return None
    if text.startswith('{"name":'):
        # As everybody writes it; what is not is read with more care below.
        try:
            return _usual.decode(text)
        except (msgspec.MsgspecError, RecursionError):
            pass
    try:
        decoded = msgspec.json.decode(text.encode())
    except (msgspec.DecodeError, RecursionError):
        return None
    if not isinstance(decoded, dict):
        return None
    read = {"name": "", "subset": "", "uid": ""}
    for key, value in decoded.items():
        if (known := key.lower()) not in read or value is None:
            continue
        if not isinstance(value, str):
            return None
        read[known] = value
    return Placement(**read)


def annotation(placement: Placement) -> str:
    """Write the annotation: compact JSON in the reference's order, `uid` only if there is one."""
    fields = {"name": placement.name, "subset": placement.subset}
    if placement.uid:
        fields["uid"] = placement.uid
    text = msgspec.json.encode(fields).decode()
    # The reference's encoder escapes these for HTML; an existing fleet carries them so.
    for char, escaped in (("&", "\\u0026"), ("<", "\\u003c"), (">", "\\u003e")):
        text = text.replace(char, escaped)
    return text.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")

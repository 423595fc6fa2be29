"""The name of the PodTemplate that is kept for a buffer. Spec 2.3, [B7]."""

from __future__ import annotations

import hashlib

_PREFIX, _SUFFIX = "capacitybuffer-", "-pod-template"
_MOST = 253 - len(_PREFIX) - len(_SUFFIX)
_HASHED = 8


def template_name(buffer: str) -> str:
    """The managed template of a buffer of this name.

    A name that is too long is cut, and ends in its hash: two that begin alike have templates of their own.
    """
    if len(buffer) > _MOST:
        digest = hashlib.blake2b(buffer.encode(), digest_size=_HASHED // 2).hexdigest()
        buffer = f"{buffer[: _MOST - _HASHED - 1]}-{digest}"
    return f"{_PREFIX}{buffer}{_SUFFIX}"

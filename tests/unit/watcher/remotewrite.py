"""Remote-write bodies, built by hand as Prometheus encodes them."""

from __future__ import annotations

import struct

import cramjam


def _varint(value: int) -> bytes:
    value &= 2**64 - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _bytes(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def series(labels: dict[str, str], *samples: tuple[float | bytes, int]) -> bytes:
    """One TimeSeries; a value may be given as its eight bytes."""
    body = b"".join(
        _bytes(1, _bytes(1, name.encode()) + _bytes(2, text.encode())) for name, text in labels.items()
    )
    for value, stamp_ms in samples:
        bits = value if isinstance(value, bytes) else struct.pack("<d", value)
        body += _bytes(2, _varint(1 << 3 | 1) + bits + _varint(2 << 3) + _varint(stamp_ms))
    return _bytes(1, body)


def request(*series_: tuple[dict[str, str], float, int]) -> bytes:
    """A whole Request of 2.0."""
    symbols = [""]
    body = b""
    for labels, value, stamp_ms in series_:
        places = b""
        for text in (text for pair in labels.items() for text in pair):
            if text not in symbols:
                symbols.append(text)
            places += _varint(symbols.index(text))
        sample = _varint(1 << 3 | 1) + struct.pack("<d", value) + _varint(2 << 3) + _varint(stamp_ms)
        body += _bytes(5, _bytes(1, places) + _bytes(2, sample) + _bytes(5, b"\x08\x01"))
    return b"".join(_bytes(4, symbol.encode()) for symbol in symbols) + body


def compressed(message: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(message))

"""Prometheus remote-write, 1.0 and 2.0: a snappy block that holds one protobuf message. Pure.

1.0  WriteRequest   1 timeseries *TimeSeries, 3 metadata (not read)
     TimeSeries     1 labels *Label, 2 samples *Sample, 3 exemplars and 4 histograms (not read)
     Label          1 name, 2 value
2.0  Request        4 symbols *text, 5 timeseries *TimeSeries
     TimeSeries     1 places of names and values among the symbols (uint32), 2 samples *Sample, and more (not read)
     Sample         1 value (double), 2 timestamp (int64, milliseconds)
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

import cramjam

from tidewright.watcher.pushed import MAX_LABELS, MAX_SAMPLES, BadPush, Sample

CONTENT_TYPE: Final = "application/x-protobuf"
FIRST, SECOND = "prometheus.WriteRequest", "io.prometheus.write.v2.Request"
"""The messages of 1.0 and 2.0, as the content type names them."""
MAX_DECODED_BYTES: Final = 8 * 2**20
MAX_PARTS: Final = 1_000_000
"""Fields and labels of a whole message: one of empty fields has millions, and takes seconds to read."""
STALE: Final = 0x7FF0000000000002
"""Bits of the NaN by which Prometheus says that a series has ended."""
NAME, NAMESPACE = "__name__", "namespace"


class _Series(NamedTuple):
    labels: dict[str, str]
    value: float
    stamp_ms: int
    ended: bool


def decode(body: bytes, message: str = FIRST) -> list[Sample]:
    """The newest sample of each series; those without samples (metadata, histograms) are left out.

    `message` is `FIRST` or `SECOND`.

    Raises:
        BadPush: no snappy block, one that grows beyond `MAX_DECODED_BYTES`, no message of this kind,
            one of too many parts, or a series without a name.
    """
    reading = _Message()
    data = _inflated(body)
    all_series = reading.series(data) if message == FIRST else reading.series_by_symbols(data)
    return [_sample(n, series) for n, series in enumerate(all_series) if series is not None]


def _inflated(body: bytes) -> bytes:
    try:
        size = cramjam.snappy.decompress_raw_len(body)
    except cramjam.DecompressionError as error:
        raise BadPush("body", f"is no snappy block (Content-Encoding: snappy): {error}") from error
    if size > MAX_DECODED_BYTES:
        raise BadPush("body", f"is {size} bytes uncompressed, at most {MAX_DECODED_BYTES}", status=413)
    try:
        return bytes(cramjam.snappy.decompress_raw(body))
    except cramjam.DecompressionError as error:
        raise BadPush("body", f"is no snappy block (Content-Encoding: snappy): {error}") from error


def _sample(n: int, series: _Series) -> Sample:
    metric = series.labels.get(NAME, "")
    if not metric:
        raise BadPush(f"timeseries[{n}].labels", f"have no {NAME}, which names the metric")
    labels = {name: value for name, value in series.labels.items() if name != NAME}
    return Sample(
        metric=metric,
        namespace=labels.get(NAMESPACE, ""),
        labels=labels,
        value=series.value,
        timestamp=series.stamp_ms / 1000,
        ended=series.ended,
    )


class _Message:
    """One message while it is read: of how many parts it may be made."""

    def __init__(self) -> None:
        self._parts = MAX_PARTS

    def series(self, data: bytes) -> Iterator[_Series | None]:
        """The time series of a message of 1.0."""
        n = 0
        for number, value in self._fields(data, "body"):
            if number == 1 and isinstance(value, bytes):
                yield self._one(value, _numbered(n))
                n += 1

    def series_by_symbols(self, data: bytes) -> Iterator[_Series | None]:
        """The time series of a message of 2.0."""
        symbols: list[str] = []
        series: list[bytes] = []
        for number, value in self._fields(data, "body"):
            if number == 4 and isinstance(value, bytes):
                try:
                    symbols.append(value.decode())
                except UnicodeDecodeError as error:
                    raise BadPush(f"symbols[{len(symbols)}]", f"is not UTF-8: {error}") from error
            elif number == 5 and isinstance(value, bytes):
                _numbered(len(series))
                series.append(value)
        for n, value in enumerate(series):
            yield self._one(value, _numbered(n), symbols)

    def _one(self, data: bytes, where: str, symbols: list[str] | None = None) -> _Series | None:
        labels: dict[str, str] = {}
        places: list[int] = []
        newest: tuple[int, bytes] | None = None
        for number, value in self._fields(data, where):
            if number == 1 and symbols is not None:
                places += [value] if isinstance(value, int) else self._places(value, where)
                _few(len(places) // 2, where)
            elif not isinstance(value, bytes):
                continue
            elif number == 1:
                name, text = self._label(value, where)
                labels[name] = text
                _few(len(labels), where)
            elif number == 2:
                stamp, bits = self._value(value, where)
                if newest is None or stamp >= newest[0]:
                    newest = (stamp, bits)
        if newest is None:
            return None
        if symbols is not None:
            labels = _named(places, symbols, where)
        value_: float = struct.unpack("<d", newest[1])[0]
        return _Series(labels, value_, newest[0], int.from_bytes(newest[1], "little") == STALE)

    def _label(self, data: bytes, where: str) -> tuple[str, str]:
        pair = dict(self._fields(data, f"{where}.labels"))
        name, text = pair.get(1, b""), pair.get(2, b"")
        if not isinstance(name, bytes) or not isinstance(text, bytes):
            raise BadPush(f"{where}.labels", "are pairs of texts")
        try:
            return name.decode(), text.decode()
        except UnicodeDecodeError as error:
            raise BadPush(f"{where}.labels", f"are not UTF-8: {error}") from error

    def _value(self, data: bytes, where: str) -> tuple[int, bytes]:
        parts = dict(self._fields(data, f"{where}.samples"))
        bits, stamp = parts.get(1, bytes(8)), parts.get(2, 0)
        if not isinstance(bits, bytes) or len(bits) != 8 or not isinstance(stamp, int):
            raise BadPush(f"{where}.samples", "have a double as value and an int64 as timestamp")
        return (stamp - (1 << 64) if stamp >= 1 << 63 else stamp), bits

    def _places(self, data: bytes, where: str) -> Iterator[int]:
        at = 0
        while at < len(data):
            value, at = _varint(data, at, where)
            self._count(where)
            yield value

    def _fields(self, data: bytes, where: str) -> Iterator[tuple[int, int | bytes]]:
        """The fields of one message: number, and a varint or bytes (fixed-width ones as bytes too)."""
        at, end = 0, len(data)
        while at < end:
            self._count(where)
            tag, at = _varint(data, at, where)
            number, wire = tag >> 3, tag & 7
            if wire == 0:
                value, at = _varint(data, at, where)
                yield number, value
                continue
            if wire == 2:
                length, at = _varint(data, at, where)
            elif wire in (1, 5):
                length = 8 if wire == 1 else 4
            else:
                raise BadPush(where, f"is no protobuf message: wire type {wire} at byte {at}")
            if at + length > end:
                raise BadPush(where, f"is no protobuf message: field {number} ends after the message does")
            yield number, data[at : at + length]
            at += length

    def _count(self, where: str) -> None:
        self._parts -= 1
        if self._parts < 0:
            raise BadPush(
                where, f"ends a message of more than {MAX_PARTS} fields: push fewer series at once",
                status=413, why="samples",
            )  # fmt: skip


def _numbered(n: int) -> str:
    """The path of a time series.

    Raises:
        BadPush: there are too many.
    """
    if n >= MAX_SAMPLES:
        raise BadPush(
            "timeseries", f"are more than {MAX_SAMPLES}, the most in one push", status=413, why="samples"
        )
    return f"timeseries[{n}]"


def _few(labels: int, where: str) -> None:
    """Refuse a series of too many labels.

    Raises:
        BadPush: it has.
    """
    if labels > MAX_LABELS:
        raise BadPush(f"{where}.labels", f"are more than {MAX_LABELS}", status=413, why="labels")


def _named(places: list[int], symbols: list[str], where: str) -> dict[str, str]:
    if len(places) % 2 or any(place >= len(symbols) for place in places):
        raise BadPush(
            f"{where}.labels_refs", f"are pairs of places among {len(symbols)} symbols, found {places}"
        )
    return {symbols[name]: symbols[value] for name, value in zip(places[::2], places[1::2], strict=True)}


def _varint(data: bytes, at: int, where: str) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 64:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise BadPush(where, f"is no protobuf message: a number at byte {at} does not end")

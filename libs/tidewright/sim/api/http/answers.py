"""What goes between a transport and the verbs: headers of a request, and an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidewright.sim.api.http.streams import Stream

JSON_HEADERS: tuple[tuple[str, str], ...] = (
    ("Content-Type", "application/json"),
    ("Cache-Control", "no-cache, private"),
)


class Headers(dict[str, str]):
    """Headers of a request by their name in lower case; of a repeated one the first counts."""

    def get(self, name: str, default: Any = None) -> Any:
        """The value of a header, however its name is written."""
        return dict.get(self, name.lower(), default)


class Answer:
    """An answer that is there as a whole.

    Attributes:
        dropped: a fault: the connection is to be closed instead.
        stream: what follows instead of a body, in chunks.
    """

    __slots__ = ("body", "code", "dropped", "headers", "stream")

    def __init__(
        self,
        body: bytes,
        code: int = 200,
        headers: tuple[tuple[str, str], ...] = JSON_HEADERS,
        *,
        dropped: bool = False,
        stream: Stream | None = None,
    ) -> None:
        self.body = body
        self.code = code
        self.headers = headers
        self.dropped = dropped
        self.stream = stream

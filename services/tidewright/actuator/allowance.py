"""What one effect may ask of those that it is applied to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable


class Allowance:
    """The requests of one effect: counted, and each under the common budget."""

    def __init__(
        self,
        spend: Callable[[], Awaitable[None]],
        *,
        prepaid: int = 0,
        record: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """`record` puts on the log that a request is about to be made which must not be made twice."""
        self.requests = 0
        self._spend = spend
        self._prepaid = prepaid
        self._record = record
        self.alike = 1
        """So many effects wait or run for which the same look would do, this one among them, as the attempt begins."""

    async def once(self) -> None:
        """Return when it is on the log that such a request may have been made: a restart makes none."""
        if self._record is not None:
            await self._record()

    async def take(self) -> None:
        """Wait until one more request may be made."""
        if self._prepaid:
            self._prepaid -= 1
        else:
            await self._spend()
        self.requests += 1

"""A port for a server that a test starts, where it has to be named before the server listens."""

from __future__ import annotations

import os
import random
import socket
from typing import Final

PORTS: Final = range(10_000, 20_000)
"""Below those that systems give to outgoing connections and to whoever asks for any (from 32768 or 49152 on): one of
them that was free a moment ago may be somebody's by the time that the server listens. `up` takes its own above these."""
_CHOICE: Final = random.SystemRandom()
"""Not hypothesis's seed, which is the same in every worker."""
_given: set[int] = set()


def free_port() -> int:
    """A port of the loopback address that is free, and that nobody else in this run was given or will be."""
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    ours = PORTS[worker % workers :: workers]
    if len(_given) > len(ours) / 2:
        _given.clear()  # the first of them were given long ago
    while True:
        port = _CHOICE.choice(ours)
        if port in _given:
            continue
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        _given.add(port)
        return port

"""Faults on request: what goes wrong with which requests, by rule and seed.

`/sim/faults` lists (GET), adds (POST) and removes (DELETE, also `/sim/faults/<id>`) rules; `/sim/restart`
(POST) does to clients what a restart of the API server does. A rule names the requests that it meets and one
action; whether it strikes is drawn from its own generator, so that one seed gives the same faults again for
the same requests in the same order.

    {"id": "flaky", "match": {"verbs": ["PATCH"], "path": "/scale$"}, "action": {"status": 500},
     "probability": 0.2, "seed": 7, "count": 10}

Actions: `latency_s` (alone or before another), `status` (429, 500, 503, 409, 410, ...) with `retry_after_s`,
`drop` (the connection closes without an answer), `stall` and `drop_watches` (open watches that match fall
silent, or end, once, when the rule is added).
"""

from __future__ import annotations

import asyncio
import random
import re
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from aiohttp import web

from tidewright.sim.api import errors

if TYPE_CHECKING:
    from tidewright.sim.api.http.handler import Frontend

Object = dict[str, Any]
_MESSAGES = {
    409: errors.MODIFIED,
    410: "too old resource version",
    429: "the server has received too many requests and has asked us to try again later",
    500: "an error on the server (fault on request)",
    503: "the server is currently unable to handle the request",
    504: "the server was unable to return a response in the time allotted",
}


class Match(msgspec.Struct, forbid_unknown_fields=True):
    """Which requests a rule meets; what is empty matches everything.

    Attributes:
        verbs: HTTP methods, or WATCH for watches.
        path: regular expression that is searched in the path with its query.
        user_agent: regular expression that is searched in the user agent.
    """

    verbs: list[str] = []
    path: str = ""
    user_agent: str = ""

    def meets(self, verb: str, target: str, user_agent: str) -> bool:
        return (
            (not self.verbs or verb in self.verbs)
            and (not self.path or re.search(self.path, target) is not None)
            and (not self.user_agent or re.search(self.user_agent, user_agent) is not None)
        )


class Action(msgspec.Struct, forbid_unknown_fields=True):
    """What happens to a request; of several, in this order."""

    latency_s: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    status: Literal[0, 400, 401, 403, 404, 409, 410, 413, 422, 429, 500, 502, 503, 504] = 0
    message: str = ""
    retry_after_s: Annotated[int, msgspec.Meta(ge=0)] = 0
    drop: bool = False
    drop_watches: bool = False
    stall: bool = False


class Rule(msgspec.Struct, forbid_unknown_fields=True):
    """One rule. `count` is how often it may still strike; None for ever. `struck` counts what it did."""

    action: Action
    id: str = ""
    match: Match = msgspec.field(default_factory=Match)
    probability: Annotated[float, msgspec.Meta(ge=0, le=1)] = 1.0
    seed: int = 0
    count: int | None = None
    struck: int = 0


class Restart(msgspec.Struct, forbid_unknown_fields=True):
    """What a restart does: whether older versions can still be watched, and how long nobody can connect."""

    memory: Literal["kept", "lost"] = "kept"
    down_s: Annotated[float, msgspec.Meta(ge=0, le=3600)] = 0.0


class Dropped(Exception):
    """The connection is to be closed instead of an answer."""


class Faults:
    """The rules in force, in the order in which they were added."""

    def __init__(self) -> None:
        self.rules: list[Rule] = []
        self._generators: dict[str, random.Random] = {}
        self._next = 1

    def add(self, rule: Rule) -> Rule:
        """Put a rule in force. Raises 400 for a pattern that does not compile."""
        for pattern in (rule.match.path, rule.match.user_agent):
            try:
                re.compile(pattern)
            except re.error as error:
                raise errors.bad_request(f"pattern {pattern!r} of a fault: {error}") from None
        if not rule.id:
            rule.id = f"fault-{self._next}"
            self._next += 1
        self.rules = [known for known in self.rules if known.id != rule.id] + [rule]
        self._generators[rule.id] = random.Random(rule.seed)  # noqa: S311  # repeatable, not secret
        return rule

    def remove(self, rule_id: str = "") -> None:
        """Lift one rule, or all of them."""
        self.rules = [rule for rule in self.rules if rule_id and rule.id != rule_id]

    async def meet(self, user_agent: str, method: str, path: str, query: str) -> None:
        """Let the rules strike. Raises the error that a rule asks for, Dropped for a connection to be closed."""
        if path.startswith("/sim/"):
            return
        verb = "WATCH" if "watch=" in query and method == "GET" else method
        target = f"{path}?{query}" if query else path
        for rule in list(self.rules):
            if not rule.match.meets(verb, target, user_agent) or not self._strikes(rule):
                continue
            action = rule.action
            if action.latency_s:
                await asyncio.sleep(action.latency_s)
            if action.drop:
                raise Dropped
            if action.status:
                raise self._error(action)

    def _strikes(self, rule: Rule) -> bool:
        if rule.count is not None and rule.count <= 0:
            return False
        if rule.probability < 1.0 and self._generators[rule.id].random() >= rule.probability:
            return False
        if rule.count is not None:
            rule.count -= 1
        rule.struck += 1
        return True

    @staticmethod
    def _error(action: Action) -> errors.ApiError:
        details = {"retryAfterSeconds": action.retry_after_s} if action.retry_after_s else None
        message = action.message or _MESSAGES.get(action.status, f"fault on request: {action.status}")
        return errors.ApiError(action.status, message, details=details)

    async def serve(self, http: web.BaseRequest, frontend: Frontend) -> web.Response:
        """Answer `/sim/faults...` and `/sim/restart`."""
        path = http.path.rstrip("/")
        if path == "/sim/restart" and http.method == "POST":
            try:
                given = msgspec.json.decode(await http.read() or b"{}", type=Restart)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise errors.bad_request(f"a restart has memory (kept or lost) and down_s: {error}") from None
            frontend.restart(forget=given.memory == "lost", down_s=given.down_s)
            return _json({"restarted": True})
        rule_id = path.removeprefix("/sim/faults").strip("/")
        if http.method == "GET":
            return _json([msgspec.to_builtins(rule) for rule in self.rules])
        if http.method == "DELETE":
            if rule_id and all(rule.id != rule_id for rule in self.rules):
                known = ", ".join(rule.id for rule in self.rules) or "none"
                raise errors.ApiError(
                    404, f"there is no fault {rule_id} in /sim/faults; in force are {known}"
                )
            self.remove(rule_id)
            return _json([msgspec.to_builtins(rule) for rule in self.rules])
        if http.method != "POST":
            raise errors.method_not_allowed("", "")
        try:
            rule = msgspec.json.decode(await http.read(), type=Rule)
        except msgspec.DecodeError as error:
            raise errors.bad_request(
                f"a fault has match, action, probability, seed and count: {error}"
            ) from None
        self.add(rule)
        if rule.action.stall or rule.action.drop_watches:
            rule.struck += frontend.strike_watches(rule)
        return _json(msgspec.to_builtins(rule))


def _json(value: Any) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), headers={"Content-Type": "application/json"})

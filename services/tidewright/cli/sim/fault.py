"""`tidewright sim fault`: let things go wrong in an embedded cluster, by rule and seed."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal

from cyclopts import App, Group, Parameter

from tidewright.asking.answers.form import builtins
from tidewright.asking.errors import BadInput
from tidewright.asking.options import Output, emit
from tidewright.asking.tables import plain
from tidewright.cli import answers
from tidewright.cli.sim.target import TargetFlags, connected

MATCH = Group("Which requests", sort_key=10)
ACTION = Group("What happens to them", sort_key=20)
CHANCE = Group("How often", sort_key=30)

Verb = Literal["GET", "POST", "PUT", "PATCH", "DELETE", "WATCH"]

app = App(
    name="fault",
    help="Let requests fail, nodes go, pods crash, the API server restart.",
    help_format="plaintext",
)


def _ask(target: TargetFlags | None, method: str, path: str, body: Any = None) -> Any:
    """Ask the cluster, and decode what it answers.

    Raises:
        BadInput: it refuses what was asked, or it is no embedded cluster.
        CommandError: it does not answer.
    """
    import msgspec

    from tidewright.kube.errors import KubeError

    async def ask() -> Any:
        async with connected(target or TargetFlags()) as kube:
            encoded = None if body is None else msgspec.json.encode(body)
            try:
                answer = await kube.request(method, path, body=encoded)
            except KubeError as error:
                if error.status == 404 and (
                    not error.reason or "could not find the requested" in error.message
                ):
                    raise BadInput(
                        f"{kube.url} has no faults to offer: it is not an embedded cluster (tidewright sim up), or not "
                        "the server beside one (tidewright sim attach --side-port PORT)"
                    ) from error
                if error.status in {400, 404, 405}:
                    raise BadInput(error.message) from error
                raise
            return msgspec.json.decode(answer.body)

    return asyncio.run(ask())


@app.command
def add(
    *,
    verb: Annotated[
        tuple[Verb, ...], Parameter(help="HTTP methods, or WATCH; all by default.", group=MATCH)
    ] = (),
    path: Annotated[str, Parameter(help="Regular expression searched in path and query.", group=MATCH)] = "",
    agent: Annotated[str, Parameter(help="Regular expression searched in the user agent.", group=MATCH)] = "",
    latency: Annotated[
        float, Parameter(help="Seconds before the answer, or before another fault.", group=ACTION)
    ] = 0.0,
    status: Annotated[int, Parameter(help="Answer this: 409, 410, 429, 500, 503, ...", group=ACTION)] = 0,
    retry_after: Annotated[int, Parameter(help="Retry-After of the answer, seconds.", group=ACTION)] = 0,
    message: Annotated[str, Parameter(help="Message of the answer.", group=ACTION)] = "",
    drop: Annotated[bool, Parameter(help="Close the connection instead.", group=ACTION, negative="")] = False,
    drop_watches: Annotated[
        bool, Parameter(help="End the open watches that match, now.", group=ACTION, negative="")
    ] = False,
    stall: Annotated[
        bool, Parameter(help="Let the open watches that match fall silent.", group=ACTION, negative="")
    ] = False,
    probability: Annotated[
        float, Parameter(help="Of each request that matches, 0 to 1.", group=CHANCE)
    ] = 1.0,
    seed: Annotated[int, Parameter(help="The same seed strikes the same requests again.", group=CHANCE)] = 0,
    count: Annotated[int | None, Parameter(help="Strike so often, then no more.", group=CHANCE)] = None,
    id: Annotated[str, Parameter(help="Name of the rule; one of that name is replaced.", group=CHANCE)] = "",  # noqa: A002  # the flag's name
    target: TargetFlags | None = None,
    output: Output = "table",
) -> int:
    """Put a rule in force."""
    action = {
        "latency_s": latency, "status": status, "message": message, "retry_after_s": retry_after,
        "drop": drop, "drop_watches": drop_watches, "stall": stall,
    }  # fmt: skip
    if not any((latency, status, drop, drop_watches, stall)):
        raise BadInput("a fault does something: give --latency, --status, --drop, --drop-watches or --stall")
    rule = {
        "id": id,
        "match": {"verbs": list(verb), "path": path, "user_agent": agent},
        "action": action,
        "probability": probability,
        "seed": seed,
        "count": count,
    }
    fault = _ask(target, "POST", "/sim/faults", rule)
    emit(
        builtins(answers.fault(fault)),
        output,
        lambda: plain(f"fault {fault['id']} in force: {_told(fault)}"),
    )
    return 0


@app.command(name="list")
def list_(*, target: TargetFlags | None = None, output: Output = "table") -> int:
    """The rules in force, and how often each has struck."""
    rules = _ask(target, "GET", "/sim/faults")
    emit(
        builtins(answers.FaultRules(items=tuple(answers.fault(rule) for rule in rules))),
        output,
        lambda: plain("\n".join(f"{rule['id']}: {_told(rule)}" for rule in rules)) or "no faults",
    )
    return 0


@app.command
def remove(
    id: Annotated[str, Parameter(help="Name of the rule; all by default.")] = "",  # noqa: A002  # the argument's name
    *,
    target: TargetFlags | None = None,
) -> int:
    """Lift one rule, or all."""
    remaining = _ask(target, "DELETE", f"/sim/faults/{id}" if id else "/sim/faults")
    print(f"lifted; {len(remaining)} left")
    return 0


@app.command
def restart(
    *,
    memory: Annotated[
        Literal["kept", "lost"],
        Parameter(help="Whether it still knows what changed before: lost makes old watches 410."),
    ] = "kept",
    down: Annotated[float, Parameter(help="Seconds during which nobody can connect.")] = 0.0,
    target: TargetFlags | None = None,
) -> int:
    """Restart the API server, as its clients see it: connections and watches end; objects stay."""
    if not 0 <= down <= 3600:
        raise BadInput(f"--down {down:g}: seconds, from 0 to 3600")
    _ask(target, "POST", "/sim/restart", {"memory": memory, "down_s": down})
    print(f"restarted, memory {memory}" + (f", back in {down:g} s" if down else ""))
    return 0


@app.command
def node(
    name: Annotated[str, Parameter(help="A simulated node.")],
    what: Annotated[
        Literal["lose", "return", "fail", "recover"],
        Parameter(help="lose: cut off until it returns; fail: reports itself not ready until it recovers."),
    ],
    *,
    target: TargetFlags | None = None,
) -> int:
    """Let a node be lost and return, or fail in place and recover."""
    _ask(target, "POST", f"/sim/nodes/{name}", {"action": what})
    print(f"node {name}: {what}")
    return 0


@app.command
def pod(
    name: Annotated[str, Parameter(help="NAMESPACE/NAME of a pod that runs on a simulated node.")],
    *,
    target: TargetFlags | None = None,
) -> int:
    """Let a pod's containers crash in place; its restart policy says what comes then."""
    if name.count("/") != 1 or name.startswith("/") or name.endswith("/"):
        raise BadInput(f"pod {name!r}: write NAMESPACE/NAME")
    _ask(target, "POST", f"/sim/pods/{name}", {"action": "crash"})
    print(f"pod {name}: crashed")
    return 0


def _told(rule: dict[str, Any]) -> str:
    """One rule in a line."""
    match, action = rule["match"], rule["action"]
    who = [
        *([",".join(match["verbs"])] if match["verbs"] else ["all requests"]),
        *([f"path ~ {match['path']}"] if match["path"] else []),
        *([f"agent ~ {match['user_agent']}"] if match["user_agent"] else []),
    ]
    does = [
        *([f"{action['latency_s']:g} s latency"] if action["latency_s"] else []),
        *([f"status {action['status']}"] if action["status"] else []),
        *([f"Retry-After {action['retry_after_s']} s"] if action["retry_after_s"] else []),
        *(word.replace("_", " ") for word in ("drop", "drop_watches", "stall") if action[word]),
    ]
    often = [
        *([f"probability {rule['probability']:g}, seed {rule['seed']}"] if rule["probability"] < 1 else []),
        *([f"{rule['count']} times more"] if rule["count"] is not None else []),
    ]
    return f"{' '.join(who)}: {', '.join([*does, *often])}; struck {rule['struck']}"

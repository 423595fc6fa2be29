"""Functions that Kubernetes adds to CEL, declared to the evaluator. Pure.

The evaluator is loaded by whoever uses it first, and handed over: who has no expression does without it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol


class Declare(Protocol):
    """Declares one function; `member`: it is called on its first parameter."""

    def __call__(
        self, name: str, returns: Any, parameters: list[Any], impl: Callable[..., Any], *, member: bool = True
    ) -> Any: ...


def declaring(cel: Any, family: str) -> Declare:
    """What declares functions of a family, whose names tell its overloads from those of others.

    Args:
        cel: the evaluator's module.
        family: a word for all of them.
    """

    def declare(
        name: str, returns: Any, parameters: list[Any], impl: Callable[..., Any], *, member: bool = True
    ) -> Any:
        overload = cel.Overload(
            id=f"tidewright_{family}_{name.replace('.', '_')}_{len(parameters)}",
            return_type=returns,
            parameters=parameters,
            is_member=member,
            impl=impl,
        )
        return cel.FunctionDecl(name, [overload])

    return declare

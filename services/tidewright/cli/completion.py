"""`tidewright completion`: the commands and options of a shell's line, completed by that shell."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from cyclopts import Parameter

from tidewright.asking.errors import BadInput, Unavailable

Shell: TypeAlias = Literal["bash", "zsh", "fish"]
SHELLS: tuple[Shell, ...] = ("bash", "zsh", "fish")


def completion(
    shell: Annotated[Shell | None, Parameter(help="Whose; by default the one of $SHELL.")] = None,
    /,
    *,
    install: Annotated[
        bool, Parameter(negative="", help="Write it where the shell looks for it, and say where that is.")
    ] = False,
) -> None:
    """Print a shell's completions, or install them for this user."""
    from tidewright.cli.main import application

    named = shell or _of_environment()
    app = application()
    if not install:
        print(app.generate_completion(shell=named))
        return
    try:
        # zsh looks below ~/.zsh only when its startup file says so; the others find it by themselves.
        path = app.install_completion(shell=named, add_to_startup=named == "zsh")
    except OSError as error:
        raise Unavailable(f"the completions of {named} cannot be written: {error}") from error
    print(f"{path}: new shells complete what tidewright takes")


def _of_environment() -> Shell:
    found = os.environ.get("SHELL", "")
    for shell in SHELLS:
        if Path(found).name == shell:
            return shell
    raise BadInput(f"$SHELL is {found!r}, and completions are for {', '.join(SHELLS)}: name one of them")

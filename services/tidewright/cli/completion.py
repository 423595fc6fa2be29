"""`tidewright completion`: the commands and options of a shell's line, completed by that shell."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from cyclopts import Parameter

from tidewright.asking.errors import BadInput, Unavailable
from tidewright.cli.suggested import COMMAND, OF_THE_LOG

Shell: TypeAlias = Literal["bash", "zsh", "fish"]
SHELLS: tuple[Shell, ...] = ("bash", "zsh", "fish")
_OF_THE_LOG: dict[str, str] = {
    "bash": """
# Kinds, names and sequences come from the log; everything else from above.
_tidewright_of_the_log() {{
  local line="${{COMP_LINE:0:COMP_POINT}}" typed word
  typed="${{line##*[[:space:]]}}"
  COMPREPLY=()
  if [[ "$typed" != -* && "${{COMP_WORDS[1]}}" =~ ^({alternatives})$ ]]; then
    while IFS= read -r word; do
      # Bash takes what is before a colon for a word of its own.
      [[ "$typed" == *:* && "$COMP_WORDBREAKS" == *:* ]] && word="${{word#"${{typed%"${{typed##*:}}"}}"}}"
      [[ -n "$word" ]] && COMPREPLY+=("$word")
    done < <(tidewright {command} "$line" 2>/dev/null)
  fi
  (( ${{#COMPREPLY[@]}} )) || _tidewright "$@"
}}
complete -F _tidewright_of_the_log tidewright
""",
    "zsh": """
  # Kinds, names and sequences come from the log; everything else from below.
  if [[ "${{words[2]}}" == ({alternatives}) && "${{words[CURRENT]}}" != -* ]]; then
    local -a of_the_log
    of_the_log=(${{(f)"$(tidewright {command} "${{(j: :)words[1,CURRENT-1]}} ${{PREFIX}}" 2>/dev/null)"}})
    if (( $#of_the_log )); then
      compadd -- $of_the_log
      return
    fi
  fi
""",
    "fish": """
# Kinds, names and sequences come from the log.
complete -c tidewright -n '__fish_seen_subcommand_from {ours}' -a '(tidewright {command} (commandline -cp) 2>/dev/null)'
""",
}
"""What is added to the script of a shell; to be formatted."""
_ZSH_BEGINS = "  local line state\n"
"""Behind it what is added for zsh stands: its script has to be one function, which zsh calls once it has read it."""


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
    script, more = app.generate_completion(shell=named), _OF_THE_LOG[named].format(
        command=COMMAND, ours=" ".join(OF_THE_LOG), alternatives="|".join(OF_THE_LOG)
    )  # fmt: skip
    script = script.replace(_ZSH_BEGINS, _ZSH_BEGINS + more, 1) if named == "zsh" else script + more
    if not install:
        print(script)
        return
    try:
        # zsh looks below ~/.zsh only when its startup file says so; the others find it by themselves.
        path = app.install_completion(shell=named, add_to_startup=named == "zsh")
        path.write_text(script, encoding="utf-8")
        ready = named != "zsh" or _zsh_completes(Path.home() / ".zshrc")
    except OSError as error:
        raise Unavailable(f"the completions of {named} cannot be written: {error}") from error
    which = "" if ready else ", once ~/.zshrc runs `autoload -Uz compinit && compinit`, which it does not yet"
    print(f"{path}: new shells complete what tidewright takes{which}")


def _zsh_completes(startup: Path) -> bool:
    """Whether zsh completes anything at all: its startup file asks for that, or a framework that does."""
    said = startup.read_text(encoding="utf-8", errors="replace") if startup.is_file() else ""
    return any(word in said for word in ("compinit", "oh-my-zsh", "prezto"))


def _of_environment() -> Shell:
    found = os.environ.get("SHELL", "")
    for shell in SHELLS:
        if Path(found).name == shell:
            return shell
    raise BadInput(f"$SHELL is {found!r}, and completions are for {', '.join(SHELLS)}: name one of them")

"""Files that users hand to a command: text and YAML, refused in one line that names file, line and what is valid."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from tidewright.asking.errors import BadInput
from tidewright.kube.unknown import manifest_problems
from tidewright.kube.yamltext import FROM_FILE, BadYaml, many, one


def read_text(path: Path, name: str) -> str:
    """The text of a file that a user named, `-` for standard input; `name` is said in errors.

    Raises:
        BadInput: it cannot be read.
    """
    try:
        with nullcontext(sys.stdin) if str(path) == "-" else path.open(encoding="utf-8") as file:
            text = file.read(FROM_FILE.size + 1)
        if len(text) > FROM_FILE.size:
            raise BadInput(f"{name}: cannot be read: it has more than {FROM_FILE.size} characters")
        return text
    except OSError as error:
        raise BadInput(f"{name}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise BadInput(f"{name}: cannot be read: it is no text in UTF-8 (byte {error.start})") from error


def one_document(path: Path, name: str, valid: str) -> Any:
    """The only YAML document of a file; None where there is nothing in it. `valid` says what is expected.

    Raises:
        BadInput: it cannot be read, or is something else.
    """
    try:
        return one(read_text(path, name), name, valid)
    except BadYaml as error:
        raise BadInput(str(error)) from error


def all_documents(path: Path, name: str, valid: str) -> list[Any]:
    """The YAML documents of a file, without empty ones; as for `one_document`."""
    try:
        return many(read_text(path, name), name, valid)
    except BadYaml as error:
        raise BadInput(str(error)) from error


def known_fields(manifest: dict[str, Any], name: str) -> None:
    """Refuse a manifest with a field that no API server would know; `name` is that of its file.

    Raises:
        BadInput: it has one; the message names the object, the field, and what may be meant.
    """
    problems = manifest_problems(manifest)
    if problems:
        metadata = manifest.get("metadata") or {}
        own = metadata.get("name", "") if isinstance(metadata, dict) else ""
        raise BadInput(f"{name}: {manifest.get('kind')} {own}: {'; '.join(problems)}".replace(" : ", ": "))

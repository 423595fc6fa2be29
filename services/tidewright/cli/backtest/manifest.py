"""WatermarkPodAutoscalers from files, and variants of them for a sweep."""

from __future__ import annotations

import copy
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidewright.asking.errors import BadInput
from tidewright.asking.manifests import all_documents

KIND = "WatermarkPodAutoscaler"
MOST_VARIANTS = 64
_PART = re.compile(r"([A-Za-z][A-Za-z0-9]*)((?:\[\d+\])*)")


@dataclass(frozen=True)
class Candidate:
    """One object to try.

    Attributes:
        label: how the result names it.
    """

    label: str
    namespace: str
    name: str
    spec: dict[str, Any]


def load(path: Path, option: str) -> Candidate:
    """The object in a YAML or JSON file.

    Raises:
        BadInput: the file cannot be read, or holds not exactly one WatermarkPodAutoscaler.
    """
    documents = all_documents(path, f"{option} {path}", f"a manifest of kind {KIND}")
    objects = [obj for document in documents for obj in _items(document)]
    autoscalers = [obj for obj in objects if obj.get("kind") == KIND]
    if len(autoscalers) != 1:
        kinds = ", ".join(str(obj.get("kind", "an object without a kind")) for obj in objects) or "nothing"
        raise BadInput(
            f"{option} {path}: holds {len(autoscalers)} of kind {KIND} (found: {kinds}); one is needed"
        )
    metadata, spec = autoscalers[0].get("metadata") or {}, autoscalers[0].get("spec")
    if not isinstance(spec, dict) or not isinstance(metadata, dict):
        raise BadInput(f"{option} {path}: {KIND} without a spec")
    name = str(metadata.get("name", ""))
    return Candidate(path.name, str(metadata.get("namespace", "")), name, spec)


def _items(document: Any) -> list[dict[str, Any]]:
    if not isinstance(document, dict):
        return []
    items = document.get("items")
    if isinstance(items, list):
        return [item for item in items if isinstance(item, dict)]
    return [document]


def variants(base: Candidate, sweeps: Sequence[str]) -> list[Candidate]:
    """The object with every combination of the swept fields' values.

    Args:
        base: what is varied.
        sweeps: `field=a,b,c` each; a field is a path in the spec, such as `metrics[0].external.highWatermark`.

    Raises:
        BadInput: no such form, or too many combinations.
    """
    axes: list[list[tuple[str, str]]] = []
    for text in sweeps:
        field, equals, values = text.partition("=")
        chosen = [value.strip() for value in values.split(",") if value.strip()]
        if not equals or not field or not chosen:
            raise BadInput(
                f"--sweep {text}: write FIELD=VALUE,VALUE..., for example --sweep tolerance=50m,100m"
            )
        axes.append([(field.removeprefix("spec."), value) for value in chosen])
    combinations = list(itertools.product(*axes))
    if len(combinations) > MOST_VARIANTS:
        raise BadInput(f"--sweep: {len(combinations)} combinations, at most {MOST_VARIANTS}")
    candidates = []
    for combination in combinations:
        spec = copy.deepcopy(base.spec)
        for field, value in combination:
            put(spec, field, value)
        label = ", ".join(f"{field}={value}" for field, value in combination)
        candidates.append(Candidate(label, base.namespace, base.name, spec))
    return candidates


def put(spec: dict[str, Any], field: str, text: str) -> None:
    """Set one field of a spec to a value as YAML reads it.

    Raises:
        BadInput: the spec cannot have such a field.
    """
    from tidewright.autoscaler.api.spec import WatermarkSpec
    from tidewright.kube.yamltext import BadYaml, one

    steps: list[str | int] = []
    for part in field.split("."):
        match = _PART.fullmatch(part)
        if match is None:
            raise BadInput(
                f"--sweep {field}: {part!r} is no field, write for example metrics[0].external.highWatermark"
            )
        steps.append(match[1])
        steps += [int(index) for index in re.findall(r"\[(\d+)\]", match[2])]
    known = sorted(WatermarkSpec.__struct_encode_fields__)
    if steps[0] not in known:
        raise BadInput(f"--sweep {field}: spec has no field {steps[0]!r}; it has {', '.join(known)}")
    place: Any = spec
    for step, following in itertools.pairwise(steps):
        place = _into(place, step, field, make_list=isinstance(following, int))
    last = steps[-1]
    if isinstance(last, int):
        _into(place, last, field, make_list=False)
    try:
        value = one(text, f"--sweep {field}={text}", "a value, as it would stand in the manifest")
    except BadYaml as error:
        raise BadInput(str(error)) from error
    # Quantities are texts in the API; a bare 0.05 would be a float, which its schema refuses.
    place[last] = text if isinstance(value, float) else value


def _into(place: Any, step: str | int, field: str, *, make_list: bool) -> Any:
    if isinstance(step, int):
        if not isinstance(place, list) or step >= len(place):
            count = len(place) if isinstance(place, list) else 0
            raise BadInput(f"--sweep {field}: [{step}] is not there, the list has {count} entries")
        return place[step]
    if not isinstance(place, dict):
        raise BadInput(f"--sweep {field}: there is nothing that could have a field {step!r}")
    if step not in place:
        place[step] = [] if make_list else {}
    return place[step]

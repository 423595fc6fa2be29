"""WatermarkPodAutoscalers from files, and variants of them for a sweep."""

from __future__ import annotations

import copy
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tidewright.asking.errors import BadInput
from tidewright.asking.manifests import all_documents, known_fields
from tidewright.autoscaler.forecast.asked import ANNOTATION
from tidewright.kube.nearest import nearest
from tidewright.kube.unknown import names_of, paths_of, schema_of, unknown_fields

KIND, API_VERSION = "WatermarkPodAutoscaler", "datadoghq.com/v1alpha1"
MOST_VARIANTS = 64
_PART = re.compile(r"([A-Za-z][A-Za-z0-9]*)((?:\[\d+\])*)")


@dataclass(frozen=True)
class Candidate:
    """One object to try.

    Attributes:
        label: how the result names it.
        forecast: what it is run with as its annotation; empty for no forecast.
        asks: what its own annotation asks for; empty without one.
    """

    label: str
    namespace: str
    name: str
    spec: dict[str, Any]
    forecast: str = ""
    asks: str = ""


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
    known_fields(autoscalers[0], f"{option} {path}")
    metadata, spec = autoscalers[0].get("metadata") or {}, autoscalers[0].get("spec")
    if not isinstance(spec, dict) or not isinstance(metadata, dict):
        raise BadInput(f"{option} {path}: {KIND} without a spec")
    name = str(metadata.get("name", ""))
    annotations = metadata.get("annotations")
    asks = str(annotations.get(ANNOTATION, "")) if isinstance(annotations, dict) else ""
    return Candidate(path.name, str(metadata.get("namespace", "")), name, spec, asks=asks)


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
        sweeps: `field=a,b,c` each; a field is a path in the spec, such as `metrics[0].external.highWatermark`, or a
            name alone, where it can mean one path only.

    Raises:
        BadInput: no such form or field, or too many combinations.
    """
    axes: list[list[tuple[str, str]]] = []
    for text in sweeps:
        field, equals, values = text.partition("=")
        chosen = [value.strip() for value in values.split(",") if value.strip()]
        if not equals or not field or not chosen:
            raise BadInput(
                f"--sweep {text}: write FIELD=VALUE,VALUE..., for example --sweep tolerance=50m,100m"
            )
        path = meant(base.spec, field.removeprefix("spec."))
        axes.append([(path, value) for value in chosen])
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


def meant(spec: dict[str, Any], field: str) -> str:
    """The path in a spec that a field of a sweep stands for: itself, or the only one where a name alone can stand.

    Raises:
        BadInput: there is no such field, or there are several; the message names them.
    """
    schema = schema_of(API_VERSION, KIND)["properties"]["spec"]
    if not field.isalnum() or field in schema["properties"]:
        return field
    paths = paths_of(field, spec, schema)
    if len(paths) == 1:
        return paths[0]
    if paths:
        raise BadInput(f"--sweep {field}: may be {' or '.join(paths)}: write which")
    names = names_of(schema)
    if field in names:
        raise BadInput(f"--sweep {field}: nothing in the manifest could have a field {field!r}")
    raise BadInput(f"--sweep {field}: spec has no field {field!r}, at any depth; {nearest(field, names)}")


def with_forecasts(candidates: Sequence[Candidate], forecasts: Sequence[str]) -> list[Candidate]:
    """Each object as it is, and then with each of these forecasts; `lead=10m|30m` is a sweep over both.

    Raises:
        BadInput: a forecast that cannot be read, or too many of them.
    """
    from tidewright.autoscaler.forecast.asked import BadForecast, asked

    forecasts = [text for sweep in forecasts for text in _swept(sweep)]
    for text in forecasts:
        try:
            asked(text)
        except BadForecast as error:
            raise BadInput(f"--forecast {text}: {error}") from error
    found = []
    for candidate in candidates:
        found.append(candidate)
        for text in forecasts:
            found.append(replace(candidate, label=f"{candidate.label}, {text}", forecast=text))
    if len(found) > MOST_VARIANTS:
        raise BadInput(f"--forecast: {len(found)} runs, at most {MOST_VARIANTS}")
    return found


def _swept(text: str) -> list[str]:
    """Every combination of the values between which there is a bar; of more than can be run, the first."""
    from tidewright.autoscaler.forecast.asked import ZONE

    swept, zoned, zone = text.partition(ZONE)  # a rule of local time has no bars
    axes = []
    for part in swept.split(","):
        key, equals, values = part.partition("=")
        axes.append([f"{key}{equals}{value}" for value in values.split("|")])
    combinations = itertools.islice(itertools.product(*axes), MOST_VARIANTS + 1)
    return [",".join(combination) + zoned + zone for combination in combinations]


def put(spec: dict[str, Any], field: str, text: str) -> None:
    """Set one field of a spec to a value as YAML reads it.

    Raises:
        BadInput: the spec cannot have such a field.
    """
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
    if unknown := unknown_fields(spec, schema_of(API_VERSION, KIND)["properties"]["spec"], "spec"):
        raise BadInput(f"--sweep {field}: {'; '.join(map(str, unknown))}")


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

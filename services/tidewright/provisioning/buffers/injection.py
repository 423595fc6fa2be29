"""Which buffers are injected: whose chunks take room in an evaluation, and what their condition says. Spec 5.1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from tidewright.events.base import JsonObject
from tidewright.kube.conditions import Condition, is_true
from tidewright.provisioning.buffers import conditions as cond
from tidewright.provisioning.buffers.spec import ACTIVE


class BufferStanding(msgspec.Struct, frozen=True):
    """A buffer's status, as far as injection looks at it.

    Attributes:
        template: name of the template in the status; empty for none.
        generation: of it when the status was written; None where the status does not say.
        replicas: None where the status does not say.
    """

    strategy: str | None = None
    conditions: Sequence[Condition] = ()
    template: str = ""
    generation: int | None = None
    replicas: int | None = None


class BufferTemplate(msgspec.Struct, frozen=True):
    """A PodTemplate that is there: its generation and its `template`."""

    generation: int
    content: JsonObject


class Injection(msgspec.Struct, frozen=True):
    """What becomes of a buffer; `condition` is what its `Provisioning` shall say."""

    chunks: int
    condition: Condition


def inject(standing: BufferStanding, templates: Mapping[str, BufferTemplate]) -> Injection | None:
    """What becomes of a buffer; None for one that is left as it is. `templates` are those of its namespace."""
    ready = is_true(standing.conditions, cond.READY)
    if standing.strategy != ACTIVE or not (ready or is_true(standing.conditions, cond.PROVISIONING)):
        return None
    template = templates.get(standing.template)
    if (
        template is not None
        and standing.generation is not None
        and template.generation != standing.generation
    ):
        return None  # a status that speaks of another version of it is about to be written anew
    if not ready or not standing.template or standing.generation is None or standing.replicas is None:
        return Injection(0, cond.NOT_INJECTED)
    if standing.replicas <= 0:
        return Injection(0, cond.EMPTY)
    if template is None:
        return Injection(0, cond.no_template(f'podtemplates "{standing.template}" not found'))
    return Injection(standing.replicas, cond.INJECTED)

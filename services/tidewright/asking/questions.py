"""The questions that can be asked over HTTP: their parameters, and what each is answered with.

`proto/openapi.yaml` is generated from this table, and whoever serves it (the console) has a handler for each.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from tidewright.asking.answers.comparing import ComparisonList
from tidewright.asking.answers.events import LoggedEvent
from tidewright.asking.answers.explain import ObjectExplanation
from tidewright.asking.answers.listing import KindList, ObjectList
from tidewright.asking.answers.planning import ScaleDownPlan
from tidewright.asking.answers.series import ObjectSeries
from tidewright.asking.answers.state import ObjectState
from tidewright.asking.answers.verify import LogVerification

ROOT = "/api/v1"
"""Below it lies a path for each question."""


@dataclass(frozen=True)
class Parameter:
    """A parameter of a question, in the query of its URL.

    Attributes:
        type: of JSON Schema: `string`, `integer`.
    """

    name: str
    help: str
    required: bool = False
    type: str = "string"


@dataclass(frozen=True)
class Question:
    """A question.

    Attributes:
        name: of the path, and of the schema in `proto/answers/`.
        answer: type of what it is answered with; `many` of them, in order, in a list.
    """

    name: str
    help: str
    answer: type[msgspec.Struct]
    parameters: tuple[Parameter, ...] = ()
    many: bool = False


AT = Parameter("at", "As of this log time (RFC 3339), so long ago (15m), or seq:N; now by default.")
SINCE = Parameter("since", "From this log time on, so long ago (15m), or seq:N.")
UNTIL = Parameter("until", "Up to this log time, so long ago, or seq:N; now by default.")
KIND = Parameter("kind", "Kind of the object, as subjects name it or one of its short names.", required=True)
NAME = Parameter("name", "Name of the object.", required=True)
NAMESPACE = Parameter("namespace", "Its namespace; empty for what has none.")
OBJECT = (KIND, NAMESPACE, NAME)

QUESTIONS: tuple[Question, ...] = (
    Question("get", "The kinds that are decided on.", KindList, (AT,)),
    Question(
        "list", "The objects of a kind.", ObjectList,
        (KIND, Parameter("namespace", "Only of this namespace; empty for all."), Parameter("name", "Only of this name."), AT),
    ),
    Question(
        "explain", "What was decided about an object and why, and why nothing else happens.", ObjectExplanation,
        (
            Parameter("kind", "Kind of the object; not needed with a decision."), NAMESPACE,
            Parameter("name", "Name of the object; not needed with a decision."), AT,
            Parameter("decision", "Id of the decision to explain."),
        ),
    ),
    Question("state", "What was known of an object.", ObjectState, (*OBJECT, AT)),
    Question(
        "series", "Values, marks and counts of an object over time, with the decisions on them.", ObjectSeries,
        (*OBJECT, SINCE, UNTIL, Parameter("points", "Points of a line at most, 1 to 5000.", type="integer")),
    ),
    Question(
        "events", "What happened, in order.", LoggedEvent,
        (
            SINCE, UNTIL, Parameter("class", "Only of these classes, with commas between them."),
            Parameter("kind", "Only of this object: its kind."), Parameter("namespace", "Only of this namespace."),
            Parameter("name", "Only of this object: its name."),
            Parameter("tail", "Only the last so many.", type="integer"),
        ),
        many=True,
    ),
    Question(
        "compare", "Where an incumbent and we differ.", ComparisonList,
        (
            Parameter("namespace", "Only of this namespace; empty for all."), Parameter("name", "Only of this name."),
            Parameter("since", f"{SINCE.help[:-1]}; 24h by default."),
        ),
    ),
    Question("plan.scale-down", "Which nodes would go now, and what keeps the others.", ScaleDownPlan, (AT,)),
    Question("verify", "Whether the log is what its services would have written.", LogVerification),
)  # fmt: skip
"""Every question that needs no file of the asker's; the others (`plan provisioning`, `plan ws`, `diff`) are the command line's."""

BY_NAME: dict[str, Question] = {question.name: question for question in QUESTIONS}

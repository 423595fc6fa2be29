"""Label and field selectors say what the API's text and object forms say."""

import msgspec
import pytest

from tidewright.kube.selectors import FieldSelector, LabelSelector, SelectorError, requirement
from tidewright.sim.api.kinds.builtin import BUILTIN
from tidewright.sim.api.store.store import Record
from tidewright.sim.api.verbs.match import matcher


@pytest.mark.parametrize(
    ("text", "labels", "expected"),
    [
        ("", {}, True),
        ("app=web", {"app": "web"}, True),
        ("app==web", {"app": "db"}, False),
        ("app!=web", {}, True),
        ("app", {"app": ""}, True),
        ("!app", {"app": ""}, False),
        ("app in (a, b)", {"app": "b"}, True),
        ("app notin (a,b)", {"app": "c"}, True),
        ("app notin (a,b)", {}, True),
        ("app in (a,)", {"app": ""}, True),
        ("size>3", {"size": "4"}, True),
        ("size<3", {"size": "big"}, False),
        ("example.com/tier=front,app", {"example.com/tier": "front"}, False),
        ("app=", {"app": ""}, True),
    ],
)
def test_text_form_selects(text: str, labels: dict[str, str], expected: bool) -> None:
    assert LabelSelector.parse(text).matches(labels) is expected


@pytest.mark.parametrize(
    "text", ["app=web,", "=web", "app in", "app in a", "app in (a", "a b", "a%=b", "a>x"]
)
def test_text_that_says_nothing_is_refused(text: str) -> None:
    with pytest.raises(SelectorError):
        LabelSelector.parse(text)


def test_object_form_joins_labels_and_expressions() -> None:
    selector = LabelSelector.of(
        {"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "canary", "operator": "DoesNotExist"}]}
    )
    assert selector.matches({"app": "web"})
    assert not selector.matches({"app": "web", "canary": "1"})
    assert str(selector) == "app=web,!canary"


def test_absent_selector_selects_nothing_and_empty_one_everything() -> None:
    assert not LabelSelector.of(None).matches({"app": "web"})
    assert LabelSelector.of({}).matches(None)
    assert LabelSelector.of({}).everything


def test_operators_check_their_values() -> None:
    with pytest.raises(SelectorError, match="values set can't be empty"):
        LabelSelector.of({"matchExpressions": [{"key": "a", "operator": "In"}]})
    with pytest.raises(SelectorError, match="exactly one integer"):
        requirement("a", "Gt", ["1", "2"])
    with pytest.raises(SelectorError, match="not a valid label selector operator"):
        LabelSelector.of({"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]})


def test_rendered_text_reads_back_the_same() -> None:
    text = "a=1,b in (x,y),c!=2,d notin (x,y),e,!f,g>1,h<2"
    assert LabelSelector.parse(str(LabelSelector.parse(text))) == LabelSelector.parse(text)


def test_field_selector_compares_paths() -> None:
    selector = FieldSelector.parse("spec.nodeName=n1,status.phase!=Running")
    assert selector.matches({"spec.nodeName": "n1"})
    assert not selector.matches({"spec.nodeName": "n1", "status.phase": "Running"})
    assert selector.exact("spec.nodeName") == "n1"
    assert selector.exact("status.phase") is None
    assert FieldSelector.parse(r"a=x\,y").exact("a") == "x,y"
    with pytest.raises(SelectorError):
        FieldSelector.parse("a")


def test_pods_of_a_node_are_those_whose_field_says_so() -> None:
    def pod(name: str, node: str | None, **labels: str) -> Record:
        spec = {} if node is None else {"nodeName": node}
        body = {"metadata": {"name": name, "labels": labels}, "spec": spec}
        return Record("shop", name, name, rv=1, raw=msgspec.json.encode(body), owners=())

    kind = next(kind for kind in BUILTIN if kind.table_name == "/pods")
    pods = [pod("a", "n1"), pod("b", "n10"), pod("c", None, on="n1"), pod("d", "n2", on="n1"), pod("e", "")]

    def selected(selector: str) -> list[str]:
        found = matcher(kind, {"fieldSelector": selector})
        return [record.name for record in pods if found.matches(record)]

    assert selected("spec.nodeName=n1") == ["a"]
    assert selected("spec.nodeName!=n1") == ["b", "c", "d", "e"]
    assert selected("spec.nodeName=") == ["c", "e"]

"""Reading requests: validation, classes, parameters; and the CRD says the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.vectors.reference import provisioning as reference
from tidewright.provisioning.requests import spec
from tidewright.provisioning.requests.spec import ATOMIC_NAME, CHECK_NAME, Mode

CRD = Path(__file__).parents[3] / "libs/tidewright/kube/crds/provisioningrequests.yaml"


def schema(version: int = 0) -> dict[str, Any]:
    document = yaml.safe_load(CRD.read_text())
    found: dict[str, Any] = document["spec"]["versions"][version]["schema"]["openAPIV3Schema"]
    return found


names = st.one_of(
    st.sampled_from(["a", "a.b", "a-b", "a_b", "A", "", "-a", "a.", "x" * 253, "x" * 254]), st.integers()
)
pod_sets = st.fixed_dictionaries(
    {},
    optional={
        "count": st.sampled_from([1, 0, -1, 2**31 - 1, 2**31, "1", 1.5]),
        "podTemplateRef": st.fixed_dictionaries({}, optional={"name": names}),
    },
)
specs: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "podSets": st.one_of(st.lists(pod_sets, max_size=3), st.just([{}] * 33)),
        "provisioningClassName": names,
        "parameters": st.dictionaries(
            st.text(max_size=3), st.sampled_from(["", "x" * 255, "x" * 256, 1]), max_size=3
        ),
    },
)


@settings(deadline=None)
@given(specs)
def test_the_schema_and_the_service_agree_on_what_is_valid(found: dict[str, Any]) -> None:
    limited = schema()
    # int32 is a format; the API server checks it, the schema library does not.
    count = limited["properties"]["spec"]["properties"]["podSets"]["items"]["properties"]["count"]
    count["maximum"] = 2**31 - 1
    by_schema = not list(jsonschema.Draft202012Validator(limited).iter_errors({"spec": found}))
    assert by_schema == (spec.validate(found) == [])


def test_both_versions_have_the_same_schema_and_v1_is_stored() -> None:
    document = yaml.safe_load(CRD.read_text())
    assert schema(0) == schema(1)
    assert [(v["name"], v["storage"], v.get("deprecated", False)) for v in document["spec"]["versions"]] == [
        ("v1", True, False),
        ("v1beta1", False, True),
    ]
    assert document["spec"]["names"]["shortNames"] == ["provreq", "provreqs"]


def test_errors_name_the_field_and_what_would_be_valid() -> None:
    wrong = spec.validate(
        {"podSets": [{"count": 0, "podTemplateRef": {"name": "a_b"}}], "provisioningClassName": "c"}
    )
    assert wrong == [
        "spec.podSets[0].count: 0 is not an integer from 1 to 2147483647",
        "spec.podSets[0].podTemplateRef.name: 'a_b' is not a DNS-1123 subdomain of at most 253 characters",
    ]


def test_an_instance_only_checks() -> None:
    assert spec.mode_of(CHECK_NAME, {"processorInstance": "x"}, "x") is Mode.CHECK
    assert spec.mode_of("x" + CHECK_NAME, {}, "x") is Mode.CHECK
    assert spec.mode_of(CHECK_NAME, {}, "x") is None
    assert spec.mode_of(ATOMIC_NAME, {}, "x") is None
    assert spec.mode_of(ATOMIC_NAME, {"processorInstance": "x"}) is Mode.ATOMIC


@pytest.mark.parametrize(
    ("text", "seconds"), [("3600", 3600.0), ("90m", 5400.0), ("0", 0.0), ("1h30m", 5400.0), ("1.5s", 1.5)]
)
def test_valid_until_is_seconds_or_a_duration(text: str, seconds: float) -> None:
    found = spec.parameters_of({"ValidUntilSeconds": text}, 1)
    assert found.valid_until_s == seconds
    assert found.no_retry == (seconds == 0)
    assert found.warnings == ()


@pytest.mark.parametrize("text", ["soon", "-5", "5 minutes", ""])
def test_what_is_not_understood_is_ignored_and_reported(text: str) -> None:
    found = spec.parameters_of({"ValidUntilSeconds": text, "noRetry": "yes"}, 1)
    assert found.valid_until_s is None
    assert not found.no_retry
    assert len(found.warnings) == 2


def test_a_long_name_leaves_no_room_for_the_dash() -> None:
    assert reference.name_prefix("r" * 10) == "r" * 10 + "-"
    assert reference.name_prefix("r" * 253) == "r" * 253

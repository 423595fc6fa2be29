"""What is done with a CustomResourceDefinition that is there, absent, ours or another's."""

from __future__ import annotations

import copy
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from tidewright.cli.crds.choosing import Policy, step, unmet
from tidewright.cli.crds.installing import manifests
from tidewright.cli.crds.overwritten import finding
from tidewright.kube.ownership import CRD_VERSION

SPREADS = "workloadspreads.apps.kruise.io"
VERSIONS = Path(__file__).parents[2] / "golden" / "crd-versions.json"
POLICIES: tuple[Policy, ...] = ("skip", "missing", "ours")


def manifest(version: str = "3") -> dict[str, Any]:
    found = copy.deepcopy(next(m for m in manifests() if m["metadata"]["name"] == SPREADS))
    found["metadata"]["annotations"][CRD_VERSION] = version
    return found


def there(version: str | None = None, **more: Any) -> dict[str, Any]:
    """The definition as the API server has it; with a version: ours."""
    found = manifest()
    found["metadata"] = {
        "name": SPREADS,
        "resourceVersion": "7",
        "annotations": {"a": "b"} | ({} if version is None else {CRD_VERSION: version}),
        **more,
    }
    found["status"] = {"storedVersions": ["v1alpha1"]}
    return found


def entry(manager: str, operation: str = "Update", **more: Any) -> dict[str, Any]:
    return {
        "manager": manager,
        "operation": operation,
        "time": "2026-01-02T00:00:00Z",
        "fieldsV1": {"f:spec": {"f:versions": {}}},
        **more,
    }


def test_a_changed_manifest_has_a_version_of_its_own() -> None:
    """An installation tells by the number alone what to bring up to date: raise it, and add the digest here."""
    known = json.loads(VERSIONS.read_text())
    for found in manifests():
        name, version = found["metadata"]["name"], found["metadata"]["annotations"][CRD_VERSION]
        digest = hashlib.sha256(json.dumps(found["spec"], sort_keys=True).encode()).hexdigest()[:16]
        assert version.isdecimal(), f"{name}: {CRD_VERSION} is {version!r}, and has to be 1, then 2, then 3"
        assert known.get(name, {}).get(version) == digest, (
            f"{name}: the spec has changed: raise {CRD_VERSION} and add {digest} in tests/golden/{VERSIONS.name}"
        )
        assert max(known[name], key=int) == version


def test_what_is_absent_is_created_unless_nothing_may_be_touched() -> None:
    assert [step(manifest(), None, policy).verb for policy in POLICIES] == ["leave", "create", "create"]
    assert step(manifest(), None, "missing").body == manifest()


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(
    "metadata",
    [
        {},
        {"managedFields": [entry("tidewright", "Apply")]},  # by an earlier version: a manager is no evidence
        {"labels": {"app.kubernetes.io/managed-by": "tidewright"}},
    ],
)
def test_what_we_did_not_create_is_left_whatever_it_says(policy: Policy, metadata: dict[str, Any]) -> None:
    chosen = step(manifest(), there(**metadata), policy)
    assert (chosen.verb, chosen.body) == ("leave", {})
    assert CRD_VERSION in chosen.why


def test_what_we_created_is_brought_up_to_date_where_that_is_wanted() -> None:
    assert [step(manifest(), there("2"), policy).verb for policy in POLICIES] == ["leave", "leave", "update"]
    body = step(manifest(), there("2"), "ours").body
    assert body["metadata"]["annotations"] == {"a": "b", CRD_VERSION: "3"}
    assert body["metadata"]["resourceVersion"] == "7"  # a write in between is refused
    assert body["spec"] == manifest()["spec"]
    assert step(manifest("10"), there("9"), "ours").verb == "update"  # numbers, not texts


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (there("4"), "newer"),
        (there("latest"), "no number"),
        (there("2", deletionTimestamp="2026-01-02T00:00:00Z"), "being deleted"),
        (there("2", managedFields=[entry("tidewright"), entry("helm", "Apply")]), "helm"),
        (there("2") | {"status": {"storedVersions": ["v1alpha1", "v0"]}}, "v0"),
    ],
)
def test_what_we_created_is_left_where_an_update_would_take_something(
    found: dict[str, Any], said: str
) -> None:
    chosen = step(manifest(), found, "ours")
    assert chosen.verb == "leave"
    assert said in chosen.why


def test_who_writes_the_status_has_not_written_the_spec() -> None:
    status = {
        "manager": "status-bot",
        "operation": "Update",
        "subresource": "status",
        "fieldsV1": {"f:spec": {}},
    }
    found = there("2", managedFields=[entry("tidewright"), entry("kube-apiserver"), status])
    assert step(manifest(), found, "ours").verb == "update"
    assert step(manifest(), there("3"), "ours").verb == "keep"


def test_an_update_keeps_the_conversion_and_the_versions_that_it_serves() -> None:
    found = there("2")
    conversion = {"strategy": "Webhook", "webhook": {"clientConfig": {"url": "https://127.0.0.1:1"}}}
    found["spec"]["conversion"] = conversion
    for version in found["spec"]["versions"]:
        version["served"] = True
    spec = step(manifest(), found, "ours").body["spec"]
    assert spec["conversion"] == conversion
    assert [version["served"] for version in spec["versions"]] == [True, True]


def test_what_will_not_work_is_said() -> None:
    found = there()
    assert unmet(manifest(), found) == ""
    assert unmet(manifest(), None) == "spread does nothing about a WorkloadSpread until it is there"
    found["spec"]["versions"][0] |= {"subresources": {}}
    assert "v1alpha1 has no status subresource: spread cannot write" in unmet(manifest(), found)
    found["spec"]["versions"][0] |= {"served": False}
    found["spec"]["versions"][1] |= {"served": True}
    assert "it serves v1beta1 and not v1alpha1: spread does nothing about a WorkloadSpread" in unmet(
        manifest(), found
    )


@pytest.mark.parametrize("found", manifests(), ids=lambda found: str(found["metadata"]["name"]))
def test_our_own_definitions_meet_what_our_services_need(found: dict[str, Any]) -> None:
    assert unmet(found, found) == ""
    assert "Tidewright" not in unmet(found, None)  # each belongs to a service


def test_a_report_names_whose_definition_an_earlier_version_took() -> None:
    before = entry("kubectl-client-side-apply", time="2026-01-01T00:00:00Z")
    found = there(
        managedFields=[before, entry("tidewright", "Apply"), entry("later", time="2026-01-03T00:00:00Z")]
    )
    found["status"]["storedVersions"] = ["v1beta1", "v1alpha1"]
    said = finding(found)
    assert said is not None
    assert said.verdict == "overwritten"
    text = "\n".join(said.lines)
    assert "over what kubectl-client-side-apply had written" in text
    assert "stored as v1beta1, which is no longer served" in text
    assert "kubectl apply --server-side --force-conflicts" in text


def test_a_report_tells_what_was_only_applied_from_what_was_taken() -> None:
    mine = there(managedFields=[entry("tidewright", "Apply"), entry("kube-apiserver", subresource="status")])
    said = finding(mine)
    assert said is not None
    assert said.verdict == "applied"
    assert f"kubectl annotate crd {SPREADS} {CRD_VERSION}=0" in said.lines[1]
    assert step(manifest(), there("0"), "ours").verb == "update"  # handed over
    assert finding(there("1", managedFields=[entry("tidewright", "Apply")])) is None
    repaired = entry("tidewright", "Apply", fieldsV1={"f:spec": {"f:names": {}}})
    assert finding(there(managedFields=[repaired, entry("helm", "Apply")])) is None
    assert finding(there(managedFields=[entry("tidewright"), entry("helm", "Apply")])) is None

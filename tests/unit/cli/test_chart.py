"""The Helm chart: of the table of services, the same as `deploy/kubernetes/` by default, and whole with any values."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from cryptography import x509
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests import chartvalues
from tidewright.actuator.allowed.bounds import Feature
from tidewright.asking.environment import READ, variable
from tidewright.asking.services import BY_NAME, EVERY, SERVICES, Role
from tidewright.cli import main, together
from tidewright.cli.contract import actuatorroles, deployment, smallcluster
from tidewright.cli.contract.helm import scaling
from tidewright.cli.contract.monitoring import alerts, dashboards
from tidewright.events.version import __version__
from tidewright.host.process.health import Health

helm = pytest.importorskip("helm_python", reason="helm-python-sdk has no wheel for this platform")

ROOT = Path(__file__).resolve().parents[3]
CHART = ROOT / "deploy" / "helm" / "tidewright"
VALUES: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA: dict[str, Any] = msgspec.json.decode((CHART / "values.schema.json").read_bytes())
Objects = dict[tuple[str, str, str], dict[str, Any]]


@pytest.fixture(scope="module")
def chart() -> Iterator[Any]:
    with helm.Chart.load(str(CHART)) as loaded:
        yield loaded


def rendered(chart: Any, values: dict[str, Any], namespace: str = "tidewright") -> Objects:
    found: Objects = {}
    for name, text in chart.render(values, name="tidewright", namespace=namespace).items():
        if not name.endswith("NOTES.txt"):
            for document in filter(None, yaml.load_all(text, Loader=yaml.CSafeLoader)):
                metadata = document["metadata"]
                key = document["kind"], metadata.get("namespace", ""), metadata["name"]
                assert key not in found, f"{key} stands twice"
                found[key] = document
    return found


def of(kind: str, objects: Objects) -> dict[str, dict[str, Any]]:
    return {name: document for (k, _, name), document in objects.items() if k == kind}


def test_helm_finds_nothing_wrong() -> None:
    found = helm.lint(str(CHART))
    assert [m for m in found["messages"] if m["severity"] > 1] == []
    assert found["errors"] == []


def test_what_is_written_by_hand_follows_the_tables() -> None:
    assert set(VALUES["services"]) == set(SCHEMA["properties"]["services"]["properties"]) == set(EVERY)
    assert set(VALUES["features"]) == set(map(str, actuatorroles.BY_DEFAULT))
    assert set(SCHEMA["properties"]["features"]["items"]["enum"]) == set(map(str, Feature))
    assert set(SCHEMA["properties"]["namespaces"]["propertyNames"]["enum"]) == set(EVERY)
    about = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert about["appVersion"] == about["version"] == __version__


def test_every_value_has_its_entry_in_the_schema() -> None:
    def undescribed(values: dict[str, Any], schema: dict[str, Any], path: str) -> Iterator[str]:
        for key, value in values.items():
            known = schema.get("properties", {}).get(key)
            known = SCHEMA["definitions"]["service"] if known and "$ref" in known else known
            if known is None:
                yield f"{path}.{key}"
            elif isinstance(value, dict) and "properties" in known:
                yield from undescribed(value, known, f"{path}.{key}")

    assert list(undescribed(VALUES, SCHEMA, "")) == []


def installer(objects: Objects) -> str:
    """The name of the Job that makes the log."""
    (name,) = of("Job", objects)
    return name


def test_what_the_installer_is_told_otherwise_is_another_job(chart: Any) -> None:
    """A Job cannot be changed, and who renders without a release has one revision for ever."""
    first, same, other = (
        installer(rendered(chart, values)) for values in ({}, {}, {"log": {"maxAgeSeconds": 3600}})
    )
    assert first == same != other


def test_by_default_it_installs_what_the_manifests_do(chart: Any) -> None:
    """But for images, budgets and how pods lie apart, which only the chart has, and Secrets that it makes."""
    ours: Objects = {}
    for name, text in deployment.wanted("prod").items():
        off = {f"actuator-{feature}.yaml" for feature in set(Feature) - actuatorroles.BY_DEFAULT}
        if name not in {"namespace.yaml", "kustomization.yaml"} | off and not name.endswith(
            "/kustomization.yaml"
        ):
            for document in yaml.load_all(text, Loader=yaml.CSafeLoader):
                metadata = document["metadata"]
                ours[document["kind"], metadata.get("namespace", ""), metadata["name"]] = document
    theirs = rendered(chart, {"console": {"enabled": True}, "archiver": {"enabled": True}})
    job = theirs["Job", "tidewright", "installer"] = theirs.pop(("Job", "tidewright", installer(theirs)))
    job["metadata"]["name"] = "installer"
    assert ours.keys() <= theirs.keys()
    more = {(kind, name) for kind, _, name in theirs.keys() - ours.keys()}
    assert more == {
        ("Secret", "nats-passwords"), ("Secret", "tokens"), ("Secret", "nats-tls"),
        ("PriorityClass", "tidewright-buffer"), *(("PodDisruptionBudget", name) for name in EVERY),
    }  # fmt: skip
    for key, mine in ours.items():
        assert plain(theirs[key]) == plain(mine), key


def plain(document: dict[str, Any]) -> dict[str, Any]:
    """Without what only one of the two says."""
    document = msgspec.json.decode(msgspec.json.encode(document))
    if document["kind"] == "PersistentVolumeClaim":  # which an uninstallation leaves
        document["metadata"].pop("annotations", None)
    if document["kind"] in {"Deployment", "StatefulSet", "Job"}:
        pod = document["spec"]["template"]["spec"]
        del pod["containers"][0]["image"]
        pod["containers"][0].pop("imagePullPolicy", None)
        if document["kind"] == "Deployment":
            pod.pop("topologySpreadConstraints", None)
    return dict(document)


# -- any values ----------------------------------------------------------------------------------------

ARGUMENTS = ("--log-level", "debug: {{ x }}", "'")
SERVICE = st.fixed_dictionaries(
    {},
    optional={
        "replicas": st.integers(0, 5),
        "args": st.lists(st.sampled_from(ARGUMENTS), max_size=2),
        "env": st.just([{"name": "AWS_REGION", "value": "eu-west-1"}]),
        "resources": st.just({}) | st.just({"limits": {"memory": "2Gi"}}),
        "podAnnotations": st.just({"prometheus.io/scrape": "true"}),
        "serviceAccountAnnotations": st.just({"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/x"}),
        "nodeSelector": st.just({"pool": "system"}),
        "tolerations": st.just([{"key": "system", "operator": "Exists"}]),
        "volumes": st.just([{"name": "prices", "configMap": {"name": "prices"}}]),
    },
)
SCALING = st.fixed_dictionaries({"max": st.integers(3, 32)}, optional={"min": st.integers(1, 3)})


def read(values: dict[str, Any]) -> dict[str, Any]:
    """Without what is refused because nothing reads it beside the others."""
    if "together" in values:
        return {k: v for k, v in values.items() if k not in {"services", "scaling"}}
    for name in values.get("scaling", ()):
        values.get("services", {}).get(name, {}).pop("replicas", None)
    return values


VALUES_OF_ALL_KINDS = st.fixed_dictionaries(
    {},
    optional={
        "mode": st.sampled_from(["shadow", "enforce"]),
        "cluster": st.sampled_from(["prod", "eu-1"]),
        "features": st.lists(st.sampled_from(sorted(map(str, Feature))), min_size=1, unique=True),
        "namespaces": st.dictionaries(
            st.sampled_from(["autoscaler", "spread", "provisioning", "shard-manager"]),
            st.lists(st.sampled_from(["shop", "bank"]), min_size=1, unique=True),
        ),
        "clouds": st.lists(st.sampled_from(["east=aws:discovery=a,b", "mgmt=clusterapi"]), unique=True),
        "config": st.sampled_from([{}, {"modes": {"mode": "shadow"}, "autoscaler": "a: 1\nb: {x: 'y'}\n"}]),
        "signing": st.booleans(),
        "services": st.dictionaries(st.sampled_from(EVERY), SERVICE, max_size=3),
        "together": st.fixed_dictionaries(
            {"enabled": st.just(True)}, optional=dict.fromkeys(smallcluster.NAMES, SERVICE)
        ),
        "scaling": st.dictionaries(st.sampled_from(sorted(scaling.SCALABLE)), SCALING, max_size=2),
        "console": st.just({"enabled": True, "args": ["--host-name", "tidewright.example"]}),
        "archiver": st.just(
            {
                "enabled": True,
                "archive": "s3://audit/logs",
                "args": ["--every", "30"],
                "storage": {"className": "fast"},
            }
        ),
        "podDisruptionBudgets": st.booleans(),
        "networkPolicies": st.booleans(),
        "topologySpread": st.just([]) | st.just(["kubernetes.io/hostname"]),
        "priorityClassName": st.just("system-cluster-critical"),
        "imagePullSecrets": st.just([{"name": "registry"}]),
        "serviceMonitor": st.just({"enabled": True, "labels": {"release": "prometheus"}}),
        "prometheusRule": st.just({"enabled": True}),
        "dashboards": st.just({"enabled": True}),
        "nats": st.sampled_from(
            [
                {},
                {"bundled": False, "url": "tls://nats.example:4222", "userPrefix": "eu-"},
                {"storage": {"className": "fast"}},
            ]
        ),
        "secrets": st.just({"create": False}),
        "tls": st.sampled_from([{"source": "secret"}, {"source": "cert-manager", "issuer": {"name": "ca"}}]),
    },
).map(read)


@given(values=VALUES_OF_ALL_KINDS, namespace=st.sampled_from(["tidewright", "capacity"]))
@settings(
    max_examples=20,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_with_any_values_it_is_whole(chart: Any, values: dict[str, Any], namespace: str) -> None:
    assert_whole(rendered(chart, values, namespace), values, namespace)


def test_with_every_two_values_beside_each_other_it_is_whole(chart: Any) -> None:
    for choice in chartvalues.choices():
        values = chartvalues.values_of(choice)
        assert_whole(rendered(chart, values, "capacity"), values, "capacity")


def test_every_two_values_of_every_two_options_meet() -> None:
    """And whoever adds a value to the chart adds it there."""
    written = {".".join(path).replace("services.watcher", "services.*") for path in leaves(VALUES)}
    assert set(chartvalues.OPTIONS) == {
        option for option in written if not option.startswith(("services.", "together.")) or "*" in option
    } | {"together.enabled"}
    found = {pair for choice in chartvalues.choices() for pair in chartvalues.met(choice)}
    assert set(chartvalues.pairs()) - found == set()


def leaves(values: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Entries of the values file; a mapping of what users name, or of another API, is one entry."""
    open_ended = {"resources", "labels", "limits"} - ({"limits"} if path == ("nats",) else set())
    for key, value in values.items():
        if isinstance(value, dict) and value and key not in open_ended:
            yield from leaves(value, (*path, key))
        else:
            yield (*path, key)


@pytest.mark.parametrize("pair", chartvalues.FORBIDDEN, ids=lambda pair: f"{pair[0]} {pair[2]}")
def test_values_that_do_not_go_together_are_refused_by_name(chart: Any, pair: chartvalues.Pair) -> None:
    one, i, other, j = pair
    with pytest.raises(helm.HelmError) as refused:
        rendered(chart, chartvalues.values_of({one: i, other: j}))
    assert chartvalues.FORBIDDEN[pair] in str(refused.value)


def assert_whole(objects: Objects, values: dict[str, Any], namespace: str) -> None:
    """What is rendered refers to nothing that is not there, and is what was asked for."""
    running = of("Deployment", objects)
    wanted = set(smallcluster.NAMES if values.get("together", {}).get("enabled") else EVERY)
    assert set(running) == wanted | {n for n in ("console", "archiver") if values.get(n, {}).get("enabled")}
    chosen = values.get("together", values.get("services", {}))
    secrets = {name: set(found["data"]) for name, found in of("Secret", objects).items()}
    for name, found in running.items():
        assert found["metadata"]["namespace"] == namespace
        pod = found["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        own = len(chosen.get(name, values.get(name, {})).get("args", ()))
        ours = container["args"][: len(container["args"]) - own]
        if name in smallcluster.NAMES:
            ours = [argument for argument in container["args"] if argument not in ARGUMENTS]
            assert_taken(ours)
        else:
            main.application().parse_args(ours, exit_on_error=False, print_error=False)
        assert {m["name"] for m in container["volumeMounts"]} <= {v["name"] for v in pod["volumes"]}
        for secret, keys in asked_of(pod):
            assert secret not in secrets or keys <= secrets[secret], secret
    scaled = of("HorizontalPodAutoscaler", objects)
    assert set(scaled) == set(values.get("scaling", ()))
    assert {name for name, found in running.items() if "replicas" not in found["spec"]} == set(scaled)
    roles = {name for (kind, _, name) in objects if kind in {"Role", "ClusterRole"}}
    bound = {
        (d["roleRef"]["kind"], ns, d["roleRef"]["name"])
        for (k, ns, _), d in objects.items()
        if k.endswith("Binding")
    }
    assert {name for _, _, name in bound} == roles
    accounts = {(ns, name) for kind, ns, name in objects if kind == "ServiceAccount"}
    subjects = [s for (k, _, _), d in objects.items() if k.endswith("Binding") for s in d["subjects"]]
    assert {(s["namespace"], s["name"]) for s in subjects} <= accounts
    assert {
        pod["serviceAccountName"] for d in running.values() for pod in [d["spec"]["template"]["spec"]]
    } <= {name for _, name in accounts}
    for name, service in of("Service", objects).items():
        if selector := service["spec"].get("selector", {}).get("app.kubernetes.io/component"):
            assert selector in running, name
            (container,) = running[selector]["spec"]["template"]["spec"]["containers"]
            targets = {port["targetPort"] for port in service["spec"]["ports"]}
            assert targets <= {port["name"] for port in container["ports"]}, name
    granted = {
        name.removeprefix("tidewright-actuator-") for name in roles if name.startswith("tidewright-actuator-")
    }
    assert granted == set(values.get("features", VALUES["features"]))


def assert_taken(arguments: list[str]) -> None:
    """Every flag of a process with several services is taken by one of them, or by the one that it is for."""
    services = together.named(arguments[1:])
    flags = arguments[1 + len(services) :]
    unused: list[set[str]] = []
    for service in services:
        own = together.flags_of(service, flags)
        *_, left, _ = main.application().parse_known_args(["run", service, *own])
        unused.append({token for token in left if token.startswith("--")})
        meant = {flag.partition(":")[2] for flag in flags if flag.startswith(f"--{service}:")}
        assert not unused[-1] & {f"--{flag}" for flag in meant}, service
    assert not set.intersection(*unused)


def test_on_a_small_cluster_three_processes_are_given_what_the_services_are(chart: Any) -> None:
    values = {
        "features": ["autoscaling"],
        "clouds": ["east=aws"],
        "signing": True,
        "serviceMonitor": {"enabled": True},
    }
    alone, three = rendered(chart, values), rendered(chart, values | {"together": {"enabled": True}})
    fewer = {"Deployment", "ServiceAccount", "PodDisruptionBudget", "NetworkPolicy"}
    three["Job", "tidewright", installer(alone)] = three.pop(("Job", "tidewright", installer(three)))
    assert {key for key in alone if key[0] not in fewer} == {key for key in three if key[0] not in fewer}
    assert {name for (kind, _, name) in three if kind == "ServiceAccount"} == {
        *smallcluster.NAMES,
        "installer",
    }
    for kind in smallcluster.NAMES:
        (container,) = of("Deployment", three)[kind]["spec"]["template"]["spec"]["containers"]
        services = together.named(container["args"][1:])
        flags = container["args"][1 + len(services) :]
        variables = {variable["name"] for variable in container["env"]}
        assert variables == {"TIDEWRIGHT_NATS", "TIDEWRIGHT_NATS_CA", "TIDEWRIGHT_TRUST"}
        for service in services:
            (own,) = of("Deployment", alone)[service]["spec"]["template"]["spec"]["containers"]
            given, before = together.flags_of(service, flags), own["args"][2:]
            more = [token for token in given if token not in before]
            ports = {token for token in more if token.isdigit()}
            assert ports <= {"8444"}
            assert set(more) - ports == {
                "--nats-user", service, "--nats-password-file", f"/run/tidewright/nats/{service}",
                "--signing-key", f"/run/tidewright/signing/{service}/signing.key",
            }  # fmt: skip
            assert set(before) - set(given) <= {"8443"}
    scraped = three["ServiceMonitor", "tidewright", "tidewright"]["spec"]["endpoints"]
    assert {found.get("path", "") for found in scraped} == {"", *(f"/metrics/{service}" for service in EVERY)}
    for found in scraped[1:]:
        keep, name = found["relabelings"]
        service = name["replacement"]
        assert (found["path"], keep["regex"]) == (f"/metrics/{service}", smallcluster.kind_of(service))
    assert scraped[0]["relabelings"][0] == {
        "sourceLabels": ["__meta_kubernetes_pod_label_app_kubernetes_io_component"],
        "regex": "deciders|edge|endpoints", "action": "drop",
    }  # fmt: skip


def test_what_is_chosen_for_deployments_that_are_not_made_is_refused_by_name(chart: Any) -> None:
    """Each of a service's fields, so that none is left out of what is taken for unchosen."""
    unchosen = VALUES["services"]["watcher"]
    assert all(
        own == unchosen
        for own in [*VALUES["services"].values(), *map(VALUES["together"].get, smallcluster.NAMES)]
    )
    other: dict[type, Any] = {int: 5, str: "2", list: ["--x"], dict: {"x": "1"}}
    for field, value in unchosen.items():
        chosen = {
            field: [{"name": "x"}]
            if field in {"env", "volumes", "volumeMounts", "tolerations"}
            else other[type(value)]
        }
        with pytest.raises(helm.HelmError) as refused:
            rendered(chart, {"together": {"enabled": True}, "services": {"actuator": chosen}})
        said = f"services.actuator.{field} is not read while together.enabled is set: choose it as together.edge.{field}"
        assert said in str(refused.value)
        assert "services.watcher" not in str(refused.value)
        with pytest.raises(helm.HelmError) as refused:
            rendered(chart, {"together": {"enabled": False, "endpoints": chosen}})
        assert f"together.endpoints.{field} is not read without together.enabled" in str(refused.value)
        assert "for each of spread-admission, shard-labels" in str(refused.value)


def test_what_is_written_as_it_is_anyway_is_no_choice(chart: Any) -> None:
    written = {"services": VALUES["services"], "together": VALUES["together"]}
    for enabled in (False, True):
        values = written | {"together": VALUES["together"] | {"enabled": enabled}}
        found, plainly = rendered(chart, values), rendered(chart, {"together": {"enabled": enabled}})
        assert found.keys() == plainly.keys()
        assert of("Deployment", found) == of("Deployment", plainly)


async def test_those_whose_replicas_share_the_work_are_scaled_by_kubernetes_and_by_what_they_say(
    chart: Any,
) -> None:
    known = SCHEMA["properties"]["scaling"]["properties"]
    assert {name: set(SCHEMA["definitions"][ref["$ref"].rpartition("/")[2]]["properties"]) for name, ref in known.items()} == {
        name: {"min", "max", by} for name, by in scaling.SCALABLE.items()
    }  # fmt: skip
    objects = rendered(chart, {"scaling": {"autoscaler": {"max": 8}, "shard-labels": {"max": 4, "cpu": 50}}})
    own = of("HorizontalPodAutoscaler", objects)["autoscaler"]["spec"]
    assert own["scaleTargetRef"] == {"apiVersion": "apps/v1", "kind": "Deployment", "name": "autoscaler"}
    assert (own["minReplicas"], own["maxReplicas"]) == (2, 8)
    metric, busy = own["metrics"]
    assert busy["resource"] == {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70}}
    assert metric["pods"]["target"] == {"type": "AverageValue", "averageValue": 1000}
    assert f"\n{metric['pods']['metric']['name']} " in (await Health("autoscaler").exposition()).decode()
    (metric,) = of("HorizontalPodAutoscaler", objects)["shard-labels"]["spec"]["metrics"]
    assert metric["resource"] == {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}


def asked_of(pod: dict[str, Any]) -> Iterator[tuple[str, set[str]]]:
    """Secrets that a pod mounts, and keys of them."""
    for volume in pod["volumes"]:
        sources = [volume["secret"]] if "secret" in volume else []
        sources += [s["secret"] for s in volume.get("projected", {}).get("sources", ())]
        for source in sources:
            yield (
                source.get("secretName") or source["name"],
                {item["key"] for item in source.get("items", ())},
            )


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"mode": "dry"}, ["/mode", "shadow", "enforce"]),
        ({"services": {"watchr": {}}}, ["/services", "watchr"]),
        ({"services": {"watcher": {"replica": 2}}}, ["/services/watcher", "replica"]),
        ({"tls": {"source": "cert-manager"}}, ["/tls/issuer/name"]),
        ({"nats": {"servers": 1}}, ["/log/replicas"]),
        ({"nats": {"url": "tls://a:4222,b:4222"}}, ["/nats/url"]),
        ({"namespaces": {"autoscaler": []}}, ["/namespaces/autoscaler"]),
        ({"features": ["scaledown"]}, ["/features/0"]),
        ({"clouds": ["gce=gce"]}, ["/clouds/0"]),
        ({"scaling": {"provisioning": {"max": 4}}}, ["/scaling", "provisioning"]),
        ({"scaling": {"autoscaler": {"min": 0, "max": 4}}}, ["/scaling/autoscaler/min", "minimum"]),
        ({"scaling": {"autoscaler": {}}}, ["/scaling/autoscaler", "max"]),
        ({"scaling": {"shard-labels": {"max": 4, "lag": 1}}}, ["/scaling/shard-labels", "lag"]),
        ({"scaling": {"spread": {"max": 1}}}, ["scaling.spread.max is 1, which is less than its min 2"]),
        (
            {"scaling": {"spread": {"max": 3}}, "services": {"spread": {"replicas": 3}}},
            ["services.spread.replicas is not read", "choose scaling.spread.min"],
        ),
        (
            {"scaling": {"spread": {"max": 3}}, "together": {"enabled": True}},
            ["scaling.spread is not read while together.enabled is set"],
        ),
    ],
)
def test_values_that_mean_nothing_are_refused_by_name(
    chart: Any, values: dict[str, Any], named: list[str]
) -> None:
    with pytest.raises(helm.HelmError) as refused:
        chart.render(values, name="tidewright", namespace="tidewright")
    assert all(word in str(refused.value) for word in named)


def test_a_service_that_is_narrowed_has_roles_in_its_namespaces_alone(chart: Any) -> None:
    objects = rendered(chart, {"namespaces": {"autoscaler": ["shop", "bank"]}})
    name = "tidewright-actuator-autoscaling"
    assert {ns for (kind, ns, n) in objects if (kind, n) == ("Role", name)} == {"shop", "bank"}
    assert ("ClusterRole", "", name) not in objects
    arguments = of("Deployment", objects)["actuator"]["spec"]["template"]["spec"]["containers"][0]["args"]
    assert "autoscaler=shop,bank" in arguments


def test_a_service_is_upgraded_before_others_by_its_own_tag(chart: Any) -> None:
    values = {"image": {"tag": "1"}, "services": {"autoscaler": {"tag": "2"}}}
    found = {
        name: running["spec"]["template"]["spec"]["containers"][0]["image"]
        for name, running in of("Deployment", rendered(chart, values)).items()
    }
    assert {name for name, image in found.items() if image == "tidewright:2"} == {"autoscaler"}
    assert {image for name, image in found.items() if name != "autoscaler"} == {"tidewright:1"}


def test_the_servers_certificate_is_of_every_name_that_they_are_reached_by(chart: Any) -> None:
    """Through `kubectl port-forward`, too, as the notes have it; and a template that cert-manager signs asks for the same."""
    secret = of("Secret", rendered(chart, {}, "capacity"))["nats-tls"]["data"]
    certificate = x509.load_pem_x509_certificate(base64.b64decode(secret["tls.crt"]))
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    wanted = {"nats", "*.nats", "nats.capacity", "*.nats.capacity", "nats.capacity.svc", "localhost"}
    assert set(names.get_values_for_type(x509.DNSName)) == wanted
    asked = of(
        "Certificate",
        rendered(chart, {"tls": {"source": "cert-manager", "issuer": {"name": "ca"}}}, "capacity"),
    )
    assert set(asked["nats"]["spec"]["dnsNames"]) == wanted


@pytest.mark.parametrize(
    ("values", "lines"),
    [
        ({}, ["kubectl -n capacity port-forward svc/nats 4222 &", "TIDEWRIGHT_NATS=tls://localhost:4222", "_USER=reader "]),
        (
            {"nats": {"bundled": False, "url": "tls://nats.example:4222", "userPrefix": "eu-"}},
            ["TIDEWRIGHT_NATS=tls://nats.example:4222", "TIDEWRIGHT_NATS_USER=eu-reader "],
        ),
    ],
)  # fmt: skip
def test_the_notes_say_how_the_log_is_asked(chart: Any, values: dict[str, Any], lines: list[str]) -> None:
    (notes,) = (
        text
        for name, text in chart.render(values, name="tidewright", namespace="capacity").items()
        if name.endswith("NOTES.txt")
    )
    assert all(line in notes for line in lines)
    assert ("port-forward" in notes) is not bool(values)
    assert set(re.findall(r"TIDEWRIGHT_\w+", notes)) <= set(map(variable, READ))


def test_one_server_waits_for_no_others(chart: Any) -> None:
    objects = rendered(chart, {"nats": {"servers": 1}, "log": {"replicas": 1}})
    assert "cluster {" not in of("ConfigMap", objects)["nats-config"]["data"]["nats.conf"]
    assert of("StatefulSet", objects)["nats"]["spec"]["replicas"] == 1
    job = of("Job", objects)[installer(objects)]["spec"]["template"]["spec"]["containers"][0]["args"]
    assert job[job.index("--replicas") + 1] == "1"


def test_alerts_and_dashboards_arrive_as_they_are(chart: Any) -> None:
    """Both are full of what Helm would take for expressions of its own."""
    objects = rendered(chart, {"prometheusRule": {"enabled": True}, "dashboards": {"enabled": True}})
    assert of("PrometheusRule", objects)["tidewright"]["spec"] == yaml.safe_load(alerts.rules())
    found = {key: text for d in of("ConfigMap", objects).values() for key, text in d["data"].items()}
    for name, text in dashboards.files().items():
        assert msgspec.json.decode(found[Path(name).name]) == msgspec.json.decode(text)


def test_alerts_lead_to_where_the_runbooks_are_said_to_lie(chart: Any) -> None:
    home = "https://wiki.example.com/tidewright?page=runbooks"
    spec = of("PrometheusRule", rendered(chart, {"prometheusRule": {"enabled": True, "runbooks": home}}))[
        "tidewright"
    ]["spec"]
    (group,) = spec["groups"]
    assert [rule["annotations"]["runbook_url"] for rule in group["rules"]] == [
        f"{home}#{alert.full_name.lower()}" for alert in alerts.ALERTS
    ]


def test_what_is_scraped_is_the_job_that_alerts_know(chart: Any) -> None:
    """A Service of the name `metrics` somebody else may have, too: its job would be of the same name."""
    objects = rendered(chart, {"serviceMonitor": {"enabled": True}})
    named_by = of("ServiceMonitor", objects)["tidewright"]["spec"]["jobLabel"]
    job = of("Service", objects)["metrics"]["metadata"]["labels"][named_by]
    jobs = {found for alert in alerts.ALERTS for found in re.findall(r'job="(\w+)"', alert.expression)}
    assert jobs == {job}


def test_only_the_two_that_have_to_get_a_token_of_the_cluster(chart: Any) -> None:
    for name, found in of("Deployment", rendered(chart, {})).items():
        token = found["spec"]["template"]["spec"]["automountServiceAccountToken"]
        assert token is (BY_NAME[name].role in {Role.WATCHER, Role.ACTUATOR})
    assert {s.name for s in SERVICES} == set(EVERY)

"""What lies in deploy/ against the table of services: complete, accepted by what reads it, and no more than needed."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
import sys
import threading
import tomllib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.certificates import Authority
from tidewright.asking.services import BY_NAME, EVERY, SERVICES, Role
from tidewright.cli import main
from tidewright.cli.contract import deployment, permissions, rbac
from tidewright.events.version import __version__
from tidewright.kube.kinds import KINDS

ROOT = Path(__file__).resolve().parents[3]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text()
BIN = Path(sys.executable).parent
READS = {"get", "list", "watch"}


def documents(*files: str) -> list[dict[str, Any]]:
    return [d for f in files for d in yaml.safe_load_all((ROOT / "deploy" / "kubernetes" / f).read_text())]


def of(kind: str, *files: str) -> dict[str, dict[str, Any]]:
    return {d["metadata"]["name"]: d for d in documents(*files) if d["kind"] == kind}


def accepted(arguments: list[str]) -> None:
    main.application().parse_args(arguments, exit_on_error=False, print_error=False)


@pytest.mark.parametrize("service", EVERY)
def test_compose_runs_every_service_of_the_table(service: str) -> None:
    found = COMPOSE[service]
    assert found["command"][:2] == ["run", service]
    assert found["environment"]["TIDEWRIGHT_NATS"].startswith(f"nats://{service}:")
    accepted(found["command"])


def test_in_compose_the_actuator_knows_where_endpoints_are() -> None:
    """Else it would refuse to have the API server call them there."""
    for service in SERVICES:
        if service.role is Role.ENDPOINT:
            command = COMPOSE[service.name]["command"]
            url = command[command.index("--url") + 1]
            assert f"{service.name}={url}" in COMPOSE["actuator"]["command"]


def test_compose_runs_nothing_else_and_gives_nats_every_password() -> None:
    assert set(COMPOSE) - set(EVERY) == {"nats", "cluster", "definitions", "install", "console", "archiver"}
    users = {permissions.variable(user) for user in permissions.USERS}
    assert set(COMPOSE["nats"]["environment"]) == users
    for name in ("cluster", "definitions", "install", "console", "archiver"):
        accepted(COMPOSE[name]["command"])


def test_compose_builds_each_image_once_before_who_runs_it() -> None:
    assert {name: found["build"].get("target") for name, found in COMPOSE.items() if "build" in found} == {
        "cluster": "embedded", "definitions": None,
    }  # fmt: skip
    for name in [*EVERY, "install", "console", "archiver"]:
        assert "definitions" in COMPOSE[name]["depends_on"], name


GOES_ON = {*EVERY, "nats", "cluster", "console", "archiver"}


def test_in_compose_what_goes_on_is_started_again() -> None:
    """NATS as well: without it nothing is decided when a machine has been started anew."""
    assert {name for name, found in COMPOSE.items() if found.get("restart") == "unless-stopped"} == GOES_ON


@pytest.mark.parametrize("name", sorted(GOES_ON - {"nats"}))
@pytest.mark.parametrize(("status", "code"), [(200, 0), (503, 1)])
def test_in_compose_health_is_what_readyz_says(name: str, status: int, code: int) -> None:
    command, probe = COMPOSE[name]["command"], COMPOSE[name]["healthcheck"]["test"]
    port = command[command.index("--health-port") + 1]
    assert probe[:2] == ["CMD", "/opt/tidewright/bin/python"]
    asked = []

    class Readyz(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(b"so it is")

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Readyz) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        arguments = [part.replace(port, str(server.server_port)) for part in probe[2:]]
        done = subprocess.run([sys.executable, *arguments], capture_output=True, timeout=60, check=False)
        server.shutdown()
    assert (done.returncode, asked) == (code, ["/readyz"]), done.stderr


@pytest.mark.parametrize("name", sorted(name for name, found in COMPOSE.items() if found.get("read_only")))
def test_in_compose_who_writes_to_tmp_may(name: str) -> None:
    """The roots of images are read-only: what the manifests give a folder for, compose does, and no more."""
    pods = of("Deployment", "services.yaml", "archiver/archiver.yaml", "console/console.yaml")
    mounts = pods[name]["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] if name in pods else []
    wanted = [mount["mountPath"] for mount in mounts if mount["mountPath"] == "/tmp"]
    assert COMPOSE[name].get("tmpfs", []) == wanted


def test_in_compose_nodes_are_ordered_of_the_cloud_that_the_cluster_has() -> None:
    cluster = COMPOSE["cluster"]["command"]
    inside = Path(cluster[cluster.index("--cloud") + 1])
    assert inside.is_relative_to("/opt/tidewright")
    assert (ROOT / inside.relative_to("/opt/tidewright")).is_file()
    for name in ("watcher", "actuator"):
        (cloud,) = [part for part in COMPOSE[name]["command"] if part.startswith("simulated=")]
        assert cloud.endswith(f"http://cluster:{cluster[cluster.index('--side-port') + 1]}")


def test_the_manifests_run_every_service_with_an_account_of_its_own() -> None:
    deployments = of("Deployment", "services.yaml")
    assert set(deployments) == set(EVERY)
    accounts = of("ServiceAccount", "rbac.yaml")
    for name, found in deployments.items():
        pod = found["spec"]["template"]["spec"]
        assert pod["serviceAccountName"] == name
        assert accounts[name]["automountServiceAccountToken"] is False
        accepted(pod["containers"][0]["args"])
        assert pod["containers"][0]["args"][:2] == ["run", name]


def test_samples_can_be_pushed_to_the_watcher_by_name() -> None:
    service = of("Service", "services.yaml")["watcher"]["spec"]
    pod = of("Deployment", "services.yaml")["watcher"]["spec"]["template"]
    assert service["selector"].items() <= pod["metadata"]["labels"].items()
    (port,) = service["ports"]
    ports = {p["name"]: p["containerPort"] for p in pod["spec"]["containers"][0]["ports"]}
    args = pod["spec"]["containers"][0]["args"]
    assert args[args.index("--health-port") + 1] == str(ports[port["targetPort"]]) == str(port["port"])


def test_only_watcher_and_actuator_may_ask_the_api_server() -> None:
    bound = {
        (subject["name"], d["kind"])
        for d in documents("rbac.yaml")
        if d["kind"].endswith("Binding")
        for subject in d["subjects"]
    }
    assert {name for name, _ in bound} == {"watcher", "actuator"}
    for name, found in of("Deployment", "services.yaml").items():
        token = found["spec"]["template"]["spec"]["automountServiceAccountToken"]
        assert token is (BY_NAME[name].role in (Role.WATCHER, Role.ACTUATOR))


def test_the_watcher_may_follow_every_kind_and_write_nothing() -> None:
    rules = rbac.rules(BY_NAME["watcher"])
    allowed = {
        (g, r, v)
        for rule in rules
        for g in rule["apiGroups"]
        for r in rule["resources"]
        for v in rule["verbs"]
    }
    for kind in KINDS:
        assert {(kind.group, kind.plural, "list"), (kind.group, kind.plural, "watch")} <= allowed
    assert {verb for _, _, verb in allowed} <= READS


def test_no_rule_is_wider_than_a_resource_but_for_scales_and_metrics() -> None:
    wide = [
        (service.name, rule["resources"])
        for service in SERVICES
        for rule in rbac.rules(service)
        if "*" in (*rule["apiGroups"], *rule["resources"], *rule["verbs"])
    ]
    assert wide == [("watcher", ["*/scale"]), ("watcher", ["*"])]
    assert [r["apiGroups"] for r in rbac.rules(BY_NAME["watcher"]) if r["resources"] == ["*"]] == [
        ["external.metrics.k8s.io"]
    ]


def reached(
    policies: list[dict[str, Any]], labels: dict[str, str], caller: dict[str, str] | None
) -> set[int]:
    """Ports of a pod that policies let a caller reach; None: somebody who is no pod of ours."""
    found: set[int] = set()
    for policy in policies:
        if policy["podSelector"]["matchLabels"].items() <= labels.items():
            for rule in policy["ingress"]:
                peers = [p["podSelector"]["matchLabels"] for p in rule.get("from", ())]
                if "from" not in rule or (caller and any(p.items() <= caller.items() for p in peers)):
                    found |= {port["port"] for port in rule["ports"]}
    return found


def test_policies_say_who_talks_to_whom() -> None:
    policies = [d["spec"] for d in of("NetworkPolicy", "network.yaml", "nats.yaml").values()]
    pods = {
        name: d["spec"]["template"]
        for kind, file in (
            ("Deployment", "services.yaml"),
            ("StatefulSet", "nats.yaml"),
            ("Job", "install.yaml"),
        )
        for name, d in of(kind, file).items()
    }
    labels = {name: pod["metadata"]["labels"] for name, pod in pods.items()}
    assert set(labels) == {*EVERY, "nats", permissions.INSTALLER}
    for name, mine in labels.items():
        # Each pod is under a policy: without one it would be open.
        chosen = [p for p in policies if p["podSelector"]["matchLabels"].items() <= mine.items()]
        assert len(chosen) == 1, name
        assert "Ingress" in chosen[0]["policyTypes"]
        ports = {p["containerPort"] for c in pods[name]["spec"]["containers"] for p in c.get("ports", ())}
        assert reached(policies, mine, None) == (set() if name == "nats" else ports)
        assert reached(policies, labels["nats"], mine) == ({6222} if name == "nats" else {4222})
        holds = pods[name]["spec"]["automountServiceAccountToken"] is True
        closed = [p for p in chosen if "Egress" in p["policyTypes"]]
        assert bool(closed) is (name in EVERY and not holds), name
        for policy in closed:
            out = [
                (rule.get("to"), sorted({port["port"] for port in rule["ports"]}))
                for rule in policy["egress"]
            ]
            assert out == [([{"podSelector": {"matchLabels": labels["nats"]}}], [4222]), (None, [53])]


def test_the_log_begins_in_the_mode_that_the_watcher_is_started_with() -> None:
    args = of("Job", "install.yaml")["installer"]["spec"]["template"]["spec"]["containers"][0]["args"]
    watcher = of("Deployment", "services.yaml")["watcher"]["spec"]["template"]["spec"]["containers"][0][
        "args"
    ]
    assert [a[a.index("--mode") + 1] for a in (args, watcher)] == ["shadow", "shadow"]


def test_what_the_manifests_name_is_there() -> None:
    """Arguments, files and Secrets: with a name that differs by a letter no pod would start."""
    secrets = {"nats-passwords": {*permissions.USERS, "route"}, "nats-tls": {"tls.crt", "tls.key", "ca.crt"}}
    text = (ROOT / "deploy" / "README.md").read_text()
    made = text.partition("create secret generic tokens")[2].partition("cd deploy")[0]
    secrets["tokens"] = {part.partition("=")[0] for part in made.split("--from-literal=")[1:]}
    for name, job in (of("Deployment", "services.yaml") | of("Job", "install.yaml")).items():
        pod = job["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        accepted(container["args"])
        files: set[str] = set()
        mounts = {m["name"]: m["mountPath"] for m in container["volumeMounts"]}
        assert set(mounts) == {v["name"] for v in pod["volumes"]}
        for volume in pod["volumes"]:
            sources = (
                volume["projected"]["sources"] if "projected" in volume else [{"secret": volume["secret"]}]
            )
            for source in sources:
                secret = source["secret"]
                assert {i["key"] for i in secret["items"]} <= secrets[
                    secret.get("name") or secret["secretName"]
                ]
                files |= {f"{mounts[volume['name']]}/{item['path']}" for item in secret["items"]}
        named = [*container["args"], *(e["value"] for e in container["env"])]
        paths = {part for text in named for part in text.split("=") if part.startswith("/")}
        assert paths == files, name
        mine = {e["name"]: e["value"] for e in container["env"]}
        assert mine["TIDEWRIGHT_NATS_USER"] == name


def test_the_console_asks_as_the_reader_and_reaches_nothing_else() -> None:
    (job,) = of("Deployment", "console/console.yaml").values()
    (container,) = job["spec"]["template"]["spec"]["containers"]
    accepted(container["args"])
    assert {e["name"]: e["value"] for e in container["env"]}["TIDEWRIGHT_NATS_USER"] == permissions.READER
    assert job["spec"]["template"]["spec"]["automountServiceAccountToken"] is False
    text = (ROOT / "deploy" / "README.md").read_text()
    assert "--from-literal=console=" in text
    rest = of("NetworkPolicy", "network.yaml")["autoscaler"]["spec"]["egress"]
    assert of("NetworkPolicy", "console/console.yaml")["console"]["spec"]["egress"] == rest


def test_the_archiver_asks_as_itself_and_has_a_volume_for_its_key() -> None:
    (job,) = of("Deployment", "archiver/archiver.yaml").values()
    pod = job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    accepted(container["args"])
    assert {e["name"]: e["value"] for e in container["env"]}["TIDEWRIGHT_NATS_USER"] == permissions.ARCHIVER
    assert pod["automountServiceAccountToken"] is False
    mounts = {m["name"]: m["mountPath"] for m in container["volumeMounts"]}
    assert set(mounts) == {v["name"] for v in pod["volumes"]}
    given = dict(itertools.pairwise(container["args"]))
    assert all(given[flag].startswith(f"{mounts['archive']}/") for flag in ("--archive", "--key"))
    assert set(of("PersistentVolumeClaim", "archiver/archiver.yaml")) == {"archiver"}


def test_kustomize_renders_them_with_other_images() -> None:
    rendered = subprocess.run(
        [BIN / "kubectl", "kustomize", ROOT / "deploy" / "kubernetes"],
        capture_output=True, text=True, timeout=60, check=True,
    ).stdout  # fmt: skip
    images = {
        container["image"]
        for d in yaml.safe_load_all(rendered)
        if d["kind"] in ("Deployment", "StatefulSet")
        for container in d["spec"]["template"]["spec"]["containers"]
    }
    assert images == {"tidewright:latest", f"nats:{deployment.NATS_TAG}"}


@pytest.mark.parametrize("where", ["kubernetes", "compose"])
def test_nats_server_accepts_its_configuration(where: str, tmp_path: Path) -> None:
    if where == "kubernetes":
        files = of("ConfigMap", "nats.yaml")["nats-config"]["data"]
    else:
        files = {"nats.conf": (ROOT / "deploy" / "compose" / "nats.conf").read_text()}
        files["permissions.conf"] = (ROOT / "deploy" / "nats" / "permissions.conf").read_text()
    cert, key = Authority(tmp_path).issue("server")
    for file, name in ((cert, "tls.crt"), (key, "tls.key"), (tmp_path / "ca.pem", "ca.crt")):
        file.rename(tmp_path / name)
    for name, text in files.items():
        (tmp_path / name).write_text(text.replace("/etc/nats-tls", str(tmp_path)))
    passwords = {permissions.variable(user): "p1" for user in (*permissions.USERS, "route")}
    passwords |= {f"ROUTE_{n}": f"nats://route:p1@nats-{n}.nats:6222" for n in range(3)}
    answer = subprocess.run(
        [BIN / "nats-server", "-t", "-c", tmp_path / "nats.conf"],
        env={**os.environ, **passwords, "POD_NAME": "nats-0"}, capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr
    assert "is valid" in answer.stderr


def test_the_images_are_names_and_the_base_can_be_chosen() -> None:
    text, lines = DOCKERFILE, DOCKERFILE.splitlines()
    assert [line for line in lines if line.startswith("FROM")] == [
        "FROM ${BASE} AS tools",
        "FROM tools AS dependencies",
        "FROM dependencies AS embedded-dependencies",
        "FROM ${BASE} AS source",
        "FROM ${BASE} AS services",
        "FROM services AS embedded",
        "FROM services",
    ]
    # What is copied is all that the build may read, and each environment has its bill of materials.
    copied = {words[1] for line in lines if (words := line.split())[:1] == ["COPY"] and len(words) == 3}
    readable = {
        line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")
    }
    assert copied - readable == {"libs/tidewright/events/version.py"}
    assert readable <= copied
    assert (
        text.count("-o /opt/tidewright/sbom.cdx.json")
        == text.count("/opt/tidewright/bin/python install")
        == 2
    )
    for found in COMPOSE.values():
        assert "/" not in found["image"]


def test_the_bill_of_materials_is_of_a_version(tmp_path: Path) -> None:
    """It is read of `pyproject.toml`, which leaves it to the code: the build writes it there, by this command."""
    (command,) = re.findall(r"^RUN (sed -i .*version\.py.*) /pyproject\.toml$", DOCKERFILE, re.MULTILINE)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    here = command.replace("/version.py", str(ROOT / "libs" / "tidewright" / "events" / "version.py"))
    subprocess.run(["sh", "-c", f"{here} pyproject.toml"], cwd=tmp_path, check=True, timeout=30)
    project = tomllib.loads((tmp_path / "pyproject.toml").read_text())["project"]
    assert (project["version"], project.get("dynamic")) == (__version__, None)


def test_the_image_brings_what_the_chart_offers() -> None:
    """Buckets for the archive, each kind of cloud, the console, and traces."""
    locked = {
        line.partition("==")[0] for line in (ROOT / "deploy" / "requirements.lock").read_text().splitlines()
    }
    assert {"aiobotocore", "grpcio", "protobuf", "jinja2", "opentelemetry-sdk"} <= locked


def test_the_instructions_make_a_password_for_every_user_of_the_bus() -> None:
    text = " ".join((ROOT / "deploy" / "README.md").read_text().replace("\\\n", " ").split())
    users = text.partition("for user in ")[2].partition(";")[0].split()
    assert set(users) == {*permissions.USERS, "route"}

"""The real kubectl, unmodified, as its users run it."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from pathlib import Path

import msgspec
import pytest
import yaml

from tests.e2e.api.client import PATIENCE_S, Client, Object, config_map, deployment, pod
from tests.e2e.api.crontabs import crontab

BESIDE_PYTHON = Path(sys.executable).with_name("kubectl")


class Kubectl:
    """Runs kubectl in the test's namespace; a failure carries what it printed."""

    def __init__(self, client: Client, folder: Path) -> None:
        self._client = client
        self._folder = folder
        self._program = str(BESIDE_PYTHON) if BESIDE_PYTHON.exists() else shutil.which("kubectl") or "kubectl"
        self.environment = {
            **os.environ,
            "KUBECONFIG": str(client.kubeconfig),
            "HOME": str(folder),
            "KUBECACHEDIR": str(folder / "cache"),
        }

    async def start(self, *arguments: str) -> asyncio.subprocess.Process:
        pipe = asyncio.subprocess.PIPE
        return await asyncio.create_subprocess_exec(
            self._program,
            f"--namespace={self._client.namespace}",
            *arguments,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            env=self.environment,
        )

    async def run(self, *arguments: str, given: str = "", code: int = 0) -> str:
        """What it prints (on stdout, with stderr behind it); fails unless it exits with `code`."""
        process = await self.start(*arguments)
        async with asyncio.timeout(PATIENCE_S):
            out, err = await process.communicate(given.encode())
        text = out.decode() + err.decode()
        assert process.returncode == code, f"kubectl {' '.join(arguments)}: {process.returncode}: {text}"
        return text

    async def json(self, *arguments: str) -> Object:
        found: Object = msgspec.json.decode(await self.run(*arguments, "-o", "json"))
        return found


@pytest.fixture
def kubectl(client: Client, tmp_path: Path) -> Kubectl:
    return Kubectl(client, tmp_path)


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


async def test_get_prints_tables(client: Client, kubectl: Kubectl) -> None:
    await client.create(client.path("pods"), pod("a", colour="red"))
    await client.create(client.path("pods"), pod("b", colour="blue"))
    found = rows(await kubectl.run("get", "pods"))
    assert found[0] == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert [row[:4] for row in found[1:]] == [["a", "0/1", "Pending", "0"], ["b", "0/1", "Pending", "0"]]
    assert "NODE" in rows(await kubectl.run("get", "po", "-o", "wide"))[0]
    assert (await kubectl.run("get", "pods", "-o", "name")).split() == ["pod/a", "pod/b"]
    assert (await kubectl.run("get", "pods", "-l", "colour=red", "-o", "name")).split() == ["pod/a"]
    selected = await kubectl.run("get", "pods", "--field-selector", "metadata.name=b", "-o", "name")
    assert selected.split() == ["pod/b"]
    everywhere = await kubectl.run(
        "get", "pods", "-A", "--field-selector", f"metadata.namespace={client.namespace}"
    )
    assert [row[:2] for row in rows(everywhere)[1:]] == [[client.namespace, "a"], [client.namespace, "b"]]


async def test_get_prints_objects(client: Client, kubectl: Kubectl) -> None:
    await client.create(client.path("configmaps"), config_map("a", k="v"))
    assert yaml.safe_load(await kubectl.run("get", "cm", "a", "-o", "yaml"))["data"] == {"k": "v"}
    assert (await kubectl.json("get", "cm", "a"))["data"] == {"k": "v"}
    assert await kubectl.run("get", "cm", "a", "-o", "jsonpath={.data.k}") == "v"
    columns = await kubectl.run("get", "cm", "a", "-o", "custom-columns=N:.metadata.name,K:.data.k")
    assert rows(columns) == [["N", "K"], ["a", "v"]]
    assert 'configmaps "none" not found' in await kubectl.run("get", "cm", "none", code=1)


async def test_get_watches(client: Client, kubectl: Kubectl) -> None:
    first_pod = pod("a")
    first_pod["spec"]["schedulerName"] = "nobody"  # or the scheduler's word on it may be the second change
    await client.create(client.path("pods"), first_pod)
    process = await kubectl.start("get", "pods", "-w")
    assert process.stdout is not None
    try:
        async with asyncio.timeout(PATIENCE_S):
            header, first = await process.stdout.readline(), await process.stdout.readline()
            await client.create(client.path("pods"), pod("b"))
            second = await process.stdout.readline()
    finally:
        process.terminate()
        await process.communicate()
    assert header.split()[:3] == [b"NAME", b"READY", b"STATUS"]
    assert (first.split()[0], second.split()[0]) == (b"a", b"b")


async def test_apply_creates_configures_and_prunes_fields(client: Client, kubectl: Kubectl) -> None:
    wanted = deployment("d")
    wanted["spec"]["template"]["spec"]["containers"][0]["env"] = [{"name": "A", "value": "1"}]
    text = yaml.safe_dump(wanted)
    assert "deployment.apps/d created" in await kubectl.run("apply", "-f", "-", given=text)
    assert "deployment.apps/d unchanged" in await kubectl.run("apply", "-f", "-", given=text)
    container = wanted["spec"]["template"]["spec"]["containers"][0]
    del container["env"]
    container["image"] = "registry.example/pause:2"
    assert "configured" in await kubectl.run("apply", "-f", "-", given=yaml.safe_dump(wanted))
    found = await client.get(client.path("deployments", "d", group="apps"))
    container = found["spec"]["template"]["spec"]["containers"][0]
    assert "env" not in container
    assert container["image"] == "registry.example/pause:2"


async def test_apply_validates_on_the_server(kubectl: Kubectl) -> None:
    wanted = deployment("d")
    wanted["spec"]["replicaz"] = 1
    told = await kubectl.run("apply", "-f", "-", given=yaml.safe_dump(wanted), code=1)
    assert 'unknown field "spec.replicaz"' in told


async def test_server_side_apply_reports_conflicts(client: Client, kubectl: Kubectl) -> None:
    text = yaml.safe_dump(config_map("a", k="1"))
    assert "serverside-applied" in await kubectl.run("apply", "--server-side", "-f", "-", given=text)
    await client.merge(client.path("configmaps", "a"), {"data": {"k": "2"}}, fieldManager="editor")
    told = await kubectl.run("apply", "--server-side", "-f", "-", given=text, code=1)
    assert 'conflict with "editor" using v1: .data.k' in told
    await kubectl.run("apply", "--server-side", "--force-conflicts", "-f", "-", given=text)
    assert (await client.get(client.path("configmaps", "a")))["data"] == {"k": "1"}


async def test_create_makes_the_usual_things(kubectl: Kubectl) -> None:
    for what in (
        "deployment web --image=registry.example/web:1 --replicas=0",
        "configmap c --from-literal=a=b",
        "secret generic s --from-literal=a=b",
        "serviceaccount robot",
        "job j --image=registry.example/job:1",
        "cronjob c --image=registry.example/job:1 --schedule=@yearly",
        "service clusterip svc --tcp=80:8080",
        "quota q --hard=configmaps=100",
        "poddisruptionbudget pdb --selector=app=web --min-available=1",
        "role r --verb=get --resource=pods",
        "rolebinding rb --role=r --serviceaccount=default:robot",
    ):
        assert "created" in await kubectl.run("create", *what.split())
    found = await kubectl.json("get", "deployment", "web")
    assert found["spec"]["replicas"] == 0
    assert (await kubectl.json("get", "secret", "s"))["data"] == {"a": "Yg=="}
    assert (await kubectl.json("get", "svc", "svc"))["spec"]["ports"][0]["targetPort"] == 8080


async def test_patch_label_annotate_scale(client: Client, kubectl: Kubectl) -> None:
    await client.create(client.path("deployments", group="apps"), deployment("d"))
    await kubectl.run("patch", "deploy", "d", "-p", '{"spec": {"paused": true}}')
    await kubectl.run("patch", "deploy", "d", "--type=merge", "-p", '{"spec": {"minReadySeconds": 3}}')
    operations = '[{"op": "replace", "path": "/spec/revisionHistoryLimit", "value": 3}]'
    await kubectl.run("patch", "deploy", "d", "--type=json", "-p", operations)
    await kubectl.run("label", "deploy", "d", "tier=front")
    await kubectl.run("annotate", "deploy", "d", "why=because")
    assert "scaled" in await kubectl.run("scale", "deploy", "d", "--current-replicas=0", "--replicas=2")
    found = await client.get(client.path("deployments", "d", group="apps"))
    assert found["metadata"]["labels"]["tier"] == "front"
    assert found["metadata"]["annotations"]["why"] == "because"
    spec = found["spec"]
    assert (spec["paused"], spec["minReadySeconds"], spec["revisionHistoryLimit"], spec["replicas"]) == (
        True,
        3,
        3,
        2,
    )
    await kubectl.run("scale", "deploy", "d", "--replicas=0")
    assert "already has a value" in await kubectl.run("label", "deploy", "d", "tier=back", code=1)


async def test_edit_saves_what_the_editor_wrote(client: Client, kubectl: Kubectl) -> None:
    await client.create(client.path("configmaps"), config_map("a", k="old"))
    kubectl.environment["KUBE_EDITOR"] = "sed -i s/old/new/"
    assert "configmap/a edited" in await kubectl.run("edit", "configmap", "a")
    assert (await client.get(client.path("configmaps", "a")))["data"] == {"k": "new"}


async def test_delete_waits_and_respects_finalizers(client: Client, kubectl: Kubectl) -> None:
    await client.create(client.path("configmaps"), config_map("a"))
    assert "deleted" in await kubectl.run("delete", "configmap", "a")
    await client.gone(client.path("configmaps", "a"))
    held = config_map("held")
    held["metadata"]["finalizers"] = ["tidewright.test/hold"]
    await client.create(client.path("configmaps"), held)
    await kubectl.run("delete", "configmap", "held", "--wait=false")
    await kubectl.run("patch", "cm", "held", "--type=merge", "-p", '{"metadata": {"finalizers": null}}')
    await client.gone(client.path("configmaps", "held"))


async def test_wait_sees_a_condition(client: Client, kubectl: Kubectl) -> None:
    await client.create(client.path("pods"), pod("a"))
    waiting = asyncio.create_task(kubectl.run("wait", "pod/a", "--for=condition=Ready", "--timeout=50s"))
    ready = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    await client.merge(client.path("pods", "a", "status"), ready)
    assert "condition met" in await waiting
    going = asyncio.create_task(kubectl.run("wait", "pod/a", "--for=delete", "--timeout=50s"))
    await client.delete(client.path("pods", "a"), {"gracePeriodSeconds": 0})
    await going


async def test_describe_shows_events(client: Client, kubectl: Kubectl) -> None:
    made = await client.create(client.path("pods"), pod("a"))
    event = {
        "metadata": {"name": "a.1"},
        "involvedObject": {
            "kind": "Pod",
            "apiVersion": "v1",
            "name": "a",
            "namespace": client.namespace,
            "uid": made["metadata"]["uid"],
        },
        "reason": "Noticed",
        "message": "somebody looked",
        "type": "Normal",
        "firstTimestamp": made["metadata"]["creationTimestamp"],
        "lastTimestamp": made["metadata"]["creationTimestamp"],
        "count": 1,
        "source": {"component": "test"},
    }
    await client.create(client.path("events"), event)
    told = await kubectl.run("describe", "pod", "a")
    assert "Noticed" in told
    assert "somebody looked" in told
    assert "registry.example/pause:1" in told
    assert "somebody looked" in await kubectl.run("events", "--for", "pod/a")
    assert "somebody looked" in await kubectl.run("get", "events")
    newer = await client.get(client.path("events", "a.1", group="events.k8s.io"))
    assert (newer["note"], newer["regarding"]["name"]) == ("somebody looked", "a")


async def test_rollout_status_follows_the_status(client: Client, kubectl: Kubectl) -> None:
    await client.create(client.path("deployments", group="apps"), deployment("d"))
    assert "successfully rolled out" in await kubectl.run("rollout", "status", "deploy/d", "--timeout=50s")


async def test_drain_cordons_and_evicts(client: Client, kubectl: Kubectl) -> None:
    name = f"{client.namespace}-node"
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    await client.create("/api/v1/nodes", {"metadata": {"name": name}, "status": ready})
    try:
        await client.create(client.path("pods"), pod("a"))
        binding = {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": name}}
        await client.create(client.path("pods", "a", "binding"), binding)
        await kubectl.run("taint", "node", name, "dedicated=test:NoSchedule")
        draining = asyncio.create_task(
            kubectl.run("drain", name, "--force", "--grace-period=1", "--timeout=50s")
        )

        async def is_going() -> bool:
            return "deletionTimestamp" in (await client.get(client.path("pods", "a")))["metadata"]

        await client.until(is_going)
        await client.delete(client.path("pods", "a"), {"gracePeriodSeconds": 0})  # as its kubelet would
        assert "drained" in await draining
        node = await client.get(f"/api/v1/nodes/{name}")
        assert node["spec"]["unschedulable"] is True
        assert "dedicated" in [taint["key"] for taint in node["spec"]["taints"]]
        assert "SchedulingDisabled" in await kubectl.run("get", "node", name)
        await kubectl.run("uncordon", name)
        assert "unschedulable" not in (await client.get(f"/api/v1/nodes/{name}"))["spec"]
    finally:
        await client.delete(f"/api/v1/nodes/{name}")


async def test_discovery_and_documentation(client: Client, kubectl: Kubectl, crontabs: Object) -> None:
    group = crontabs["spec"]["group"]
    listed = await kubectl.run("api-resources", "--api-group", group)
    assert rows(listed)[1] == ["crontabs", "ctab", f"{group}/v1", "true", "CronTab"]
    assert "apps/v1" in (await kubectl.run("api-versions")).split()
    told = await kubectl.run("explain", "deployment.spec.strategy.type")
    assert "RollingUpdate" in told
    told = await kubectl.run("explain", f"crontabs.{group}", "--recursive")
    assert "schedule" in told
    assert "v1.3" in await kubectl.run("version")


async def test_custom_resources_are_printed_and_scaled(
    client: Client, kubectl: Kubectl, crontabs: Object
) -> None:
    group = crontabs["spec"]["group"]
    text = yaml.safe_dump(crontab(group, "c", replicas=1))
    await kubectl.run("apply", "-f", "-", given=text)
    found = rows(await kubectl.run("get", "ctab"))
    assert found[0] == ["NAME", "SCHEDULE", "AGE"]
    assert found[1][0] == "c"
    assert f"crontab.{group}/c" in await kubectl.run("get", "tidewright", "-o", "name")
    await kubectl.run("scale", f"crontabs.{group}/c", "--replicas=3")
    assert (await client.get(client.path("crontabs", "c", group=group)))["spec"]["replicas"] == 3


async def test_everything_is_allowed(kubectl: Kubectl) -> None:
    assert (await kubectl.run("auth", "can-i", "delete", "pods")).strip() == "yes"
    assert "Username" in await kubectl.run("auth", "whoami")


async def test_what_kubectl_cannot_send_it_says(client: Client, kubectl: Kubectl) -> None:
    text = yaml.safe_dump({"apiVersion": "v1", "kind": "Podd", "metadata": {"name": "a"}})
    told = await kubectl.run("create", "-f", "-", given=text, code=1)
    assert 'no matches for kind "Podd" in version "v1"' in told
    told = await kubectl.run("get", "pods", "--field-selector", "spec.x=1", code=1)
    assert told.count("field label not supported: spec.x") == 1
    assert "found 'b', expected: in, notin" in await kubectl.run("get", "pods", "-l", "a b", code=1)
    assert 'resource type "nonsense"' in await kubectl.run("get", "nonsense", code=1)
    sent = pod("a")
    sent["spec"]["serviceAccountName"] = "nobody"
    told = await kubectl.run("create", "-f", "-", given=yaml.safe_dump(sent), code=1)
    where = f"{client.namespace}/nobody"
    assert (
        f'pods "a" is forbidden: error looking up service account {where}: serviceaccount "nobody" not found'
        in told
    )


async def test_a_rollout_is_undone(client: Client, kubectl: Kubectl) -> None:
    path = client.path("deployments", "d", group="apps")
    await client.create(client.path("deployments", group="apps"), deployment("d"))

    async def revision(wanted: str) -> bool:
        found = (await client.get(path))["metadata"].get("annotations") or {}
        return bool(found.get("deployment.kubernetes.io/revision") == wanted)

    await client.until(lambda: revision("1"))
    await kubectl.run("set", "image", "deploy/d", "main=registry.example/pause:2")
    await client.until(lambda: revision("2"))
    history = rows(await kubectl.run("rollout", "history", "deploy/d"))
    assert [row[0] for row in history if row][1:] == ["REVISION", "1", "2"]
    assert "registry.example/pause:1" in await kubectl.run("rollout", "history", "deploy/d", "--revision=1")
    await kubectl.run("rollout", "undo", "deploy/d")
    await client.until(lambda: revision("3"))
    found = await client.get(path)
    assert found["spec"]["template"]["spec"]["containers"][0]["image"] == "registry.example/pause:1"
    await kubectl.run("rollout", "restart", "deploy/d")
    await client.until(lambda: revision("4"))
    await kubectl.run("rollout", "pause", "deploy/d")
    assert (await client.get(path))["spec"]["paused"] is True
    await kubectl.run("rollout", "resume", "deploy/d")
    told = await kubectl.run("describe", "deploy", "d")
    assert "RollingUpdateStrategy:  25% max unavailable, 25% max surge" in told


async def test_deletes_cascade_as_they_are_told(client: Client, kubectl: Kubectl) -> None:
    for name in ("kept", "cut"):
        await client.create(client.path("deployments", group="apps"), deployment(name, replicas=1))

    async def pods() -> dict[str, str]:
        items = (await client.get(client.path("pods")))["items"]
        return {item["metadata"]["labels"]["app"]: item["metadata"]["name"] for item in items}

    async def both() -> bool:
        return set(await pods()) == {"kept", "cut"}

    await client.until(both)
    await kubectl.run("delete", "deploy", "kept", "--cascade=orphan")
    await kubectl.run("delete", "deploy", "cut", "--cascade=foreground")
    assert set(await pods()) == {"kept"}
    (left,) = (await client.get(client.path("replicasets", group="apps")))["items"]
    assert "ownerReferences" not in left["metadata"]


async def test_drain_waits_for_a_disruption_budget(client: Client, kubectl: Kubectl) -> None:
    name = f"{client.namespace}-node"
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    await client.create("/api/v1/nodes", {"metadata": {"name": name}, "status": ready})
    try:
        await client.create(client.path("pods"), pod("a", app="a"))
        binding = {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": name}}
        await client.create(client.path("pods", "a", "binding"), binding)
        running = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
        await client.merge(client.path("pods", "a", "status"), running)
        await kubectl.run("create", "pdb", "b", "--selector=app=a", "--min-available=1")
        path = client.path("poddisruptionbudgets", "b", group="policy")

        async def seen() -> bool:
            status = (await client.get(path)).get("status") or {}
            return bool(status.get("currentHealthy") == 1 and status.get("observedGeneration") == 1)

        await client.until(seen)
        draining = await kubectl.start("drain", name, "--force", "--timeout=50s")
        assert draining.stderr is not None
        try:
            async with asyncio.timeout(PATIENCE_S):
                while b"Cannot evict pod as it would violate the pod's disruption budget." not in (
                    line := await draining.stderr.readline()
                ):
                    assert line, "it ended without that"
        finally:
            draining.terminate()
            await draining.communicate()
        await client.merge(path, {"spec": {"minAvailable": 0}})

        async def allowed() -> bool:
            return bool((await client.get(path))["status"]["disruptionsAllowed"] == 1)

        await client.until(allowed)
        await kubectl.run("delete", "pod", "a", "--now", "--wait=false")
        await client.delete(client.path("pods", "a"), {"gracePeriodSeconds": 0})  # as its kubelet would
        assert "drained" in await kubectl.run("drain", name, "--force", "--timeout=50s")
    finally:
        await client.delete(f"/api/v1/nodes/{name}")


async def test_events_are_told_as_they_come(client: Client, kubectl: Kubectl) -> None:
    await client.create(client.path("deployments", group="apps"), deployment("d", replicas=1))

    async def told() -> bool:
        return "ScalingReplicaSet" in await kubectl.run("events", "--for", "deploy/d")

    await client.until(told)
    found = rows(await kubectl.run("get", "events"))
    assert found[0] == ["LAST", "SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]
    assert "ScalingReplicaSet" in await kubectl.run("describe", "deploy", "d")


async def test_waits_for_a_value_and_replaces(client: Client, kubectl: Kubectl) -> None:
    await client.create(client.path("configmaps"), config_map("a", k="1"))
    waiting = asyncio.create_task(kubectl.run("wait", "cm/a", "--for=jsonpath={.data.k}=2", "--timeout=50s"))
    text = yaml.safe_dump(config_map("a", k="2"))
    assert "configmap/a replaced" in await kubectl.run("replace", "-f", "-", given=text)
    assert "condition met" in await waiting
    assert "unchanged" not in await kubectl.run("apply", "-f", "-", "--dry-run=server", given=text)
    assert (await client.get(client.path("configmaps", "a")))["data"] == {"k": "2"}
    changed = yaml.safe_dump(config_map("a", k="3"))
    assert '+  k: "3"' in await kubectl.run("diff", "-f", "-", given=changed, code=1)


async def test_scale_refuses_what_is_not_so(client: Client, kubectl: Kubectl) -> None:
    await client.create(client.path("deployments", group="apps"), deployment("d"))
    told = await kubectl.run("scale", "deploy", "d", "--current-replicas=5", "--replicas=1", code=1)
    assert "Expected replicas to be 5, was 0" in told
    shown = yaml.safe_load(await kubectl.run("get", "deploy", "d", "--subresource=scale", "-o", "yaml"))
    assert (shown["kind"], shown["apiVersion"], shown["status"]["selector"]) == (
        "Scale",
        "autoscaling/v1",
        "app=d",
    )


async def test_apply_goes_over_from_the_client_to_the_server(client: Client, kubectl: Kubectl) -> None:
    manifest = deployment("d")
    manifest["spec"]["replicas"] = 0
    await kubectl.run("apply", "-f", "-", given=yaml.safe_dump(manifest))
    manifest["spec"]["minReadySeconds"] = 5
    manifest["spec"]["template"]["spec"]["containers"][0]["image"] = "registry.example/pause:2"
    await kubectl.run("apply", "--server-side", "-f", "-", given=yaml.safe_dump(manifest))
    found = await kubectl.json("get", "deployment", "d", "--show-managed-fields")
    managers = {(one["manager"], one["operation"]) for one in found["metadata"]["managedFields"]}
    assert ("kubectl", "Apply") in managers
    assert ("kubectl-client-side-apply", "Update") not in managers
    await kubectl.run("annotate", "deployment", "d", "who=else", "--field-manager=other")
    await kubectl.run("scale", "deployment", "d", "--replicas=1")
    text = await kubectl.run("apply", "--server-side", "-f", "-", given=yaml.safe_dump(manifest), code=1)
    assert 'conflict with "kubectl" with subresource "scale" using apps/v1: .spec.replicas' in text
    await kubectl.run("scale", "deployment", "d", "--replicas=0")


async def test_autoscalers_of_either_version(client: Client, kubectl: Kubectl) -> None:
    await client.create(
        client.path("deployments", group="apps"), deployment("d") | {"metadata": {"name": "d"}}
    )
    old = {
        "apiVersion": "autoscaling/v1",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "h"},
        "spec": {
            "maxReplicas": 3,
            "targetCPUUtilizationPercentage": 70,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "none"},
        },
    }
    await kubectl.run("create", "-f", "-", given=yaml.safe_dump(old))
    (metric,) = (await kubectl.json("get", "hpa", "h"))["spec"]["metrics"]
    assert metric["resource"]["target"] == {"type": "Utilization", "averageUtilization": 70}
    shown = await kubectl.json("get", "horizontalpodautoscalers.v1.autoscaling", "h")
    assert (shown["apiVersion"], shown["spec"]["minReplicas"]) == ("autoscaling/v1", 1)
    assert shown["spec"]["targetCPUUtilizationPercentage"] == 70

"""`make generate`: proto/, docs/reference/ and what follows from tables in deploy/ anew. `--check` only compares; `--golden` adds samples that are missing.

Exit code 1 when something is stale or a change would break the history; nothing is written then.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tidewright.cli.contract import deployment, golden, permissions, tree
from tidewright.cli.contract.helm import templates
from tidewright.cli.contract.monitoring import alerts, dashboards, runbooks
from tidewright.cli.contract.reference import commands, events, rights, series, settings
from tidewright.cloud import serving
from tidewright.cloud.aws import policies
from tidewright.cloud.clusterapi import roles as of_clusterapi
from tidewright.cloud.kwok import roles as of_kwok

ROOT = Path(__file__).resolve().parents[4]
PROTO = ROOT / "proto"
GOLDEN = ROOT / "tests" / "golden" / "events"
DEPLOY = ROOT / "deploy" / "nats"
KUBERNETES = ROOT / "deploy" / "kubernetes"
CHART = ROOT / "deploy" / "helm" / "tidewright"
MONITORING = ROOT / "deploy" / "monitoring"
CLOUDS = ROOT / "deploy" / "clouds"
REFERENCE = ROOT / "docs" / "reference"
CLUSTER = "prod"
"""Name of the cluster in the deployment's files."""
MESSAGES = PROTO / "cloud"
"""Written by hand, for who writes a server as well; their modules are made of them."""
WIRE = ROOT / "libs" / "tidewright" / "cloud" / "externalgrpc" / "wire"
CRDS = ROOT / "libs" / "tidewright" / "kube" / "crds"


def wanted() -> dict[Path, dict[str, str]]:
    """Every generated folder and its files."""
    watched = {"rules.yaml": alerts.rules()} | dashboards.files()
    return {
        PROTO: tree.wanted(CRDS, MESSAGES),
        WIRE: tree.compiled(MESSAGES),
        DEPLOY: {"permissions.conf": permissions.configuration(CLUSTER)},
        KUBERNETES: deployment.wanted(CLUSTER),
        CHART / "templates" / "generated": templates.wanted(),
        CHART / "crds": templates.definitions(CRDS),
        CHART / "files": watched,
        MONITORING: watched,
        REFERENCE: {
            "cli.md": commands.page(),
            "settings.md": settings.page(),
            "metrics.md": series.page(),
            "events.md": events.page(),
            "rights.md": rights.page(),
            "runbooks.md": runbooks.page(),
        },
        CLOUDS: {
            "aws/watcher.json": json.dumps(policies.watcher(), indent=2) + "\n",
            "aws/actuator.json": json.dumps(policies.actuator(), indent=2) + "\n",
            "clusterapi.yaml": of_clusterapi.roles(),
            "kwok.yaml": of_kwok.roles(),
            "serve.yaml": serving.roles(),
        },
    }


def main(arguments: list[str]) -> int:
    if unknown := set(arguments) - {"--check", "--golden"}:
        print(f"unknown argument {min(unknown)}: give --check, --golden or nothing", file=sys.stderr)
        return 2
    if "--golden" in arguments:
        for path in golden.complete(GOLDEN):
            print(path.relative_to(ROOT))
        return 0
    problems = tree.incompatible(PROTO)
    if not problems and "--check" not in arguments:
        for folder, files in wanted().items():
            for change in tree.write(folder, files):
                print(f"was {change.replace(f'{ROOT}/', '')}, made anew")
        return 0
    if "--check" in arguments:
        for folder, files in wanted().items():
            problems += [f"{line}; run `make generate`" for line in tree.stale(folder, files)]
        problems += golden.complaints(GOLDEN)
    for problem in problems:
        print(problem.replace(f"{ROOT}/", ""), file=sys.stderr)
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

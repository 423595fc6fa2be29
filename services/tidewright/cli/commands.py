"""The table of subcommands: names, groups, help and examples. Imports none of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cyclopts import App, Group

RUNNING = Group.create_ordered("Running")
ASKING = Group.create_ordered("Asking the log")
OTHER = Group.create_ordered("Other")


@dataclass(frozen=True)
class Command:
    """One subcommand.

    Attributes:
        where: `module:attribute`, imported when the command is used.
        examples: command lines and what each does; a test runs them through the parser.
        below: more of them, of commands below this one, which their pages alone show.
        embedded: it comes with the extra of that name.
    """

    name: str
    where: str
    group: Group
    help: str
    examples: tuple[tuple[str, str], ...]
    embedded: bool = False
    below: tuple[tuple[str, str], ...] = ()

    @property
    def epilogue(self) -> str:
        """The examples, as they stand below the help."""
        return _told(self.examples)

    def part(self, *names: str) -> str:
        """The examples of a command below this one; empty where there are none of it."""
        whole = " ".join(("tidewright", self.name, *names))
        return _told(
            [(line, why) for line, why in (*self.examples, *self.below) if f"{line} ".startswith(f"{whole} ")]
        )


def _told(examples: Sequence[tuple[str, str]]) -> str:
    return "\n".join(["Examples:", *(f"  # {why}\n  {line}" for line, why in examples)]) if examples else ""


def with_examples(app: App, *names: str) -> None:
    """Have each command below one of the table, which is called by these names, show its own examples."""
    for name in app:
        if name.startswith("-"):
            continue
        app[name].help_epilogue = BY_NAME[names[0]].part(*names[1:], name)
        with_examples(app[name], *names, name)


COMMANDS: tuple[Command, ...] = (
    Command(
        "up", "tidewright.cli.up:up", RUNNING, "Bring up the log, a cluster and every service, until Ctrl-C.",
        (
            ("tidewright up", "everything on this machine, with an embedded cluster"),
            ("tidewright up --kubeconfig ~/.kube/config --cluster prod", "beside a cluster that is there"),
        ),
    ),
    Command(
        "run", "tidewright.cli.run:app", RUNNING, "Run one service alone, as a container would, or several of one kind in one process.",
        (
            ("tidewright run autoscaler --nats nats://nats:4222 --cluster prod", "a decider"),
            ("tidewright run watcher --in-cluster --cluster prod", "what reads the cluster"),
            ("tidewright run autoscaler spread --nats-user {service}", "two in one process, each as its own user"),
        ),
        below=(
            ("tidewright run actuator --in-cluster --cluster prod", "what writes to the cluster, as far as the modes let it"),
            ("tidewright run actuator --kubeconfig kind.yaml --features autoscaling", "of another cluster, and scaling alone"),
            ("tidewright run provisioning --nats nats://nats:4222 --cluster prod", "a decider"),
            ("tidewright run spread --nats nats://nats:4222 --cluster prod", "a decider"),
            ("tidewright run shard-manager --nats nats://nats:4222 --cluster prod", "a decider"),
            ("tidewright run spread-admission --port 8443 --service tidewright/spread-admission:443", "behind a Service"),
            ("tidewright run shard-labels --port 8443 --service tidewright/shard-labels:443", "behind a Service"),
            ("tidewright run archiver --cluster prod --archive s3://audit/logs --key archiver.key", "what seals the log"),
        ),
    ),
    Command(
        "demo", "tidewright.cli.demo.command:demo", RUNNING, "Watch an autoscaler follow a recorded load, or nodes follow pods, in a minute.",
        (
            ("tidewright demo", "the built-in load"),
            ("tidewright demo --story nodes", "nodes follow pods, and what that saved"),
            ("tidewright demo --metrics requests.csv -o json", "a recorded one, as JSON"),
        ),
        embedded=True,
    ),
    Command(
        "sim", "tidewright.cli.sim:app", RUNNING, "The embedded cluster: run it, attach to another, load it, break it.",
        (
            ("tidewright sim up --nodes 10", "a cluster for kubectl, without the services"),
            ("tidewright sim attach --kubeconfig kind.yaml", "simulated nodes beside another API server"),
            ("tidewright sim load pods.csv --nodes nodes.csv --speed 86400", "a recorded cluster, a day per second"),
            ("tidewright sim fault add --status 429 --verb PATCH --probability 0.1", "one patch in ten is throttled"),
            ("tidewright sim fault node sim-0001 lose", "a machine goes silent"),
        ),
        below=(
            ("tidewright sim fault list", "what is broken on purpose"),
            ("tidewright sim fault remove", "nothing any more"),
            ("tidewright sim fault restart --down 5", "away for five seconds"),
            ("tidewright sim fault pod demo/web-0", "once"),
        ),
        embedded=True,
    ),
    Command(
        "get", "tidewright.cli.get:get", ASKING, "What is decided on: how it is, how it shall be, why, what holds it.",
        (
            ("tidewright get", "the kinds, and how many objects there are of each"),
            ("tidewright get wpa -A", "the autoscalers of every namespace"),
            ("tidewright get nodegroup --at 15m -o wide", "node groups as they were a quarter of an hour ago"),
            ("tidewright get wpa -n demo --watch", "and on with what changes"),
        ),
    ),
    Command(
        "events", "tidewright.cli.events:events", ASKING, "What happened, in order, a readable line each.",
        (
            ("tidewright events --for wpa/shop -n demo --since 15m", "all about one object, lately"),
            ("tidewright events --class decision --follow", "every decision, as it is taken"),
        ),
    ),
    Command(
        "traces", "tidewright.cli.traces:traces", ASKING, "One trace from each fact to what came of it, for OpenTelemetry.",
        (
            ("tidewright traces --follow --to http://collector:4318/v1/traces --cluster prod", "on and on, to a collector"),
            ("tidewright traces --since 15m -n shop", "lately, as JSON"),
        ),
    ),
    Command(
        "explain", "tidewright.cli.explain:explain", ASKING,
        "What was decided and why, what came of it, and why nothing else happens.",
        (
            ("tidewright explain wpa/shop -n demo", "the latest decision, and what holds the next one back"),
            ("tidewright explain wpa/shop -n demo --at 2026-03-02T12:30:00Z", "as of a moment"),
            ("tidewright explain --decision autoscaler.7.1234.0 -o json", "one decision, as JSON"),
        ),
    ),
    Command(
        "series", "tidewright.cli.series:series", ASKING, "Values, watermarks and counts of an object over time.",
        (
            ("tidewright series wpa/shop -n demo --since 2h", "the last two hours, drawn"),
            ("tidewright series nodegroup/pool-a --since 1d --points 100 -o json", "a day, as JSON with at most 100 points a line"),
        ),
    ),
    Command(
        "state", "tidewright.cli.state:state", ASKING, "What was known of an object at any moment.",
        (
            ("tidewright state wpa/shop -n demo --at 2026-03-02T12:30:00Z", "as of a log time"),
            ("tidewright state wpa/shop -n demo --at seq:3910 --log march.twlog", "right after one event of an exported log"),
        ),
    ),
    Command(
        "backtest", "tidewright.cli.backtest.command:app", ASKING,
        "What a policy would have done with a recorded load.",
        (
            ("tidewright backtest wpa -f wpa.yaml", "over what the stack that runs here has recorded"),
            ("tidewright backtest wpa -f a.yaml --compare b.yaml --log it.twlog -o html", "two policies over a log, as a page"),
            ("tidewright backtest wpa -f a.yaml --metrics it.csv --sweep tolerance=50m,200m", "the trade-off of a field, over a CSV file"),
            ("tidewright backtest --suggest --log march.twlog", "for which objects a forecast would have paid"),
        ),
    ),
    Command(
        "forecast", "tidewright.cli.forecast.command:app", ASKING,
        "The rhythm of a recorded load, learnt before a forecast is asked for.",
        (
            ("tidewright forecast learn --log march.twlog --forecast lead=10m", "of every autoscaler of a log"),
            ("tidewright forecast learn -f wpa.yaml --metrics requests.csv -o values", "of a CSV file, for the Helm chart"),
        ),
    ),
    Command(
        "console", "tidewright.cli.webconsole:console", ASKING, "The log in a browser: what is there and why, at any moment.",
        (
            ("tidewright console", "of the stack that runs here; prints a URL that lets in once"),
            ("tidewright console --log march.twlog", "of an exported log"),
            ("tidewright console --listen 0.0.0.0 --token-file tokens", "for whoever brings a token of the file"),
        ),
    ),
    Command(
        "plan", "tidewright.cli.plan.command:app", ASKING, "What would be decided, and why, without deciding it.",
        (
            ("tidewright plan provisioning -f request.yaml", "a ProvisioningRequest or CapacityBuffer on the running log's state"),
            ("tidewright plan provisioning -f request.yaml --state march.twlog -o json", "on an exported log's"),
            ("tidewright plan scale-down", "which nodes would go now, and what keeps the others"),
            ("tidewright plan ws -f ws.yaml --replicas 30", "where thirty pods of a WorkloadSpread would land"),
            ("tidewright plan ws -f ws.yaml --replicas 30 --now", "what a change of it does to the pods that are there"),
        ),
    ),
    Command(
        "compare", "tidewright.cli.compare.command:app", ASKING,
        "Where an incumbent controller and we differ, and why.",
        (
            ("tidewright compare wpa shop -n demo --since 24h", "one object, lately"),
            ("tidewright compare wpa -A --log march.twlog -o json", "all objects of an exported log"),
        ),
    ),
    Command(
        "verify", "tidewright.cli.verify:verify", ASKING,
        "Fold the log again and compare every decision byte for byte.",
        (
            ("tidewright verify --cluster prod", "a running log"),
            ("tidewright verify --data FOLDER", "the one that `up` or `demo` kept there, whether they run or not"),
            ("tidewright verify --log march.twlog", "an exported one, without NATS and without a cluster"),
            ("tidewright verify --cluster prod --archive s3://audit/logs", "a sealed archive, and what the log has behind it"),
        ),
    ),
    Command(
        "diff", "tidewright.cli.diff:diff", ASKING,
        "Which decisions of two logs differ, or of a log and its replay.",
        (
            ("tidewright diff march.twlog april.twlog", "two exported logs"),
            ("tidewright diff march.twlog", "a log, and what this version decides about it"),
            ("tidewright diff march.twlog --config autoscaler=strict.yaml", "under another configuration"),
        ),
    ),
    Command(
        "export", "tidewright.cli.exports:export", ASKING, "Write the log, or a part of it, to one file.",
        (
            ("tidewright export march.twlog", "the whole log"),
            ("tidewright export shop.twlog -n shop --since 2h", "the slots of one namespace, lately"),
        ),
    ),
    Command(
        "import", "tidewright.cli.exports:import_", ASKING, "Read an exported file into an empty log.",
        (
            ("tidewright import march.twlog --cluster prod", "into the log of a server on this machine"),
            ("tidewright import march.twlog --cluster prod --nats nats://nats:4222", "into another's"),
        ),
    ),
    Command(
        "restore", "tidewright.cli.restore:restore", OTHER, "Make a lost log anew from its sealed archive.",
        (
            ("tidewright restore --archive s3://audit/logs --cluster prod", "onto a server on this machine"),
            ("tidewright restore --archive /mnt/archive --replicas 3", "with a copy on each of three servers"),
        ),
    ),
    Command(
        "wpa", "tidewright.cli.wpa.command:app", OTHER,
        "WatermarkPodAutoscalers: dry runs on and off, in bulk; also as `kubectl wpa`.",
        (
            ("tidewright wpa dry-run list --all -A -o csv", "which of them decide without scaling, to keep"),
            ("tidewright wpa dry-run enable --all -n demo", "let all of a namespace decide without scaling"),
            ("tidewright wpa dry-run revert -f saved.csv", "as they were"),
        ),
        below=(("tidewright wpa dry-run disable shop -n demo", "let one scale again"),),
    ),
    Command(
        "shards", "tidewright.cli.shards.app:app", OTHER, "Who owns which slot and why; move, resize, roll out, adopt.",
        (
            ("tidewright shards get orders -n shop", "the members of a ShardSet and their slots"),
            ("tidewright shards plan --resize 8 -n shop", "what eight shards would move and restart, and for how long"),
        ),
        below=(
            ("tidewright shards explain shop/order-1 --set orders -n shop", "whose this key is"),
            ("tidewright shards verify --set orders -n shop", "whether the cluster is as it was assigned"),
            ("tidewright shards move 17 orders-2 --set orders -n shop", "once"),
            ("tidewright shards pin 17 orders-2 --set orders -n shop", "until it is unpinned"),
            ("tidewright shards unpin 17 --set orders -n shop", "it may move again"),
            ("tidewright shards drain orders-2 --set orders -n shop", "before it is taken away"),
            ("tidewright shards freeze --set orders -n shop", "while its database is moved"),
            ("tidewright shards unfreeze --set orders -n shop", "and after that"),
            ("tidewright shards resize 8 --set orders -n shop", "eight shards, after the plan was shown"),
            ("tidewright shards double --set orders -n shop", "twice as many slots"),
            ("tidewright shards adopt manager.yaml -n fleet --brand kozmo", "from the propeller manager"),
            ("tidewright shards adopt -n fleet --undo", "back to it"),
            ("tidewright shards rollout status --set orders -n shop", "how far it is, and what it waits for"),
            ("tidewright shards rollout pause --set orders -n shop", "stop where it is"),
            ("tidewright shards rollout resume --set orders -n shop", "and go on"),
            ("tidewright shards rollout undo --set orders -n shop", "back to what ran before"),
        ),
    ),
    Command(
        "cloud", "tidewright.cli.cloud.command:app", OTHER, "Our clouds, for Cluster Autoscaler.",
        (
            ("tidewright cloud serve --cloud east=simulated:http://127.0.0.1:8080", "as --cloud-provider=externalgrpc sees one"),
            ("tidewright cloud serve --cloud dev=simulated:http://sim:80 --listen :8086", "to others on the network"),
        ),
    ),
    Command(
        "install", "tidewright.cli.install:install", OTHER, "Make the log on its NATS server, once, before the services.",
        (
            ("tidewright install --cluster prod --replicas 3 --max-age 2592000 --in-cluster", "from a Job"),
            ("tidewright install --cluster prod --kubeconfig ~/.kube/config", "beside a cluster that is there"),
        ),
    ),
    Command(
        "crds", "tidewright.cli.crds.command:crds", OTHER,
        "Install the CustomResourceDefinitions that a cluster lacks; those of others are left.",
        (
            ("tidewright crds --kubeconfig ~/.kube/config", "before `tidewright run`; `up` does it itself"),
            ("tidewright crds --in-cluster --crds missing", "from a Job; nothing that is there is changed"),
            ("tidewright crds --report", "which ones an earlier version overwrote, and how to repair that"),
        ),
    ),
    Command(
        "keys", "tidewright.cli.keys.app:app", OTHER, "Who may say what on the log: make keys, install them, see them.",
        (
            ("tidewright keys new keys/", "a root key, and one for each service"),
            ("tidewright keys install keys/ --cluster prod --nats nats://nats:4222", "from here on nothing else is believed"),
            ("tidewright keys show --cluster prod --trust keys/root.pub", "those that are in force"),
            ("tidewright keys archiver archiver.key", "the key that follows the archiver's"),
        ),
    ),
    Command(
        "permissions", "tidewright.cli.permissions:permissions", OTHER, "Accounts of nats-server: who may say what on the bus.",
        (
            ("tidewright permissions prod", "of a server with one log"),
            ("tidewright permissions east west north", "of servers that three clusters share"),
            ("tidewright permissions --leaf north", "of the leaf in one of them"),
        ),
    ),
    Command(
        "completion", "tidewright.cli.completion:completion", OTHER, "Have a shell complete commands and options.",
        (
            ("tidewright completion --install", "for this user, in the shell that runs"),
            ("tidewright completion zsh", "printed, for a package to put where it belongs"),
        ),
    ),
    Command(
        "version", "tidewright.cli.version:version", OTHER, "Versions of this software and what it runs on.",
        (("tidewright version", "for people"), ("tidewright version -o json", "for programs")),
    ),
)  # fmt: skip
"""Every subcommand, in one place."""

BY_NAME: dict[str, Command] = {command.name: command for command in COMMANDS}

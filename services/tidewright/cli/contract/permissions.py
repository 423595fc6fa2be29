"""Who may say what on the bus, as accounts of nats-server: `deploy/nats/permissions.conf`.

The log's account owns the streams and has no service in it. Each service has an account of its own, and
reaches the log by service imports alone: one for each subject that it may publish, from the table below. So

- what is asked for is answered into the asker's own account: a reply subject on the log leads nowhere,
  and nobody hears another's answers;
- what is not imported does not exist: no service can make, change, purge or delete a stream.

A decider may write its own decisions, timers, ledgers and snapshots, and nothing else; facts are the
watcher's alone, outcomes the actuator's. `READER` may only read, without consumers, for people who ask the log, and `ARCHIVER` no more than that. Each user's
permissions repeat its imports, so that who is refused hears of it at once.

`ARCHIVE` is an account with a mirror of the stream from which nothing can be deleted. It may follow the
stream, and nobody may write to it: what was erased from the log is there.

Two holes stay, because the server looks at subjects and not at headers. A schedule may name any target
on the log: readers drop what a schedule published where it has no business. And one message with
`Nats-Rollup: all` erases the log: schedules force that on. It is in the archive still. The same empties
the bucket of members, which markers force it on for: who is there says so again within half a second.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidewright.asking.services import EVERY, SERVICES, Role, Service
from tidewright.cli.contract.writing import writes
from tidewright.log.archive import API_PREFIX, DELIVER_PREFIX, USER
from tidewright.log.install import members_of
from tidewright.log.snapshots import bucket
from tidewright.log.subjects import escape

READER = "reader"
"""The user of whoever asks the log: `tidewright get`, `explain`, `verify`, `export`, `console`."""
ARCHIVER = "archiver"
"""The user of the archiver, which reads the log as it is stored, and snapshots; nothing else."""
INSTALLER = "installer"
"""The user of `tidewright install` and `import`, who alone may make, change and purge streams; not kept."""
ARCHIVE = USER
"""The user and account of the mirror that nothing can be deleted from."""
LOG = "log"
"""The account that owns the streams. Its only user is the installer."""

USERS: tuple[str, ...] = (*EVERY, READER, ARCHIVER, INSTALLER, ARCHIVE)
"""Every user of the bus."""

SEVERAL = ("CONSUMER.MSG.NEXT.", "DIRECT.GET.")
"""Questions that have more than one answer."""

_HOW = "$JS.API.INFO"
"""Asks whether there is JetStream, and how much of it is left."""


def variable(user: str) -> str:
    """The environment variable of nats-server that holds a user's password."""
    return f"TIDEWRIGHT_{user.upper().replace('-', '_')}_PASSWORD"


def reading(stream: str) -> list[str]:
    """What reading one stream takes: its settings, single messages, and pull consumers."""
    api = "$JS.API"
    return [
        f"{api}.STREAM.INFO.{stream}",
        f"{api}.STREAM.MSG.GET.{stream}",
        f"{api}.CONSUMER.CREATE.{stream}",
        f"{api}.CONSUMER.MSG.NEXT.{stream}.*",
    ]


def reading_objects(name: str) -> list[str]:
    """What reading a bucket of snapshots takes: the names in it, and a message."""
    return [f"$JS.API.STREAM.{verb}.OBJ_{name}" for verb in ("INFO", "MSG.GET")]


def publishes(service: Service, cluster: str) -> list[str]:
    """Subjects on which a service may publish, for one cluster."""
    root, stream = f"tw.{escape(cluster)}", stream_of(cluster)
    name = service.name
    own = [f"{root}.{subject}" for subject in writes(service)]
    if service.role is Role.DECIDER:
        snapshots = bucket(stream, name)
        own += [f"$O.{snapshots}.>", *reading_objects(snapshots)]
    members = members_of(stream)
    own += [f"$KV.{members}.{name}.>", *reading(f"KV_{members}")]
    # The room that is left; without it the server makes no consumer for another account either.
    return [*own, _HOW, *reading(stream)]


def publishes_reader(cluster: str) -> list[str]:
    """Subjects on which who only reads may publish: questions."""
    members = f"$JS.API.STREAM.MSG.GET.KV_{members_of(stream_of(cluster))}"  # whether a watcher looks
    return [*publishes_archiver(cluster), members]


def publishes_archiver(cluster: str) -> list[str]:
    """Subjects on which who only reads the log and its snapshots may publish: questions."""
    stream = stream_of(cluster)
    # No consumer: those are the services', and one delivers to wherever it is told.
    subjects = [f"$JS.API.{verb}.{stream}" for verb in ("STREAM.INFO", "STREAM.MSG.GET", "DIRECT.GET")]
    subjects.append(_HOW)  # without it the server takes the account for one without streams
    for service in SERVICES:
        if service.role is Role.DECIDER:
            subjects += reading_objects(bucket(stream, service.name))
    return subjects


def follows(cluster: str) -> list[str]:
    """What the mirror's account takes from the log's: a consumer, and its flow control."""
    stream = stream_of(cluster)
    api = "$JS.API.CONSUMER.CREATE"
    return [f"{api}.{stream}", f"{api}.{stream}.>", f"$JS.FC.{stream}.>"]


def stream_of(cluster: str) -> str:
    """The stream of a cluster, as `Log` names it."""
    return f"TW_{escape(cluster).replace('%', '-')}"


def imports(cluster: str) -> dict[str, list[str]]:
    """Account to the subjects that it imports from the log's."""
    by_account = {service.name: publishes(service, cluster) for service in SERVICES}
    asking = {READER: publishes_reader(cluster), ARCHIVER: publishes_archiver(cluster)}
    return {**by_account, **asking, ARCHIVE: follows(cluster)}


def configuration(cluster: str, stores: tuple[str, str] | None = None) -> str:
    """The `accounts` block, with the password of each user taken from the environment.

    `stores`: how much the log's and the archive's account may store, on all servers together and as
    nats-server writes sizes; None for what the server has.
    """
    head = [
        "# Generated by `make generate` from the table of services: what each may publish.",
        f"# For the cluster named {cluster}; passwords come from the environment of nats-server.",
    ]
    return _block(head, _accounts(cluster, stores))


def of_several(clusters: Sequence[str], stores: tuple[str, str] | None = None) -> str:
    """The `accounts` block of servers that have the logs of several clusters, each as `configuration` has one.

    Accounts and users are named `CLUSTER-USER`: who holds those of one cluster finds nothing of another. `READER`, without a
    cluster before it, reads all of them, for the one console. `stores` is for each cluster.
    """
    head = [
        "# Made by `tidewright permissions`: what each service of each cluster may publish.",
        f"# For the clusters {', '.join(clusters)}; passwords come from the environment of nats-server.",
    ]
    lines: list[str] = []
    everybodys: list[str] = []
    for cluster in clusters:
        # Of several accounts' JetStream one can be asked for how it is: the reader only wants to hear that there is one.
        asked = [s for s in publishes_reader(cluster) if s != _HOW or cluster == clusters[0]]
        lines += _accounts(cluster, stores, f"{cluster}-", asked)
        everybodys += [_service(subject, f"{cluster}-{LOG}") for subject in asked]
    subjects = list(dict.fromkeys(s for cluster in clusters for s in publishes_reader(cluster)))
    lines += [f"  {READER} {{", *_user(READER, subjects), *_imports(everybodys), "  }"]
    accounts = [f"{cluster}-{_account(user)}" for cluster in clusters for user in USERS]
    return _block(head, lines) + _passed_on(accounts)


def leaf(cluster: str) -> str:
    """Of a nats-server in a cluster, without a store, which passes everything on to those that have the log.

    Users are named as on a server of the cluster's own. For each there is a connection of its own, as `CLUSTER-USER` over there:
    its address, with user and password, comes from the environment (`hub_variable`).
    """
    taken = imports(cluster) | {INSTALLER: [">"], ARCHIVE: ["$JS.API.>"]}
    lines = [
        "# Made by `tidewright permissions --leaf`: what each service may publish, and as whom it is passed on.",
        f"# For the cluster named {cluster}; passwords and addresses come from the environment of nats-server.",
        "accounts {",
    ]
    for user in USERS:
        lines += [f"  {user} {{", *_user(user, taken[user]), "  }"]
    remotes = [f"    {{ account: {user}, url: ${hub_variable(user)} }}" for user in USERS]
    text = "\n".join([*lines, "}", "leafnodes {", "  remotes: [", *remotes, "  ]", "}", ""])
    return text + _passed_on(USERS)


def _passed_on(accounts: Sequence[str]) -> str:
    """By default a leaf is asked about no stream but its own: it has none."""
    listed = ", ".join(f'{account}: ""' for account in accounts)
    return f"default_js_domain {{ {listed} }}\n"


def _account(user: str) -> str:
    """The account that a user is in: its own, but for the installer's."""
    return LOG if user == INSTALLER else user


def hub_variable(user: str) -> str:
    """The environment variable of a leaf's nats-server that holds where a user is passed on to: `tls://CLUSTER-USER:PASSWORD@HOST:7422`."""
    return f"TIDEWRIGHT_{user.upper().replace('-', '_')}_HUB"


def _block(head: Sequence[str], accounts: Sequence[str]) -> str:
    return "\n".join([*head, "accounts {", *accounts, "}", ""])


def _accounts(
    cluster: str, stores: tuple[str, str] | None, prefix: str = "", everybodys: Sequence[str] = ()
) -> list[str]:
    """The accounts of a cluster, named behind `prefix`; `everybodys` is what `READER` of all clusters takes of them."""
    taken = {f"{prefix}{account}": subjects for account, subjects in imports(cluster).items()}
    owner, keeper = f"{prefix}{LOG}", f"{prefix}{ARCHIVE}"
    log, archive = stores or ("", "")
    exported = {**taken, READER: everybodys} if everybodys else taken
    lines = [
        f"  {owner} {{",
        f"    jetstream: {_store(log)}",
        *_user(f"{prefix}{INSTALLER}", [">"]),
        *_exports(exported, keeper),
        "  }",
        f"  {keeper} {{",
        f"    jetstream: {_store(archive)}",
        *_user(keeper, ["$JS.API.>"]),
        *_imports([*(_follow(subject, owner) for subject in taken[keeper]), _delivered(owner)]),
        "  }",
    ]
    for user in (*EVERY, READER, ARCHIVER):
        subjects = taken[f"{prefix}{user}"]
        lines += [f"  {prefix}{user} {{", *_user(f"{prefix}{user}", subjects)]
        lines += [*_imports([_service(subject, owner) for subject in subjects]), "  }"]
    return lines


def _store(size: str) -> str:
    return f"{{ max_file: {size} }}" if size else "enabled"


def _exports(taken: Mapping[str, Sequence[str]], keeper: str) -> list[str]:
    """Each subject that somebody imports, and to whom it is given."""
    given: dict[str, list[str]] = {}
    for account, subjects in taken.items():
        for subject in subjects:
            given.setdefault(subject, []).append(account)
    lines = ["    exports: ["]
    for subject, accounts in sorted(given.items()):
        more = ', response_type: "stream"' if any(several in f"{subject}." for several in SEVERAL) else ""
        lines.append(f'      {{ service: "{subject}", accounts: [{", ".join(accounts)}]{more} }}')
    lines.append(f'      {{ stream: "{DELIVER_PREFIX}.>", accounts: [{keeper}] }}')
    return [*lines, "    ]"]


def _imports(lines: Sequence[str]) -> list[str]:
    return ["    imports: [", *(f"      {line}" for line in lines), "    ]"]


def _service(subject: str, owner: str) -> str:
    return f'{{ service: {{ account: {owner}, subject: "{subject}" }} }}'


def _follow(subject: str, owner: str) -> str:
    """An import of the archive's: API subjects under a prefix, since it has an API of its own."""
    if not subject.startswith("$JS.API."):
        return _service(subject, owner)
    return _service(subject, owner)[:-2] + f', to: "{subject.replace("$JS.API", API_PREFIX, 1)}" }}'


def _delivered(owner: str) -> str:
    """What the mirror's consumer sends to the archive."""
    return f'{{ stream: {{ account: {owner}, subject: "{DELIVER_PREFIX}.>" }} }}'


def _user(user: str, subjects: Sequence[str]) -> list[str]:
    listed = ",\n          ".join(f'"{subject}"' for subject in subjects)
    return [
        f"    users: [{{ user: {user}, password: ${variable(user)}",
        "      permissions: {",
        f"        publish: {{ allow: [\n          {listed}\n        ] }}",
        '        subscribe: { allow: ["_INBOX.>"] }',
        "      }",
        "    }]",
    ]

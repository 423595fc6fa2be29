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
    return [*own, "$JS.API.INFO", *reading(stream)]


def publishes_reader(cluster: str) -> list[str]:
    """Subjects on which who only reads may publish: questions."""
    members = f"$JS.API.STREAM.MSG.GET.KV_{members_of(stream_of(cluster))}"  # whether a watcher looks
    return [*publishes_archiver(cluster), members]


def publishes_archiver(cluster: str) -> list[str]:
    """Subjects on which who only reads the log and its snapshots may publish: questions."""
    stream = stream_of(cluster)
    # No consumer: those are the services', and one delivers to wherever it is told.
    subjects = [f"$JS.API.{verb}.{stream}" for verb in ("STREAM.INFO", "STREAM.MSG.GET", "DIRECT.GET")]
    subjects.append("$JS.API.INFO")  # without it the server takes the account for one without streams
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
    taken = imports(cluster)
    log, archive = stores or ("", "")
    lines = [
        "# Generated by `make generate` from the table of services: what each may publish.",
        f"# For the cluster named {cluster}; passwords come from the environment of nats-server.",
        "accounts {",
        f"  {LOG} {{",
        f"    jetstream: {_store(log)}",
        *_user(INSTALLER, [">"]),
        *_exports(taken),
        "  }",
        f"  {ARCHIVE} {{",
        f"    jetstream: {_store(archive)}",
        *_user(ARCHIVE, ["$JS.API.>"]),
        *_imports([*(_follow(subject) for subject in taken[ARCHIVE]), _delivered()]),
        "  }",
    ]
    for user in (*EVERY, READER, ARCHIVER):
        lines += [f"  {user} {{", *_user(user, taken[user])]
        lines += [*_imports([_service(subject) for subject in taken[user]]), "  }"]
    return "\n".join([*lines, "}", ""])


def _store(size: str) -> str:
    return f"{{ max_file: {size} }}" if size else "enabled"


def _exports(taken: Mapping[str, Sequence[str]]) -> list[str]:
    """Each subject that somebody imports, and to whom it is given."""
    given: dict[str, list[str]] = {}
    for account, subjects in taken.items():
        for subject in subjects:
            given.setdefault(subject, []).append(account)
    lines = ["    exports: ["]
    for subject, accounts in sorted(given.items()):
        more = ', response_type: "stream"' if any(several in f"{subject}." for several in SEVERAL) else ""
        lines.append(f'      {{ service: "{subject}", accounts: [{", ".join(accounts)}]{more} }}')
    lines.append(f'      {{ stream: "{DELIVER_PREFIX}.>", accounts: [{ARCHIVE}] }}')
    return [*lines, "    ]"]


def _imports(lines: Sequence[str]) -> list[str]:
    return ["    imports: [", *(f"      {line}" for line in lines), "    ]"]


def _service(subject: str) -> str:
    return f'{{ service: {{ account: {LOG}, subject: "{subject}" }} }}'


def _follow(subject: str) -> str:
    """An import of the archive's: API subjects under a prefix, since it has an API of its own."""
    if not subject.startswith("$JS.API."):
        return _service(subject)
    return _service(subject)[:-2] + f', to: "{subject.replace("$JS.API", API_PREFIX, 1)}" }}'


def _delivered() -> str:
    """What the mirror's consumer sends to the archive."""
    return f'{{ stream: {{ account: {LOG}, subject: "{DELIVER_PREFIX}.>" }} }}'


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

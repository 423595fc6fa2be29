"""The AsyncAPI 3 document of the log: one channel per class of subjects, and who sends and receives.

Addresses come from `tidewright.log.subjects` itself, messages from the registry of event types, and
senders and receivers from the table of services, so the document cannot say what the code does not.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tidewright.asking.services import SERVICES, Role, Service
from tidewright.events.base import Decision, Event, Fact, Outcome, Timer
from tidewright.events.registry import BY_NAME
from tidewright.events.version import __version__
from tidewright.log import envelope

PARAMETERS = {
    "cluster": "The cluster's name; one stream each.",
    "slot": "`0` to slots - 1 by the hash of the namespace, or `all` for what is cluster-scoped.",
    "service": "The service that writes it.",
    "kind": "The kind of the object, in lower case.",
    "namespace": "The object's namespace, escaped; `_` for cluster-scoped objects.",
    "name": "The object's name, escaped.",
    "key": "The decider's own name for a timer, escaped.",
    "part": "The part of the configuration.",
}

HEADERS = {
    envelope.ID: "Message id: of a decision, `<service>.<slot>.<sequence of its cause>.<n>`. Facts and outcomes have none.",
    envelope.CAUSE: "Id of the message that led to this one, where it has one.",
    envelope.CAUSE_SEQ: "Stream sequence of that message.",
    envelope.WRITER: "The service that wrote it.",
    envelope.INCARNATION: "Random per process start of the writer.",
    envelope.VERSION: "Software version of the writer.",
    envelope.TRACEPARENT: "W3C trace context.",
}
CHECKPOINT_HEADERS = {
    envelope.ID: "Number of the commit, as in the body.",
    envelope.INCARNATION: HEADERS[envelope.INCARNATION],
    envelope.VERSION: "Software version of a decider; the body of others says all of it.",
}


@dataclass(frozen=True)
class Channel:
    """One class of subjects.

    Attributes:
        address: the tokens after the slot.
        holds: tags of the events found there; none for what is not an event.
        writers, readers: which services.
    """

    name: str
    address: str
    summary: str
    holds: tuple[str, ...]
    writers: tuple[Service, ...]
    readers: tuple[Service, ...]


def document() -> dict[str, Any]:
    """The whole document, as it stands in `proto/asyncapi.yaml`."""
    channels = _channels()
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Tidewright: the log",
            "version": __version__,
            "description": "One JetStream stream per cluster, totally ordered. The watcher writes facts, "
            "deciders write decisions, the actuator writes outcomes. Names in subjects are "
            "percent-escaped, reversibly.",
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": "application/json",
        "servers": {
            "nats": {"host": "localhost:4222", "protocol": "nats", "description": "NATS 2.12 or later"}
        },
        "channels": {channel.name: _channel(channel) for channel in channels},
        "operations": dict(_operations(channels)),
        "components": {
            "messages": {tag: _message(tag, event_type) for tag, event_type in sorted(BY_NAME.items())}
            | {
                "checkpoint": {
                    "name": "checkpoint",
                    "title": "Checkpoint",
                    "summary": "A service's position in a slot, its epoch, incarnation and digests.",
                    "headers": {"$ref": "#/components/schemas/checkpoint-headers"},
                },
            },
            "schemas": {
                "headers": {
                    "type": "object",
                    "properties": {k: {"type": "string", "description": v} for k, v in HEADERS.items()},
                    "required": [envelope.WRITER, envelope.INCARNATION, envelope.VERSION],
                },
                "checkpoint-headers": {
                    "type": "object",
                    "properties": {
                        k: {"type": "string", "description": v} for k, v in CHECKPOINT_HEADERS.items()
                    },
                    "required": [envelope.ID, envelope.INCARNATION],
                },
            },
        },
    }


def _tags(*bases: type[Event], under: str = "") -> tuple[str, ...]:
    return tuple(
        sorted(tag for tag, t in BY_NAME.items() if issubclass(t, bases) and tag.startswith(under or tag))
    )


def _decisions_of(service: Service) -> tuple[str, ...]:
    """The tags of the decisions that a service writes."""
    return tuple(
        tag for tag in _tags(Decision) if tag.removeprefix("decision.").partition(".")[0] in service.writes
    )


def _with(*roles: Role) -> tuple[Service, ...]:
    return tuple(s for s in SERVICES if s.role in roles)


def _channels() -> tuple[Channel, ...]:
    watcher, deciders, actuator = _with(Role.WATCHER), _with(Role.DECIDER), _with(Role.ACTUATOR)
    config = _tags(Fact, under="config.")
    facts = tuple(t for t in _tags(Fact) if t not in config)
    outcomes, timers, entries = _tags(Outcome), _tags(Timer), _tags(Event, under="ledger.")
    everybody, endpoints = watcher + deciders + actuator, _with(Role.ENDPOINT)
    return (
        Channel("fact", "{kind}.{namespace}.{name}", "What the watcher saw of an object.", facts,
                watcher, deciders + endpoints),
        *(
            Channel(
                f"decision-{s.name}", f"{s.name}.{{kind}}.{{namespace}}.{{name}}",
                f"What {s.name} concluded, with its reasons.", _decisions_of(s), (s,), (s, *actuator),
            )
            for s in deciders
        ),
        *(
            Channel(
                f"decision-{s.name}", f"{s.name}.{{kind}}.{{namespace}}.{{name}}",
                f"Which certificates of {s.name} the API server trusts.", _decisions_of(s), (s,), actuator,
            )
            for s in endpoints
        ),
        Channel("outcome", "{kind}.{namespace}.{name}", "What came of a decision, exactly one each.",
                outcomes, actuator, deciders + endpoints),
        Channel("ledger", "{service}.{namespace}.{name}", "All that concurrent choices depend on, in order.",
                entries, deciders + endpoints, deciders + endpoints),
        Channel("checkpoint", "{service}", "A service's position in a slot.", ("checkpoint",),
                everybody, everybody),
        Channel("halt", "{service}", "That a service has stopped in a slot, for people.", _tags(Event, under="halt."),
                deciders, ()),
        Channel("schedule", "{service}.{key}", "Wake-ups that the server will fire; replaced by subject.",
                timers, deciders, ()),
        Channel("timer", "{service}.{key}", "Wake-ups that are due: by the server, or with a commit of who set them.", timers, deciders, deciders),
        Channel("config", "{part}", "Configuration, one part each.", config, watcher, everybody + endpoints),
    )  # fmt: skip


def _address(channel: Channel) -> str:
    cls = channel.name.partition("-")[0]
    slot = "all" if cls == "config" else "{slot}"
    return f"tw.{{cluster}}.{cls}.{slot}.{channel.address}"


def _channel(channel: Channel) -> dict[str, Any]:
    address = _address(channel)
    return {
        "address": address,
        "summary": channel.summary,
        "messages": {tag: {"$ref": f"#/components/messages/{tag}"} for tag in channel.holds},
        "parameters": {
            name: {"description": text} for name, text in PARAMETERS.items() if f"{{{name}}}" in address
        },
    }


def _operations(channels: Iterable[Channel]) -> Iterable[tuple[str, dict[str, Any]]]:
    for channel in channels:
        for action, services in (("send", channel.writers), ("receive", channel.readers)):
            for service in services:
                yield (
                    f"{service.name}-{action}s-{channel.name}",
                    {
                        "action": action,
                        "channel": {"$ref": f"#/channels/{channel.name}"},
                        "tags": [{"name": service.name}],
                    },
                )


def _message(tag: str, event_type: type[Event]) -> dict[str, Any]:
    summary, _, description = inspect.cleandoc(event_type.__doc__ or "").partition("\n\n")
    message = {
        "name": tag,
        "title": event_type.__name__,
        "summary": " ".join(summary.split()),
        "headers": {"$ref": "#/components/schemas/headers"},
        "payload": {
            "schemaFormat": "application/schema+json;version=draft-2020-12",
            "schema": {"$ref": f"./events/{tag}.json"},
        },
    }
    if description:
        message["description"] = description
    return message

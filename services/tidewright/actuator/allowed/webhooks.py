"""What an endpoint may have the API server told about itself. Pure.

A webhook sees what it is called for, and may change it: so only our own names, only the rules of
`tidewright.kube.webhooks`, at an address of the endpoint itself, never for namespaces that are closed, and never
with a policy by which an endpoint that is away refuses what it was not meant to refuse.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from tidewright.actuator.allowed.bounds import Bounds
from tidewright.actuator.allowed.fields import _NOT_SHARDED, _OF_THE_CLUSTER
from tidewright.events.base import JsonObject
from tidewright.events.endpoints import EndpointEffect
from tidewright.kube import webhooks as declared

_LOOPBACK: Final = frozenset(("127.0.0.1", "::1", "localhost"))
_OF_A_SET: Final = re.compile(rf"{declared.LABEL_PATH}/([a-z0-9-]+)/([a-z0-9.-]+)")
_RESOURCE: Final = re.compile(r"[a-z0-9-]+")
MAX_HOOKS: Final = 256
_KEYS: Final = frozenset(
    ("name", "clientConfig", "rules", "failurePolicy", "matchPolicy", "sideEffects", "timeoutSeconds",
     "admissionReviewVersions", "namespaceSelector", "matchConditions")
)  # fmt: skip


class Announced(NamedTuple):
    """A ShardSet on whose objects a label is announced, and what these are."""

    namespace: str
    name: str
    group: str
    resource: str


def spread(effect: EndpointEffect, bounds: Bounds) -> str:
    """The webhooks of spread's admission, and the conversion of its kind."""
    for configuration in effect.configurations:
        kind = configuration.get("kind")
        if said := _whole(configuration, declared.SPREAD, (declared.MUTATING, declared.VALIDATING)):
            return said
        known = {hook.name: hook for hook in declared.SPREAD_HOOKS if hook.kind == kind}
        for announced in configuration.get("webhooks") or ():
            declared_hook = known.get(str(announced.get("name")))
            if declared_hook is None:
                return f"webhook {announced.get('name')!r} is none of {', '.join(sorted(known))}"
            what = f"webhook {declared_hook.name}"
            policy = ("Ignore", "Fail") if declared_hook.may_fail else ("Ignore",)
            if announced.get("rules") != [declared_hook.rule]:
                return f"{what}: rules {_shown(announced.get('rules'))} are not the declared ones"
            conditions = [{"name": name, "expression": text} for name, text in declared_hook.conditions]
            if announced.get("matchConditions", []) not in (conditions, []):
                return f"{what}: its conditions are not the declared ones"
            if said := _hook(
                announced,
                policy,
                declared_hook.path,
                endpoint="spread-admission",
                bounds=bounds,
                anywhere=declared_hook.anywhere,
            ):
                return f"{what}: {said}"
    for name, conversion in effect.conversions.items():
        if name != declared.SPREADS:
            return f"the conversion of {name} is not ours: allowed is {declared.SPREADS}"
        webhook = conversion.get("webhook") or {}
        if conversion.get("strategy") != "Webhook" or set(conversion) - {"strategy", "webhook"}:
            return f"conversion of {name}: allowed is the strategy Webhook"
        if set(webhook) - {"clientConfig", "conversionReviewVersions"}:
            return f"conversion of {name}: allowed are clientConfig and conversionReviewVersions"
        if said := _client(
            webhook.get("clientConfig") or {}, declared.CONVERT_PATH, "spread-admission", bounds
        ):
            return f"conversion of {name}: {said}"
    return ""


def labels(effect: EndpointEffect, bounds: Bounds) -> str:
    """The webhooks for objects of ShardSets, one a set; which objects those are is looked up (`sets_of`)."""
    if effect.conversions:
        return "it has no conversions"
    for configuration in effect.configurations:
        if said := _whole(configuration, declared.LABELS, (declared.MUTATING,)):
            return said
        for hook in configuration.get("webhooks") or ():
            what = f"webhook {hook.get('name')!r}"
            path = _path(hook.get("clientConfig") or {})
            of = _OF_A_SET.fullmatch(path)
            if of is None or hook.get("name") != f"{of.group(2)}.{of.group(1)}.shards.tidewright.dev":
                return f"{what}: its path {path!r} is none of a ShardSet of its name"
            if said := _rule_of_a_set(hook.get("rules")):
                return f"{what}: {said}"
            if said := _hook(hook, ("Ignore",), path, endpoint="shard-labels", bounds=bounds, anywhere=False):
                return f"{what}: {said}"
    return ""


def sets_of(effect: EndpointEffect) -> Iterator[Announced]:
    """The ShardSets that an announcement of labels speaks of. Only of one that `labels` has let through."""
    for configuration in effect.configurations:
        for hook in configuration.get("webhooks") or ():
            of = _OF_A_SET.fullmatch(_path(hook.get("clientConfig") or {}))
            (rule,) = hook["rules"]
            if of is not None:
                yield Announced(of.group(1), of.group(2), rule["apiGroups"][0], rule["resources"][0])


def _whole(configuration: JsonObject, name: str, kinds: tuple[str, ...]) -> str:
    if configuration.get("kind") not in kinds:
        return f"kind {configuration.get('kind')!r}: allowed are {', '.join(kinds)}"
    metadata = configuration.get("metadata") or {}
    if metadata.get("name") != name or set(metadata) - {"name", "labels", "annotations"}:
        return f"the configuration is named {metadata.get('name')!r}: allowed is {name}"
    if set(metadata.get("labels") or ()) - {"app.kubernetes.io/managed-by"} or metadata.get("annotations"):
        return "allowed is the label app.kubernetes.io/managed-by"
    if set(configuration) - {"apiVersion", "kind", "metadata", "webhooks"}:
        return "a configuration has metadata and webhooks"
    if len(configuration.get("webhooks") or ()) > MAX_HOOKS:
        return f"more than {MAX_HOOKS} webhooks"
    return ""


def _rule_of_a_set(rules: Any) -> str:
    if not isinstance(rules, list) or len(rules) != 1 or not isinstance(rules[0], dict):
        return "it has not one rule"
    groups: list[str] = list(rules[0].get("apiGroups") or ())
    resources: list[str] = list(rules[0].get("resources") or ())
    if len(groups) != 1 or len(resources) != 1 or not _RESOURCE.fullmatch(resources[0]) or "*" in groups[0]:
        return f"its rule is for {_shown(groups)} {_shown(resources)}: allowed is one resource of one group"
    if set(rules[0].get("operations") or ("*",)) - {"CREATE", "UPDATE"}:
        return "its operations are others than CREATE and UPDATE"
    plurals = {f"{kind.lower()}s" for kind in _NOT_SHARDED}
    if groups[0] in _OF_THE_CLUSTER or (not groups[0] and resources[0] in plurals):
        return f"objects of {resources[0]} ({groups[0] or 'core'}) are nobody's shards"
    return ""


def _hook(
    hook: JsonObject, policies: tuple[str, ...], path: str, *, endpoint: str, bounds: Bounds, anywhere: bool
) -> str:
    if others := sorted(set(hook) - _KEYS):
        return f"{others[0]} is not declared"
    if hook.get("failurePolicy") not in policies:
        return f"failurePolicy {hook.get('failurePolicy')!r}: allowed is {' or '.join(policies)}"
    timeout = hook.get("timeoutSeconds")
    if not isinstance(timeout, int) or not 1 <= timeout <= declared.TIMEOUT_S:
        return f"timeoutSeconds {timeout!r}: allowed are 1 to {declared.TIMEOUT_S}"
    if hook.get("sideEffects") != "None":
        return f"sideEffects {hook.get('sideEffects')!r}: allowed is None"
    if not anywhere and not declared.excludes(hook.get("namespaceSelector"), bounds.own_namespace):
        closed = ", ".join(declared.closed(bounds.own_namespace))
        return f"its namespaceSelector does not leave out {closed} by {declared.NAMESPACE}"
    return _client(hook.get("clientConfig") or {}, path, endpoint, bounds)


def _client(client: JsonObject, path: str, endpoint: str, bounds: Bounds) -> str:
    """Why an address is not the endpoint's own: its Service, this machine, or one that the actuator was told."""
    if _path(client) != path:
        return f"its path is {_path(client)!r}, not {path!r}"
    if client.keys() == {"service"}:
        service = client["service"]
        where = f"{service.get('namespace')}/{service.get('name')}"
        own = f"{bounds.own_namespace}/{endpoint}"
        return "" if where in (own, *bounds.endpoints.get(endpoint, ())) else f"service {where} is not {own}"
    if client.keys() != {"url"}:
        return "its clientConfig has neither a URL nor a service alone"
    url = str(client["url"])
    try:
        host = urlsplit(url).hostname
    except ValueError:
        host = None
    base = url.removesuffix(path).rstrip("/")
    if url.startswith("https://") and (
        host in _LOOPBACK or base in {address.rstrip("/") for address in bounds.endpoints.get(endpoint, ())}
    ):
        return ""
    return f"URL {base} is none of {endpoint}: name it to the actuator with --endpoint {endpoint}={base}"


def _path(client: JsonObject) -> str:
    if "service" in client:
        service = client["service"]
        return str(service.get("path") or "") if isinstance(service, dict) else ""
    try:
        return urlsplit(str(client.get("url") or "")).path
    except ValueError:
        return ""


def _shown(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 120 else f"{text[:117]}..."

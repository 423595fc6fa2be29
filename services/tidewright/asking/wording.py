"""What facts and effects that are no single service's say, in one line. Pure.

Imported when such an event comes by: most answers do without.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tidewright.events import decisions, endpoints, facts, placement, provisioning
from tidewright.events.base import Event
from tidewright.events.config import KeysSet, ModesSet
from tidewright.events.halts import SlotHalted
from tidewright.events.incumbents import IncumbentObserved
from tidewright.events.timers import TimerStepped

NAMED = 4
"""Fields, images and resources that a line names."""
_BYTES = ("memory", "storage")


def wording(event: Event) -> str:
    """What an event says, without its time and object; "" when there are no words for it here."""
    return _fact(event) or _effect(event)


def _fact(event: Event) -> str:
    match event:
        case facts.ShapeObserved():
            whose = f" of pods in {event.namespace}" if event.namespace else ""
            rules = f", with {_named(sorted(event.scheduling))}" if event.scheduling else ""
            return f"a form{whose} that asks for {_amounts(event.requests)}{rules}"
        case facts.ShapeGone():
            return f"a form that no pod{f' in {event.namespace}' if event.namespace else ''} has any longer"
        case facts.TemplateObserved() if event.error:
            return f"a pod template that cannot be read: {event.error}"
        case facts.TemplateObserved():
            claims = f", with claims {_named(event.claims)}" if event.claims else ""
            return f"a pod template of {_containers(event.spec)}{claims}"
        case provisioning.PodTemplateObserved():
            return f"pods of {_containers(event.template.get('spec'))}"
        case provisioning.DaemonSetObserved():
            return f"on every node a pod of {_containers(event.template.get('spec'))}"
        case provisioning.ResourceQuotaObserved() | provisioning.PodDisruptionBudgetObserved():
            return _limit(event)
        case placement.PlacementObjectObserved():
            return f"{event.kind} with {_named(sorted(event.fields))}" if event.fields else event.kind
        case TimerStepped():
            return f"on the way to waking {event.key}"
        case ModesSet():
            return _modes(event)
        case IncumbentObserved():
            return _incumbent(event)
        case KeysSet():
            services = _named(sorted(keys.service for keys in event.services)) or "nobody"
            return f"signatures of {services} count, generation {event.generation}, root {event.root}"
        case SlotHalted():
            return f"{event.service} decides nothing in slot {event.slot} from event {event.before} on: {event.message}"
    return ""


def _limit(event: provisioning.ResourceQuotaObserved | provisioning.PodDisruptionBudgetObserved) -> str:
    if isinstance(event, provisioning.PodDisruptionBudgetObserved):
        return f"{event.allowed} of its pods may go" + ("; its status is behind" if event.behind else "")
    used = (
        f"{name} {_amount(name, event.used.get(name, 0))} of {_amount(name, limit)}"
        for name, limit in sorted(event.hard.items())
    )
    return f"used are {_named(used)}" if event.hard else "limits nothing"


def _modes(event: ModesSet) -> str:
    others = [f"{service} {mode}" for service, mode in sorted(event.services.items())]
    where = f", in namespaces with {event.selector}" if event.selector else ""
    regardless = f", beside incumbents too: {', '.join(sorted(event.regardless))}" if event.regardless else ""
    return f"{'; '.join([f'everything {event.mode}', *others])}{where}{regardless}"


def _incumbent(event: IncumbentObserved) -> str:
    blind = f"; not looked at for want of a right: {'; '.join(event.unseen)}" if event.unseen else ""
    if event.present:
        where = "everywhere" if event.everywhere else f"in {_named(event.namespaces)}"
        shown = (f"{sign.kind} {sign.namespace}/{sign.name} {sign.shows}".strip() for sign in event.evidence)
        return f"{event.rival} does the work of {event.service} {where}: {'; '.join(shown)}{blind}"
    if event.rival:
        return f"{event.rival} is gone, after {event.quiet_s:g} s without a sign of it{blind}"
    return f"no incumbent seen at the work of {event.service}{blind}"


def _effect(event: Event) -> str:
    dry = " (dry run)" if isinstance(event, decisions.Effect) and event.dry_run else ""
    match event:
        case decisions.CreateObject():
            return f"create it{dry}"
        case decisions.PatchObject():
            return f"set {_named(_paths(event.patch)) or 'nothing'}{dry}"
        case decisions.DeleteObject():
            grace = "" if event.grace_period_s is None else f", with {event.grace_period_s} s to end"
            return f"delete it{grace}{dry}"
        case decisions.EvictPod():
            grace = "" if event.grace_period_s is None else f", with {event.grace_period_s} s to end"
            return f"evict it{f' from node {event.node}' * bool(event.node)}{grace}{dry}"
        case endpoints.TrustEndpoint():
            again = f", and {len(event.retired)} of its former ones no more" * bool(event.retired)
            return f"let the API server trust this replica's certificate{again}{dry}"
        case endpoints.ForgetEndpoint():
            last = "; the last one takes its configurations along" if event.remove_last else ""
            return f"let the API server trust this replica's certificate no more{last}{dry}"
    return ""


def _containers(spec: Any) -> str:
    containers = spec.get("containers") if isinstance(spec, Mapping) else None
    named = [
        f"{c.get('name', '?')} ({c['image']})" if c.get("image") else str(c.get("name", "?"))
        for c in containers or ()
        if isinstance(c, Mapping)
    ]
    return _named(named) or "no container"


def _amounts(requests: Mapping[str, int]) -> str:
    return _named(f"{name} {_amount(name, amount)}" for name, amount in sorted(requests.items())) or "nothing"


def _amount(name: str, amount: int) -> str:
    """An amount as people write it: cores, mebibytes, or a count."""
    plain = name.removeprefix("requests.").removeprefix("limits.")
    if plain == "cpu":
        return f"{amount / 1000:g}"
    return f"{amount / 2**20:g}Mi" if plain.endswith(_BYTES) else str(amount)


def _paths(patch: Mapping[str, Any], prefix: str = "") -> list[str]:
    """`metadata.labels.app=shop` for each value that a patch sets."""
    paths: list[str] = []
    for name, value in patch.items():
        path = f"{prefix}{name}"
        if isinstance(value, Mapping) and value:
            paths += _paths(value, f"{path}.")
        elif value is None or isinstance(value, str | int | float | bool):
            paths.append(f"{path}={'null' if value is None else str(value)[:40]}")
        else:
            paths.append(path)
    return paths


def _named(names: Iterable[str]) -> str:
    every = list(names)
    more = f" and {len(every) - NAMED} more" if len(every) > NAMED else ""
    return ", ".join(every[:NAMED]) + more

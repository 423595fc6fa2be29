"""What each service may write on the log: permissions of the bus and the key record derive from it."""

from __future__ import annotations

from tidewright.asking.services import SERVICES, Role, Service


def writes(service: Service) -> tuple[str, ...]:
    """Subject filters, without `tw.<cluster>.`: facts are the watcher's alone, outcomes the actuator's."""
    name = service.name
    own = (f"checkpoint.*.{name}", f"checkpoint.*.{name}.>")
    match service.role:
        case Role.WATCHER:
            return (*own, "fact.>", "config.>")
        case Role.DECIDER:
            classes = ("decision", "schedule", "timer", "ledger")
            return (*own, f"halt.*.{name}", *(f"{cls}.*.{name}.>" for cls in classes))
        case Role.ACTUATOR:
            return (*own, "outcome.>")
        case Role.ENDPOINT:
            return (*own, f"ledger.*.{service.of}.>", f"decision.all.{name}.>")


WRITES: dict[str, tuple[str, ...]] = {service.name: writes(service) for service in SERVICES}
"""By service."""

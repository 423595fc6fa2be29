"""Which definitions an earlier version of Tidewright took from their vendor, and how to repair that. Pure.

Versions before the annotation wrote all definitions by a forced server-side apply, which leaves an entry of manager
`tidewright` with operation `Apply` in `managedFields`. This version writes none. Whose it was before shows in the entries
of other managers before that, and in versions in which objects are stored and which are no longer served.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tidewright.cli.crds.choosing import MANAGER, Object, stored_versions, versions
from tidewright.kube.ownership import CRD_VERSION, is_ours


@dataclass(frozen=True)
class Finding:
    """What an earlier version did to one definition.

    Attributes:
        verdict: `overwritten` where it was another's before; `applied` where nothing says so.
        lines: what was seen, and what to do.
    """

    name: str
    verdict: Literal["overwritten", "applied"]
    lines: tuple[str, ...]


def finding(current: Object) -> Finding | None:
    """What an earlier version did to a definition; None when nothing shows that it did anything."""
    name = str(current["metadata"]["name"])
    entries = current["metadata"].get("managedFields") or ()
    applied = next(
        (e for e in entries if e.get("manager") == MANAGER and e.get("operation") == "Apply"), None
    )
    if applied is None or is_ours(current):
        return None
    when = str(applied.get("time") or "")
    said = f"applied by an earlier version of Tidewright at {when or 'an unknown time'}"
    before = sorted(
        {
            str(entry.get("manager"))
            for entry in entries
            if entry.get("manager") not in (MANAGER, "kube-apiserver")
            and not entry.get("subresource")
            and str(entry.get("time") or "") <= when
        }
    )
    served = {version["name"] for version in versions(current) if version.get("served")}
    lost = sorted(stored_versions(current) - served)
    spec = (applied.get("fieldsV1") or {}).get("f:spec") or {}
    if "f:versions" not in spec and not lost:
        return None  # repaired: somebody has written the versions since
    if not before and not lost:
        return Finding(
            name,
            "applied",
            (
                f"{said}; nothing shows that it was another's before, and it is left as it is.",
                f"If it is Tidewright's, hand it over: kubectl annotate crd {name} {CRD_VERSION}=0",
            ),
        )
    lines = [said + (f", over what {', '.join(before)} had written." if before else ".")]
    if lost:
        lines.append(
            f"objects are stored as {', '.join(lost)}, which is no longer served: "
            "who reads or writes that version gets 404, and the objects are in the store still"
        )
    lines += [
        "repair it with the definition of who brought it: `helm upgrade` of that release, or",
        f"  kubectl apply --server-side --force-conflicts -f FILE    # FILE: their {name}",
        "Tidewright leaves it alone from then on; do not take a version out of status.storedVersions before.",
    ]
    return Finding(name, "overwritten", tuple(lines))

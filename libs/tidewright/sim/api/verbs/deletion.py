"""Deletion: grace periods, finalizers, preconditions and what becomes of dependents.

An object goes at once unless something holds it: finalizers (its own, or those that a propagation policy
adds), a grace period (pods on a node), or contents (namespaces). What is held is marked with
`deletionTimestamp` and goes when the last hold does: when an update removes the last finalizer
(`writing.py`), when the kubelet deletes with grace 0, or when `gc.py` has emptied the namespace.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from tidewright.kube.podapi.fielderrors import FieldError
from tidewright.kube.times import rfc3339
from tidewright.sim.api import errors
from tidewright.sim.api.http.request import Request, decode_body, is_true
from tidewright.sim.api.kinds.resources import Kind
from tidewright.sim.api.store.store import Record, Table

if TYPE_CHECKING:
    from tidewright.sim.api.api import Api
    from tidewright.sim.api.verbs.writing import Outcome

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"
CRD_CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
_POLICIES = ("Orphan", "Background", "Foreground")
_DEFAULT_GRACE_S = 30


class Preconditions(msgspec.Struct, rename="camel"):
    uid: str | None = None
    resource_version: str | None = None


class DeleteOptions(msgspec.Struct, rename="camel"):
    grace_period_seconds: int | None = None
    preconditions: Preconditions | None = None
    propagation_policy: str | None = None
    orphan_dependents: bool | None = None
    dry_run: list[str] | None = None

    @classmethod
    def read(cls, request: Request) -> DeleteOptions:
        """From the body, or else from the query. Raises 400 and 422 for options that say nothing valid."""
        if request.body:
            decoded = decode_body(request.body, request.headers.get("Content-Type", ""))
            if decoded.get("kind") not in (None, "", "DeleteOptions"):
                version = decoded.get("apiVersion") or request.version
                raise errors.bad_request(
                    f'no kind "{decoded["kind"]}" is registered for version "{version}" in scheme '
                    '"k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27"'
                )
            try:
                options = msgspec.convert(decoded, cls)
            except msgspec.ValidationError as error:
                raise errors.bad_request(f"DeleteOptions cannot be read: {error}") from None
        else:
            options = cls()
            grace = request.query.get("gracePeriodSeconds")
            if grace:
                if not grace.lstrip("-").isdigit():
                    raise errors.bad_request(f"gracePeriodSeconds={grace!r} is not a whole number of seconds")
                options.grace_period_seconds = int(grace)
            options.propagation_policy = request.query.get("propagationPolicy")
            if "orphanDependents" in request.query:
                options.orphan_dependents = is_true(request.query["orphanDependents"])
        request.check_options()
        if request.dry_run or (options.dry_run and "All" in options.dry_run):
            options.dry_run = ["All"]
        policy = options.propagation_policy
        if policy is not None and policy not in _POLICIES:
            raise errors.invalid(
                "meta.k8s.io",
                "DeleteOptions",
                "",
                [
                    FieldError(
                        "propagationPolicy",
                        f'Unsupported value: "{policy}": supported values: "Foreground", "Background", "Orphan", "nil"',
                        "FieldValueNotSupported",
                    )
                ],
            )
        if policy is not None and options.orphan_dependents is not None:
            why = f'Invalid value: "{policy}": orphanDependents and deletionPropagation cannot be both set'
            raise errors.invalid("meta.k8s.io", "DeleteOptions", "", [FieldError("propagationPolicy", why)])
        if policy is None and options.orphan_dependents is not None:
            options.propagation_policy = "Orphan" if options.orphan_dependents else "Background"
        return options


class Deletion:
    """Deletes objects of one API server."""

    def __init__(self, api: Api) -> None:
        self._api = api

    async def delete(self, request: Request, namespace: str, name: str, options: DeleteOptions) -> Outcome:
        """Delete one object, or mark it; the outcome says which."""
        from tidewright.sim.api.verbs.writing import Outcome

        api, kind = self._api, request.kind
        table = api.store.table(kind.table_name)
        record = table.get(namespace, name)
        if record is None:
            raise errors.not_found(kind.group, kind.plural, name)
        obj = record.decode()
        self._check(kind, obj, options)
        shown = api.to_version(kind, request.version, record.decode())
        await api.admission.mutate(request, "DELETE", None, shown)
        await api.admit_validating(request, "DELETE", None, shown)
        if table.objects.get(record.key) is not record:
            return await self.delete(request, namespace, name, options)
        grace_s = self._grace(kind, obj, options)
        meta = obj["metadata"]
        self._add_finalizers(kind, meta, options)
        held = bool(meta.get("finalizers")) or api.strategies.has_own_finalizers(kind, obj)
        dry_run = bool(options.dry_run)
        if not held and grace_s == 0:
            if dry_run:
                return Outcome(None, obj=obj)
            last = self.remove(kind, table, record, obj)
            return Outcome(last, obj=None if kind.plural not in _RETURNED else obj)
        if "deletionTimestamp" not in meta or grace_s < (meta.get("deletionGracePeriodSeconds") or 0):
            meta["deletionTimestamp"] = rfc3339(api.stamps.now_s() + grace_s)
            meta["deletionGracePeriodSeconds"] = grace_s
            if kind.generation:
                meta["generation"] = (meta.get("generation") or 0) + 1
            if kind.table_name == "/namespaces":
                obj.setdefault("status", {})["phase"] = "Terminating"
        elif obj == record.decode():
            return Outcome(record, obj=obj)
        if dry_run:
            return Outcome(None, obj=obj)
        stored = api.store.put(table, obj)
        api.committed(kind, stored, record, obj)
        code = (
            202 if options.propagation_policy == "Foreground" or options.orphan_dependents is False else 200
        )
        return Outcome(stored, obj=obj, code=code)

    def remove(self, kind: Kind, table: Table, record: Record, obj: dict[str, Any]) -> Record:
        """Take an object away for good."""
        last = self._api.store.remove(table, record, obj)
        self._api.committed(kind, last, record, obj)
        return last

    @staticmethod
    def _check(kind: Kind, obj: dict[str, Any], options: DeleteOptions) -> None:
        preconditions, meta = options.preconditions, obj["metadata"]
        if preconditions is None:
            return
        name = meta["name"]
        if preconditions.uid is not None and preconditions.uid != meta["uid"]:
            raise errors.conflict(
                kind.group,
                kind.kind,
                name,
                f"the UID in the precondition ({preconditions.uid}) does not match the UID in record ({meta['uid']}). "
                "The object might have been deleted and then recreated",
            )
        if (
            preconditions.resource_version is not None
            and preconditions.resource_version != meta["resourceVersion"]
        ):
            raise errors.conflict(
                kind.group,
                kind.kind,
                name,
                f"the ResourceVersion in the precondition ({preconditions.resource_version}) does not match the "
                f"ResourceVersion in record ({meta['resourceVersion']}). The object might have been modified",
            )

    @staticmethod
    def _grace(kind: Kind, obj: dict[str, Any], options: DeleteOptions) -> int:
        """Seconds that the object is given to end; only pods that run are given any."""
        if kind.table_name != "/pods":
            return 0
        spec = obj.get("spec") or {}
        if not spec.get("nodeName") or (obj.get("status") or {}).get("phase") in {"Succeeded", "Failed"}:
            return 0
        grace_s = options.grace_period_seconds
        if grace_s is None:
            grace_s = int(spec.get("terminationGracePeriodSeconds", _DEFAULT_GRACE_S))
        return grace_s if grace_s >= 0 else 1  # negative means one second, as on the real server

    @staticmethod
    def _add_finalizers(kind: Kind, meta: dict[str, Any], options: DeleteOptions) -> None:
        if "deletionTimestamp" in meta and options.propagation_policy is None:
            return
        finalizer = {"Foreground": FOREGROUND, "Orphan": ORPHAN}.get(options.propagation_policy or "")
        kept = [
            name
            for name in meta.get("finalizers") or []
            if name not in {FOREGROUND, ORPHAN} or not options.propagation_policy
        ]
        if finalizer:
            kept.append(finalizer)
        if kind.table_name == "apiextensions.k8s.io/customresourcedefinitions" and CRD_CLEANUP not in kept:
            kept.append(CRD_CLEANUP)
        if kept:
            meta["finalizers"] = kept
        else:
            meta.pop("finalizers", None)


# kinds whose deletion answers the object itself rather than a Status
_RETURNED = frozenset(
    {
        "pods",
        "services",
        "serviceaccounts",
        "resourcequotas",
        "persistentvolumeclaims",
        "persistentvolumes",
        "podtemplates",
    }
)

"""What each kind does on its way into the store: prepared, defaulted, validated.

The rules for one kind are in `defaults.py` and `validate.py`; custom resources bring theirs with their
schema (`custom.py`). Here is what they have in common: status belongs to the status subresource, spec to
the object, and `generation` counts changes of what is wanted.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tidewright.kube import quantities
from tidewright.kube.podapi.fielderrors import FieldError
from tidewright.sim.api import errors
from tidewright.sim.api.kinds import defaults, validate
from tidewright.sim.api.kinds.config_rules import not_base64
from tidewright.sim.api.kinds.resources import Kind

if TYPE_CHECKING:
    from tidewright.sim.api.api import Api

Object = dict[str, Any]
_ENCODED = frozenset({"/configmaps", "/secrets"})
_METADATA_ONLY = frozenset({"apiVersion", "kind", "metadata"})
_NEVER_DEFAULTED = _METADATA_ONLY | {"status"}
# a name that is a label, and quantities in the status
_ELSEWHERE_DEFAULTED = frozenset({"/namespaces", "/nodes", "/persistentvolumes"})
_META = frozenset({"apiVersion", "kind", "metadata", "status"})


class Strategies:
    """Prepares, defaults and validates the objects of one API server."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def admit_create(self, kind: Kind, obj: Object) -> None:
        """What the server's own admission adds to a new object, or refuses it for; webhooks come after it."""
        admit = None if kind.custom else defaults.ADMIT_CREATE.get(kind.table_name)
        if admit is not None:
            admit(self._api, obj)

    def prepare_create(self, kind: Kind, version: str, obj: Object) -> None:
        """Drop what a new object cannot bring, set what the server decides."""
        if kind.custom:
            if kind.status:
                obj.pop("status", None)
            return
        prepare = defaults.PREPARE_CREATE.get(kind.table_name)
        if prepare is not None:
            prepare(self._api, obj)
        elif kind.status and kind.table_name not in _STATUS_ON_CREATE:
            obj.pop("status", None)
        first = defaults.FIRST_STATUS.get(kind.table_name)
        if first is not None:
            obj["status"] = copy.deepcopy(first)

    def prepare_update(self, kind: Kind, version: str, new: Object, old: Object, subresource: str) -> None:
        """Restore what this subresource cannot change."""
        if subresource == "status":
            status = new.get("status")
            meta = new["metadata"]
            for key in list(new):
                if key != "metadata":
                    del new[key]
            new.update({key: value for key, value in old.items() if key not in {"metadata", "status"}})
            if status is not None:
                new["status"] = status
            if kind.custom:
                new["metadata"] = dict(old["metadata"])
                if "managedFields" in meta:
                    new["metadata"]["managedFields"] = meta["managedFields"]
            else:
                for key in ("ownerReferences", "finalizers"):
                    if key in old["metadata"]:
                        meta[key] = old["metadata"][key]
                    else:
                        meta.pop(key, None)
        elif kind.status:
            if "status" in old:
                new["status"] = old["status"]
            else:
                new.pop("status", None)
        self._keep_deletion_rules(kind, new, old)
        prepare = defaults.PREPARE_UPDATE.get(kind.table_name)
        if prepare is not None and not kind.custom:
            prepare(self._api, new, old, subresource)

    @staticmethod
    def _keep_deletion_rules(kind: Kind, new: Object, old: Object) -> None:
        if "deletionTimestamp" not in old["metadata"]:
            return
        before = set(old["metadata"].get("finalizers") or ())
        added = [name for name in new["metadata"].get("finalizers") or () if name not in before]
        if added:
            raise errors.invalid(
                kind.group,
                kind.kind,
                old["metadata"]["name"],
                [
                    FieldError(
                        "metadata.finalizers",
                        "Forbidden: no new finalizers can be added if the object is being deleted, found new "
                        f"finalizers {_go_strings(added)}",
                        "FieldValueForbidden",
                    )
                ],
            )

    @staticmethod
    def defaulted(kind: Kind, touched: frozenset[str]) -> bool:
        """Whether a stored object still has its defaults after a change of these top-level fields."""
        if kind.table_name in _ELSEWHERE_DEFAULTED:
            return False
        return touched <= (_METADATA_ONLY if kind.custom else _NEVER_DEFAULTED)

    def default(self, kind: Kind, version: str, obj: Object) -> None:
        """Fill in what the kind's defaults say, and bring values into their canonical form."""
        if kind.custom:
            custom = kind.custom[version]
            custom.default(obj)
            return
        fill = defaults.DEFAULTS.get(kind.table_name, _nothing)
        with _quantities(kind, version):
            fill(obj)
        if kind.table_name in _ENCODED:
            at = not_base64(obj)
            if at is not None:
                raise errors.bad_request(
                    f'{kind.kind} in version "{version}" cannot be handled as a {kind.kind}: illegal base64 data at '
                    f"input byte {at}"
                )

    def validate_create(self, kind: Kind, version: str, obj: Object) -> None:
        """Raises 422 with every field that is wrong."""
        causes = validate.metadata(kind, obj)
        if kind.custom:
            causes += kind.custom[version].validate(obj, None)[0]
        else:
            check = validate.CREATE.get(kind.table_name)
            if check is not None:
                with _quantities(kind, version):
                    causes += check(obj)
        if causes:
            raise errors.invalid(kind.group, kind.kind, obj["metadata"].get("name", ""), causes)

    def validate_update(
        self, kind: Kind, version: str, new: Object, old: Object, subresource: str
    ) -> list[str]:
        """Warnings of what was wrong before. Raises 422 with every field that is wrong or may not be changed."""
        warnings: list[str] = []
        causes = validate.metadata(kind, new, old)
        if kind.custom:
            custom_causes, warnings = kind.custom[version].validate(new, old)
            causes += custom_causes
        elif subresource != "status":
            check = validate.CREATE.get(kind.table_name)
            compare = validate.UPDATE.get(kind.table_name)
            with _quantities(kind, version):
                if check is not None and self._changed(new, old):
                    causes += check(new)
                if compare is not None:
                    causes += compare(new, old)
        if causes:
            raise errors.invalid(kind.group, kind.kind, old["metadata"]["name"], causes)
        return warnings

    @staticmethod
    def _changed(new: Object, old: Object) -> bool:
        return _differ(new, old)

    @staticmethod
    def spec_changed(kind: Kind, new: Object, old: Object) -> bool:
        """Whether what is wanted changed: the spec, or for objects without one everything but metadata."""
        if "spec" in new or "spec" in old:
            if kind.custom:
                return _differ(new, old)
            before, after = old.get("spec"), new.get("spec")
            return before is not after and before != after
        return _differ(new, old)

    @staticmethod
    def has_own_finalizers(kind: Kind, obj: Object) -> bool:
        """Namespaces are held by `spec.finalizers` until they are empty."""
        return kind.table_name == "/namespaces" and bool((obj.get("spec") or {}).get("finalizers"))


def _nothing(obj: Object) -> None:
    """No defaults."""


@contextmanager
def _quantities(kind: Kind, version: str) -> Iterator[None]:
    """Refuse a body with what is no quantity as the decoder of the API server does, wherever it is met."""
    try:
        yield
    except quantities.NotAQuantity:
        raise errors.bad_request(
            f'{kind.kind} in version "{version}" cannot be handled as a {kind.kind}: quantities must match the '
            "regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        ) from None


def _differ(new: Object, old: Object) -> bool:
    """Whether anything but metadata and status is not the same; what both share is not compared."""
    return any(
        after is not before and after != before
        for key in {*new, *old} - _META
        for after, before in ((new.get(key), old.get(key)),)
    )


_STATUS_ON_CREATE = frozenset({"/nodes", "/persistentvolumes"})


def _go_strings(values: list[str]) -> str:
    return "[]string{" + ", ".join(f'"{value}"' for value in values) + "}"

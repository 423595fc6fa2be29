"""What every namespace has from its first moment: the default ServiceAccount and the cluster's root certificate.

On a real cluster two controllers of the controller manager make them a moment after the namespace, and again
when somebody deletes them; pods are refused until the account is there. Here they are made with the
namespace, so that nobody who does not look for them has to wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidewright.sim.api import errors
from tidewright.sim.api.kinds import metadata
from tidewright.sim.api.kinds.resources import Kind

if TYPE_CHECKING:
    from tidewright.sim.api.api import Api

Object = dict[str, Any]
ACCOUNTS = "/serviceaccounts"
DEFAULT_ACCOUNT = "default"
ROOT_CERTIFICATE = "kube-root-ca.crt"
_ABOUT = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as "
    "the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of "
    "Kubernetes clusters."
)
_NO_CERTIFICATE = "# the embedded API server speaks plain HTTP\n"
_RESIDENTS = {ACCOUNTS: DEFAULT_ACCOUNT, "/configmaps": ROOT_CERTIFICATE}
FOLLOWED = frozenset({"/namespaces", *_RESIDENTS})


def follow(api: Api, kind: Kind, namespace: str, name: str) -> None:
    """Put back what a write took away, and furnish a namespace that it made."""
    if kind.table_name == "/namespaces":
        furnish(api, name)
    elif (
        _RESIDENTS.get(kind.table_name) == name
        and api.store.table(kind.table_name).get(namespace, name) is None
    ):
        furnish(api, namespace)


def furnish(api: Api, namespace: str) -> None:
    """Make what is missing in a namespace; nothing in one that is going, or gone."""
    record = api.store.table("/namespaces").get("", namespace)
    if record is None or "deletionTimestamp" in record.decode()["metadata"]:
        return
    _put(api, "serviceaccounts", namespace, DEFAULT_ACCOUNT, {})
    certificate = {"data": {"ca.crt": _NO_CERTIFICATE}}
    _put(
        api, "configmaps", namespace, ROOT_CERTIFICATE, certificate,
        annotations={"kubernetes.io/description": _ABOUT},
    )  # fmt: skip


def _put(api: Api, plural: str, namespace: str, name: str, content: Object, **more: Object) -> None:
    kind = api.registry.named(plural)
    if kind is None or api.store.table(kind.table_name).get(namespace, name) is not None:
        return
    obj: Object = {"metadata": {"name": name, "namespace": namespace, **more}, **content}
    metadata.initialise(obj["metadata"], api.stamps.now(), generation=False)
    obj = api.canonical(kind, obj)
    record = api.store.put(api.store.table(kind.table_name), obj)
    api.committed(kind, record, None, obj)


def admit_account(api: Api, pod: Object) -> None:
    """Raises 403 for a pod whose ServiceAccount does not exist."""
    meta, account = pod["metadata"], pod["spec"]["serviceAccountName"]
    if "kubernetes.io/config.mirror" in (meta.get("annotations") or {}):
        return
    if api.store.table(ACCOUNTS).get(meta.get("namespace", ""), account) is None:
        raise errors.forbidden(
            "",
            "pods",
            meta.get("name", ""),
            f"error looking up service account {meta.get('namespace', '')}/{account}: "
            f'serviceaccount "{account}" not found',
        )

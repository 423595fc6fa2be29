"""Which cluster this is: names are chosen by people, and two clusters may bear the same."""

from __future__ import annotations

import msgspec
import stamina
import structlog

from tidewright.kube.client import Kube
from tidewright.kube.errors import KubeError

logger = structlog.get_logger(__name__)

PATH = "/api/v1/namespaces/kube-system"


class _SystemNamespace(msgspec.Struct):
    metadata: dict[str, object]


async def cluster_id(kube: Kube, *, patience_s: float = 0.0) -> str:
    """The uid of the namespace `kube-system`; empty where there is none, or it may not be read.

    A cluster that does not answer is asked again for `patience_s`, in wall seconds.

    Raises:
        KubeError: it does not answer.
    """
    if not patience_s:
        return await _asked(kube)

    def again(error: Exception) -> bool:
        if not isinstance(error, KubeError) or not error.retriable:
            return False
        logger.warning("the cluster does not answer yet", url=kube.url, reason=error.reason, error=str(error))
        return True

    async for attempt in stamina.retry_context(on=again, attempts=None, timeout=patience_s, wait_max=5.0):
        with attempt:
            return await _asked(kube)
    return ""


async def _asked(kube: Kube) -> str:
    try:
        answer = await kube.request("GET", PATH, timeout_s=5.0)
    except KubeError as error:
        if error.error_class == "forbidden":
            logger.warning(
                "which cluster this is may not be read, so another one of the same name would not be noticed",
                url=kube.url, error=str(error), do="allow `get` on the namespace kube-system",
            )  # fmt: skip
        if error.error_class in ("gone", "forbidden"):
            return ""
        raise
    return str(msgspec.json.decode(answer.body, type=_SystemNamespace).metadata.get("uid", ""))

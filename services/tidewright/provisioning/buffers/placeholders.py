"""Pods that hold the room of chunks, in the profile `hold`: any ordinary pod displaces them. [B3]

They have a PriorityClass below all others, so that the scheduler itself preempts them for whatever lacks room, and it
is below the cut-off of expendable pods, so that placement here does not see them: a chunk counts once, as a chunk.
Where the class is not installed there are none: a pod of ordinary priority would keep others out.
"""

from __future__ import annotations

from tidewright.events.decisions import CreateObject
from tidewright.kube.keys import PodKey, buffer_key, pod_key
from tidewright.provisioning.buffers.kept import HeldChunk

CHUNK = "tidewright.dev/buffer"
"""Annotation of pods that hold the room of a chunk: `namespace/name/shape`."""
REFUSED_S = 60.0
"""For so long a node that refused a placeholder of a buffer is not tried again for it."""


def read(event: CreateObject) -> tuple[PodKey, HeldChunk] | None:
    """Name and content of a placeholder that is made; None for what is none."""
    note = event.manifest.get("metadata", {}).get("annotations", {}).get(CHUNK)
    if event.target.kind != "Pod" or not isinstance(note, str):
        return None
    namespace, _, rest = note.partition("/")
    name, _, shape = rest.partition("/")
    held = HeldChunk(buffer=buffer_key(namespace, name), shape=shape, node=event.manifest["spec"]["nodeName"])
    return pod_key(event.target.namespace, event.target.name), held

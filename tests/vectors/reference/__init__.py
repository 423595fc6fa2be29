"""What only the original's behaviour explains: the vectors' cases that ours decides otherwise by intention.

spread         ledgers in a status, passes that read one, and what they do where ours does otherwise
provisioning   requests spelled out as pods, classes of pods, alternating loops
scaledown      deletions of a group as a list of steps
watermark      attributes of log lines

A case is run by the product: a decider, an endpoint, a function that one of them calls. Where it cannot be,
because ours does otherwise by intention, its adapter runs it with code of this package and says under which tag:
`Result(..., reference="tag")`. Each module here lists its tags with the reason in `TAGS: dict[str, str]`;
a tag that is not listed fails its case. No module of the product imports this package.
"""

from __future__ import annotations

import importlib
import pkgutil


def tags() -> dict[str, str]:
    """Every listed tag, and why its cases are not the product's."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    modules = [importlib.import_module(f"{__name__}.{name}") for name in names]
    return {tag: why for module in modules for tag, why in getattr(module, "TAGS", {}).items()}

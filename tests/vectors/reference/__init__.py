"""What only the original's behaviour explains: where ours decides otherwise than the vectors' cases by intention.

spread         a model of spreads with ledgers in a status, which is the original's or ours, by what it is told
provisioning   requests spelled out as pods, classes of pods, alternating loops
scaledown      deletions of a group as a list of steps
watermark      attributes of log lines
propeller      a pass of its manager, likewise the original's or ours; how it reads and repairs
switches       a model's differences that explain an answer

A case is run by the product: a decider, an endpoint, a function that one of them calls. Where ours answers otherwise
by intention, a model here says so of any such case, whatever it is called: it answers as the case expects, and exactly
as ours does once it follows certain differences: `Result(..., intended=("tag", ...))`. Where the product cannot be asked at
all, the adapter runs the case with code of this package and says under which tag: `Result(..., reference="tag")`. Each
module here lists its tags with the reason in `TAGS: dict[str, str]`; a tag that is not listed fails its case. No module
of the product imports this package.
"""

from __future__ import annotations

import importlib
import pkgutil


def tags() -> dict[str, str]:
    """Every listed tag, and why its cases are not the product's."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    modules = [importlib.import_module(f"{__name__}.{name}") for name in names]
    return {tag: why for module in modules for tag, why in getattr(module, "TAGS", {}).items()}

"""Whatever stands under `managers` of a configuration can be read and judged: an entry that is nonsense ends nothing."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tidewright.shardmanager.propeller.fleet_config import read_fleets
from tidewright.shardmanager.propeller.fleet_verdict import verdict

_SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8)
_NAMES = st.sampled_from(
    (
        "namespace", "brand", "environment", "config", "manager", "propeller", "leader-election", "shard", "enabled",
        "lock", "shard-count", "metrics-prefix", "pod-template-namespace", "scan-interval", "MANAGER.SHARD.SHARD_COUNT",
    )
)  # fmt: skip
_NONSENSE = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=5),
    max_leaves=12,
)
_ENTRIES = st.dictionaries(_NAMES, _NONSENSE, max_size=5)


@given(managers=_NONSENSE | st.lists(_ENTRIES, max_size=3))
def test_any_entry_is_read_and_judged(managers: Any) -> None:
    for fleet in read_fleets({"managers": managers}):
        for key in ("environment", "config"):
            if fleet.entry.get(key) is not None and not isinstance(fleet.entry[key], dict):
                assert verdict(fleet.entry).refused
        verdict(fleet.entry)

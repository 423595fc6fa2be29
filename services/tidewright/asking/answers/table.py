"""What each question is answered with."""

from __future__ import annotations

import msgspec

from tidewright.asking.answers.backtest import Backtest, ForecastSuggestions
from tidewright.asking.answers.comparing import ComparisonList
from tidewright.asking.answers.diff import LogDifferences
from tidewright.asking.answers.events import LoggedEvent
from tidewright.asking.answers.explain import ObjectExplanation
from tidewright.asking.answers.listing import KindList, ObjectList
from tidewright.asking.answers.planning import ProvisioningPlan, ScaleDownPlan, SpreadPlan
from tidewright.asking.answers.series import ObjectSeries
from tidewright.asking.answers.state import ObjectState
from tidewright.asking.answers.verify import LogVerification

ANSWERS: dict[str, type[msgspec.Struct]] = {
    "backtest.suggest": ForecastSuggestions,
    "backtest.wpa": Backtest,
    "compare": ComparisonList,
    "diff": LogDifferences,
    "events": LoggedEvent,
    "explain": ObjectExplanation,
    "get": KindList,
    "list": ObjectList,
    "plan.provisioning": ProvisioningPlan,
    "plan.scale-down": ScaleDownPlan,
    "plan.ws": SpreadPlan,
    "series": ObjectSeries,
    "state": ObjectState,
    "verify": LogVerification,
}
"""By question, as the schemas are named."""

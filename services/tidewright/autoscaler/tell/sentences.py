"""Reasons as sentences, for people: what a decision was made of, and what stops the next one.

`sentences` retells the `because` of any decision of this service; every rule that `reasons` writes
has its sentence here, and a rule of a newer version is shown with its bare values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tidewright.autoscaler.state import Autoscaler
from tidewright.events.acting import HELD_BACK, held_back
from tidewright.events.base import Because, Scalar
from tidewright.kube.times import readable

Values = Mapping[str, Scalar]


def number(milli: Scalar) -> str:
    """A value in milli as people write it: 7500 is `7.5`."""
    if not isinstance(milli, int | float):
        return str(milli)
    return f"{milli / 1000:.3f}".rstrip("0").rstrip(".")


def clock(at: Scalar) -> str:
    """A time of day with its date, in UTC; `never` for none."""
    if not isinstance(at, int | float):
        return "never"
    return f"{readable(at)} UTC"


def plural(count: Scalar, word: str) -> str:
    """`1 replica`, `2 replicas`."""
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def sentences(because: Sequence[Because]) -> list[str]:
    """One sentence per rule, in the order of their application."""
    return [sentence(step) for step in because]


def sentence(step: Because) -> str:
    """What one rule did, in words."""
    tell = TELLERS.get(step.rule)
    if tell is None:
        values = ", ".join(f"{key}={value}" for key, value in step.values.items())
        return f"{step.rule}: {values}." if values else f"{step.rule}."
    try:
        return tell(step.values)
    except KeyError as missing:
        return f"{step.rule} (its value {missing} was not recorded)."


def _measured(v: Values) -> str:
    where = {
        "above": f"above its high watermark {number(v['high_milli'])} ({number(v['high_adjusted_milli'])} with "
        "tolerance)",
        "below": f"below its low watermark {number(v['low_milli'])} ({number(v['low_adjusted_milli'])} with "
        "tolerance)",
        "within": f"within its watermarks {number(v['low_milli'])} to {number(v['high_milli'])}",
    }[str(v["position"])]
    kind = "average per ready pod of " if v["algorithm"] == "average" else ""
    return (
        f"{kind}{v['metric']} is {number(v['value_milli'])}, {where}; with {v['ready']} of "
        f"{plural(v['pods'], 'pod')} ready it proposes {plural(v['proposal'], 'replica')}."
    )


def _recommended(v: Values) -> str:
    details = f" ({v['details']})" if v.get("details") else ""
    where = {
        "above": "; the present count is below its lower bound",
        "below": "; the present count is above its upper bound",
        "both": "; its lower bound is above its upper one, and the present count is between them",
        "within": "",
    }[str(v["position"])]
    return f"{v['metric']} recommends {plural(v['proposal'], 'replica')}{details}{where}."


def _zero(v: Values) -> str:
    return (
        f"{v['metric']} is 0, which this object does not tolerate (spec.tolerateZero): "
        f"the count stays at {v['proposal']}."
    )


def _limited_up(v: Values) -> str:
    return (
        f"{v['wanted']} is more than scaleUpLimitFactor allows in one step ({number(v['percent_milli'])} % of "
        f"{v['from']}, so at most {v['limit']}): {v['to']}."
    )


def _limited_down(v: Values) -> str:
    return (
        f"{v['wanted']} is less than scaleDownLimitFactor allows in one step ({number(v['percent_milli'])} % of "
        f"{v['from']}, so at least {v['limit']}): {v['to']}."
    )


def _window(direction: str) -> Callable[[Values], str]:
    def tell(v: Values) -> str:
        return (
            f"{direction} from {v['from']} to {v['wanted']} waits for the forbidden window of {v['window_s']} s "
            f"after the last scale at {clock(v['last_scale_at'])}: not before {clock(v['free_at'])}."
        )

    return tell


def _delay(direction: str, side: str) -> Callable[[Values], str]:
    def tell(v: Values) -> str:
        until = f": not before {clock(v['free_at'])}" if v["free_at"] is not None else ""
        return (
            f"{direction} from {v['from']} to {v['wanted']} waits until the value has been {side} for "
            f"{v['delay_s']} s{until}."
        )

    return tell


def _decided(v: Values) -> str:
    dry = " (dry run: nothing is written)" if v.get("dry_run") else ""
    reason = f" because: {v['reason']}" if v.get("reason") else ""
    return f"Scale from {v['from']} to {v['to']}{reason}{dry}."


def _forecast(v: Values) -> str:
    return (
        f"Until {clock(v['until'])} the load of {v['metric']} is expected to reach {number(v['load_milli'])}, with its upper "
        f"bound at {number(v['bound_milli'])}: {number(v['value_milli'])} with {plural(v['ready'], 'ready pod')}, where the high "
        f"watermark is {number(v['high_milli'])} ({number(v['high_adjusted_milli'])} with tolerance); it asks for "
        f"{plural(v['proposal'], 'replica')} now."
    )


def _by_its_price(v: Values) -> str:
    counted = f"Counted over {plural(v['days'], 'day')}, {v['metric']} would have been above its high watermark for {span(v['above_s'])} without forecasts"
    if not v["confidence"]:
        return f"{counted}; no confidence would have been worth its price, and none is followed."
    going = f", and {v['coming']:.1%} on the day that begins if it goes on so" if "coming" in v else ""
    return (
        f"{counted}; a confidence of {v['confidence']:g} would have left {v['left']:.0%} of that, for {v['more']:.1%} more "
        f"replica-hours{going}: it is followed."
    )


def span(seconds: Scalar) -> str:
    """A time in minutes: what is counted fades, and is no whole number of anything."""
    return f"{seconds / 60:,.0f} min" if isinstance(seconds, int | float) else str(seconds)


def _stale(v: Values) -> str:
    held = ": the downscale is held" if v.get("held") else ""
    return f"The value of {v['metrics']} is older than {v['limit_s']:g} s and scales nothing down{held}."


TELLERS: dict[str, Callable[[Values], str]] = {
    "Measured": _measured,
    "Recommended": _recommended,
    "UntoleratedZero": _zero,
    "MetricFailed": lambda v: f"{v['metric']} could not be computed ({v['class']}): {v['error']}.",
    "ConvergedDown": lambda v: (
        f"All values lie within their marks, so the count creeps from {v['from']} to {v['proposal']} towards the "
        "high watermark."
    ),
    "ConvergedUp": lambda v: (
        f"All values lie within their marks, so the count creeps from {v['from']} to {v['proposal']} towards the "
        "low watermark."
    ),
    "ConvergenceDownRefused": lambda v: (
        f"Another step of {v['step']} towards the high watermark would leave the band: the count stays at "
        f"{v['proposal']}."
    ),
    "ConvergenceUpRefused": lambda v: (
        f"Another step of {v['step']} towards the low watermark would leave the band: the count stays at "
        f"{v['proposal']}."
    ),
    "ForeignPods": lambda v: (
        f"{plural(v['pods'], 'pod')} of other workloads are in the sum of {v['metric']}: its selector matches more "
        "than the target's pods."
    ),
    "AlignedToModulo": lambda v: (
        f"{v['wanted']} is no multiple of replicaScalingAbsoluteModulo {v['modulo']}: {v['to']}."
    ),
    "NothingToMeasure": lambda v: (
        f"The object has neither metrics nor a recommender: {v['proposal']} is kept."
    ),
    "GreatestProposalWins": lambda v: f"The greatest proposal wins: {v['proposal']}, of {v['metric']}.",
    "ScaleUpLimit": _limited_up,
    "ScaleDownLimit": _limited_down,
    "TooFewReplicas": lambda v: f"{v['wanted']} is below minReplicas {v['min']}: {v['to']}.",
    "TooManyReplicas": lambda v: f"{v['wanted']} is above maxReplicas {v['max']}: {v['to']}.",
    "AtLeastOne": lambda v: f"{v['wanted']} is less than one replica: {v['to']}.",
    "ReadyGuard": lambda v: (
        f"Only {plural(v['ready'], 'pod')} are ready, so the downscale is given up: {v['to']}."
    ),
    "Forecast": _forecast,
    "ConfidenceByPrice": _by_its_price,
    "StaleMetric": _stale,
    "UpscaleForbiddenWindow": _window("The upscale"),
    "DownscaleForbiddenWindow": _window("The downscale"),
    "UpscaleDelay": _delay("The upscale", "above the high watermark"),
    "DownscaleDelay": _delay("The downscale", "below the low watermark"),
    "TargetAtZero": lambda v: "The target is at 0 replicas, which switches scaling off.",
    "AboveMaximum": lambda v: f"{v['replicas']} replicas are above maxReplicas {v['max']}: {v['to']}.",
    "BelowMinimum": lambda v: f"{v['replicas']} replicas are below minReplicas {v['min']}: {v['to']}.",
    "NoPodExists": lambda v: f"The target has no pod although {v['replicas']} are requested: {v['to']}.",
    "ScaleDecided": _decided,
    "InvalidSpec": lambda v: f"The spec cannot be used: {v['problem']}.",
    "TargetNotFound": lambda v: f"The target cannot be scaled: {v['error']}.",
    "TargetTaken": lambda v: f"{v['target']} is scaled by {v['owner']}, which is older.",
    "ScalingBlocked": lambda v: f"Lifecycle control holds everything: {v.get('message', v['monitor'])}.",
    "FinalizerReleased": lambda v: f"The object is being deleted: the finalizer {v['finalizer']} is removed.",
    HELD_BACK: held_back,
    "DefaultsWritten": lambda v: f"Defaults are written into the spec: {', '.join(v)}.",
}


def next_stop(scaler: Autoscaler, now: float, *, stale: bool = False) -> list[str]:
    """What stops the next scale of an object and until when, in words, as of `now`.

    `stale`: a downscale waits for a younger value.
    """
    lines: list[str] = []
    if scaler.rules is None:
        return [f"The spec cannot be used: {scaler.problem}."]
    if scaler.ordered is not None:
        ordered = scaler.ordered
        lines.append(
            f"The scale from {ordered.from_replicas} to {ordered.replicas} of {clock(ordered.at)} is on its way."
        )
    last = scaler.kept.last_scale_at
    if last is not None:
        for word, window_s in (
            ("Upscales", scaler.rules.up_window_s),
            ("Downscales", scaler.rules.down_window_s),
        ):
            if last + window_s > now:
                lines.append(
                    f"{word} wait until {clock(last + window_s)}: {window_s} s after the scale at {clock(last)}."
                )
    if stale:
        lines.append("Downscales wait for a younger value; upscales do not.")
    if scaler.timer_due is not None:
        lines.append(f"It looks again by itself at {clock(scaler.timer_due)}.")
    return lines or ["No window runs and no scale is on its way: the values decide."]

"""What comes and goes within minutes, as a job that runs every quarter of an hour: how far the last steps were off the profile, and what follows. Pure.

A linear prediction of the next step of five minutes from the last `ORDER`, and from that one of the one after it: its coefficients are those
of Levinson's recursion, on products of steps in which older ones count ever less. Only integers, + - x and /.
"""

from __future__ import annotations

import msgspec

STEP_S = 300
ORDER = 24
FURTHEST = 6
"""So many steps on are predicted at most; what is later follows from the profile alone."""
LEARNT_EVERY = 12
"""Steps from one time that the coefficients are worked out to the next."""
ONE = 10_000
"""A coefficient of one."""
DOUBT = 1.01
"""By so much more than was seen a load is thought to differ from step to step: it keeps the recursion from trusting chance."""
_MOST = 2**53


class Ripple(msgspec.Struct, array_like=True):
    """What is folded; loads in steps of the season.

    Attributes:
        step: the open one, counted from 1970, with `total` and `count` of its samples.
        past: means of the steps before it, the last one last.
        products: sums of products of steps so far apart, from 0 on.
        coefficients: of the steps before, the last one first; in parts of `ONE`.
    """

    step: int = -1
    total: int = 0
    count: int = 0
    past: list[int] = []
    products: list[int] = []
    coefficients: list[int] = []

    def learnt(self) -> Ripple:
        """What holds elsewhere, too: not what came last."""
        return Ripple(products=self.products, coefficients=self.coefficients)


def add(ripple: Ripple, at: float, off: int) -> None:
    """Fold how far a sample was off the profile; a step without one begins anew, and keeps what was learnt."""
    step = int(at // STEP_S)
    if step != ripple.step:
        _close(ripple, step)
        ripple.step, ripple.total, ripple.count = step, 0, 0
    ripple.total += off
    ripple.count += 1


def _close(ripple: Ripple, step: int) -> None:
    if not ripple.count:
        return
    if step != ripple.step + 1:
        ripple.past = []
        return
    past = ripple.past
    past.append(ripple.total // ripple.count)
    del past[: -ORDER - 1]
    if len(past) <= ORDER:
        return
    if not ripple.products:
        ripple.products = [0] * (ORDER + 1)
    last = past[-1]
    ripple.products = [
        known + last * before for known, before in zip(ripple.products, reversed(past), strict=True)
    ]
    if step % LEARNT_EVERY == 0:
        ripple.coefficients = _coefficients(ripple.products)


def _coefficients(products: list[int]) -> list[int]:
    """Levinson's recursion, as far as it holds."""
    found: list[float] = []
    error = products[0] * DOUBT
    for order in range(ORDER):
        if not error > 0:
            break
        wanted = float(products[order + 1])
        for place, known in enumerate(found):  # `sum` rounds otherwise in later versions of Python
            wanted -= known * products[order - place]
        part = wanted / error
        if not -1 < part < 1:
            break
        found = [known - part * other for known, other in zip(found, reversed(found), strict=True)]
        found.append(part)
        error *= 1 - part * part
    return [int(known * ONE) for known in found]


def ahead(ripple: Ripple, steps: int) -> list[int]:
    """What follows for the next steps, at most `FURTHEST`; nothing before enough is known."""
    if not ripple.coefficients or len(ripple.past) < ORDER:
        return []
    known = [ripple.total // ripple.count, *reversed(ripple.past)][:ORDER]
    most = 2 * max(map(abs, known))
    expected = []
    for _ in range(min(steps, FURTHEST)):
        value = sum(map(int.__mul__, ripple.coefficients, known)) // ONE
        value = max(-most, min(most, value))
        expected.append(value)
        known = [value, *known[:-1]]
    return expected


def coarser(ripple: Ripple) -> None:
    """Steps of twice the size."""
    ripple.total //= 2
    ripple.past = [off // 2 for off in ripple.past]
    ripple.products = [product // 4 for product in ripple.products]


def fade(ripple: Ripple) -> None:
    """A day is over: what was learnt counts an eighth less."""
    ripple.products = [product * 7 // 8 for product in ripple.products]


def problem(ripple: Ripple) -> str:
    """What is wrong with what a ripple has learnt elsewhere; empty where nothing is. What came last there is not looked at."""
    if len(ripple.products) not in (0, ORDER + 1):
        return f"products: {len(ripple.products)} values, {ORDER + 1} are needed"
    if len(ripple.coefficients) > ORDER:
        return f"coefficients: {len(ripple.coefficients)} values, {ORDER} are possible"
    for name, values in (("products", ripple.products), ("coefficients", ripple.coefficients)):
        for value in values:
            if not -_MOST <= value <= _MOST:
                return f"{name}: {value}, from {-_MOST} to {_MOST} is possible"
    return ""

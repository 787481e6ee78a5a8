"""Rescalings: the scale on which another tool writes the same hyperparameter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.errors import UsageError

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Rescaling:
    """A change of scale.

    Attributes:
        name: as people type it.
        function: of `n` numbers; what it is not defined for becomes NaN or infinite.
        logarithm: the prefix of a name that stands for it, e.g. `log10`; empty where none does.
        exponential: the prefix that it takes away, likewise.
    """

    name: str
    function: Callable[[Floats], Floats]
    logarithm: str = ""
    exponential: str = ""

    def __call__(self, values: Floats) -> Floats:
        """Rescale `n` numbers."""
        with np.errstate(all="ignore"):
            return self.function(values)


SAME = Rescaling("x", lambda x: x)
RESCALINGS = {
    rescaling.name: rescaling
    for rescaling in (
        SAME,
        Rescaling("log10(x)", np.log10, logarithm="log10"),
        Rescaling("log2(x)", np.log2, logarithm="log2"),
        Rescaling("ln(x)", np.log, logarithm="ln"),
        Rescaling("10^x", lambda x: np.power(10.0, x), exponential="log10"),
        Rescaling("2^x", lambda x: np.power(2.0, x), exponential="log2"),
        Rescaling("e^x", np.exp, exponential="ln"),
        Rescaling("1/x", lambda x: 1.0 / x),
        Rescaling("1-x", lambda x: 1.0 - x),
        Rescaling("x/100", lambda x: x / 100.0),
        Rescaling("100x", lambda x: 100.0 * x),
    )
}
_ENOUGH = 3
"""Distinct values from which a scale may be told."""
_SHARE, _MOST, _REACH, _SPREAD = 0.1, 0.5, 0.5, 1 / 30
"""See `check_scale`."""


def rescaling(name: str) -> Rescaling:
    """Return the rescaling of a name.

    Raises:
        UsageError: there is none of that name.
    """
    if name not in RESCALINGS:
        msg = f"expected one of {', '.join(RESCALINGS)}, got {name!r}. Write `rescale` 'learning_rate=log10(x)'."
        raise UsageError(msg, param="rescale", given=name, choices=RESCALINGS)
    return RESCALINGS[name]


def implied_rescaling(there: str, here: str) -> Rescaling:
    """Return the rescaling implied by two prefixes of one name: none there, `log10` here is `log10(x)`."""
    for candidate in RESCALINGS.values():
        if there != here and candidate.logarithm == here and candidate.exponential == there:
            return candidate
    return SAME


def choose_rescaling(
    values: Floats, bounds: tuple[float, float], implied: Rescaling, *, whole: bool = False
) -> tuple[Rescaling | None, str]:
    """Choose the scale of numbers whose name implies one.

    That stands while it puts at least half of the values into the bounds. Else the one rescaling that puts all of them
    there is taken, none at all before any other; several that do so prove nothing.

    Args:
        values: finite numbers as the other tool has them.
        bounds: of the hyperparameter here.
        implied: by the names.
        whole: the hyperparameter takes whole numbers.

    Returns: the rescaling, None where no value can be read; and what was found, in words, empty where nothing was odd.
    """
    share = _share(implied(values), bounds)
    if not values.size or share >= 0.5:
        return implied, ""
    range_ = f"{bounds[0]:.6g} .. {bounds[1]:.6g}"
    reason = f"{share:.0%} of the values lie in {range_} as {implied.name}"
    fits = [candidate for candidate in RESCALINGS.values() if _share(candidate(values), bounds, whole=whole) == 1.0]
    fits = [SAME] if SAME in fits else fits
    if len(fits) == 1 and len(np.unique(values)) >= _ENOUGH:
        return fits[0], f"{reason}, all do as {fits[0].name}"
    more = f"; {', '.join(candidate.name for candidate in fits)} would fit: choose with --rescale" if fits else ""
    return (None if share == 0.0 else implied), f"{reason}{more}"


def check_scale(
    values: Floats,
    bounds: tuple[float, float],
    implied: Rescaling,
    *,
    log: bool,
    whole: bool,
    ends: tuple[float, float] | None = None,
) -> tuple[Rescaling | None, str]:
    """Check that numbers fit a range on the implied scale, or choose another: a learning rate is not in 1 .. 100.

    They are where a tenth of them lies in the range, or they reach over half of it, on its own scale. In a linear range
    of reals, no less than a thirtieth of the numbers must lie, and they must reach over no less than a thirtieth of it.
    Else the numbers as they are, or per cent, are tried, of which half must lie there.

    Args:
        values: finite numbers as the other space has them.
        bounds: of the range.
        implied: scale that the names say.
        log: the range is on a logarithmic scale.
        whole: it holds whole numbers.
        ends: of the range that the numbers are drawn from; None = those of the numbers.

    Returns: the rescaling, None where no scale fits; and why, in words, empty where nothing was odd.
    """
    alternatives = (
        [] if whole else [RESCALINGS[name] for name in ("x", "100x", "x/100") if implied is SAME or name == "x"]
    )
    extent = values if ends is None else np.array(ends)
    is_point = not extent.size or np.ptp(extent) == 0
    for candidate in (implied, *alternatives):
        share, reach = _share(candidate(values), bounds), _reach(candidate(extent), bounds, log=log)
        is_spread = log or whole or is_point or reach >= _SPREAD
        is_inside = reach >= _REACH and (log or whole or share >= _SPREAD)
        if candidate is implied and (share >= _SHARE or is_inside) and is_spread:
            return candidate, ""
        if candidate is not implied and share >= _MOST and is_spread and not is_point:
            return candidate, f"the values fit as {candidate.name}"
    scaled = implied(extent)
    span = f"{np.nanmin(scaled):.3g} .. {np.nanmax(scaled):.3g}" if np.isfinite(scaled).any() else "no numbers"
    return None, f"another scale: {span} there, {bounds[0]:.3g} .. {bounds[1]:.3g} here"


def _reach(values: Floats, bounds: tuple[float, float], *, log: bool) -> float:
    """Return the share of a range between the least and the greatest of some values."""
    finite = values[np.isfinite(values)]
    if not finite.size:
        return 0.0
    ends = np.array([*bounds, finite.min(), finite.max()])
    if log:
        if bounds[0] <= 0:
            return 0.0
        ends = np.log(np.maximum(ends, np.finfo(np.float64).tiny))
    low, high, least, most = ends.tolist()
    return max(min(high, most) - max(low, least), 0.0) / (high - low) if high > low else float(least <= low <= most)


def inside(values: Floats, bounds: tuple[float, float]) -> NDArray[np.bool_]:
    """Return which numbers lie within bounds, up to rounding."""
    slack = 1e-9 * max(1.0, *(abs(bound) for bound in bounds))
    with np.errstate(invalid="ignore"):
        return (values >= bounds[0] - slack) & (values <= bounds[1] + slack)


def _share(values: Floats, bounds: tuple[float, float], *, whole: bool = False) -> float:
    within = inside(values, bounds)
    if whole:
        with np.errstate(invalid="ignore"):
            within &= np.abs(values - np.rint(values)) < 1e-6
    return float(within.mean()) if values.size else 1.0

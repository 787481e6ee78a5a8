"""Methods of an evaluation: everything that may choose configurations.

A method sees a `Case`, which holds nothing that was measured on the held-out dataset or its siblings. Only the
distances of oracles are computed from the query's errors. A search sees the errors of the configurations that it has
evaluated.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from warmstart.bo.space import sampling
from warmstart.bo.transfer.calibration import Calibration, calibrate, can_calibrate
from warmstart.bo.transfer.designs import WITH_DISTANCES, initial_designs
from warmstart.bo.transfer.strategies import STRATEGIES, Query
from warmstart.bo.transfer.strategies.joint import expected_regrets
from warmstart.bo.transfer.strategies.noise import USUAL_NOISE
from warmstart.bo.transfer.strategies.sources import number_groups
from warmstart.history_store.errors import UsageError

Kind = Literal["baseline", "strategy", "search", "oracle", "control"]
TRUE_NORMALISED = "true normalised"
"""The distances of the oracles."""
PLAIN_STRATEGIES = ("nearest", "portfolio", "average-rank")
"""Those that others have published; every further one in `warmstart.bo.transfer.strategies.STRATEGIES` is ours."""
WARM_STARTS = (3, 10)
"""Designs after which a search goes on."""


@dataclass(frozen=True, slots=True)
class Case:
    """What is known when a held-out dataset asks.

    Attributes:
        errors: `m x c` of those that answer, NaN = missing.
        distances: from the query to them, `m` each, by the metric's name.
        unit: `c x d` configurations in [0, 1], NaN = inactive; None = not told.
        between: distances among them, `m x m` each, by the metric's name: row i as dataset i asks.
        groups: `m` groups of siblings.
        calibrations: how far each metric is to be trusted, where that was asked of the history.
    """

    errors: NDArray[np.float64]
    distances: Mapping[str, NDArray[np.float64]]
    unit: NDArray[np.float64] | None
    between: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    groups: tuple[str, ...] = ()
    calibrations: Mapping[str, Calibration] = field(default_factory=dict)

    def calibrated(self, metrics: Collection[str]) -> "Case":
        """Return the case with calibrations of these metrics; with fewer than three groups, or nothing that two measured, there are none.

        What is told already, or cannot be asked because distances between those that answer are not given, stays.
        """
        if not can_calibrate(self.errors, self.groups):
            return self
        wanted = [name for name in metrics if name in self.between]
        found = {name: calibrate(self.errors, self.between[name], self.groups) for name in wanted}
        return replace(self, calibrations={**self.calibrations, **found})

    def promise(self, metric: str, rows: Sequence[int]) -> NDArray[np.float64]:
        """Return the expected regret of a calibrated strategy after each of its rows."""
        calibration = self.calibrations[metric]
        sources = number_groups(self.groups) if self.groups else None
        query = Query(self.errors, self.distances[metric], len(rows), reach=calibration.reach, groups=sources)
        return calibration.promise(expected_regrets(query, rows))


Design = Callable[[Case, int, np.random.Generator], Sequence[int]]
"""Gives so many different rows, first to evaluate first."""


@dataclass(frozen=True, slots=True)
class Method:
    """One way to choose configurations.

    Attributes:
        about: one sentence.
        kind: what it is in the comparison.
        design: chooses rows without looking at the query's errors; None = at random, computed exactly.
        search_after: designs after which Bayesian optimisation goes on; None = designs alone.
        acquisition: of the search.
        is_random: the design depends on the generator.
        metric: name of the distances that it asks for.
        is_calibrated: it wants to know how far they are to be trusted.
    """

    about: str
    kind: Kind
    design: Design | None
    search_after: int | None = None
    acquisition: str = "ei"
    is_random: bool = False
    metric: str | None = None
    is_calibrated: bool = False


def make_methods(metrics: Sequence[str], reference_by: str | None, *, has_unit: bool) -> dict[str, Method]:
    """Return every method that can run, by name.

    Args:
        metrics: names of the distances at hand.
        reference_by: the one of them that our strategies use; None = no distances at all.
        has_unit: configurations are known, so that a search can model them.

    Returns: in the order of reports; a method that needs what is not there is left out.
    """
    own = [name for name in STRATEGIES if name not in PLAIN_STRATEGIES]
    found = {"random": Method("configurations at random, exact expectation", "baseline", None)}
    if has_unit:
        found |= {name: _spread(name) for name in ("uniform", "latin", "halton")}
        found["cold-gp"] = Method("Gaussian process with EI after two random configurations", "search", no_designs, 0)
    found["portfolio"] = _strategy("greedy portfolio of all datasets", "baseline", "portfolio")
    found["average-rank"] = _strategy("lowest average rank over all datasets", "baseline", "average-rank")
    for metric in metrics:
        kind: Kind = "strategy" if metric == reference_by else "baseline"
        about = f"best configuration of each of the nearest datasets by the distance '{metric}'"
        found[nearest_by(metric)] = _strategy(about, kind, "nearest", metric)
    found["arbitrary"] = Method(
        "best configuration of each of a few datasets at random: what any neighbours are worth",
        "control",
        arbitrary_neighbours,
        is_random=True,
    )
    if reference_by is not None:
        found |= {
            name: _strategy(f"our strategy '{name}' by the distance '{reference_by}'", "strategy", name, reference_by)
            for name in own
        }
    found["oracle-nearest"] = _strategy(
        "nearest datasets by the true distance of normalised errors", "oracle", "nearest", TRUE_NORMALISED
    )
    for name in own:
        about = f"our strategy '{name}' under the true distance of normalised errors"
        found[f"oracle-{name}"] = _strategy(about, "oracle", name, TRUE_NORMALISED)
    if has_unit:
        found["portfolio-10+gp"] = then_search(found["portfolio"], 10)
        if reference_by is not None:
            found[f"{nearest_by(reference_by)}-3+gp"] = then_search(found[nearest_by(reference_by)], 3)
            found |= {f"{name}-{k}+gp": then_search(found[name], k) for name in own for k in WARM_STARTS}
    return found


def choose_methods(methods: Mapping[str, Method], names: Sequence[str]) -> dict[str, Method]:
    """Return the named methods, in the order given; all where none is named.

    Raises:
        UsageError: a name that is not among them.
    """
    unknown = [name for name in names if name not in methods]
    if unknown:
        msg = f"expected names among {', '.join(methods)}, got {', '.join(unknown)}. Leave it out for all of them."
        raise UsageError(msg, param="methods", given=unknown[0], choices=methods)
    return {name: method for name, method in methods.items() if not names or name in names}


def reference_method(reference_by: str | None) -> str:
    """Return the name of the method that differences are taken of by default: the strategy that `suggest` uses."""
    if reference_by is None:
        return "portfolio"
    return nearest_by(reference_by) if WITH_DISTANCES == "nearest" else WITH_DISTANCES


def make_paper_methods(metrics: Mapping[str, str]) -> dict[tuple[str, str], Method]:
    """Return the runs of the figures of [Kim2017warmstart]: three configurations from each start, then a search.

    Args:
        metrics: label in the figure to name of the distance.

    Returns: (acquisition, start) to method.
    """
    starts = {name: _spread(name) for name in ("uniform", "latin", "halton")} | {
        f"nearest 3 by {label}": _strategy(f"nearest by '{metric}'", "search", "nearest", metric)
        for label, metric in metrics.items()
    }
    return {
        (acquisition, label): then_search(start, 3, acquisition=acquisition)
        for acquisition in ("ei", "lcb")
        for label, start in starts.items()
    }


def nearest_by(metric: str) -> str:
    """Return the name of the method that takes the bests of the nearest datasets by a metric."""
    return f"nearest-{metric.replace(' ', '-')}"


def then_search(start: Method, k: int, *, acquisition: str = "ei") -> Method:
    """Return a method that continues with Bayesian optimisation after k designs."""
    about = f"{start.about}; after {k} of them a Gaussian process with {acquisition.upper()}"
    return replace(start, about=about, kind="search", search_after=k, acquisition=acquisition)


def no_designs(case: Case, t: int, rng: np.random.Generator) -> list[int]:  # noqa: ARG001  the signature of all
    """Return no rows: the search chooses all."""
    return []


def ask_strategy(case: Case, t: int, rng: np.random.Generator, *, strategy: str, metric: str | None) -> list[int]:  # noqa: ARG001
    """Return the first t rows of a strategy."""
    sources = case.groups or None
    if metric is None:
        return initial_designs(case.errors, None, t, strategy=strategy, groups=sources, noise=USUAL_NOISE)
    distances, known = case.distances[metric], case.calibrations.get(metric)
    return initial_designs(
        case.errors, distances, t, strategy=strategy, calibration=known, groups=sources, noise=USUAL_NOISE
    )


def arbitrary_neighbours(case: Case, t: int, rng: np.random.Generator) -> list[int]:
    """Return the rows of `nearest` with the datasets in random order."""
    return initial_designs(
        case.errors, rng.permutation(len(case.errors)), t, strategy="nearest", groups=case.groups or None
    )


def snapped_points(case: Case, t: int, rng: np.random.Generator, *, baseline: sampling.Design) -> list[int]:
    """Draw t points of a baseline design, and return for each the nearest row that is not taken yet."""
    assert case.unit is not None  # noqa: S101  `make_methods` leaves these methods out without
    return snap_to_nearest_config(sampling.design_points(baseline, t, case.unit.shape[1], rng=rng), case.unit)


def snap_to_nearest_config(points: NDArray[np.float64], unit: NDArray[np.float64]) -> list[int]:
    """Return for each point, in order, the nearest row that is not taken yet; ties go to the lower row.

    Distances are root mean squares over the hyperparameters that are active in the row.

    Args:
        points: `t x d`, t ≤ c.
        unit: `c x d`, NaN = inactive.

    Returns: t different rows.
    """
    rows: list[int] = []
    active = np.maximum((~np.isnan(unit)).sum(axis=1), 1)
    for point in points:
        gaps = np.nansum(np.square(unit - point), axis=1) / active
        gaps[rows] = np.inf
        rows.append(int(np.argmin(gaps)))
    return rows


def _strategy(about: str, kind: Kind, strategy: str, metric: str | None = None) -> Method:
    design = partial(ask_strategy, strategy=strategy, metric=metric)
    return Method(about, kind, design, metric=metric, is_calibrated=strategy not in PLAIN_STRATEGIES)


def _spread(baseline: sampling.Design) -> Method:
    about = f"points of a {baseline} design, each moved to the nearest configuration not used yet"
    return Method(about, "baseline", partial(snapped_points, baseline=baseline), is_random=True)

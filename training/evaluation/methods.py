"""Methods of an evaluation, which choose configurations.

A method gets a `Case` without any measurement on the held-out dataset or its siblings. Only oracles use distances of
the query's errors. A search gets the errors of the configurations that it has evaluated.
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
from warmstart.bo.transfer.strategies.query import number_groups
from warmstart.bo.transfer.strategies.scenarios import USUAL_NOISE
from warmstart.history_store.errors import UsageError

Kind = Literal["baseline", "strategy", "search", "oracle", "control"]
TRUE_NORMALISED = "true normalised"
"""Name of the distances of the oracles."""
PLAIN_STRATEGIES = ("nearest", "portfolio", "average-rank")
"""Published strategies; all others in `warmstart.bo.transfer.strategies.STRATEGIES` are new ones."""
WARM_STARTS = (3, 10)
"""Numbers of designs before a search."""


@dataclass(frozen=True, slots=True)
class Case:
    """Inputs of a method for a held-out dataset, the query.

    Attributes:
        errors: `m x c` of the other datasets, NaN = missing.
        distances: `m` each, from the query to the other datasets, by metric.
        unit: `c x d` configurations in [0, 1], NaN = inactive; None = unknown.
        between: `m x m` each, distances among the other datasets, by metric; row i with dataset i as the query.
        groups: `m` groups of siblings.
        calibrations: by metric.
    """

    errors: NDArray[np.float64]
    distances: Mapping[str, NDArray[np.float64]]
    unit: NDArray[np.float64] | None
    between: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    groups: tuple[str, ...] = ()
    calibrations: Mapping[str, Calibration] = field(default_factory=dict)

    def calibrated(self, metrics: Collection[str]) -> "Case":
        """Return the case with calibrations of the metrics; without them if the errors do not suffice.

        Existing calibrations stay. A metric without distances among the datasets gets none.
        """
        if not can_calibrate(self.errors, self.groups):
            return self
        usable = [name for name in metrics if name in self.between]
        calibrations = {name: calibrate(self.errors, self.between[name], self.groups) for name in usable}
        return replace(self, calibrations={**self.calibrations, **calibrations})

    def promise(self, metric: str, rows: Sequence[int]) -> NDArray[np.float64]:
        """Return the expected regret of a calibrated strategy after each of its rows."""
        calibration = self.calibrations[metric]
        sources = number_groups(self.groups) if self.groups else None
        query = Query(self.errors, self.distances[metric], len(rows), reach=calibration.reach, groups=sources)
        return calibration.promise(expected_regrets(query, rows))


Design = Callable[[Case, int, np.random.Generator], Sequence[int]]
"""Function of a case, a number of rows and a generator: distinct rows in order of evaluation."""


@dataclass(frozen=True, slots=True)
class Method:
    """Method to choose configurations.

    Attributes:
        about: one sentence.
        kind: role in the comparison.
        design: chooses rows without the query's errors; None = random rows, by exact expectation.
        search_after: designs before Bayesian optimisation; None = no search.
        acquisition: of the search.
        is_random: whether the design depends on the generator.
        metric: name of its distances.
        is_calibrated: whether it uses calibrations.
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
        metrics: names of the distances.
        reference_by: metric of the new strategies; None = no distances.
        has_unit: whether configurations are known, as a search needs.

    Returns: methods in the order of reports, without those that cannot run.
    """
    new_strategies = [name for name in STRATEGIES if name not in PLAIN_STRATEGIES]
    methods = {"random": Method("configurations at random, exact expectation", "baseline", None)}
    if has_unit:
        methods |= {name: _spread(name) for name in ("uniform", "latin", "halton")}
        methods["cold-gp"] = Method(
            "Gaussian process with EI after two random configurations", "search", empty_design, 0
        )
    methods["portfolio"] = _strategy("greedy portfolio of all datasets", "baseline", "portfolio")
    methods["average-rank"] = _strategy("lowest average rank over all datasets", "baseline", "average-rank")
    for metric in metrics:
        kind: Kind = "strategy" if metric == reference_by else "baseline"
        about = f"best configuration of each of the nearest datasets by the distance '{metric}'"
        methods[nearest_name(metric)] = _strategy(about, kind, "nearest", metric)
    methods["arbitrary"] = Method(
        "best configuration of each of a few datasets at random: what any neighbours are worth",
        "control",
        random_neighbour_rows,
        is_random=True,
    )
    if reference_by is not None:
        methods |= {
            name: _strategy(f"our strategy '{name}' by the distance '{reference_by}'", "strategy", name, reference_by)
            for name in new_strategies
        }
    methods["oracle-nearest"] = _strategy(
        "nearest datasets by the true distance of normalised errors", "oracle", "nearest", TRUE_NORMALISED
    )
    for name in new_strategies:
        about = f"our strategy '{name}' under the true distance of normalised errors"
        methods[f"oracle-{name}"] = _strategy(about, "oracle", name, TRUE_NORMALISED)
    if has_unit:
        methods["portfolio-10+gp"] = with_search(methods["portfolio"], 10)
        if reference_by is not None:
            methods[f"{nearest_name(reference_by)}-3+gp"] = with_search(methods[nearest_name(reference_by)], 3)
            methods |= {f"{name}-{k}+gp": with_search(methods[name], k) for name in new_strategies for k in WARM_STARTS}
    return methods


def choose_methods(methods: Mapping[str, Method], names: Sequence[str]) -> dict[str, Method]:
    """Return the named methods; all without names.

    Raises:
        UsageError: when a name is unknown.
    """
    unknown = [name for name in names if name not in methods]
    if unknown:
        msg = f"expected names among {', '.join(methods)}, got {', '.join(unknown)}. Leave it out for all of them."
        raise UsageError(msg, param="methods", given=unknown[0], choices=methods)
    return {name: method for name, method in methods.items() if not names or name in names}


def reference_method(reference_by: str | None) -> str:
    """Return the name of the default reference of differences, the strategy of `suggest`."""
    if reference_by is None:
        return "portfolio"
    return nearest_name(reference_by) if WITH_DISTANCES == "nearest" else WITH_DISTANCES


def make_paper_methods(metrics: Mapping[str, str]) -> dict[tuple[str, str], Method]:
    """Return the methods of the figures of [Kim2017warmstart]: three configurations by each start, then a search.

    Args:
        metrics: name of the distance by label in the figure.

    Returns: methods by (acquisition, start).
    """
    starts = {name: _spread(name) for name in ("uniform", "latin", "halton")} | {
        f"nearest 3 by {label}": _strategy(f"nearest by '{metric}'", "search", "nearest", metric)
        for label, metric in metrics.items()
    }
    return {
        (acquisition, label): with_search(start, 3, acquisition=acquisition)
        for acquisition in ("ei", "lcb")
        for label, start in starts.items()
    }


def nearest_name(metric: str) -> str:
    """Return the name of the method `nearest` with a metric."""
    return f"nearest-{metric.replace(' ', '-')}"


def with_search(start: Method, k: int, *, acquisition: str = "ei") -> Method:
    """Return a method that continues with Bayesian optimisation after k designs."""
    about = f"{start.about}; after {k} of them a Gaussian process with {acquisition.upper()}"
    return replace(start, about=about, kind="search", search_after=k, acquisition=acquisition)


def empty_design(case: Case, t: int, rng: np.random.Generator) -> list[int]:  # noqa: ARG001  one signature for all
    """Return no rows, as the search chooses all."""
    return []


def strategy_rows(case: Case, t: int, rng: np.random.Generator, *, strategy: str, metric: str | None) -> list[int]:  # noqa: ARG001
    """Return the first t rows of a strategy."""
    sources = case.groups or None
    if metric is None:
        return initial_designs(case.errors, None, t, strategy=strategy, groups=sources, noise=USUAL_NOISE)
    distances, calibration = case.distances[metric], case.calibrations.get(metric)
    return initial_designs(
        case.errors, distances, t, strategy=strategy, calibration=calibration, groups=sources, noise=USUAL_NOISE
    )


def random_neighbour_rows(case: Case, t: int, rng: np.random.Generator) -> list[int]:
    """Return the rows of `nearest` with the datasets in random order."""
    return initial_designs(
        case.errors, rng.permutation(len(case.errors)), t, strategy="nearest", groups=case.groups or None
    )


def snapped_rows(case: Case, t: int, rng: np.random.Generator, *, baseline: sampling.Design) -> list[int]:
    """Draw t points of a baseline design, and return the nearest free row for each."""
    assert case.unit is not None  # noqa: S101  `make_methods` leaves these methods out without
    return snap_to_nearest_config(sampling.design_points(baseline, t, case.unit.shape[1], rng=rng), case.unit)


def snap_to_nearest_config(points: NDArray[np.float64], unit: NDArray[np.float64]) -> list[int]:
    """Return the nearest free row for each point in order; ties go to the lower row.

    Distances are root mean squares over the active hyperparameters of the row.

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
    design = partial(strategy_rows, strategy=strategy, metric=metric)
    return Method(about, kind, design, metric=metric, is_calibrated=strategy not in PLAIN_STRATEGIES)


def _spread(baseline: sampling.Design) -> Method:
    about = f"points of a {baseline} design, each moved to the nearest configuration not used yet"
    return Method(about, "baseline", partial(snapped_rows, baseline=baseline), is_random=True)

"""Diagnostics of a saved run: held-out fit, slices, sensitivity, architectures, as arrays.

`warmstart.plots` draws them.

The models are warmstart's, also for runs of another engine, with the surrogate, the acquisition and the data of the
run.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from warmstart.bo.error_units import MANY_FAIL, Band, all_equal, preferred_logarithms
from warmstart.bo.models import Related, SurrogateModels, TrialData
from warmstart.bo.observation import Observation
from warmstart.bo.optimizer import SCHEMA
from warmstart.bo.related import RelatedTask, tasks_of
from warmstart.bo.space.encoding import Encoding
from warmstart.bo.surrogates import GaussianProcess, check_named
from warmstart.bo.surrogates.gp.arc_and_warping import Metric
from warmstart.history_store.clauses import mentioned
from warmstart.history_store.errors import DataError
from warmstart.history_store.records import Value
from warmstart.history_store.space import load_space

Floats = NDArray[np.float64]
T = TypeVar("T")

GRID = 101
"""Points of a slice."""
FOLDS = 10


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """Saved run of the optimiser.

    Attributes:
        encoding: of the space.
        observations: `n` evaluations, in order.
        points: `n x p`, their points.
        pending: `J x p`.
        record: the output of `Optimizer.to_dict`.
    """

    encoding: Encoding
    observations: Sequence[Observation]
    points: Floats
    pending: Floats
    record: Mapping[str, Any]

    @property
    def errors(self) -> Floats:
        """Return the `n` errors; NaN where an evaluation failed, was lost or broke a constraint."""
        return np.array([observation.error if observation.valid else np.nan for observation in self.observations])

    def evidence(self, rows: NDArray[np.intp] | None = None) -> TrialData:
        """Return all observations, or the rows, as data of a model."""
        row_numbers = np.arange(len(self.observations)) if rows is None else rows
        columns, pending = self.encoding.columns(self.points[row_numbers]), self.encoding.columns(self.pending)
        return TrialData(
            [self.observations[row] for row in row_numbers.tolist()], columns, pending, int(self.record["revision"])
        )

    def fitted(self) -> SurrogateModels:
        """Return the models at the start of the run."""
        settings = self.record["settings"]
        related = [RelatedTask.from_dict(task) for task in self.record["related"]]
        return SurrogateModels(
            surrogate=settings["surrogate"],
            acquisition=settings["acquisition"],
            incumbent=settings["incumbent"],
            ei_variance=settings.get("ei_variance", "latent"),
            warp_errors=settings.get("warp_errors", False),
            conditional=self.encoding.conditional,
            related=Related(*tasks_of(related, self.record["meta_feature"], self.encoding)),
            seed=settings["seed"],
        )


@dataclass(frozen=True, slots=True, eq=False)
class Fit(Band):
    """Held-out predictions of the valid evaluations, noise included, by models without the predicted error.

    Attributes:
        number: `m` indices of evaluations, from 0.
        error: `m`, as measured.
    """

    number: NDArray[np.intp]
    error: Floats

    @property
    def within(self) -> NDArray[np.bool_]:
        """Tell which of `m` errors lie within two standard deviations."""
        return (self.low <= self.error) & (self.error <= self.high)

    @property
    def covered(self) -> float:
        """Return the share of errors within two standard deviations; a calibrated model has 0.95."""
        return float(np.mean(self.within))


@dataclass(frozen=True, slots=True, eq=False)
class Slice(Band):
    """The predicted error without noise along one hyperparameter, the others as in the best configuration.

    Attributes:
        name: of the hyperparameter.
        unit: `g` coordinates in [0, 1).
        value: `g` values at these coordinates.
        acquisition: `g` values of the acquisition function; EI and PI as logarithms; NaN where a clause forbids.
        best: the coordinate of the best configuration.
        observed: `n` coordinates of the observations, NaN where the hyperparameter was inactive.
    """

    name: str
    unit: Floats
    value: Sequence[Value]
    acquisition: Floats
    best: float
    observed: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Sensitivity:
    """Range of each hyperparameter in lengthscales: the more lengthscales, the more the hyperparameter matters.

    Attributes:
        names: `p`.
        spans: `S x p`, one row a sample of the process's hyperparameters.
        active: `p`, number of valid evaluations in which each was active; with few, the prior decides.
    """

    names: Sequence[str]
    spans: Floats
    active: NDArray[np.intp]


@dataclass(frozen=True, slots=True, eq=False)
class Shares:
    """Architecture of each evaluation: the values of the hyperparameters that others depend on.

    Attributes:
        names: architectures, most frequent first.
        indices: `n` positions in `names`, in the order of the run.
    """

    names: Sequence[str]
    indices: NDArray[np.intp]


@dataclass(frozen=True, slots=True, eq=False)
class Diagnosis:
    """Diagnostics of a run. A part is None where the run has too few evaluations or its space no conditions.

    Attributes:
        errors: `n`, in order, NaN where an evaluation failed, was lost or broke a constraint.
        acquisition: its name.
        notes: reasons for missing parts.
    """

    errors: Floats
    acquisition: str
    fit: Fit | None
    slices: Sequence[Slice] | None
    sensitivity: Sensitivity | None
    shares: Shares | None
    notes: Sequence[str]


def diagnose(run: Run, *, folds: int = FOLDS) -> Diagnosis:
    """Compute all diagnostics of a run.

    Raises:
        DataError: when no evaluation succeeded.
    """
    if not np.isfinite(run.errors).any():
        raise DataError(_too_few_message(0))
    notes: list[str] = []

    fit = _part_or_note(lambda: held_out_fit(run, folds=folds), notes)
    cuts, matters = _part_or_note(lambda: slices(run), notes), _part_or_note(lambda: sensitivity(run), notes)
    acquisition = str(run.record["settings"]["acquisition"])
    # Parts are often missing for the same reason, which is listed once.
    return Diagnosis(run.errors, acquisition, fit, cuts, matters, architectures(run), list(dict.fromkeys(notes)))


def read_run(record: Mapping[str, Any]) -> Run:
    """Read the output of `Optimizer.to_dict`.

    Raises:
        UsageError: when the surrogate of the run has no name in `warmstart.bo.surrogates.SURROGATES`.
        DataError: when the record is damaged, of another kind or of another version.
    """
    if not isinstance(record, Mapping) or record.get("schema_version") != SCHEMA or "settings" not in record:
        got = f"version {record.get('schema_version')!r}" if isinstance(record, Mapping) else type(record).__name__
        msg = f"run: expected the output of Optimizer.to_dict, version {SCHEMA}, got {got}. Save the run as JSON; if it is newer, upgrade warmstart."
        raise DataError(msg)
    check_named(
        record, "run", "Make it an entry point of `warmstart.surrogates` under this name; see docs/extending.md."
    )
    try:
        encoding = Encoding(load_space(json.dumps(record["space"])))
        observations = [Observation.from_dict(item) for item in record["history"]]
        points = encoding.encode([item.config for item in observations])
        run = Run(
            encoding, observations, points, encoding.encode([item["config"] for item in record["pending"]]), record
        )
        # Tried here, so that a damaged record fails at once and not in a later part.
        run.fitted().restore(record["models"])
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        msg = f"run: expected the output of Optimizer.to_dict, got a damaged record ({type(error).__name__}: {error}). Save the run again."
        raise DataError(msg) from error
    return run


def best_so_far(errors: Floats) -> Floats:
    """Return the least of the errors up to each of `n` evaluations; NaN before the first valid one."""
    lowest: Floats = np.minimum.accumulate(np.where(np.isnan(errors), np.inf, errors))
    return np.where(np.isinf(lowest), np.nan, lowest)


def held_out_fit(run: Run, *, folds: int = FOLDS) -> Fit:
    """Predict every valid evaluation by the run's surrogate, fitted to the other folds.

    Folds alternate over the order of the run, so each has early and late evaluations.

    Raises:
        DataError: when there are too few evaluations for folds.
    """
    rows = np.flatnonzero(np.isfinite(run.errors))
    fold_numbers = np.arange(len(rows)) % min(folds, max(len(rows), 1))
    predicted = np.empty((4, len(rows)))
    for fold in range(min(folds, len(rows))):
        is_held_out = fold_numbers == fold
        prediction = run.fitted().predict(
            run.evidence(rows[~is_held_out]), run.encoding.columns(run.points[rows[is_held_out]])
        )
        if prediction is None:
            raise DataError(_too_few_message(len(rows)))
        band = prediction[1].band(prediction[0], noise=True)
        predicted[:, is_held_out] = band.mean, band.sd, band.low, band.high
    if not len(rows):
        raise DataError(_too_few_message(0))
    mean, sd, low, high = predicted
    return Fit(mean, sd, low, high, number=rows, error=run.errors[rows])


def slices(run: Run, *, grid: int = GRID) -> list[Slice]:
    """Compute predictions and acquisition along each active hyperparameter, through the best configuration.

    Raises:
        DataError: when there are too few evaluations for the surrogate, or their errors are all equal.
    """
    evidence, fitted, encoding = run.evidence(), run.fitted(), run.encoding
    fitted.restore(run.record["models"])
    rng = np.random.default_rng(run.record["settings"]["seed"])
    criterion = fitted.acquisition_function(evidence, rng=rng)
    if criterion is None or not np.isfinite(run.errors).any():
        raise DataError(_too_few_message(int(np.isfinite(run.errors).sum())))
    if not run.record["related"]:
        _check_errors_differ(run.errors[np.isfinite(run.errors)])
    best = run.points[np.nanargmin(run.errors)]
    config, columns = encoding.decode(best[None])[0], encoding.columns(run.points)
    cuts = []
    for k, name in enumerate(encoding.names):
        if name not in config:
            continue
        # Centres of equal cells, as coordinates end below 1.
        unit = (np.arange(grid) + 0.5) / grid
        points = np.repeat(best[None], grid, axis=0)
        points[:, k] = unit
        X, allowed = encoding.columns(points), encoding.valid(points)
        prediction = fitted.predict(evidence, X)
        assert prediction is not None  # noqa: S101  an acquisition function implies a prediction
        band = prediction[1].band(prediction[0])
        acquisition = np.where(allowed, criterion[0].value(X), np.nan)
        unit_values = np.where(np.isnan(columns[:, encoding.column[k]]), np.nan, run.points[:, k])
        cut = Slice(
            band.mean,
            band.sd,
            band.low,
            band.high,
            name=name,
            unit=unit,
            value=encoding.values(k, unit),
            acquisition=acquisition,
            best=float(best[k]),
            observed=unit_values,
        )
        cuts.append(cut)
    return cuts


def sensitivity(run: Run) -> Sensitivity:
    """Compute the range of each hyperparameter in lengthscales of a Gaussian process, for any surrogate of the run.

    The process models logarithms of errors if the run does. The range of a number is 1/ℓ, of a conditional number the
    length of its arc's chord, of choices the distance of the two furthest.

    Raises:
        DataError: when fewer than two evaluations are valid, or their errors are all equal.
    """
    rows = np.flatnonzero(np.isfinite(run.errors))
    if len(rows) < 2:
        raise DataError(_too_few_message(len(rows)))
    _check_errors_differ(run.errors[rows])
    encoding, seed = run.encoding, run.record["settings"]["seed"]
    process = GaussianProcess(conditional=encoding.conditional)
    X = encoding.columns(run.points[rows])
    y = run.errors[rows]
    warps = run.record["settings"].get("warp_errors", False) and len(run.errors) - len(rows) <= MANY_FAIL * len(
        run.errors
    )
    logarithms = preferred_logarithms(X, y, encoding.conditional) if warps else None
    process.fit(X, y if logarithms is None else logarithms[0], rng=np.random.default_rng(seed))
    metric = Metric(encoding.d, conditional=encoding.conditional)
    widths = np.diff([*encoding.column.tolist(), encoding.d])
    spans = np.empty((len(process.thetas), encoding.p))
    for k, (first, width) in enumerate(zip(encoding.column.tolist(), widths.tolist(), strict=True)):
        ends = np.full((max(width, 2), encoding.d), 0.5)
        ends[:, first : first + width] = np.eye(width) if width > 1 else [[0.0], [1.0]]
        for s, theta in enumerate(process.thetas):
            embedded = metric.embed(ends, theta[: metric.size])
            spans[s, k] = np.linalg.norm(embedded[:, None] - embedded[None], axis=2).max()
    return Sensitivity(encoding.names, spans, np.isfinite(X[:, encoding.column]).sum(axis=0))


def architectures(run: Run) -> Shares | None:
    """Return each evaluation's architecture; None when no hyperparameter depends on a discrete one."""
    encoding = run.encoding
    parent_names = set().union(*map(mentioned, encoding.space.conditions))
    parents = [
        name for name, real in zip(encoding.names, encoding.real, strict=True) if name in parent_names and not real
    ]
    if not parents or not run.observations:
        return None
    labels = [
        ", ".join(f"{n} {observation.config[n]}" for n in parents if n in observation.config) or "none"
        for observation in run.observations
    ]
    names = [name for name, _ in Counter(labels).most_common()]
    return Shares(names, np.array([names.index(name) for name in labels], dtype=np.intp))


def _part_or_note(make: Callable[[], T], notes: list[str]) -> T | None:
    """Compute a part, or add the reason of its absence to the notes."""
    try:
        return make()
    except DataError as error:
        notes.append(str(error))
        return None


def _check_errors_differ(errors: Floats) -> None:
    """Check that not all errors are equal: equal errors tell no hyperparameters apart.

    Raises:
        DataError: when two errors or more are all equal, but for roundings.
    """
    if len(errors) > 1 and all_equal(errors):
        msg = f"run: expected errors that differ for slices and sensitivities, got {len(errors)} that are all equal: nothing to tell apart. Tell the optimiser more."
        raise DataError(msg)


def _too_few_message(count: int) -> str:
    """Return the message that valid evaluations are too few."""
    return f"run: expected enough valid evaluations for the surrogate, got {count}. Tell the optimiser more."

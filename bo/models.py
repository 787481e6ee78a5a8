"""Surrogates of error, constraints and cost, and the acquisition function built from them."""

import math
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from warmstart.bo.acquisition.improvement_validity_cost import (
    AcquisitionFunction,
    Improvement,
    InverseCost,
    Product,
    Validity,
    log_durations,
)
from warmstart.bo.acquisition.pending import Fantasies, Observed, fantasise
from warmstart.bo.acquisition.registry import ACQUISITIONS
from warmstart.bo.acquisition.scores import log_expected_improvement
from warmstart.bo.checkpointed_model import CheckpointedModel
from warmstart.bo.constraints import MEMORY
from warmstart.bo.constraints.classifier import CLASSIFIERS, Classifier
from warmstart.bo.error_units import MANY_FAIL, ErrorUnits, preferred_logarithms
from warmstart.bo.forecasts import STALLED, Forecast, Forecasts, has_stalled, moments
from warmstart.bo.observation import Observation
from warmstart.bo.strangers import are_strangers
from warmstart.bo.surrogates import GaussianProcess, Prediction, Surrogate, SurrogateInfo, Task, find_surrogate
from warmstart.bo.surrogates.base import SMALLEST_SD, Standardised
from warmstart.bo.surrogates.tasks import known_spreads

Floats = NDArray[np.float64]
Incumbent = Literal["posterior-mean", "observed"]
Variance = Literal["latent", "predictive"]

DURATIONS_NEED = 2
"""Least number of durations for a fit."""
BEYOND_MEASURE = 1e100
"""Largest error in units of the related tasks: squares of 1e200 overflow."""
ALONE_NEEDS = 2
"""Valid evaluations from which a model of the task at hand alone makes forecasts."""
JUDGE = "gp"
"""Surrogate of the task at hand alone, whose forecasts are the reference for related tasks."""
JUDGES_UP_TO = 300
"""Valid evaluations up to which related tasks are judged: the cost of the judge is cubic."""
FORECASTS = "forecasts"
"""Key of the forecasts among the records of models."""
SUCCESS = "evaluation succeeds"
"""Name of the constraint that failures violate."""
NETWORKS_BEYOND = 100
"""Labels up to which a Gaussian process models a constraint beside network surrogates: networks fit few labels
badly."""


@dataclass(frozen=True, slots=True)
class TrialData:
    """Data of the models for one suggestion.

    Attributes:
        observations: `n` evaluations.
        X: their model columns, `n x d`.
        pending: `J x d` model columns of evaluations that still run.
        revision: grows with every change of the observations.
        of_errors: rows that models of errors may use; None = all. Constraints and durations are learned from all.
        n_taken: distinct configurations among observations and pending ones; None = all are distinct.
        beyond_memory: `m x d` model columns at which the memory runs out, as it did with smaller batches.
    """

    observations: Sequence[Observation]
    X: Floats
    pending: Floats
    revision: int
    of_errors: Collection[int] | None = None
    n_taken: int | None = None
    beyond_memory: Floats | None = None


@dataclass(frozen=True, slots=True)
class Related:
    """Related tasks and when suggestions use them.

    Attributes:
        tasks: their evaluations, in model columns.
        meta: `p` meta-feature of the task at hand, if the related tasks have theirs.
        alone_from: configurations, told or pending, from which the task at hand alone can suggest: as in a search
            without related tasks, so that tasks that are never used change nothing.
    """

    tasks: Sequence[Task] = ()
    meta: Floats | None = None
    alone_from: int = 3


@dataclass(frozen=True, slots=True)
class _Errors:
    """Fitted model of errors.

    Attributes:
        model: predicts in its units, fitted to all errors.
        z: errors of the valid evaluations in these units.
        units: of the model.
        kind: `together` with related tasks, or `alone`.
    """

    model: Surrogate
    z: Floats
    units: ErrorUnits
    kind: Literal["together", "alone"]


@dataclass(frozen=True, slots=True)
class _Constraint:
    """Observations of one constraint.

    Attributes:
        name: of the constraint.
        X: `n x d` points at which it was observed.
        met: `n`, 1 where it is met, else 0.
    """

    name: str
    X: Floats
    met: Floats

    @property
    def has_both(self) -> bool:
        """Tell whether the constraint was both met and missed."""
        return bool(0 < self.met.sum() < len(self.met))


class SurrogateModels:
    """Models of one run, which persist from one suggestion to the next.

    Related tasks are used while they help. When a Gaussian process of the task at hand alone, in its own units,
    forecasts errors better, the surrogate of that task alone suggests (`warmstart.bo.forecasts`). A process also judges
    networks: a network with few points forecasts so widely that any narrow forecast beats it.
    """

    def __init__(
        self,
        *,
        surrogate: str | SurrogateInfo,
        acquisition: str,
        incumbent: Incumbent,
        conditional: tuple[int, ...],
        related: Related,
        seed: int,
        ei_variance: Variance = "latent",
        warp_errors: bool = False,
    ) -> None:
        tasks, self._alone_from = related.tasks, related.alone_from
        self._ei_variance, self._warps = ei_variance, warp_errors
        self._surrogate, self._incumbent = find_surrogate(surrogate), incumbent
        self._conditional, self._seed = conditional, seed
        self._per_second, self._acquisition = ACQUISITIONS[acquisition].per_second, acquisition
        self._units = _units(tasks) if tasks else None
        keywords: dict[str, Any] = {"conditional": conditional}
        if self._surrogate.multitask:
            scaled = [Task(task.X, self._scaled(task.y)[0], task.meta) for task in tasks]
            keywords |= {"related": scaled, "meta": related.meta}
        self._keywords = keywords
        self._models: dict[str, CheckpointedModel[Any]] = {}
        self._makers: Mapping[str, Callable[[], Any]] = {
            "errors": self._errors,
            "alone": self._alone,
            "judge": self._judge,
            "durations": self._durations,
            "constraint": partial(self._constraint, "noiseless"),
            "noisy": partial(self._constraint, "noisy"),
            "few": partial(self._constraint, "noiseless", few=True),
            "few-noisy": partial(self._constraint, "noisy", few=True),
        }
        self._means: tuple[tuple[int, str], Floats] | None = None
        self._forecasts = Forecasts(strangers=are_strangers(tasks))

    @property
    def least(self) -> int:
        """Return the number of valid evaluations that the surrogate needs."""
        if self._units is not None:
            return 0
        return self._surrogate.min_points

    @property
    def _compares(self) -> bool:
        """Tell whether forecasts with and without related tasks are compared."""
        return self._units is not None and self._surrogate.alone is not None

    def acquisition_function(
        self, data: TrialData, *, rng: np.random.Generator, acquisition: str | None = None
    ) -> tuple[AcquisitionFunction, int | None] | None:
        """Return the function that the next suggestion maximises, and the row of the best evaluation, if any is valid.

        The function is the improvement under fantasies of pending evaluations, times P(valid) of every constraint that
        was both met and missed, times the expected inverse duration. Before the first valid evaluation it is P(valid)
        alone, with pending points counted as invalid.

        Args:
            data: of the run.
            rng: draws the fantasies.
            acquisition: its name; None = the run's.

        Returns: None when the data do not suffice, or a constraint was never met.
        """
        if not data.X.shape[1]:
            return None  # the space has one configuration
        valid, constraints = _valid(data), _constraints(data)
        if not len(valid) and any(not constraint.met.any() for constraint in constraints):
            return None
        validity = self._validity(constraints, data)
        if not len(valid) and validity and self.least:
            return Product(self._pessimistic_validity(data.pending, constraints, validity, data)), None
        if len(valid) < self.least or (self._units is not None and len(data.observations) + len(data.pending) == 1):
            return None  # the second evaluation tests the related tasks, so they must not choose it
        X = data.X[valid]
        errors = self._errors_of(data, valid, suggests=True)
        if errors is None:
            return None
        model, z = errors.model, errors.z
        acquisition = acquisition or self._acquisition
        best, row = np.zeros((1, 1)), None
        if not len(valid):
            acquisition = "lcb"  # nothing to improve on yet
        else:
            if self._means is None or self._means[0] != (data.revision, errors.kind):
                self._means = (data.revision, errors.kind), model.predict(X).mean
            means = self._means[1]
            best = means.min(axis=1, keepdims=True)
            if self._incumbent == "observed":
                best = np.full_like(best, z.min())
            row = int(valid[means.mean(axis=0).argmin()])
        probability = None
        if validity and len(data.pending):
            probability = np.exp(Product(validity).value(data.pending))
        fantasies = fantasise(model, data.pending, best, rng=rng, probability=probability)
        named = ACQUISITIONS[acquisition]
        if named.margin:
            fantasies = Fantasies(fantasies.model, fantasies.best - named.margin)
        if named.score is log_expected_improvement and self._ei_variance == "predictive":
            noise = model.predict(X[:1]).noise
            fantasies = Fantasies(Observed(fantasies.model, noise[:, None, None]), fantasies.best)
        factors: list[AcquisitionFunction] = [*validity, *self._costs(data)]
        return Product([Improvement(fantasies, acquisition=acquisition, weighed=bool(factors)), *factors]), row

    def log_gain(self, data: TrialData, X: Floats) -> float | None:
        """Return the log expected improvement at a `1 x d` point, in error units, weighed as in `acquisition_function`.

        With `ei-per-second` it is the improvement per second, by the typical duration when durations do not differ.

        Returns: None when the data do not suffice, or nothing is valid yet.
        """
        criterion = self.acquisition_function(
            data, rng=np.random.default_rng([self._seed, data.revision]), acquisition="ei"
        )
        if criterion is None or criterion[1] is None:
            return None
        errors = self._errors_of(data, _valid(data), suggests=True)
        assert errors is not None  # noqa: S101  an acquisition function implies a model
        best = self._errors_at(data, _valid(data))[1].min()
        value = float(criterion[0].value(X)[0]) + float(errors.units.log_slope(best))
        if self._per_second and not self._costs(data):
            seconds = np.array([observation.duration for observation in data.observations])
            logs = log_durations(seconds[np.isfinite(seconds)])
            value -= float(logs.mean()) if len(logs) else 0.0
        return value

    def first_valid(self, data: TrialData, X: Floats) -> int:
        """Return the row of the first of `m x d` points with P(valid) ≥ 0.5, else of the likeliest; 0 if all valid."""
        validity = self._validity(_constraints(data), data)
        if not validity:
            return 0
        log_probability = Product(validity).value(X)
        is_likely = log_probability >= math.log(0.5)
        return int(is_likely.argmax() if is_likely.any() else log_probability.argmax())

    def predict(self, data: TrialData, X: Floats) -> tuple[Prediction, ErrorUnits] | None:
        """Predict errors at `m x d` points in the model's units, and return these.

        Returns: None when the data do not suffice.
        """
        valid = _valid(data)
        if len(valid) < self.least or not data.X.shape[1]:
            return None
        errors = self._errors_of(data, valid)
        return None if errors is None else (errors.model.predict(X), errors.units)

    def takes_logarithms(self, data: TrialData) -> bool:
        """Tell whether the model of errors uses logarithms."""
        valid = _valid(data)
        errors = self._errors_of(data, valid) if self._warps and len(valid) >= self.least else None
        return errors is not None and errors.units.floor is not None

    def open_share(self, data: TrialData, X: Floats) -> float:
        """Return the median share of the prior variance of errors that is left at `m x d` points, in 0..1."""
        errors = self._errors_of(data, _valid(data))
        assert errors is not None and isinstance(errors.model, GaussianProcess)  # noqa: S101, PT018  only processes restart
        shares = errors.model.predict(X).var / errors.model.amplitudes[:, None]
        return float(np.median(shares))

    def forecast(self, data: TrialData, X: Floats) -> None:
        """Store the forecasts at a `1 x d` point before its evaluation, with related tasks and without."""
        valid = _valid(data)
        if not self._compares or not 0 < len(valid) <= JUDGES_UP_TO:
            return
        if self._forecasts.dismissed(*self._errors_at(data, valid)):
            return
        together = self._errors_together(data, valid)
        mean, sd = moments(together.model.predict(X), together.units)
        last = data.observations[int(valid[-1])].error
        forecast = Forecast(mean, sd, last, None)
        if len(valid) >= ALONE_NEEDS:
            judge = self._errors_judging(data, valid)
            forecast = Forecast(mean, sd, *moments(judge.model.predict(X), judge.units))
        self._forecasts.add(X[0], forecast)

    def to_dict(self) -> dict[str, Any]:
        """Return the states of all models and their forecasts in JSON types."""
        models = {name: model.to_dict() for name, model in self._models.items()}
        return models if self._units is None else {**models, FORECASTS: self._forecasts.to_dict()}

    def restore(self, record: Mapping[str, Any]) -> None:
        """Restore a record of `to_dict`."""
        self._forecasts.restore(record.get(FORECASTS, {}))
        for name, state in record.items():
            if name == FORECASTS:
                continue
            self._model(name, self._makers[name.split(":")[0]]).restore(state)

    def _errors_of(self, data: TrialData, valid: NDArray[np.intp], *, suggests: bool = False) -> _Errors | None:
        """Fit errors, with related tasks while these help; None when they do not and the task has too few errors.

        Args:
            data: of the run.
            valid: rows of valid evaluations.
            suggests: for a suggestion; in a stalled search every fourth one comes from the task at hand alone.
        """
        if not self._compares:
            return self._errors_together(data, valid)
        X, y = self._errors_at(data, valid)
        is_alone = suggests and _n_taken(data) % STALLED == 1 and has_stalled(y)
        if self._forecasts.believed(X, y) and not is_alone:
            return self._errors_together(data, valid)
        return self._errors_alone(data, valid) if self._suggests_alone(data, valid) else None

    def _suggests_alone(self, data: TrialData, valid: NDArray[np.intp]) -> bool:
        """Tell whether a search without related tasks would use its surrogate by now."""
        assert self._surrogate.alone is not None  # noqa: S101  only surrogates that have it compare
        return _n_taken(data) >= self._alone_from and len(valid) >= find_surrogate(self._surrogate.alone).min_points

    def _errors_at(self, data: TrialData, valid: NDArray[np.intp]) -> tuple[Floats, Floats]:
        """Return the points and the errors of valid evaluations."""
        return data.X[valid], np.array([data.observations[i].error for i in valid.tolist()])

    def _errors_together(self, data: TrialData, valid: NDArray[np.intp]) -> _Errors:
        """Fit all errors together with the related tasks, if any."""
        X, y, is_valid = _finite_errors(data, valid)
        z, units = (self._logarithms(data, X, y) if self._units is None else None) or self._scaled(y)
        return _Errors(self._fitted("errors", X, z, data.revision), z[is_valid], units, "together")

    def _errors_alone(self, data: TrialData, valid: NDArray[np.intp]) -> _Errors:
        """Fit all errors without related tasks, for suggestions."""
        # Few errors have another chain: the chain "alone" starts when a search without related tasks would start it.
        return self._errors_by("alone" if self._suggests_alone(data, valid) else "alone:few", data, valid)

    def _errors_judging(self, data: TrialData, valid: NDArray[np.intp]) -> _Errors:
        """Fit all errors without related tasks, to judge their forecasts."""
        alone_is_judge = self._surrogate.alone == JUDGE
        return self._errors_alone(data, valid) if alone_is_judge else self._errors_by("judge", data, valid)

    def _errors_by(self, name: str, data: TrialData, valid: NDArray[np.intp]) -> _Errors:
        """Fit all errors by a model of the task at hand alone, in units of these errors."""
        X, y, is_valid = _finite_errors(data, valid)
        z, units = self._logarithms(data, X, y) or ErrorUnits.standard(y)
        return _Errors(self._fitted(name, X, z, data.revision), z[is_valid], units, "alone")

    def _errors(self) -> Surrogate:
        """Build the model of errors."""
        return self._surrogate(**self._keywords)

    def _alone(self) -> Surrogate:
        """Build the model of errors without related tasks."""
        assert self._surrogate.alone is not None  # noqa: S101  it is made for one that has it alone
        return find_surrogate(self._surrogate.alone)(conditional=self._conditional)

    def _judge(self) -> Surrogate:
        """Build the model of errors that judges related tasks."""
        return find_surrogate(JUDGE)(conditional=self._conditional)

    def _durations(self) -> Surrogate:
        """Build the model of log durations: a network beside network surrogates, else a process."""
        kind = "gp" if self._surrogate.growth == "cubic" else "dngo"
        return find_surrogate(kind)(conditional=self._conditional)

    def _constraint(self, labels: str, *, few: bool = False) -> Classifier:
        """Build the model of one constraint: networks beside network surrogates if labels are many, else a process."""
        kind = "gp" if few or self._surrogate.growth == "cubic" else "network"
        return CLASSIFIERS[kind](conditional=self._conditional, labels=labels)

    def _kind(self, constraint: _Constraint) -> str:
        """Return the kind of model of a constraint: `noisy` when a configuration both met and missed it."""
        is_few = self._surrogate.growth != "cubic" and len(constraint.met) <= NETWORKS_BEYOND
        if _disagree(constraint.X, constraint.met):
            return "few-noisy" if is_few else "noisy"
        return "few" if is_few else "constraint"

    def _validity(self, constraints: Sequence[_Constraint], data: TrialData) -> list[Validity]:
        """Fit a classifier to each constraint that was both met and missed, in order of names."""
        return [
            Validity(
                self._fitted(f"{self._kind(constraint)}:{constraint.name}", constraint.X, constraint.met, data.revision)
            )
            for constraint in constraints
            if constraint.has_both
        ]

    def _pessimistic_validity(
        self, pending: Floats, constraints: Sequence[_Constraint], validity: Sequence[Validity], data: TrialData
    ) -> list[Validity]:
        """Fit the constraints as if each of `J x d` pending points missed the one that it is likeliest to miss.

        Otherwise all points of a batch would coincide. Stored models do not change.
        """
        if not len(pending):
            return list(validity)
        missed = np.argmin([factor.value(pending) for factor in validity], axis=0)
        refitted = []
        for i, constraint in enumerate(constraint for constraint in constraints if constraint.has_both):
            X = np.vstack([constraint.X, pending[missed == i]])
            met = np.concatenate([constraint.met, np.zeros(len(X) - len(constraint.met))])
            rng = np.random.default_rng([self._seed, zlib.crc32(constraint.name.encode()), data.revision, len(pending)])
            refitted.append(Validity(self._makers[self._kind(constraint)]().fit(X, met, rng=rng)))
        return refitted

    def _costs(self, data: TrialData) -> list[AcquisitionFunction]:
        """Fit the durations if the acquisition uses them and they differ."""
        seconds = np.array([observation.duration for observation in data.observations])
        is_finite = np.isfinite(seconds)
        logs = log_durations(seconds[is_finite])
        if not self._per_second or len(logs) < DURATIONS_NEED or np.ptp(logs) < SMALLEST_SD:
            return []
        return [InverseCost(self._fitted("durations", data.X[is_finite], logs, data.revision))]

    def _model(self, name: str, make: Callable[[], Any]) -> CheckpointedModel[Any]:
        """Return a model by name; the first use builds it, with a seed by its name."""
        if name not in self._models:
            seed = "errors" if name == "alone" else name  # as if there were no related tasks
            self._models[name] = CheckpointedModel(make(), seed=(self._seed, zlib.crc32(seed.encode())))
        return self._models[name]

    def _fitted(self, name: str, X: Floats, y: Floats, revision: int) -> Any:
        """Return a fitted model by name; the part before a colon is its kind."""
        return self._model(name, self._makers[name.split(":")[0]]).fitted(X, y, revision=revision)

    def _scaled(self, y: Floats) -> tuple[Floats, ErrorUnits]:
        """Convert errors to units of the related tasks, enlarged for huge errors, else to units of the errors."""
        if self._units is None:
            return ErrorUnits.standard(y) if len(y) else (y, ErrorUnits(0.0, 1.0))
        zero, scale = self._units
        largest = np.abs(np.append(y, zero) / BEYOND_MEASURE).max()
        units = ErrorUnits(zero, scale * max(1.0, float(largest) / scale))
        with np.errstate(over="ignore"):
            scaled = (y - units.zero) / units.scale
        if not np.isfinite(scaled).all():  # the difference of huge errors overflows
            scaled = y / units.scale - units.zero / units.scale
        return scaled, units

    def _logarithms(self, data: TrialData, X: Floats, y: Floats) -> tuple[Floats, ErrorUnits] | None:
        """Return logarithms of errors at `n x d` points with units; None when they are off or fit no better.

        None also when many evaluations fail: in unknown regions the promise of logarithms outweighs the risk of
        failure.
        """
        failed = sum(not observation.valid for observation in data.observations)
        may_warp = self._warps and failed <= MANY_FAIL * len(data.observations)
        return preferred_logarithms(X, y, self._conditional) if may_warp else None


def _n_taken(data: TrialData) -> int:
    """Return the number of configurations told or pending."""
    return len(data.observations) + len(data.pending) if data.n_taken is None else data.n_taken


def _constraint_name(name: str) -> str:
    """Return the name of a caller's constraint, distinct from `SUCCESS`."""
    return f"{name} (told)" if name.startswith(SUCCESS) else name


def _constraints(data: TrialData) -> list[_Constraint]:
    """Collect the observations of each constraint, in order of names.

    When only misses of a constraint were told, valid evaluations without a word on it count as met.
    """
    labels = [
        {
            SUCCESS: observation.status == "ok",
            **{_constraint_name(name): met for name, met in observation.constraints.items()},
        }
        for observation in data.observations
    ]
    constraints = []
    for name in sorted({name for row_labels in labels for name in row_labels}):
        never_met = not any(row_labels.get(name) for row_labels in labels)
        rows = [
            i for i, row_labels in enumerate(labels) if name in row_labels or (never_met and data.observations[i].valid)
        ]
        met = np.array([labels[i].get(name, True) for i in rows], dtype=np.float64)
        X, more = data.X[rows], data.beyond_memory if name == MEMORY else None
        if more is not None:
            X, met = np.vstack([X, more]), np.concatenate([met, np.zeros(len(more))])
        constraints.append(_Constraint(name, X, met))
    return constraints


def _valid(data: TrialData) -> NDArray[np.intp]:
    """Return the rows of valid evaluations that models of errors may use."""
    usable = range(len(data.observations)) if data.of_errors is None else data.of_errors
    return np.array([i for i in sorted(usable) if data.observations[i].valid], dtype=np.intp)


def _finite_errors(data: TrialData, valid: NDArray[np.intp]) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Return points and errors of all evaluations with an error, and a mask of the valid ones.

    An evaluation that misses a constraint still informs about errors. Its error may be a penalty, so it counts as the
    worst valid error at most.
    """
    among = range(len(data.observations)) if data.of_errors is None else sorted(data.of_errors)
    rows = np.array([i for i in among if math.isfinite(data.observations[i].error)], dtype=np.intp)
    errors, is_valid = np.array([data.observations[i].error for i in rows.tolist()]), np.isin(rows, valid)
    if is_valid.any():
        errors = np.minimum(errors, errors[is_valid].max())
    return data.X[rows], errors, is_valid


def _disagree(X: Floats, labels: Floats) -> bool:
    """Tell whether a point, NaN = NaN, has both labels; points that differ by rounding are one."""
    points = np.round(np.nan_to_num(X, nan=-1.0), 9)
    return len(np.unique(points, axis=0)) < len(np.unique(np.column_stack([points, labels]), axis=0))


def _units(related: Sequence[Task]) -> tuple[float, float]:
    """Return the average mean of tasks and the average of their known standard deviations."""
    scaled = [Standardised.of(task.y) for task in related]
    return _mean(np.array([task.mean for task in scaled])), _mean(known_spreads(scaled))


def _mean(values: Floats) -> float:
    """Return the mean of values whose sum may overflow."""
    with np.errstate(over="ignore"):
        mean = float(np.mean(values))
    return mean if math.isfinite(mean) else float(np.sum(values / len(values)))

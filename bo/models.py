"""Surrogates of error, constraints and cost, and the acquisition function built from them."""

import math
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from warmstart.bo.acquisition.cost import InverseCost, log_durations
from warmstart.bo.acquisition.function import AcquisitionFunction, Improvement, Product, Validity
from warmstart.bo.acquisition.pending import Fantasies, Observed, fantasise
from warmstart.bo.acquisition.scores import SCORES
from warmstart.bo.checkpointed_model import CheckpointedModel
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

ACQUISITIONS = (*SCORES, "ei-per-second")
"""What a suggestion may maximise."""
DURATIONS_NEED = 2
"""Valid durations before their first fit."""
PI_MARGIN = 0.03
"""Improvement, in standard deviations of the errors, whose probability `pi` is: any at all is the likeliest beside the best point."""
BEYOND_MEASURE = 1e100
"""Errors in units of the related tasks are at most this: squares of 1e200 overflow."""
ALONE_NEEDS = 2
"""Valid evaluations from which a model of the task at hand alone forecasts the next one."""
JUDGE = "gp"
"""The surrogate of the task at hand alone whose forecasts those with related tasks are compared with."""
JUDGES_UP_TO = 300
"""Valid evaluations up to which related tasks are judged: a process grows with the third power of their number."""
FORECASTS = "forecasts"
"""The record that is no model's."""
SUCCESS = "evaluation succeeds"
"""The constraint that failures teach."""
NETWORKS_BEYOND = 100
"""Labels up to which a process learns a constraint, beside networks, too: trained on few labels, these forget where they are."""


@dataclass(frozen=True, slots=True)
class TrialData:
    """What is known when a suggestion is asked for.

    Attributes:
        told: `n` evaluations; `X`, their model columns `n x d`.
        pending: `J x d` model columns of evaluations that still run.
        revision: grows with every change of what was told.
        of_errors: rows that models of errors may know; None = all. Constraints and durations are learned from all.
        n_taken: distinct configurations that were told or are pending; None = each of them is another one.
    """

    told: Sequence[Observation]
    X: Floats
    pending: Floats
    revision: int
    of_errors: Collection[int] | None = None
    n_taken: int | None = None


@dataclass(frozen=True, slots=True)
class Related:
    """What is known of related tasks.

    Attributes:
        tasks: their evaluations, in model columns.
        meta: `p` meta-feature of the task at hand, where the related ones have theirs.
        alone_from: configurations, told or pending, from which a search without related tasks asks its surrogate: from these on
            the task at hand alone suggests, so that related tasks that are never believed change nothing.
    """

    tasks: Sequence[Task] = ()
    meta: Floats | None = None
    alone_from: int = 3


@dataclass(frozen=True, slots=True)
class _Errors:
    """A model of errors, fitted.

    Attributes:
        model: predicts in units of its own, from all errors that are known.
        z: errors of the valid evaluations in these units.
        units: these.
        kind: `together` with related tasks, or `alone`.
    """

    model: Surrogate
    z: Floats
    units: ErrorUnits
    kind: Literal["together", "alone"]


@dataclass(frozen=True, slots=True)
class _Constraint:
    """What is known of one constraint.

    Attributes:
        name: of it.
        X: `n x d` points at which it was looked at.
        met: `n`, 1 where it is met, else 0.
    """

    name: str
    X: Floats
    met: Floats

    @property
    def has_both(self) -> bool:
        """Tell whether it was both met and missed."""
        return bool(0 < self.met.sum() < len(self.met))


class SurrogateModels:
    """The models of one run, each kept from one suggestion to the next.

    Related tasks are believed as long as they help: where errors were forecast better by a Gaussian process of the task at hand alone, in units
    of its own, the surrogate of that task alone suggests (`warmstart.bo.forecasts`). A process judges networks, too: a network that knows few points
    forecasts so widely that any narrow forecast beats it.
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
        self._per_second = acquisition == "ei-per-second"
        self._acquisition = "ei" if self._per_second else acquisition
        self._units = _units(tasks) if tasks else None
        keywords: dict[str, Any] = {"conditional": conditional}
        if self._surrogate.multitask:
            scaled = [Task(task.X, self._scaled(task.y)[0], task.meta) for task in tasks]
            keywords |= {"related": scaled, "meta": related.meta}
        self._keywords = keywords
        self._kept: dict[str, CheckpointedModel[Any]] = {}
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
        """Count the valid evaluations that the surrogate needs."""
        if self._units is not None:
            return 0
        return self._surrogate.min_points

    @property
    def _compares(self) -> bool:
        """Tell whether related tasks are believed as far as they help only."""
        return self._units is not None and self._surrogate.alone is not None

    def acquisition_function(
        self, data: TrialData, *, rng: np.random.Generator, acquisition: str | None = None
    ) -> tuple[AcquisitionFunction, int | None] | None:
        """Make what the next suggestion maximises, and name the best evaluation so far, where there is one.

        Improvement under fantasies of what is pending, times P(valid) of every constraint that was both met and missed, times
        the expected inverse duration. While nothing valid is known, validity alone is sought, as if what is pending were not valid.
        An acquisition may be named instead of the run's own.

        Returns: None where there is too little to go by, as where some constraint was never met.
        """
        if not data.X.shape[1]:
            return None  # one configuration is all there is
        valid, constraints = _valid(data), _constraints(data)
        if not len(valid) and any(not constraint.met.any() for constraint in constraints):
            return None
        validity = self._validity(constraints, data)
        if not len(valid) and validity and self.least:
            return Product(self._validity_beside(data.pending, constraints, validity, data)), None
        if len(valid) < self.least or (self._units is not None and len(data.told) + len(data.pending) == 1):
            return (
                None  # the second evaluation tells whether related tasks are to be believed: it is not theirs to choose
            )
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
        if acquisition == "pi":
            fantasies = Fantasies(fantasies.model, fantasies.best - PI_MARGIN)
        if acquisition == "ei" and self._ei_variance == "predictive":
            noise = model.predict(X[:1]).noise
            fantasies = Fantasies(Observed(fantasies.model, noise[:, None, None]), fantasies.best)
        others: list[AcquisitionFunction] = [*validity, *self._costs(data)]
        return Product([Improvement(fantasies, acquisition=acquisition, weighed=bool(others)), *others]), row

    def log_gain(self, data: TrialData, X: Floats) -> float | None:
        """Return the log of the improvement expected at a `1 x d` point, in the errors' unit, weighed as in `function`.

        With `ei-per-second` it is that of a second, of the typical duration where durations do not differ.

        Returns: None where there is too little to go by, or nothing to improve on.
        """
        made = self.acquisition_function(data, rng=np.random.default_rng([self._seed, data.revision]), acquisition="ei")
        if made is None or made[1] is None:
            return None
        errors = self._errors_of(data, _valid(data), suggests=True)
        assert errors is not None  # noqa: S101  a function was made of it
        best = self._errors_at(data, _valid(data))[1].min()
        value = float(made[0].value(X)[0]) + float(errors.units.log_slope(best))
        if self._per_second and not self._costs(data):
            seconds = np.array([observation.duration for observation in data.told])
            logs = log_durations(seconds[np.isfinite(seconds)])
            value -= float(logs.mean()) if len(logs) else 0.0
        return value

    def first_valid(self, data: TrialData, X: Floats) -> int:
        """Return the first of `m x d` points that is likelier to be valid than not, else the likeliest one; 0 where every evaluation is."""
        validity = self._validity(_constraints(data), data)
        if not validity:
            return 0
        log_probability = Product(validity).value(X)
        is_likely = log_probability >= math.log(0.5)
        return int(is_likely.argmax() if is_likely.any() else log_probability.argmax())

    def predict(self, data: TrialData, X: Floats) -> tuple[Prediction, ErrorUnits] | None:
        """Predict errors at `m x d` points in the model's units, and give these.

        Returns: None where there is too little to go by.
        """
        valid = _valid(data)
        if len(valid) < self.least or not data.X.shape[1]:
            return None
        errors = self._errors_of(data, valid)
        return None if errors is None else (errors.model.predict(X), errors.units)

    def takes_logarithms(self, data: TrialData) -> bool:
        """Tell whether logarithms of errors are modelled."""
        valid = _valid(data)
        errors = self._errors_of(data, valid) if self._warps and len(valid) >= self.least else None
        return errors is not None and errors.units.floor is not None

    def open_share(self, data: TrialData, X: Floats) -> float:
        """Return how much of its variance before any data a Gaussian process of the errors has left at `m x d` points: a median, in 0..1."""
        errors = self._errors_of(data, _valid(data))
        assert errors is not None and isinstance(errors.model, GaussianProcess)  # noqa: S101, PT018  only such searches converge
        shares = errors.model.predict(X).var / errors.model.amplitudes[:, None]
        return float(np.median(shares))

    def forecast(self, data: TrialData, X: Floats) -> None:
        """Note what is expected at a `1 x d` point that is going to be evaluated, with related tasks and without; nothing where there are none."""
        valid = _valid(data)
        if not self._compares or not 0 < len(valid) <= JUDGES_UP_TO:
            return
        if self._forecasts.given_up(*self._errors_at(data, valid)):
            return
        together = self._errors_together(data, valid)
        mean, sd = moments(together.model.predict(X), together.units)
        last = data.told[int(valid[-1])].error
        forecast = Forecast(mean, sd, last, None)
        if len(valid) >= ALONE_NEEDS:
            judge = self._errors_judging(data, valid)
            forecast = Forecast(mean, sd, *moments(judge.model.predict(X), judge.units))
        self._forecasts.add(X[0], forecast)

    def to_dict(self) -> dict[str, Any]:
        """Return the states of all models, as JSON has them, and what they forecast."""
        models = {name: kept.to_dict() for name, kept in self._kept.items()}
        return models if self._units is None else {**models, FORECASTS: self._forecasts.to_dict()}

    def restore(self, record: Mapping[str, Any]) -> None:
        """Take a record of `to_dict`."""
        self._forecasts.restore(record.get(FORECASTS, {}))
        for name, state in record.items():
            if name == FORECASTS:
                continue
            self._keep(name, self._makers[name.split(":")[0]]).restore(state)

    def _errors_of(self, data: TrialData, valid: NDArray[np.intp], *, suggests: bool = False) -> _Errors | None:
        """Fit the errors of valid evaluations, with related tasks as far as these helped; None where alone there are too few.

        Args:
            data: what is known.
            valid: rows that have an error.
            suggests: for a suggestion; where nothing came of the last ones, one of four is the task at hand's alone.
        """
        if not self._compares:
            return self._errors_together(data, valid)
        X, y = self._errors_at(data, valid)
        is_alone = suggests and _n_taken(data) % STALLED == 1 and has_stalled(y)
        if self._forecasts.believed(X, y) and not is_alone:
            return self._errors_together(data, valid)
        return self._errors_alone(data, valid) if self._suggests_alone(data, valid) else None

    def _suggests_alone(self, data: TrialData, valid: NDArray[np.intp]) -> bool:
        """Tell whether a search without related tasks would ask its surrogate by now."""
        assert self._surrogate.alone is not None  # noqa: S101  it is asked of one that has it alone
        return _n_taken(data) >= self._alone_from and len(valid) >= find_surrogate(self._surrogate.alone).min_points

    def _errors_at(self, data: TrialData, valid: NDArray[np.intp]) -> tuple[Floats, Floats]:
        """Return the points and the errors of valid evaluations."""
        return data.X[valid], np.array([data.told[i].error for i in valid.tolist()])

    def _errors_together(self, data: TrialData, valid: NDArray[np.intp]) -> _Errors:
        """Fit the errors that are known, with related tasks where there are any."""
        X, y, is_valid = _known_errors(data, valid)
        z, units = (self._logarithms(data, X, y) if self._units is None else None) or self._scaled(y)
        return _Errors(self._fitted("errors", X, z, data.revision), z[is_valid], units, "together")

    def _errors_alone(self, data: TrialData, valid: NDArray[np.intp]) -> _Errors:
        """Fit the errors that are known without related tasks, to suggest."""
        # with few, another chain: that of a search without related tasks begins where such a search begins it
        return self._errors_by("alone" if self._suggests_alone(data, valid) else "alone:few", data, valid)

    def _errors_judging(self, data: TrialData, valid: NDArray[np.intp]) -> _Errors:
        """Fit the errors that are known without related tasks, to judge these."""
        is_one = self._surrogate.alone == JUDGE
        return self._errors_alone(data, valid) if is_one else self._errors_by("judge", data, valid)

    def _errors_by(self, name: str, data: TrialData, valid: NDArray[np.intp]) -> _Errors:
        """Fit the errors that are known by a model of the task at hand alone, in units of their own."""
        X, y, is_valid = _known_errors(data, valid)
        z, units = self._logarithms(data, X, y) or ErrorUnits.standard(y)
        return _Errors(self._fitted(name, X, z, data.revision), z[is_valid], units, "alone")

    def _errors(self) -> Surrogate:
        """Make the model of errors."""
        return self._surrogate(**self._keywords)

    def _alone(self) -> Surrogate:
        """Make the model of errors that knows no related task."""
        assert self._surrogate.alone is not None  # noqa: S101  it is made for one that has it alone
        return find_surrogate(self._surrogate.alone)(conditional=self._conditional)

    def _judge(self) -> Surrogate:
        """Make the model of errors that judges related tasks."""
        return find_surrogate(JUDGE)(conditional=self._conditional)

    def _durations(self) -> Surrogate:
        """Make the model of the logarithms of durations: a network beside networks, a process beside processes."""
        kind = "gp" if self._surrogate.growth == "cubic" else "dngo"
        return find_surrogate(kind)(conditional=self._conditional)

    def _constraint(self, labels: str, *, few: bool = False) -> Classifier:
        """Make the model of one constraint: networks beside networks, where there are many labels, else a process."""
        kind = "gp" if few or self._surrogate.growth == "cubic" else "network"
        return CLASSIFIERS[kind](conditional=self._conditional, labels=labels)

    def _kind(self, constraint: _Constraint) -> str:
        """Name the kind of the model of a constraint: `noisy` where one configuration was told both to meet and to miss it."""
        is_few = self._surrogate.growth != "cubic" and len(constraint.met) <= NETWORKS_BEYOND
        if _disagree(constraint.X, constraint.met):
            return "few-noisy" if is_few else "noisy"
        return "few" if is_few else "constraint"

    def _validity(self, constraints: Sequence[_Constraint], data: TrialData) -> list[Validity]:
        """Fit the constraints that were both met and missed, in order of their names."""
        return [
            Validity(self._fitted(f"{self._kind(each)}:{each.name}", each.X, each.met, data.revision))
            for each in constraints
            if each.has_both
        ]

    def _validity_beside(
        self, pending: Floats, constraints: Sequence[_Constraint], validity: Sequence[Validity], data: TrialData
    ) -> list[Validity]:
        """Fit the same as if each of `J x d` pending points missed the constraint that it is likeliest to miss.

        Else all points of a batch would be one. The models that are kept stay as they are.
        """
        if not len(pending):
            return list(validity)
        missed = np.argmin([each.value(pending) for each in validity], axis=0)
        found = []
        for i, each in enumerate(constraint for constraint in constraints if constraint.has_both):
            X = np.vstack([each.X, pending[missed == i]])
            met = np.concatenate([each.met, np.zeros(len(X) - len(each.met))])
            rng = np.random.default_rng([self._seed, zlib.crc32(each.name.encode()), data.revision, len(pending)])
            found.append(Validity(self._makers[self._kind(each)]().fit(X, met, rng=rng)))
        return found

    def _costs(self, data: TrialData) -> list[AcquisitionFunction]:
        """Fit the durations where they are wanted, and tell evaluations apart."""
        seconds = np.array([observation.duration for observation in data.told])
        known = np.isfinite(seconds)
        logs = log_durations(seconds[known])
        if not self._per_second or len(logs) < DURATIONS_NEED or np.ptp(logs) < SMALLEST_SD:
            return []
        return [InverseCost(self._fitted("durations", data.X[known], logs, data.revision))]

    def _keep(self, name: str, make: Callable[[], Any]) -> CheckpointedModel[Any]:
        """Return a model by name, made at first use with a seed of its own."""
        if name not in self._kept:
            seed = "errors" if name == "alone" else name  # as if there were no related tasks
            self._kept[name] = CheckpointedModel(make(), seed=(self._seed, zlib.crc32(seed.encode())))
        return self._kept[name]

    def _fitted(self, name: str, X: Floats, y: Floats, revision: int) -> Any:
        """Return a model by name, fitted; what stands before a colon says which kind it is."""
        return self._keep(name, self._makers[name.split(":")[0]]).fitted(X, y, revision=revision)

    def _scaled(self, y: Floats) -> tuple[Floats, ErrorUnits]:
        """Bring errors into units in which scores cannot overflow: the related tasks', where there are any and errors are not beyond measure in them, else their own."""
        if self._units is None:
            return ErrorUnits.standard(y) if len(y) else (y, ErrorUnits(0.0, 1.0))
        zero, one = self._units
        largest = np.abs(np.append(y, zero) / BEYOND_MEASURE).max()
        units = ErrorUnits(zero, one * max(1.0, float(largest) / one))
        with np.errstate(over="ignore"):
            scaled = (y - units.zero) / units.one
        if not np.isfinite(scaled).all():  # errors at both ends of all numbers
            scaled = y / units.one - units.zero / units.one
        return scaled, units

    def _logarithms(self, data: TrialData, X: Floats, y: Floats) -> tuple[Floats, ErrorUnits] | None:
        """Take logarithms of errors at `n x d` points; None where they are not wanted, or fit no better.

        None where many evaluations fail, too: what logarithms promise of a region where nothing is known outweighs that it will fail.
        """
        failed = sum(not observation.valid for observation in data.told)
        is_wanted = self._warps and failed <= MANY_FAIL * len(data.told)
        return preferred_logarithms(X, y, self._conditional) if is_wanted else None


def _n_taken(data: TrialData) -> int:
    """Return how many suggestions were taken, those that are pending among them."""
    return len(data.told) + len(data.pending) if data.n_taken is None else data.n_taken


def _told_name(name: str) -> str:
    """Return the name under which a caller's constraint is learned: never that of our own."""
    return f"{name} (told)" if name.startswith(SUCCESS) else name


def _constraints(data: TrialData) -> list[_Constraint]:
    """Collect what was told of each constraint, in order of their names.

    Of one that was told only where it was missed, valid evaluations that say nothing of it met it, as they count elsewhere.
    """
    labels = [
        {SUCCESS: told.status == "ok", **{_told_name(name): met for name, met in told.constraints.items()}}
        for told in data.told
    ]
    found = []
    for name in sorted({name for known in labels for name in known}):
        never_met = not any(known.get(name) for known in labels)
        rows = [i for i, known in enumerate(labels) if name in known or (never_met and data.told[i].valid)]
        met = np.array([labels[i].get(name, True) for i in rows], dtype=np.float64)
        found.append(_Constraint(name, data.X[rows], met))
    return found


def _valid(data: TrialData) -> NDArray[np.intp]:
    """Return the rows of evaluations that have an error, which may be known, and meet their constraints."""
    known = range(len(data.told)) if data.of_errors is None else data.of_errors
    return np.array([i for i in sorted(known) if data.told[i].valid], dtype=np.intp)


def _known_errors(data: TrialData, valid: NDArray[np.intp]) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Return points and errors of all evaluations that have one, and which of them are valid.

    What misses a constraint tells of the error around it, too. It counts as the worst valid one at most: it may be a penalty.
    """
    among = range(len(data.told)) if data.of_errors is None else sorted(data.of_errors)
    rows = np.array([i for i in among if math.isfinite(data.told[i].error)], dtype=np.intp)
    errors, is_valid = np.array([data.told[i].error for i in rows.tolist()]), np.isin(rows, valid)
    if is_valid.any():
        errors = np.minimum(errors, errors[is_valid].max())
    return data.X[rows], errors, is_valid


def _disagree(X: Floats, labels: Floats) -> bool:
    """Tell whether some point, NaN = NaN, has both labels; points that rounding alone tells apart are one."""
    points = np.round(np.nan_to_num(X, nan=-1.0), 9)
    return len(np.unique(points, axis=0)) < len(np.unique(np.column_stack([points, labels]), axis=0))


def _units(related: Sequence[Task]) -> tuple[float, float]:
    """Average the means of tasks, and the standard deviations that are known."""
    scaled = [Standardised.of(task.y) for task in related]
    return _mean(np.array([task.mean for task in scaled])), _mean(known_spreads(scaled))


def _mean(values: Floats) -> float:
    """Average values whose sum may be beyond all numbers."""
    with np.errstate(over="ignore"):
        found = float(np.mean(values))
    return found if math.isfinite(found) else float(np.sum(values / len(values)))

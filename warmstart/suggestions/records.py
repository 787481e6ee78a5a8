"""The records of an answer: a configuration, a neighbour, the confidence, the dataset."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from warmstart.history_store.records import Value

if TYPE_CHECKING:
    from warmstart.bo.transfer.expected_error import ExpectedError
    from warmstart.timing.forecast import ExpectedSeconds

WHY_EVEN = "spread evenly over the space (Sobol): the history knows nothing about it"
"""Reason of a suggestion in a space that has nothing in common with the history's."""
WHY_UNTRIED = "no dataset that may answer ran it: it follows those that were run"
"""Reason of a suggestion whose configuration the history has, but without runs."""


@dataclass(frozen=True, slots=True)
class InitialDesign:
    """One configuration to try.

    Attributes:
        config: hyperparameter values by name, native Python types.
        natural: the values behind logarithmic names, e.g. `learning_rate` for `log10_learning_rate`.
        source: the nearest of the datasets whose regret it lowers most; None where it comes from the portfolio or a Sobol sequence.
        distance: from the query to that dataset; None without a source.
        source_error: validation error in [0, 1] that it reached there; None without a source.
        expected_regret: normalised regret in [0, 1] (0 = the best known configuration, 1 = the worst) to expect of
            the best among this suggestion and those before it; None where the history is not calibrated for the
            strategy.
        expected_error: expected validation error on this dataset; None where the history has too few data.
        why: one line for people.
        measured: whether the configuration was run in this form; False where no dataset that may answer ran it, and where it
            was put into another space and has values that were not: `not_measured` names them.
        not_measured: hyperparameters whose values were moved to what that space allows, or that the history never had.
        seconds: that a run of it takes, where a plan or a workload was asked for.
    """

    config: Mapping[str, Value]
    natural: Mapping[str, float]
    source: str | None = None
    distance: float | None = None
    source_error: float | None = None
    expected_regret: float | None = None
    why: str = ""
    measured: bool = True
    not_measured: tuple[str, ...] = ()
    expected_error: "ExpectedError | None" = None
    seconds: "ExpectedSeconds | None" = None

    @property
    def is_of_history(self) -> bool:
        """Tell whether it comes from a configuration of the history, not from an even spread."""
        return self.why != WHY_EVEN

    @property
    def origin(self) -> str:
        """Return its origin in words: a dataset, "all datasets" or "an even spread"."""
        if self.source is None and not self.measured and not self.not_measured:
            return "no dataset"
        return self.source or ("all datasets" if self.is_of_history else "an even spread")

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object of a suggestion."""
        return {
            "config": dict(self.config),
            "natural": dict(self.natural),
            "from": self.source,
            "distance": self.distance,
            "source_error": self.source_error,
            "expected_regret": self.expected_regret,
            "expected_error": None if self.expected_error is None else self.expected_error.to_dict(),
            "measured": self.measured,
            "not_measured": list(self.not_measured),
            **({} if self.seconds is None else {"seconds": self.seconds.to_dict()}),
        }


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A dataset of the history with its distance from the query.

    Attributes:
        name: in the history.
        distance: between the two meta-features, ≥ 0.
        best_error: lowest validation error recorded on it, in [0, 1]; None where none is.
        distance_range: where the distance lies for 95 % of other draws of as many pictures, lowest and highest; None
            where the history does not know how far its distances move.
    """

    name: str
    distance: float
    best_error: float | None
    distance_range: tuple[float, float] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object of a neighbour."""
        return {
            "name": self.name,
            "distance": self.distance,
            "distance_range": None if self.distance_range is None else list(self.distance_range),
            "best_error": self.best_error,
        }

    def to_row(self) -> dict[str, Any]:
        """Return one flat row, with the range in two cells, or without it where it is unknown."""
        bounds = () if self.distance_range is None else zip(("at_least", "at_most"), self.distance_range, strict=True)
        return {"name": self.name, "distance": self.distance, **dict(bounds), "best_error": self.best_error}


@dataclass(frozen=True, slots=True)
class Confidence:
    """How much the history says about the query.

    Attributes:
        typical: whether no reason speaks against it.
        distance_percentile: where its nearest distance lies among the history's leave-one-group-out ones, in [0, 100];
            None where the history has fewer than three groups.
        note: for people: one sentence a reason.
        reasons: stable codes of what speaks against it, see `warmstart.suggestions.confidence.Code`.
    """

    typical: bool
    distance_percentile: float | None
    note: str
    reasons: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {
            "typical": self.typical,
            "distance_percentile": self.distance_percentile,
            "note": self.note,
            "reasons": list(self.reasons),
        }


@dataclass(frozen=True, slots=True)
class DatasetSummary:
    """The query's path, sizes and fingerprint.

    Attributes:
        path: of the query.
        n_images: of all splits.
        n_classes: with images.
        fingerprint: of the query.
        parts: about the training and validation images, if known.
        side: typical pixels of a picture's shorter side, if known.
    """

    path: str
    n_images: int
    n_classes: int
    fingerprint: str
    parts: tuple[int, int] | None = None
    side: int | None = field(default=None, compare=False)

    @property
    def n_train(self) -> int:
        """Return the approximate number of training images, at least 1."""
        return max(1, self._parts[0])

    @property
    def n_val(self) -> int:
        """Return the approximate number of validation images."""
        return self._parts[1]

    @property
    def _parts(self) -> tuple[int, int]:
        # Imported here, as it imports numpy.
        from warmstart.history_store.splits import count_parts

        return count_parts(self.n_images) if self.parts is None else self.parts

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {
            "path": self.path,
            "n_images": self.n_images,
            "n_classes": self.n_classes,
            "fingerprint": self.fingerprint,
        }

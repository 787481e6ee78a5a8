"""The records of an answer: neighbours, configurations, confidence."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from warmstart.history_store.records import Value
from warmstart.history_store.space import shown
from warmstart.history_store.wording import in_short

if TYPE_CHECKING:
    from warmstart.bo.transfer.duration_forecast import ExpectedSeconds
    from warmstart.bo.transfer.expected_error import DatasetExpectation, ExpectedError
    from warmstart.history_store.mapping import Match
    from warmstart.measured_with import MeasuredWith
    from warmstart.suggestions.explanation import Explanation
    from warmstart.suggestions.time_plan import TimePlan
    from warmstart.suggestions.tuned_before import TunedBefore

SCHEMA_VERSION = 1
WHY_EVEN = "spread evenly over the space (Sobol): the history knows nothing about it"
"""Reason of a suggestion in a space that has nothing in common with the history's."""
WHY_UNTRIED = "no dataset that may answer ran it: it follows those that were run"
"""Reason of a suggestion whose configuration the history has, but without runs."""


LINES = 3
"""Suggestions and neighbours in the text of an answer."""


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
        reasons: stable codes of what speaks against it, see `warmstart.suggestions.doubts.Code`.
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
    """The query's path, sizes and fingerprint; `n_images` counts all splits, `parts` about the training and validation images, if known."""

    path: str
    n_images: int
    n_classes: int
    fingerprint: str
    parts: tuple[int, int] | None = None

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


@dataclass(frozen=True, slots=True, repr=False)
class Answer:
    """The answer of `warmstart suggest` for one dataset.

    Attributes:
        dataset: the query.
        neighbours: nearest first; at least three where the history has them.
        suggestions: best first, no two alike.
        strategy: the one that chose them.
        confidence: whether distances mean something here.
        history: path of the history.
        model: path of the meta-feature model.
        seed: of the sampled images and the Sobol filling.
        space_json: ConfigSpace JSON of the space of the suggestions: the history's, or the one that was asked for.
        notes: what a person should hear besides, e.g. pictures left out.
        explanation: the reasons, where they were asked for.
        mapping: how configurations came into the space that was asked for; None where it is the history's.
        tuned_before: what the history knows of this very dataset; None where it is new to it.
        expected_error: validation error to expect of the best configuration after a search; None where the history knows too little.
        workload: what the configurations train, where that was asked for.
        measured_with: the network, optimiser, image size and budget that the configurations are for; None where nobody said.
        plan: what fits in the time that was given; None where none was. The suggestions are its runs.
        expectation: what to expect of the suggestions, then of the plan's `others`, and of the best after a search, as more errors come; None where
            the history knows too little, or the suggestions are not as it measured them.
    """

    dataset: DatasetSummary
    neighbours: tuple[Neighbour, ...]
    suggestions: tuple[InitialDesign, ...]
    strategy: str
    confidence: Confidence
    history: str
    model: str
    seed: int
    space_json: str = ""
    notes: tuple[str, ...] = ()
    explanation: "Explanation | None" = None
    mapping: "tuple[Match, ...] | None" = None
    tuned_before: "TunedBefore | None" = None
    expected_error: "ExpectedError | None" = None
    workload: str | None = None
    measured_with: "MeasuredWith | None" = None
    plan: "TimePlan | None" = None
    expectation: "DatasetExpectation | None" = field(default=None, compare=False)

    @property
    def expected_line(self) -> str:
        """Return a sentence on the error that a search is expected to reach; empty where unknown."""
        if (best := self.expected_error) is None:
            return ""
        is_theirs = not any(design.not_measured for design in self.suggestions)
        return (
            f"{'Expect' if is_theirs else 'With the network of the history, expect'} the best of a search to reach an "
            f"error of {best.value:.3g}, in {10 * best.level:.0f} of 10 cases between {best.low:.3g} and {best.high:.3g}."
        )

    def __repr__(self) -> str:
        """Return a few lines: dataset, doubts, first configurations, strategy, nearest datasets."""
        about, more = self.dataset, len(self.suggestions) - LINES
        near = ", ".join(f"{item.name} ({item.distance:.3g})" for item in self.neighbours[:LINES])
        lines = [
            f"Answer: {about.path}, {about.n_images} images, {about.n_classes} classes",
            *([] if self.confidence.typical else [f"  {self.confidence.note}"]),
            *(f"  {rank}. {_line(item)}" for rank, item in enumerate(self.suggestions[:LINES], start=1)),
            *([f"  and {more} more in .suggestions"] if more > 0 else []),
            *([f"  strategy: {self.strategy}"] if any(item.is_of_history for item in self.suggestions) else []),
            *([f"  {self.expected_line}"] if self.expected_line else []),
            *([f"  near: {near}"] if near else []),
        ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Return the configurations and the neighbours as HTML tables for a notebook."""
        from warmstart.html import answer_html

        return answer_html(self)

    def to_dict(self) -> dict[str, Any]:
        """Return the document of ``warmstart suggest --format json``, native types only."""
        document = {
            "schema_version": SCHEMA_VERSION,
            "dataset": self.dataset.to_dict(),
            "neighbours": [neighbour.to_dict() for neighbour in self.neighbours],
            "suggestions": [suggestion.to_dict() for suggestion in self.suggestions],
            "strategy": self.strategy,
            "confidence": self.confidence.to_dict(),
            "history": self.history,
            "model": self.model,
            "seed": self.seed,
            "expected_error": None if self.expected_error is None else self.expected_error.to_dict(),
        }
        if self.workload is not None:
            document["workload"] = self.workload
        if self.measured_with is not None:
            document["measured_with"] = self.measured_with.to_dict()
        if self.plan is not None:
            errors = [item.expected_error for item in self.suggestions]
            document["plan"] = self.plan.to_dict([None if item is None else item.to_dict() for item in errors])
        if self.tuned_before is not None:
            document["tuned_before"] = self.tuned_before.to_dict()
        reasons = {} if self.explanation is None else self.explanation.to_dict()
        if self.mapping is not None:
            reasons["mapping"] = [match.to_dict() for match in self.mapping]
        return {**document, "explanation": reasons} if reasons else document


def _line(design: InitialDesign) -> str:
    """Return the values and the origin of a suggestion in one line."""
    values = ", ".join(f"{name}={in_short(value)}" for name, value in shown(design.config).items())
    return f"{values} (from {design.origin})"

"""What an answer is made of: neighbours, configurations, confidence."""

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
EVENLY = "spread evenly over the space (Sobol): the history knows nothing about it"
"""Why a suggestion is what it is where nothing of it is known."""
UNTRIED = "no dataset that may answer ran it: it follows those that were run"
"""Why a suggestion is what it is where the history has its configuration, but no run of it."""


LINES = 3
"""Suggestions, and neighbours, that the text of an answer shows."""


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
        expected_error: validation error to expect of it on this dataset; None where the history knows too little.
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
        """Whether a configuration of the history stands behind it; else it fills a space of which nothing is known."""
        return self.why != EVENLY

    @property
    def origin(self) -> str:
        """Say where it comes from: a dataset, or what there is in place of one."""
        if self.source is None and not self.measured and not self.not_measured:
            return "no dataset"
        return self.source or ("all datasets" if self.is_of_history else "an even spread")

    def to_dict(self) -> dict[str, Any]:
        """Return the contract's object of one suggestion."""
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
    """A dataset of the history, seen from the query.

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
        """Return the contract's object of one neighbour."""
        return {
            "name": self.name,
            "distance": self.distance,
            "distance_range": None if self.distance_range is None else list(self.distance_range),
            "best_error": self.best_error,
        }

    def to_row(self) -> dict[str, Any]:
        """Return one flat row: the range in two cells, or in none where nobody knows it."""
        known = () if self.distance_range is None else zip(("at_least", "at_most"), self.distance_range, strict=True)
        return {"name": self.name, "distance": self.distance, **dict(known), "best_error": self.best_error}


@dataclass(frozen=True, slots=True)
class Confidence:
    """Whether the history knows anything of the query.

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
        """Return the contract's object."""
        return {
            "typical": self.typical,
            "distance_percentile": self.distance_percentile,
            "note": self.note,
            "reasons": list(self.reasons),
        }


@dataclass(frozen=True, slots=True)
class DatasetSummary:
    """The query: where it lies, its size, its fingerprint; `n_images` counts all splits, `parts` about those that train and validate, where that is known."""

    path: str
    n_images: int
    n_classes: int
    fingerprint: str
    parts: tuple[int, int] | None = None

    @property
    def n_train(self) -> int:
        """About how many images train, at least 1."""
        return max(1, self._parts[0])

    @property
    def n_val(self) -> int:
        """About how many images validate."""
        return self._parts[1]

    @property
    def _parts(self) -> tuple[int, int]:
        from warmstart.history_store.splits import count_parts  # numpy comes with it

        return count_parts(self.n_images) if self.parts is None else self.parts

    def to_dict(self) -> dict[str, Any]:
        """Return the contract's object."""
        return {
            "path": self.path,
            "n_images": self.n_images,
            "n_classes": self.n_classes,
            "fingerprint": self.fingerprint,
        }


@dataclass(frozen=True, slots=True, repr=False)
class Answer:
    """All that `warmstart suggest` says about one dataset.

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
        """Say what error a search is expected to reach; empty where the history does not tell."""
        if (best := self.expected_error) is None:
            return ""
        is_theirs = not any(design.not_measured for design in self.suggestions)
        return (
            f"{'Expect' if is_theirs else 'With the network of the history, expect'} the best of a search to reach an "
            f"error of {best.value:.3g}, in {10 * best.level:.0f} of 10 cases between {best.low:.3g} and {best.high:.3g}."
        )

    def __repr__(self) -> str:
        """Return a few lines: the dataset, doubts, the first configurations, who chose them, the nearest datasets."""
        about, more = self.dataset, len(self.suggestions) - LINES
        near = ", ".join(f"{each.name} ({each.distance:.3g})" for each in self.neighbours[:LINES])
        lines = [
            f"Answer: {about.path}, {about.n_images} images, {about.n_classes} classes",
            *([] if self.confidence.typical else [f"  {self.confidence.note}"]),
            *(f"  {rank}. {_line(each)}" for rank, each in enumerate(self.suggestions[:LINES], start=1)),
            *([f"  and {more} more in .suggestions"] if more > 0 else []),
            *([f"  strategy: {self.strategy}"] if any(each.is_of_history for each in self.suggestions) else []),
            *([f"  {self.expected_line}"] if self.expected_line else []),
            *([f"  near: {near}"] if near else []),
        ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the configurations and the neighbours as tables."""
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
            errors = [each.expected_error for each in self.suggestions]
            document["plan"] = self.plan.to_dict([None if each is None else each.to_dict() for each in errors])
        if self.tuned_before is not None:
            document["tuned_before"] = self.tuned_before.to_dict()
        reasons = {} if self.explanation is None else self.explanation.to_dict()
        if self.mapping is not None:
            reasons["mapping"] = [match.to_dict() for match in self.mapping]
        return {**document, "explanation": reasons} if reasons else document


def _line(design: InitialDesign) -> str:
    """Return the values of a suggestion, as tables show them, and where they come from."""
    values = ", ".join(f"{name}={in_short(value)}" for name, value in shown(design.config).items())
    return f"{values} (from {design.origin})"

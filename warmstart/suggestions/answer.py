"""The answer of `suggest`: its records together, as text, HTML and JSON, rows for programs, and texts for tuners."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, overload

from warmstart.history_store.errors import DataError, UsageError
from warmstart.history_store.quoting import PREFIX, in_json, in_line, in_markup, in_python
from warmstart.history_store.space import shown
from warmstart.history_store.wording import in_short
from warmstart.suggestions.records import Confidence, DatasetSummary, InitialDesign, Neighbour
from warmstart.tables import frame_of, section, table

if TYPE_CHECKING:
    from warmstart.bo.transfer.expected_error import DatasetExpectation, ExpectedError
    from warmstart.history_store.mapping import Match
    from warmstart.measured_with import MeasuredWith
    from warmstart.suggestions.explanation import Explanation
    from warmstart.suggestions.location import TunedBefore
    from warmstart.suggestions.other_sizes import ExpectedAfter
    from warmstart.timing.plan import TimePlan


SCHEMA_VERSION = 1
LINES = 3
"""Suggestions and neighbours in the text of an answer."""


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
        are_notes_logged: whether the notes and doubts were logged, so that a notebook need not show them again.
        expected_after: error to expect after some minutes of `classify` on one core, for pictures of which the history knows what that reaches.
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
    are_notes_logged: bool = field(default=False, compare=False)
    expected_after: "tuple[ExpectedAfter, ...]" = ()

    def __len__(self) -> int:
        """Return the number of suggestions."""
        return len(self.suggestions)

    def __bool__(self) -> bool:
        """Return true, also without suggestions."""
        return True

    def __iter__(self) -> Iterator[InitialDesign]:
        """Yield the suggestions, best first."""
        return iter(self.suggestions)

    @overload
    def __getitem__(self, index: int) -> InitialDesign: ...
    @overload
    def __getitem__(self, index: slice) -> list[InitialDesign]: ...
    def __getitem__(self, index: int | slice) -> InitialDesign | list[InitialDesign]:
        """Return a suggestion by its rank from 0, or a list of several."""
        return list(self.suggestions[index]) if isinstance(index, slice) else self.suggestions[index]

    def to_frame(self) -> Any:
        """Return the suggestions as a table of pandas: a row a suggestion, a column a hyperparameter.

        Raises:
            UsageError: pandas is not installed.
        """
        return frame_of(_rows(self))

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
        return _html(self)

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
        if self.expected_after:
            document["expected_after"] = [item.to_dict() for item in self.expected_after]
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


def _rows(answer: Answer) -> list[dict[str, Any]]:
    """Return a row for each suggestion: its values in natural units, where it is from, what to expect."""
    return [
        {
            **shown(item.config),
            "from": item.origin,
            "distance": item.distance,
            "error there": item.source_error if item.measured else "not measured",
            "error expected": None if item.expected_error is None else item.expected_error.value,
            "expected regret": item.expected_regret,
            "seconds": None if item.seconds is None else item.seconds.value,
        }
        for item in answer.suggestions
    ]


def _html(answer: Answer) -> str:
    """Return an answer as HTML: confidence, configurations, neighbours, reasons."""
    about = answer.dataset
    head = f"{about.path}: {about.n_images} images, {about.n_classes} classes."
    notes = () if answer.are_notes_logged else answer.notes
    if answer.confidence.note not in answer.notes or not answer.are_notes_logged:
        head = f"{head} {answer.confidence.note}"
    parts = [f"<p>{in_markup(text)}</p>" for text in (head, *(n for n in notes if n != answer.confidence.note))]
    if answer.suggestions:
        is_of_history = any(item.is_of_history for item in answer.suggestions)
        by = answer.strategy if is_of_history else "no strategy: nothing of the space is known"
        parts.append(table(f"Configurations to try first, by {by}", _rows(answer)))
        if answer.plan is not None:
            parts.append(f"<p>{in_markup(answer.plan.line)}</p>")
        if is_of_history and answer.measured_with is not None and answer.measured_with.line:
            parts.append(f"<p>{in_markup(answer.measured_with.line)}</p>")
    if answer.expected_line:
        parts.append(f"<p>{in_markup(answer.expected_line)}</p>")
    parts.append(table("Datasets that it resembles most", [item.to_row() for item in answer.neighbours]))
    reasons = (
        []
        if (why := answer.explanation) is None
        else why.in_words(answer.suggestions, is_timed=answer.plan is not None)
    )
    for heading, lines in reasons:
        parts.append(f"<p>{in_markup(heading)}</p><ul>{''.join(f'<li>{in_markup(line)}</li>' for line in lines)}</ul>")
    return section(parts)


ERROR = ("expected_error", "expected_error_low", "expected_error_high")
"""Columns of the expected error and its interval."""
RESULT_COLUMNS = (
    "rank",
    "from",
    "distance",
    "source_error",
    "expected_regret",
    *ERROR,
    "measured",
    "not_measured",
    "seconds",
)
"""Columns of a table of suggestions that are not hyperparameters."""


def suggestion_rows(answer: Answer) -> list[dict[str, Any]]:
    """Return one flat row per suggestion: rank, hyperparameters (`config.rank` if named like another column), origin, natural values."""
    return [
        {
            "rank": rank,
            **{f"{PREFIX}{name}" if name in RESULT_COLUMNS else name: value for name, value in design.config.items()},
            "from": design.source,
            "distance": design.distance,
            "source_error": design.source_error,
            "expected_regret": design.expected_regret,
            **(
                {}
                if (expected := design.expected_error) is None
                else dict(zip(ERROR, (expected.value, expected.low, expected.high), strict=True))
            ),
            **({} if design.seconds is None else {"seconds": design.seconds.value}),
            "measured": design.measured,
            **{name: value for name, value in design.natural.items() if name not in design.config},
        }
        for rank, design in enumerate(answer.suggestions, start=1)
    ]


def to_optuna(answer: Answer) -> str:
    """Format a Python program that enqueues the suggestions in an Optuna study."""
    return (
        "import optuna\n\n"
        f"# warmstart, strategy {in_line(answer.strategy)}: best first\n"
        f"points = {in_python(_points(answer))}\n\n"
        'study = optuna.create_study(direction="minimize")\n'
        "for point in points:\n"
        "    study.enqueue_trial(point)\n"
    )


def to_ray(answer: Answer) -> str:
    """Format the JSON list of `points_to_evaluate` for Ray Tune's searchers."""
    return in_json(_points(answer))


def to_configspace(answer: Answer) -> str:
    """Format the history's space as ConfigSpace JSON with the suggestions as its values."""
    return in_json({"space": json.loads(answer.space_json), "configurations": _points(answer)})


def to_recipe(answer: Answer, program: str, *, skip_broken: bool = False) -> str:
    """Format the first suggestion for another program, by its workload.

    Args:
        answer: with at least one suggestion.
        program: its name in the workload.
        skip_broken: make the program skip pictures that cannot be decoded.

    Raises:
        UsageError: the workload has no recipe for this program, or none that can skip pictures.
        DataError: no suggestion.
    """
    if not answer.suggestions:
        msg = f"{answer.history}: expected a configuration to write as {program}, got no suggestion. Record runs that went well, or ask another history."
        raise DataError(msg)
    from warmstart.training.workloads import DEFAULT, get_workload

    workload = get_workload(answer.workload or DEFAULT)
    config, dataset = answer.suggestions[0].config, answer.dataset
    # Plugins need not accept skip_broken.
    if skip_broken and not _accepts(workload.recipe, "skip_broken"):
        msg = f"cannot be used with {program}: workload {workload.name} writes no program that skips pictures. Repair or remove them, or write json."
        raise UsageError(msg, param="skip_broken")
    options = {"skip_broken": True} if skip_broken else {}
    return workload.recipe(
        config, program, dataset=dataset.path, n_train=dataset.n_train, n_classes=dataset.n_classes, **options
    )


def _accepts(function: Callable[..., object], name: str) -> bool:
    parameters = signature(function).parameters
    return name in parameters or any(parameter.kind is Parameter.VAR_KEYWORD for parameter in parameters.values())


def _points(answer: Answer) -> list[dict[str, Any]]:
    return [dict(design.config) for design in answer.suggestions]

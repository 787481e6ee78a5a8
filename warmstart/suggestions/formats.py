"""Answers as text: rows for programs, and texts for tuners (optuna, ray, configspace)."""

import json
from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any

from warmstart.history_store.errors import DataError, UsageError
from warmstart.history_store.quoting import in_csv, in_json, in_line, in_python
from warmstart.suggestions.answer import Answer

if TYPE_CHECKING:
    from warmstart.bo.transfer.expected_error import ExpectedError

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
PREFIX = "config."
"""Prefix of the column of a hyperparameter whose name is one of these; also in tables of trials."""


def heads_of(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the keys of all rows in order; a key that some rows lack keeps its position in the others."""
    heads: list[str] = []
    for row in rows:
        position = 0
        for key in row:
            if key not in heads:
                heads.insert(position, key)
            position = heads.index(key) + 1
    return heads


def to_csv(rows: Sequence[Mapping[str, Any]], *, raw: bool = False) -> str:
    """Format rows as CSV with a header; an absent or None value is an empty cell; `raw` as in `in_csv`."""
    heads = heads_of(rows)
    return in_csv(heads, ([row.get(head) for head in heads] for row in rows), raw=raw)


def with_config(row: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, Any]:
    """Append a configuration to a row; a hyperparameter named like a column becomes `config.NAME`."""
    return {**row, **{f"{PREFIX}{name}" if name in row else name: value for name, value in config.items()}}


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
            **_error_columns(design.expected_error),
            **({} if design.seconds is None else {"seconds": design.seconds.value}),
            "measured": design.measured,
            **{name: value for name, value in design.natural.items() if name not in design.config},
        }
        for rank, design in enumerate(answer.suggestions, start=1)
    ]


def _error_columns(expected: "ExpectedError | None") -> dict[str, float]:
    """Return the columns of an expected error; empty where it is unknown."""
    return {} if expected is None else dict(zip(ERROR, (expected.value, expected.low, expected.high), strict=True))


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

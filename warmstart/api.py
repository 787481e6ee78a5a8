"""Suggestions and neighbours of a dataset in one call; for repeated calls see `warmstart.Advisor`."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from warmstart.locations import PathLike
from warmstart.option import check_keywords, option_of, show_options
from warmstart.suggestions.advisor import Advisor
from warmstart.suggestions.answer import Answer
from warmstart.suggestions.lookup import Lookup, NeighbourQuestion, Question
from warmstart.suggestions.query import dataset_of
from warmstart.suggestions.records import InitialDesign, Neighbour

_log = logging.getLogger("warmstart")


@dataclass(frozen=True, kw_only=True)
class NeighbourOptions(NeighbourQuestion, Lookup):
    """The options of `neighbours`."""

    threads: int | None = option_of(Lookup, "threads", default=None, help="CPU threads; torch decides when left out.")


@dataclass(frozen=True, kw_only=True)
class AnswerOptions(Question, Lookup):
    """The options of `answer` and `suggest`."""

    threads: int | None = option_of(NeighbourOptions, "threads")


def suggest(
    path: PathLike | None = None, *, images: Any = None, labels: Any = None, **options: Any
) -> list[InitialDesign]:
    """Suggest k configurations for a dataset, best first; arguments, errors and log as in `answer`."""
    return list(answer(path, images=images, labels=labels, **options).suggestions)


def neighbours(
    path: PathLike | None = None, *, images: Any = None, labels: Any = None, **options: Any
) -> list[Neighbour]:
    """Return the k datasets of the history nearest to a dataset, nearest first; all if there are fewer.

    Arguments, errors and log as in `answer`.
    """
    check_keywords("neighbours", NeighbourOptions, options)
    advisor, question = _split(options, NeighbourQuestion)
    return list(_log_notes(advisor.neighbours(dataset_of(path, images, labels), **question)).neighbours)


def answer(  # noqa: D417  options show themselves
    path: PathLike | None = None, *, images: Any = None, labels: Any = None, **options: Any
) -> Answer:
    """Return the answer for a dataset: neighbours, configurations, confidence.

    Notes for people (a query far from all datasets, pictures left out) are logged by the logger ``warmstart``.

    Args:
        path: a folder, idx files, CIFAR binaries, ``.npz``, ``FILE.h5::name``, ``sklearn:digits``, ``torchvision:NAME``.
        images: instead of a path: `n x h x w [x c]` uint8, uint16, bool or floats in [0, 1]; or a torch Dataset.
        labels: `n` class labels of `images`; a Dataset has its own.
        {options}

    Raises:
        TypeError: an option that does not exist.
        UsageError: arguments that do not fit together, an unknown workload, k larger than the number of configurations.
        MissingPathError: a path that is not there.
        DataError: images or labels that cannot be used.
        StorageError: a history or model that is damaged, of another version, or that do not belong together.
    """
    check_keywords("answer", AnswerOptions, options)
    advisor, question = _split(options, Question)
    return _log_notes(advisor.suggest(dataset_of(path, images, labels), **question))


show_options(answer, AnswerOptions)
show_options(suggest, AnswerOptions)
show_options(neighbours, NeighbourOptions)


def _split(options: Mapping[str, Any], record: type[Question | NeighbourQuestion]) -> tuple[Advisor, dict[str, Any]]:
    """Return the advisor of the options, and those of them that a record has."""
    names = {item.name for item in fields(record)}
    advisor = Advisor(**{name: value for name, value in options.items() if name not in names})
    return advisor, {name: value for name, value in options.items() if name in names}


def _log_notes(result: Answer) -> Answer:
    """Log the notes of an answer and return it."""
    for note in result.notes:
        _log.warning(note)
    return result

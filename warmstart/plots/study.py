"""The pictures of a study, in reading order."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from warmstart.history_store.errors import DataError, WarmstartError
from warmstart.plots.best_so_far import best_so_far_figure
from warmstart.plots.curves import curves_figure
from warmstart.plots.importance import importance_figure
from warmstart.plots.natural_axis import axes_of
from warmstart.plots.parallel import parallel_figure
from warmstart.plots.slices import slices_figure
from warmstart.plots.style import save_figure, styled
from warmstart.studies.results.study_model import StudyModel, model_study
from warmstart.studies.results.study_record import StudyRecord

PICTURES = {
    "best-so-far": "Every trial in its order, and the best so far",
    "importance": "Which hyperparameters the error depends on",
    "parallel": "All trials over their hyperparameters",
    "slices": "Predicted error along each hyperparameter",
    "curves": "What the trials reported on their way",
}
"""Names and captions of the pictures."""


@dataclass(frozen=True, slots=True, eq=False)
class Picture:
    """One picture of a study: its name in `PICTURES`, and the figure of matplotlib."""

    name: str
    figure: Any


LARGEST = 1e100
"""The largest error that is drawn: squares and differences of more are beyond what a float holds."""


def study_pictures(record: StudyRecord, *, notes: list[str], seed: int = 0) -> Iterator[Picture]:
    """Yield the pictures of a study, drawn inside `style.styled`.

    Args:
        record: the study.
        notes: extended by a line for every missing picture.
        seed: of the surrogate's samples.

    Raises:
        DataError: no trial with an error.
    """
    if record.best is None:
        msg = f"{record.name}: expected a trial with a result to draw, got none of {len(record.trials)}. Run some more, or correct the objective."
        raise DataError(msg)
    numbers = [
        error
        for trial in record.trials
        for error in (trial.error, *(error for _, error in trial.curve))
        if error is not None
    ]
    if (largest := max(map(abs, numbers), default=0.0)) > LARGEST:
        msg = f"{record.name}: expected errors of at most {LARGEST:g} to draw, got {largest:g}. Return smaller ones, or a failure."
        raise DataError(msg)
    model = _model(record, notes, seed)
    space = record.space
    axes = [] if space is None else axes_of(space)
    by_name = {axis.name: axis for axis in axes}
    order = [axis.name for axis in axes]
    if model is not None:
        weight = dict(zip(model.importance.names, np.median(model.importance.total, axis=0).tolist(), strict=True))
        order.sort(key=lambda name: -weight.get(name, 0.0))
    ranked = [by_name[name] for name in order]
    yield from _picture("best-so-far", best_so_far_figure(record))
    if model is not None:
        if model.never_varied:
            notes.append(
                f"{record.name}: no importance without two values that were tried: {', '.join(model.never_varied)}."
            )
        if model.importance.names:
            yield from _picture("importance", importance_figure(model.importance, by_name))
    yield from _picture("parallel", parallel_figure(record, ranked))
    if model is not None:
        cuts = sorted(model.profiles, key=lambda cut: order.index(cut.name) if cut.name in order else len(order))
        yield from _picture("slices", slices_figure(record, cuts, by_name))
    yield from _picture("curves", curves_figure(record))


def draw_study(
    record: StudyRecord, folder: Path, *, stem: str = "study", suffix: str = ".png", seed: int = 0
) -> tuple[list[Path], list[str]]:
    """Draw a study into a folder that exists: ``STEM`` is the best so far, the others ``STEM-NAME``, as in `PICTURES`.

    Returns: the files written, and why others were not.

    Raises:
        DataError: no trial with an error.
        StorageError: a file cannot be written.
    """
    files: list[Path] = []
    notes: list[str] = []
    with styled():
        for picture in study_pictures(record, notes=notes, seed=seed):
            name = "" if picture.name == "best-so-far" else f"-{picture.name}"
            files.append(folder / f"{stem}{name}{suffix}")
            save_figure(picture.figure, files[-1])
    return files, notes


def _model(record: StudyRecord, notes: list[str], seed: int) -> StudyModel | None:
    try:
        return model_study(record, seed=seed)
    except WarmstartError as error:
        notes.append(str(error))
        return None


def _picture(name: str, figure: Any) -> Iterator[Picture]:
    if figure is not None:
        yield Picture(name, figure)

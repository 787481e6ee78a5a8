"""A picture that a notebook shows and a file keeps."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warmstart.history_store.errors import UsageError
from warmstart.history_store.extras import require_extra
from warmstart.plots.style import check_target, drawn, save_figure, styled
from warmstart.studies.results.study_record import StudyRecord

if TYPE_CHECKING:
    from warmstart.locations import PathLike
    from warmstart.studies.results.summary import TuneResult


@dataclass(frozen=True, slots=True, repr=False)
class Picture:
    """A picture; `figure` is matplotlib's."""

    figure: Any

    def _repr_svg_(self) -> str:
        """Return the picture for a notebook."""
        with styled():
            return drawn(self.figure, "svg").decode()

    def save(self, path: PathLike) -> Path:
        """Write the picture to a file that ends in .png or .svg; return its path."""
        check_target(Path(path))
        with styled():
            save_figure(self.figure, Path(path))
        return Path(path)


def study_picture(result: TuneResult) -> Picture:
    """Draw every trial of a result in its order, and the best so far.

    Raises:
        UsageError: matplotlib is not installed, or no trial has an error.
    """
    require_extra("plots", "A plot")
    from warmstart.plots.best_so_far import best_so_far_figure

    record = StudyRecord(
        result.study, result.storage, "", result.trials, dataset=result.dataset, warm=result.warm, metric=result.metric
    )
    with styled():
        figure = best_so_far_figure(record)
    if figure is None:
        msg = f"{result.study}: expected a trial with a result to draw, got none. Look at `trials` for the reasons."
        raise UsageError(msg)
    return Picture(figure)

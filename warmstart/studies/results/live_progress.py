"""Progress of a study in a notebook."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from warmstart.notebook import live_line
from warmstart.studies.options import Outputs
from warmstart.studies.results.progress import StudyProgress, show_progress

if TYPE_CHECKING:
    from warmstart.studies.objectives.metric import Metric

OptionsT = TypeVar("OptionsT", bound=Outputs)


@contextmanager
def shown_in_notebook(options: OptionsT, metric: Metric, *, is_joint: bool = False) -> Iterator[OptionsT]:
    """Yield the options of a call, whose progress a notebook shows where they have no callback of their own.

    Args:
        options: of the call.
        metric: of its trials.
        is_joint: whether it has several studies, each of which is named.
    """
    with live_line("tuning") if options.progress is None else nullcontext(None) as show:
        if show is None:
            yield options
            return

        def update(now: StudyProgress) -> None:
            show_progress(show, now, f"{now.study}, " if is_joint else "", metric)

        yield replace(options, progress=update)

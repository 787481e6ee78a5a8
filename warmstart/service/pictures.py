"""Drawn pictures of studies, cached until the studies change."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from hashlib import sha256
from threading import Lock
from typing import TYPE_CHECKING

from warmstart.plots.study import check_drawable, study_figure
from warmstart.plots.style import drawn, styled

if TYPE_CHECKING:
    from warmstart.studies.results.study_model import StudyModel
    from warmstart.studies.results.study_record import StudyRecord

CACHE_SIZE = 200


def state_tag(record: StudyRecord) -> str:
    """Return a short text that changes with what the pictures of a study show."""
    running = [(span.number, span.state, len(span.curve)) for span in record.spans if span.end is None]
    best = None if record.best is None else record.best.number
    return sha256(repr((record.name, len(record.trials), record.updated, best, running)).encode()).hexdigest()[:16]


@dataclass(slots=True)
class PictureCache:
    """A cache of pictures by study and name. One thread at a time may draw: matplotlib's settings are global."""

    _pictures: OrderedDict[tuple[str, str], tuple[str, bytes]] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def find(self, name: str, picture: str, tag: str) -> bytes | None:
        """Return a picture of a study in a state; None if it was not drawn."""
        with self._lock:
            drawn_tag, svg = self._pictures.get((name, picture), ("", b""))
            return svg if drawn_tag == tag else None

    def draw(self, record: StudyRecord, picture: str, model: StudyModel | None) -> bytes | None:
        """Return a picture of a study as SVG, drawn if needed; None where the study has nothing for it.

        Raises:
            DataError: errors that are too large to draw.
        """
        tag = state_tag(record)
        svg = self.find(record.name, picture, tag)
        if svg is not None:
            return svg
        check_drawable(record)
        with styled():
            figure = study_figure(record, picture, model)
            if figure is None:
                return None
            svg = drawn(figure, "svg")
        with self._lock:
            self._pictures[record.name, picture] = tag, svg
            self._pictures.move_to_end((record.name, picture))
            if len(self._pictures) > CACHE_SIZE:
                self._pictures.popitem(last=False)
        return svg

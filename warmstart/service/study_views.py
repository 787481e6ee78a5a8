"""Studies as the server shows them: records, models, pictures and pages, kept until the studies change."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from warmstart.history_store.quoting import to_csv
from warmstart.plots.study import MODELLED, PICTURES, check_drawable, study_figure
from warmstart.plots.style import drawn, styled
from warmstart.service.problems import ProblemError
from warmstart.service.records import ImportanceRecord, Share
from warmstart.service.study_book import StudyBook, no_study
from warmstart.service.study_html import state_tag, study_page
from warmstart.service.study_list import ListQuery, list_page
from warmstart.studies.results.export import trial_rows
from warmstart.studies.results.study_model import StudyModel, model_study
from warmstart.studies.results.study_record import StudyRecord, read_study_record
from warmstart.studies.results.study_summary import study_summaries
from warmstart.studies.state.trial_tables import TrialTables

if TYPE_CHECKING:
    from warmstart.service.auth import Token
    from warmstart.service.trial_table import TrialQuery

MOST_STUDIES = 50
"""Most studies whose trials are kept."""
MOST_MODELS = 100
MOST_PICTURES = 200
LOW, HIGH = 5, 95


@dataclass(slots=True)
class StudyViews:
    """The studies of a server for display. Importing this module takes a second: plots, Optuna and its database.

    Trials that ended are read once. One model is fitted at a time, and one thread at a time may draw: matplotlib's
    settings are global.
    """

    studies: StudyBook
    _tables: OrderedDict[int, tuple[TrialTables, Lock]] = field(default_factory=OrderedDict)
    _models: OrderedDict[str, tuple[tuple[int, str | None], StudyModel]] = field(default_factory=OrderedDict)
    _pictures: OrderedDict[tuple[str, str], tuple[str, bytes]] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)
    _fitting: Lock = field(default_factory=Lock)

    def record(self, name: str) -> StudyRecord:
        """Read a study.

        Raises:
            ProblemError: 404, no study of that name.
            DataError, StorageError: as `read_study_record`.
        """
        if self.studies.is_empty:
            raise no_study(name)
        with self.studies.store() as store:
            with store.guard():
                try:
                    number = store.optuna.get_study_id_from_name(name)
                except KeyError as error:
                    raise no_study(name) from error
            with self._lock:
                tables, lock = self._tables.get(number, (None, Lock()))
                if tables is None or tables.storage is not store.optuna:
                    tables, lock = TrialTables(store.optuna, number), Lock()
                _keep(self._tables, number, (tables, lock), MOST_STUDIES)
            with lock:
                return read_study_record(store, name, tables)

    def list_page(self, query: ListQuery, token: Token) -> str:
        """Return the page of the studies that a token may read."""
        if self.studies.is_empty:
            return list_page([], query, token)
        with self.studies.store() as store:
            studies = [study for study in study_summaries(store) if token.allows("read", study.name)]
        return list_page(studies, query, token)

    def page(self, name: str, query: TrialQuery, token: Token, server: str) -> str:
        """Return the page of a study; for the arguments see `study_page`."""
        return study_page(self.record(name), query, token, server)

    def csv(self, name: str) -> str:
        """Return the trials of a study as `warmstart studies export` writes them."""
        return to_csv(trial_rows(self.record(name)))

    def picture(self, name: str, picture: str) -> tuple[bytes, str]:
        """Return a picture of a study as SVG, drawn if needed, and the tag of the study's state.

        Raises:
            ProblemError: 404, no such study or picture, or too few trials.
            DataError: errors that are too large to draw.
        """
        if picture not in PICTURES:
            detail = f"expected one of {', '.join(PICTURES)}, got {picture[:40]!r}. Take one of these."
            raise ProblemError(404, "No such picture", detail)
        record = self.record(name)
        tag = state_tag(record)
        model = self._model(record) if picture in MODELLED else None
        with self._lock:
            drawn_tag, svg = self._pictures.get((name, picture), ("", b""))
        if drawn_tag == tag:
            return svg, tag
        check_drawable(record)
        with styled():
            figure = study_figure(record, picture, model)
            if figure is None:
                detail = f"expected more trials to draw {picture}, got too few. Run some more."
                raise ProblemError(404, "Nothing to draw", detail)
            svg = drawn(figure, "svg")
        with self._lock:
            _keep(self._pictures, (name, picture), (tag, svg), MOST_PICTURES)
        return svg, tag

    def importance(self, name: str) -> ImportanceRecord:
        """Return the importance of a study's hyperparameters by its model; raises as `record` and `model_study`."""
        record = self.record(name)
        importance = self._model(record).importance
        alone = np.median(importance.alone, axis=0)
        low, middle, high = np.percentile(importance.total, [LOW, 50, HIGH], axis=0)
        shares = [
            Share(name=hyperparameter, total=round(a, 4), low=round(b, 4), high=round(c, 4), alone=round(d, 4))
            for hyperparameter, a, b, c, d in zip(
                importance.names, middle.tolist(), low.tolist(), high.tolist(), alone.tolist(), strict=True
            )
        ]
        shares.sort(key=lambda share: -share.total)
        surrogate = (record.settings or {}).get("surrogate", "gp")
        return ImportanceRecord(surrogate=surrogate, n_trials=len(record.trials), hyperparameters=shares)

    def _model(self, record: StudyRecord) -> StudyModel:
        """Return the model of a study, fitted anew if further trials ended; raises as `model_study`."""
        # A deleted study may have been begun again.
        state = len(record.trials), record.updated
        with self._fitting:
            modelled_state, model = self._models.get(record.name, (None, None))
            if model is None or modelled_state != state:
                model = model_study(record)
            _keep(self._models, record.name, (state, model), MOST_MODELS)
            return model


def _keep(cache: OrderedDict[Any, Any], key: Hashable, value: object, size: int) -> None:
    """Put a value at the end of a cache; the one that was not used for longest goes."""
    cache[key] = value
    cache.move_to_end(key)
    if len(cache) > size:
        cache.popitem(last=False)

"""A history and a model, read once for each state of their files."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, overload

import numpy as np
from numpy.typing import NDArray

from warmstart.bo.transfer.calibration import Calibration
from warmstart.bo.transfer.strategies.sources import number_groups
from warmstart.history_store.errors import DataError, HistoryDamagedError, UsageError
from warmstart.history_store.records import Config, DatasetInfo
from warmstart.history_store.wording import counted, in_shell, some_of, suggest_names
from warmstart.measured_with import MeasuredWith, measured_with
from warmstart.metafeat.model_file import ModelHeader, check_stored_size, is_trained_on, read_header
from warmstart.suggestions.embeddings import Embeddings, cannot_compare, embed_lacking
from warmstart.suggestions.references import (
    References,
    joined,
    read_features,
    read_references,
)
from warmstart.suggestions.row_memory import RowMemory
from warmstart.suggestions.smaller_parts import SmallerParts, read_smaller_parts

if TYPE_CHECKING:
    from warmstart.bo.transfer.expected_error import ErrorForecaster
    from warmstart.history_store.history import History
    from warmstart.suggestions.norms import Norms

MANY = 2000
"""From a larger history, so many nearest datasets answer."""
MOST_READ = 4
"""Histories that are kept as they were read."""
SPREAD = 10_000
"""From a larger history, the portfolio is made of so many datasets, evenly spread over all."""


@dataclass(frozen=True, slots=True)
class EmbeddedHistory:
    """What answers need of a history and a model; rows are datasets in order of their names.

    Attributes:
        path: of the history, as found.
        model: header of the model; None where answers are drawn from runs alone, and no distance is known.
        names: `m` datasets that have an embedding; without a model those that have runs.
        groups: `m` sibling groups; `group_numbers`, the same as numbers.
        errors: `m x c` float64, NaN = missing.
        failed: `m x c`, runs that gave no error.
        has_runs: of which of the `m` datasets any run is known, failed ones included.
        about: `m` records of the datasets.
        configs: `c` configurations.
        space_json: ConfigSpace JSON.
        vectors: `m x 256` float32 embeddings; `m x 0` without a model.
        calibration: of the distances, where the history holds one for this model.
        notes: what to tell a person once.
        references: what the history's own datasets are like, where the history holds that for this model.
        smaller_parts: errors on parts of the datasets, where the history holds such.
        other_groups: groups of the history's other datasets.
        measured_with: what its runs were measured with.
        norms: what `warmstart.suggestions.norms.norms_of` found, by the rows that may answer.
        forecasters: what `warmstart.suggestions.expectations.forecaster_of` fitted, by the rows it was fitted to.
    """

    path: Path
    model: ModelHeader | None
    names: tuple[str, ...]
    groups: tuple[str, ...]
    group_numbers: NDArray[np.int64]
    errors: NDArray[np.float64]
    failed: NDArray[np.bool_]
    has_runs: NDArray[np.bool_]
    about: Sequence[DatasetInfo]
    configs: tuple[Config, ...]
    space_json: str
    vectors: NDArray[np.float32]
    calibration: Calibration | None = None
    notes: tuple[str, ...] = ()
    references: References | None = None
    smaller_parts: SmallerParts | None = None
    other_groups: frozenset[str] = frozenset()
    measured_with: MeasuredWith | None = None
    norms: "RowMemory[Norms]" = field(default_factory=RowMemory, init=False, compare=False, repr=False)
    forecasters: "RowMemory[ErrorForecaster | None]" = field(
        default_factory=RowMemory, init=False, compare=False, repr=False
    )

    def rows_without(self, groups: Collection[str], own: str | None) -> NDArray[np.int64]:
        """Return the rows that may answer: not of these groups, not the query itself.

        Raises:
            UsageError: a group that the history does not know, or nothing left.
        """
        unknown = sorted(set(groups) - set(self.groups) - self.other_groups) if groups else []
        if unknown:
            step = suggest_names(
                unknown, {*self.groups, *self.other_groups}, otherwise="`warmstart history list` shows them."
            )
            msg = f"expected groups of {self.path}, got {', '.join(unknown)}. {step}"
            raise UsageError(msg, param="exclude_group")
        pairs = zip(self.names, self.groups, strict=True)
        rows = np.arange(len(self.names))
        if groups or own is not None:
            rows = np.flatnonzero([name != own and group not in groups for name, group in pairs])
        if not len(rows):
            msg = f"{self.path}: expected at least one dataset to learn from, got none that is not left out. Exclude fewer groups or add datasets."
            raise UsageError(msg)
        return rows

    def with_runs(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Leave out datasets of which no run is known, which have nothing to say; where none has any, all stay."""
        has_runs = self.has_runs[rows]
        return rows[has_runs] if has_runs.any() else rows


class _Records(Sequence[DatasetInfo]):
    """Records of some of a history's datasets, each read where it is looked at; the history may be closed."""

    def __init__(self, history: "History", rows: Sequence[int]) -> None:
        self._records, self._rows = history.records(), rows

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> DatasetInfo: ...
    @overload
    def __getitem__(self, index: slice) -> list[DatasetInfo]: ...
    def __getitem__(self, index: int | slice) -> DatasetInfo | list[DatasetInfo]:
        if isinstance(index, slice):
            return [self._records[row] for row in self._rows[index]]
        return self._records[self._rows[index]]


def load_embedded_history(
    history: Path,
    model: Path | None,
    *,
    device: str = "cpu",
    threads: int | None = None,
    cache: bool = True,
    progress: Callable[[float, float], object] | None = None,
) -> EmbeddedHistory:
    """Read a history and a model, or give what was read before while neither file has changed.

    Embeddings that the history lacks are computed from its images and kept in the cache folder: reading writes no history;
    see `store_embeddings`. Datasets whose images the history does not hold (an import made them) are left out where others
    remain. Where none does and none ever had images, and where no model is given, what is loaded is runs alone.
    `progress` is called with the datasets whose embeddings are there and how many are lacking, where some are computed.

    Raises:
        StorageError: one of the two is damaged or of another version.
        ModelMismatchError: the model is for images of another size.
        ImagesMissingError: no dataset has an embedding, nor the images to compute one from.
        UsageError: the history has no datasets.
    """
    key = (history, file_state(history), model, None if model is None else file_state(model), device, threads, cache)
    read = _read.get(key)
    if read is None:
        read = _embedded_history(history, model, device=device, threads=threads, cache=cache, progress=progress)
        _read[key] = read
        for old in list(_read)[:-MOST_READ]:
            _read.pop(old, None)
    found, untold = read
    said = tuple(untold)
    untold.clear()
    return replace(found, notes=(*found.notes, *said)) if said else found


def file_state(path: Path) -> tuple[int, ...]:
    """Return what changes when a file, or the journal beside it, is written."""
    state: list[int] = []
    for part in (path, path.with_name(path.name + ".journal")):
        try:
            stat = part.stat()
        except OSError:
            continue
        state += [stat.st_mtime_ns, stat.st_size, stat.st_ino]
    return tuple(state)


_read: dict[tuple[object, ...], tuple[EmbeddedHistory, list[str]]] = {}
"""What was read last, by the state of the files; no `lru_cache`, which would keep the first caller's progress."""


def _embedded_history(
    path: Path,
    model_path: Path | None,
    *,
    device: str,
    threads: int | None,
    cache: bool,
    progress: Callable[[float, float], object] | None,
) -> tuple[EmbeddedHistory, list[str]]:
    """Read a history and a model; return what is known, and what is to be told once."""
    from warmstart.history_store.history import History

    header = None if model_path is None else read_header(model_path)
    with History.open(path) as history:
        if not history.names:
            msg = f"{path}: expected a history with datasets, got an empty one. Add some with `warmstart history add` or `collect`."
            raise UsageError(msg)
        if header is None:
            return _runs_alone(history), []
        known = Embeddings(*history.vectors(header.hash))
        without = known.lacks(history.names)
        unseen = cannot_compare(history, without, header)
        if len(unseen) == len(history.names):
            return _runs_alone(history), []
        if history.holds_images:
            check_stored_size(header, stored_size=history.stored_size, location=str(path))
        lacking = [name for name in without if name not in unseen]
        notes, untold = [], []
        if not is_trained_on(header, history_id=history.id, space_json=history.space_json, names=history.names):
            notes.append(
                f"The model was trained on another history: near means alike in how the configurations of that one fare. "
                f"`warmstart train --history {in_shell(path)} --out MODEL` fits one to this history, once it has runs on a few dozen datasets."
            )
        if unseen:
            notes.append(
                f"{path}: datasets whose images it does not hold cannot be compared with yours: {some_of(sorted(unseen))}. "
                "`warmstart history add` gives them their images."
            )
        if lacking:
            added, n_computed = embed_lacking(
                history, lacking, header, device=device, threads=threads, cache=cache, progress=progress
            )
            known = known.plus(added)
            if n_computed:
                untold.append(
                    f"{path}: embedded {counted(n_computed, 'dataset')} with this model. `warmstart history embed {in_shell(path)}` stores that."
                )
        return _embedded(history, header, known, unseen=unseen, notes=notes), untold


def _embedded(
    history: "History",
    header: ModelHeader,
    known: Embeddings,
    *,
    unseen: Collection[str],
    notes: Sequence[str],
) -> EmbeddedHistory:
    """Put together what is known of a history's embedded datasets."""
    order = _ordered(history, unseen)
    all_names, groups = history.names, history.groups
    names, siblings = [all_names[row] for row in order], tuple(groups[row] for row in order)
    return EmbeddedHistory(
        history.path,
        header,
        tuple(names),
        siblings,
        number_groups(siblings),
        *_runs_of(history, order),
        _Records(history, order),
        tuple(history.configs),
        history.space_json,
        known.of(names),
        read_calibration(history, header.hash),
        tuple(notes),
        _references(history, header),
        read_smaller_parts(history, header.hash),
        frozenset(history.groups),
        measured_with(history.origins, stored_size=history.stored_size),
    )


def _references(history: "History", header: ModelHeader) -> References | None:
    """Return what the datasets are like, those included that came in bundles, with the features that go with the model."""
    from warmstart.metafeat.embed import feature_names

    own, merged = read_references(history, header.hash), read_features(history)
    if merged is not None and merged.features is not None and merged.features.shape[1] != len(feature_names(header)):
        # All datasets have features or none has: those that came must not cost the model's own, which promise errors.
        merged = None if own is not None else replace(merged, features=None)
    found = [each for each in (own, merged) if each is not None]
    return joined(found) if found and any(each.names for each in found) else None


def _runs_of(history: "History", order: list[int]) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_]]:
    """Return errors, failed cells, and which rows have any run, in another order of the datasets."""
    errors, failed = history.outcomes
    if order != list(range(len(errors))):
        errors, failed = errors[order], failed[order]
    return errors, failed, np.any(~np.isnan(errors) | failed, axis=1)


def _runs_alone(history: "History") -> EmbeddedHistory:
    """Put together what is known of a history without its images."""
    order = _ordered(history, ())
    names, groups = history.names, history.groups
    siblings = tuple(groups[row] for row in order)
    return EmbeddedHistory(
        history.path,
        None,
        tuple(names[row] for row in order),
        siblings,
        number_groups(siblings),
        *_runs_of(history, order),
        _Records(history, order),
        tuple(history.configs),
        history.space_json,
        np.zeros((len(order), 0), dtype=np.float32),
        measured_with=measured_with(history.origins, stored_size=history.stored_size),
    )


def _ordered(history: "History", left_out: Collection[str]) -> list[int]:
    """List the rows of a history's datasets by name, without some."""
    names = history.names
    return [row for row in sorted(range(len(names)), key=names.__getitem__) if names[row] not in left_out]


def nearest_places(distances: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the places of the `MANY` smallest distances, in the order in which they stand; all where there are no more."""
    if len(distances) <= MANY:
        return np.arange(len(distances))
    nearest = np.argpartition(distances, MANY - 1)[:MANY]
    return np.sort(nearest).astype(np.int64)


def spread_places(m: int) -> NDArray[np.int64]:
    """Return `SPREAD` places spread evenly over m; all where there are no more."""
    return np.arange(m) if m <= SPREAD else np.linspace(0, m - 1, SPREAD).astype(np.int64)


def calibration_key(model_hash: str) -> str:
    """Name the result under which a history keeps the calibration of a model's distances."""
    return f"calibration/{model_hash}"


def read_calibration(history: "History", model_hash: str) -> Calibration | None:
    """Read what `warmstart evaluate --calibrate` stored for a model; a grown history goes on with what it has.

    Raises:
        HistoryDamagedError: it is no calibration.
    """
    stored = history.get_result(calibration_key(model_hash))
    try:
        return None if stored is None else Calibration.from_dict(stored)
    except DataError as error:
        msg = f"{history.path}: {error}"
        raise HistoryDamagedError(msg) from error

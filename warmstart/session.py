"""A history and a model, read once for each state of their files."""

from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bo.calibration import Calibration
from history_store.errors import DataError, HistoryDamagedError, ImagesMissingError, StorageError, UsageError
from history_store.records import Config, DatasetInfo
from warmstart.model_file import ModelHeader, check_fits, read_header

if TYPE_CHECKING:
    from history_store.history import History
    from metafeat.index import DatasetIndex


@dataclass(frozen=True, slots=True)
class Memory:
    """What answers need of a history and a model; rows are datasets in order of their names.

    Attributes:
        path: of the history, as found.
        model: header of the model.
        names: `m` datasets that have an embedding.
        groups: `m` sibling groups.
        errors: `m x c` float64, NaN = missing.
        failed: `m x c`, runs that gave no error.
        about: `m` records of the datasets.
        configs: `c` configurations.
        space_json: ConfigSpace JSON.
        vectors: `m x 256` float32 embeddings.
        between: `m x m` distances between them.
        index: over the vectors.
        calibration: of the distances, where the history holds one for this model.
        notes: what to tell a person once.
    """

    path: Path
    model: ModelHeader
    names: tuple[str, ...]
    groups: tuple[str, ...]
    errors: NDArray[np.float64]
    failed: NDArray[np.bool_]
    about: tuple[DatasetInfo, ...]
    configs: tuple[Config, ...]
    space_json: str
    vectors: NDArray[np.float32]
    between: NDArray[np.float64]
    index: "DatasetIndex"
    calibration: Calibration | None = None
    notes: tuple[str, ...] = ()

    def rows_without(self, groups: Collection[str], own: str | None) -> NDArray[np.int64]:
        """Give the rows that may answer: not of these groups, not the query itself.

        Raises:
            UsageError: a group that the history does not know, or nothing left.
        """
        unknown = sorted(set(groups) - set(self.groups))
        if unknown:
            msg = f"expected groups of {self.path}, got {', '.join(unknown)}. `warmstart history list` shows them."
            raise UsageError(msg, param="exclude_group")
        pairs = zip(self.names, self.groups, strict=True)
        rows = np.flatnonzero([name != own and group not in groups for name, group in pairs])
        if not len(rows):
            msg = f"{self.path}: expected at least one dataset to learn from, got none that is not left out. Exclude fewer groups or add datasets."
            raise UsageError(msg)
        return rows

    def with_runs(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Leave out datasets of which no run is known, which have nothing to say; where none has any, all stay."""
        has_runs = (~np.isnan(self.errors[rows]) | self.failed[rows]).any(axis=1)
        return rows[has_runs] if has_runs.any() else rows


def load_memory(history: Path, model: Path, *, device: str = "cpu", threads: int | None = None) -> Memory:
    """Read a history and a model, or give what was read before while neither file has changed.

    Embeddings that the history lacks are computed from its images and, where it may be written, stored in it. Datasets
    of which runs alone are known (an import made them) are left out where others remain.

    Raises:
        StorageError: one of the two is damaged or of another version.
        ModelMismatchError: the model belongs to another history.
        ImagesMissingError: embeddings are lacking, and so are the images to compute them from.
    """
    return _memory(history, file_state(history), model, file_state(model), device, threads)


def file_state(path: Path) -> tuple[int, ...]:
    """Give what changes when a file, or the journal beside it, is written."""
    state: list[int] = []
    for part in (path, path.with_name(path.name + ".journal")):
        try:
            stat = part.stat()
        except OSError:
            continue
        state += [stat.st_mtime_ns, stat.st_size, stat.st_ino]
    return tuple(state)


@lru_cache(maxsize=4)
def _memory(
    path: Path,
    history_state: tuple[int, ...],  # noqa: ARG001  part of the key
    model_path: Path,
    model_state: tuple[int, ...],  # noqa: ARG001  part of the key
    device: str,
    threads: int | None,
) -> Memory:
    from history_store.history import History
    from metafeat.index import DatasetIndex

    header = read_header(model_path)
    with History.open(path) as history:
        if not history.names:
            msg = f"{path}: expected a history with datasets, got an empty one. Add some with `warmstart history add` or `collect`."
            raise UsageError(msg)
        check_fits(header, history_id=history.id, space_json=history.space_json, where=str(path))
        known = history.embeddings(header.hash)
        unseen = {info.name for info in history.datasets if not info.n_images and info.name not in known}
        if len(unseen) == len(history.names):
            unseen = set()  # refused below
        lacking = [name for name in history.names if name not in known and name not in unseen]
        sorted_rows = np.argsort(np.array(history.names, dtype=object), kind="stable").tolist()
        order = [row for row in sorted_rows if history.names[row] not in unseen]
        names, groups = [history.names[i] for i in order], tuple(history.groups[i] for i in order)
        errors, failed, configs = history.errors[order], history.failed[order], tuple(history.configs)
        about, space_json = tuple(history.datasets[i] for i in order), history.space_json
        calibration = read_calibration(history, header.hash)
        notes = []
        if unseen:
            notes.append(
                f"{path}: datasets of which runs alone are known cannot be compared with yours: {_some(unseen)}."
            )
        if lacking:
            added = _embed_lacking(path, lacking, header, device=device, threads=threads)
            known = {**known, **added}
            notes.append(f"{path}: embedded {len(added)} datasets with this model.")
    vectors = np.stack([known[name] for name in names]).astype(np.float32)
    index = DatasetIndex(vectors.shape[1], header.hash)
    index.add(names, vectors)
    wide = vectors.astype(np.float64)
    between = np.stack([np.linalg.norm(wide - row, axis=1) for row in wide])
    return Memory(
        path,
        header,
        tuple(names),
        groups,
        errors,
        failed,
        about,
        configs,
        space_json,
        vectors,
        between,
        index,
        calibration,
        tuple(notes),
    )


def _some(names: Collection[str]) -> str:
    """List up to five names."""
    shown = sorted(names)[:5]
    return ", ".join(shown) + (", ..." if len(names) > len(shown) else "")


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


def _embed_lacking(
    path: Path, names: list[str], header: ModelHeader, *, device: str, threads: int | None
) -> dict[str, NDArray[np.float32]]:
    """Compute the embeddings that a history lacks, and store them where that is possible."""
    from history_store.history import History
    from warmstart.embedding import embed_history

    with History.open(path) as history:
        try:
            vectors = embed_history(history, names, header, device=device, threads=threads)
        except ImagesMissingError as error:
            msg = f"{path}: expected embeddings of model {header.hash} or images to make them from, got neither for {names[0]!r}. Use the model that the history was published with, or rebuild its images: {error}"
            raise ImagesMissingError(msg) from error
    try:
        with History.open(path, write=True, lock_timeout=1.0) as history:
            known = history.embeddings(header.hash)
            history.set_embeddings(
                header.hash, {name: v for name, v in (known | vectors).items() if name in history.names}
            )
    except StorageError:
        pass  # read-only, locked or full: the answer is the same, only the next process computes again
    return vectors

"""A history and a model, read once for each state of their files."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bo.calibration import Calibration
from history_store.errors import DataError, HistoryDamagedError, ImagesMissingError, UsageError
from history_store.records import Config, DatasetInfo
from warmstart.model_file import ModelHeader, check_fits, read_header
from warmstart.references import References, read_references

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
        references: what the history's own datasets are like, where the history holds that for this model.
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
    references: References | None = None

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


def load_memory(
    history: Path, model: Path, *, device: str = "cpu", threads: int | None = None, cache: bool = True
) -> Memory:
    """Read a history and a model, or give what was read before while neither file has changed.

    Embeddings that the history lacks are computed from its images and kept in the cache folder: reading writes no history;
    see `store_embeddings`. Datasets of which runs alone are known (an import made them) are left out where others remain.

    Raises:
        StorageError: one of the two is damaged or of another version.
        ModelMismatchError: the model belongs to another history.
        ImagesMissingError: embeddings are lacking, and so are the images to compute them from.
    """
    found, untold = _memory(history, file_state(history), model, file_state(model), device, threads, cache)
    said = tuple(untold)
    untold.clear()
    return replace(found, notes=(*found.notes, *said)) if said else found


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
    cache: bool,  # noqa: FBT001  positional, as the key of the memory
) -> tuple[Memory, list[str]]:
    """Read a history and a model; return what is known, and what is to be told once."""
    from history_store.history import History
    from metafeat.index import DatasetIndex

    header = read_header(model_path)
    with History.open(path) as history:
        if not history.names:
            msg = f"{path}: expected a history with datasets, got an empty one. Add some with `warmstart history add` or `collect`."
            raise UsageError(msg)
        check_fits(header, history_id=history.id, space_json=history.space_json, where=str(path))
        known = history.embeddings(header.hash)
        unseen = _unseen(history, known)
        lacking = _lacking(history, known)
        sorted_rows = np.argsort(np.array(history.names, dtype=object), kind="stable").tolist()
        order = [row for row in sorted_rows if history.names[row] not in unseen]
        names, groups = [history.names[i] for i in order], tuple(history.groups[i] for i in order)
        errors, failed, configs = history.errors[order], history.failed[order], tuple(history.configs)
        about, space_json = tuple(history.datasets[i] for i in order), history.space_json
        calibration = read_calibration(history, header.hash)
        references = read_references(history, header.hash)
        notes, untold = [], []
        if unseen:
            notes.append(
                f"{path}: datasets of which runs alone are known cannot be compared with yours: {_some(unseen)}."
            )
        if lacking:
            added, n_computed = _embed_lacking(history, lacking, header, device=device, threads=threads, cache=cache)
            known = {**known, **added}
            if n_computed:
                untold.append(
                    f"{path}: embedded {n_computed} datasets with this model. `warmstart history embed` stores that."
                )
    vectors = np.stack([known[name] for name in names]).astype(np.float32)
    index = DatasetIndex(vectors.shape[1], header.hash)
    index.add(names, vectors)
    wide = vectors.astype(np.float64)
    between = np.stack([np.linalg.norm(wide - row, axis=1) for row in wide])
    found = Memory(
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
        references,
    )
    return found, untold


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


def store_embeddings(history: Path, model: Path, *, device: str = "cpu", threads: int | None = None) -> tuple[str, ...]:
    """Compute the embeddings that a history lacks and store them in it.

    Returns: the datasets embedded.

    Raises:
        StorageError: a history or model that cannot be used, or a history that cannot be written.
        ModelMismatchError: the model belongs to another history.
        ImagesMissingError: there are no images to compute embeddings from.
    """
    from history_store.history import History

    header = read_header(model)
    with History.open(history, write=True) as opened:
        check_fits(header, history_id=opened.id, space_json=opened.space_json, where=str(history))
        known = opened.embeddings(header.hash)
        lacking = _lacking(opened, known)
        if lacking:
            added, _ = _embed_lacking(opened, lacking, header, device=device, threads=threads, cache=True)
            kept = {name: vector for name, vector in {**known, **added}.items() if name in opened.names}
            opened.set_embeddings(header.hash, kept)
    return tuple(lacking)


def _unseen(history: "History", known: Collection[str]) -> set[str]:
    """Name the datasets of which runs alone are known; none where that is all of them, which is refused later."""
    found = {info.name for info in history.datasets if not info.n_images and info.name not in known}
    return set() if len(found) == len(history.names) else found


def _lacking(history: "History", known: Collection[str]) -> list[str]:
    """Name the datasets that have no embedding and should."""
    unseen = _unseen(history, known)
    return [name for name in history.names if name not in known and name not in unseen]


def _embed_lacking(
    history: "History", names: list[str], header: ModelHeader, *, device: str, threads: int | None, cache: bool
) -> tuple[dict[str, NDArray[np.float32]], int]:
    """Compute the embeddings that a history lacks, or take them from the cache; count those computed."""
    from metafeat.cache import EmbeddingCache, cache_folder
    from warmstart.embedding import embed_history

    store = EmbeddingCache(cache_folder() / "embeddings") if cache else None
    found, n_computed = {}, 0
    try:
        for name in names:
            mark = "" if store is None else _sample_mark(history, name)
            vector = None if store is None else store.get(mark, header.hash, "stored")
            if vector is None:
                vector = embed_history(history, [name], header, device=device, threads=threads)[name]
                n_computed += 1
                if store is not None:
                    store.put(mark, header.hash, "stored", vector)
            found[name] = vector
    except ImagesMissingError as error:
        msg = f"{history.path}: expected embeddings of model {header.hash} or images to make them from, got neither for {names[0]!r}. Use the model that the history was published with, or rebuild its images: {error}"
        raise ImagesMissingError(msg) from error
    return found, n_computed


def _sample_mark(history: "History", name: str) -> str:
    """Digest the stored images that an embedding is made from."""
    from hashlib import sha256

    from metafeat.sample import sample_rows

    stored = history.images(name)
    labels = np.asarray(stored.labels)
    rows = sample_rows(labels, stored.rows("train"), seed=0)
    digest = sha256(np.ascontiguousarray(stored.array[rows]).tobytes())
    digest.update(np.ascontiguousarray(labels[rows]).tobytes())
    return f"sample:{digest.hexdigest()}"

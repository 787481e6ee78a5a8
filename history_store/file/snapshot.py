"""A history at one moment: file and journal read together."""

from __future__ import annotations

import copy
import mmap
import os
import time
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import h5py
import numpy as np
from numpy.typing import NDArray

from warmstart.history_store import system
from warmstart.history_store.errors import (
    HistoryDamagedError,
    HistoryWarning,
    ImagesMissingError,
    StorageError,
    UsageError,
)
from warmstart.history_store.file import journal
from warmstart.history_store.file.base import read_content, read_embeddings, read_embeddings_mark, read_vectors
from warmstart.history_store.file.blocks import Matrix
from warmstart.history_store.file.cells import Cells
from warmstart.history_store.file.codec import Operation
from warmstart.history_store.file.content import Content, quoted
from warmstart.history_store.file.dataset_list import DatasetList
from warmstart.history_store.file.durable import beside
from warmstart.history_store.file.layout import BROKEN, damage_errors, open_file, restore_hint
from warmstart.history_store.file.lock import is_at
from warmstart.history_store.file.stored_images import PixelChecks, StoredImages, map_file, map_images
from warmstart.history_store.file.table import EvaluationTable, StoredTable
from warmstart.history_store.records import DatasetInfo, Evaluation, Value
from warmstart.history_store.wording import in_shell

_MAX_GAPS = 5


class Snapshot:
    """The reading half of `History`; needs no lock and no ConfigSpace.

    Args:
        path: of the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._real = path.resolve()
        self._closed = False
        self._file: h5py.File | None = None
        self._map: mmap.mmap | None = None
        self._images: dict[str, StoredImages] = {}
        self._checks: dict[str, PixelChecks] = {}
        self._generation: tuple[int, int, str] | None = None
        self._content: Content
        self._file_serial = 0
        self._load()

    def close(self) -> None:
        """Close the file; images that were read before stay valid. Closing twice is no error."""
        self._closed = True
        # A `StoredTable` still reads from the file, which is then closed with its last reference.
        if self._file is not None and not isinstance(self._content.base, StoredTable):
            self._file.close()

    def _close_before_replacing(self) -> None:
        """Close the file where one that is open cannot be replaced; `_load` opens the new one."""
        if self._file is not None and not system.CAN_REPLACE_OPEN_FILES:
            self._file.close()
            self._file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"History({str(self.path)!r}, revision={self.revision}, datasets={len(self.datasets)}, configs={len(self.configs)}, evaluations={self.n_evaluations})"

    def refresh(self) -> bool:
        """Read the state of now, with the writes of other processes; return whether anything changed."""
        self._check_open()
        before = self._content.serial
        self._load()
        return self._content.serial != before

    @property
    def id(self) -> str:
        """Return the history's lifelong id, 32 hexadecimal digits."""
        return self._content.id

    @property
    def revision(self) -> int:
        """Return the number of changes to datasets, configurations and evaluations, not to embeddings and results."""
        return self._content.revision

    @property
    def space_json(self) -> str:
        """Return the search space as ConfigSpace JSON, unchanged since the creation."""
        return self._content.space_json

    @property
    def stored_size(self) -> int:
        """Return the side of the stored images in pixels."""
        return self._content.stored_size

    @property
    def notes(self) -> dict[str, str]:
        """Return the notes of the creation."""
        return dict(self._content.notes)

    @property
    def datasets(self) -> tuple[DatasetInfo, ...]:
        """Return the datasets in the order in which they were added."""
        return tuple(self._content.datasets)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the datasets."""
        return tuple(self._content.datasets.names)

    @property
    def groups(self) -> tuple[str, ...]:
        """Return the sibling groups of the datasets."""
        return tuple(self._content.datasets.groups)

    def dataset(self, name: str) -> DatasetInfo:
        """Return the description of a dataset.

        Raises:
            UsageError: there is no dataset of that name.
        """
        return self._content.datasets[self._content.index(name, str(self.path))]

    @property
    def configs(self) -> tuple[dict[str, Value], ...]:
        """Return the configurations in the order of the columns of `errors`."""
        return tuple(dict(config) for config in self._content.configs)

    @property
    def configs_unit(self) -> NDArray[np.float64]:
        """Return the configurations as `c x d` float64 in the order of the space; NaN = inactive."""
        return self._content.unit.copy()

    @property
    def errors(self) -> NDArray[np.float64]:
        """Return validation errors, `m x c` float64 in [0, 1], mean over seeds; NaN = missing, or no run gave one.

        A diverged run counts with the error of a constant prediction.
        """
        return self._content.outcomes()[0]

    @property
    def failed(self) -> NDArray[np.bool_]:
        """Return the cells whose runs all failed without an error, `m x c` bool; they are NaN in `errors`."""
        return self.outcomes[1]

    @property
    def outcomes(self) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Return `errors` and `failed`, computed together."""
        errors, measured = self._content.outcomes()
        return errors, measured & np.isnan(errors)

    def cells(self) -> Cells:
        """Return the sums over the evaluations of each dataset and configuration, which may be read at their first use."""
        return self._content.cells()

    @property
    def n_runs(self) -> NDArray[np.int64]:
        """Return the number of evaluations of each dataset, `m`."""
        return self._content.n_runs()

    @property
    def n_evaluations(self) -> int:
        """Return the number of evaluations."""
        return len(self._content.base) + len(self._content.tail)

    @property
    def origins(self) -> dict[str, int]:
        """Return the number of evaluations by origin."""
        return self._content.origin_counts()

    @property
    def is_large(self) -> bool:
        """Tell whether there are so many evaluations that they are read at their first use."""
        return isinstance(self._content.base, StoredTable)

    def table(self) -> EvaluationTable:
        """Return all evaluations as columns."""
        return self._content.table

    def evaluations(self, dataset: str | None = None) -> tuple[Evaluation, ...]:
        """Return evaluations in the order in which they were appended.

        Args:
            dataset: name of the dataset; None = all.

        Raises:
            UsageError: there is no dataset of that name.
        """
        content = self._content
        rows = np.arange(len(content.table))
        if dataset is not None:
            rows = np.flatnonzero(content.table.dataset == content.index(dataset, str(self.path)))
        return tuple(content.table.records(self.names, self.configs, rows))

    def has_images(self, name: str) -> bool:
        """Return whether the history holds the images of a dataset.

        Raises:
            UsageError: there is no dataset of that name.
        """
        self._content.index(name, str(self.path))
        with damage_errors(self._real):
            return bool(quoted(name) in self._h5["images"])

    def images(self, name: str) -> StoredImages:
        """Open the images of a dataset through the memory map of the file.

        Raises:
            UsageError: there is no dataset of that name.
            ImagesMissingError: the history holds it without images.
            HistoryDamagedError: labels or split are altered; altered pixels raise when they are read.

        Warns:
            HistoryWarning: the file is of version 0.1, whose images have no checksums.
        """
        if name not in self._images:
            info = self.dataset(name)
            if not self.has_images(name):
                step = (
                    f"`warmstart history add` puts them in from manifest {info.manifest!r}"
                    if info.manifest
                    else f"`warmstart history add` puts them in from a folder ({info.source or 'source not stated'}; it names no manifest)"
                )
                msg = f"{self.path}: expected images of {name!r}, got a history that holds it without. {step}: `warmstart history add --help`."
                raise ImagesMissingError(msg)
            with damage_errors(self._real):
                if self._map is None:
                    self._map = map_file(self._h5)
                self._images[name] = map_images(self._h5, quoted(name), name, str(self._real), self._map, self._checks)
            self._warn_missing_checksums(name)
        return self._images[name]

    @property
    def model_hashes(self) -> tuple[str, ...]:
        """Return the hashes of the models whose embeddings are stored."""
        with damage_errors(self._real):
            return tuple(self._h5["embeddings"])

    @property
    def holds_images(self) -> bool:
        """Return whether the history holds images of any dataset."""
        with damage_errors(self._real):
            return len(self._h5["images"]) > 0

    def records(self) -> DatasetList:
        """Return a copy of the list of datasets; a large history decodes them at their first use."""
        return self._content.datasets.copy()

    def dataset_at(self, row: int) -> DatasetInfo:
        """Return the dataset of a row of `errors`."""
        return self._content.datasets[row]

    def vectors(self, model_hash: str) -> tuple[list[str], Matrix]:
        """Return a model's embeddings of the datasets: `m` names and `m x d` float32, none for an unknown model."""
        return read_vectors(self._h5, str(self._real), model_hash)

    def embeddings_mark(self, model_hash: str) -> str:
        """Return the checksums of the names and vectors of a model's embeddings; empty for an unknown model."""
        return read_embeddings_mark(self._h5, str(self._real), model_hash)

    def embeddings(self, model_hash: str) -> dict[str, NDArray[np.float32]]:
        """Return a model's embeddings of the datasets by name; empty for an unknown model."""
        return read_embeddings(self._h5, str(self._real), model_hash)

    def get_result(self, key: str) -> dict[str, Any] | None:
        """Return a copy of a stored result, or None."""
        return copy.deepcopy(self._content.results.get(key))

    def view_result(self, key: str) -> Mapping[str, Any] | None:
        """Return a stored result without copying it, or None; the caller must not change it."""
        return self._content.results.get(key)

    @property
    def _h5(self) -> h5py.File:
        self._check_open()
        if self._file is None:
            msg = f"{self.path}: expected a loaded history, got one whose last write failed. Open it again."
            raise StorageError(msg)
        return self._file

    @property
    def serial(self) -> int:
        """Return the number of operations, which also counts those that do not change the revision."""
        return self._content.serial

    def operations_after(self, serial: int) -> list[Operation] | None:
        """Return the operations after a serial number, with those that were added since this history was read.

        It may be closed by now. None where its file is another one by now, or does not hold all of them.

        Raises:
            HistoryDamagedError: an altered journal.
        """
        log = beside(self._real, ".journal")
        text = journal.load(log)
        try:
            status = self._real.stat()
        except OSError:
            return None
        content = self._content
        if (status.st_dev, status.st_ino, content.salt) != self._generation:
            return None
        journal.check(text, (content.id, self._file_serial, content.salt), log, restore_hint(str(self._real)))
        later = text.after(serial)
        return later if [op["serial"] for op in later] == list(range(serial + 1, serial + 1 + len(later))) else None

    def _load(self) -> tuple[int, journal.JournalText]:
        """Read file and journal as one consistent state; return the file's serial number and the journal's text."""
        # A writer may replace both between the two reads: then the file is another by now, or operations are missing.
        log = beside(self._real, ".journal")
        gaps = 0
        while True:
            file = open_file(self._real)
            try:
                content = read_content(file, str(self._real), lazy=True)
                serial = content.serial
                text = journal.load(log)
                if is_at(file.id.get_vfd_handle(), self._real):
                    journal.check(text, (content.id, serial, content.salt), log, restore_hint(str(self._real)))
                    missing = text.after(serial)
                    if [op["serial"] for op in missing] == list(range(serial + 1, serial + 1 + len(missing))):
                        self._apply(content, missing, log)
                        break
                    gaps += 1
            except BaseException:
                file.close()
                raise
            file.close()
            if gaps == _MAX_GAPS:
                msg = f"{log}: expected operations from number {serial + 1} on, got a gap. {restore_hint(str(self._real))}"
                raise HistoryDamagedError(msg)
            time.sleep(0.01 if gaps else 0)
        if self._file is not None:
            self._file.close()
        self._file, self._content, self._file_serial = file, content, serial
        self._map, self._images = None, {}
        status = os.fstat(file.id.get_vfd_handle())
        if self._generation != (generation := (status.st_dev, status.st_ino, content.salt)):
            self._checks, self._generation = {}, generation
        return serial, text

    def _apply(self, content: Content, operations: Sequence[Operation], log: Path) -> None:
        for operation in operations:
            try:
                content.apply(operation)
            except BROKEN as error:
                msg = f"{log}: expected operations that fit the history, got number {operation['serial']}, which does not ({str(error)[:200]}). {restore_hint(str(self._real))}"
                raise HistoryDamagedError(msg) from error

    def _warn_missing_checksums(self, name: str) -> None:
        if not self._images[name].has_checksums:
            warnings.warn(
                f"{self.path}: its images have no checksums, so that altered pixels are noticed by `warmstart history verify` only. `warmstart history upgrade {in_shell(self.path)}` adds them.",
                HistoryWarning,
                stacklevel=3,
            )

    def _check_open(self) -> None:
        if self._closed:
            msg = f"{self.path}: expected an open history, got a closed one. Open it again."
            raise UsageError(msg)

"""The history: one HDF5 file, replaced whole, and a journal beside it. `docs/history-format.md` describes both."""

from __future__ import annotations

import mmap
import os
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import h5py
import numpy as np
from numpy.typing import NDArray

from history_store import journal
from history_store.base import WriteImages, read_content, read_embeddings, write_base
from history_store.codec import native
from history_store.content import Content, Operation, encode_operation, quoted, unit_rows
from history_store.durable import beside
from history_store.errors import DataError, HistoryDamagedError, HistoryReadOnlyError, ImagesMissingError, StorageError, UsageError
from history_store.layout import damage, hint, open_file
from history_store.lock import WriterLock
from history_store.records import Config, DatasetInfo, Evaluation, Value
from history_store.stored_images import StoredImages, check_images, map_file, map_images, write_images
from history_store.table import EvaluationTable
from history_store.writing import Files, check_may_write, install

if TYPE_CHECKING:
    from history_store.images import ImageSet

_JOURNAL_RUNS = 500
"""Longer batches of evaluations are written into the file at once."""
_COMPACT_LINES = 2000
_TRIES = 50


class History:
    """Datasets, configurations and what came of them: the record that warm starts are drawn from.

    Reading needs no lock: an object sees the state at the moment it was opened (or refreshed), whoever writes
    meanwhile. One process writes at a time. An object belongs to one thread. What a property returned never
    changes later.
    """

    def __init__(self, path: Path, lock: WriterLock | None) -> None:
        """Load a history; use `open` or `create` instead."""
        self.path = path
        self._real = path.resolve()
        self._lock = lock
        self._files: Files | None = None
        self._closed = False
        self._file: h5py.File | None = None
        self._load()

    @classmethod
    def create(
        cls,
        path: str | Path,
        space_json: str,
        *,
        configs: Sequence[Config] = (),
        stored_size: int = 32,
        notes: Mapping[str, str] | None = None,
    ) -> History:
        """Make an empty history and open it for writing.

        Args:
            path: where nothing must be yet.
            space_json: the search space as ConfigSpace JSON.
            configs: the shared configurations; more are added with the evaluations that use them.
            stored_size: side of the images that it may hold, in pixels.
            notes: anything worth keeping with it.

        Raises:
            UsageError: something is there already, or the size is no positive number.
            MissingPathError: the folder does not exist.
            DataError: the space cannot be read, or a configuration does not fit it.
            StorageError: it cannot be written there.
        """
        path = Path(path)
        if stored_size < 1:
            msg = f"{path}: expected a stored size of at least 1 pixel, got stored_size={stored_size}. The default is 32."
            raise UsageError(msg)
        plain = [native(config) for config in configs]
        content = Content(
            id=uuid.uuid4().hex,
            space_json=space_json,
            stored_size=stored_size,
            notes={str(key): str(value) for key, value in (notes or {}).items()},
            configs=plain,
            unit=unit_rows(space_json, plain, str(path)),
        )
        if len(content.config_of) != len(plain):
            msg = f"{path}: expected distinct configurations, got {len(plain) - len(content.config_of)} a second time. Leave the copies out."
            raise DataError(msg)
        real = path.resolve()
        check_may_write(real, new=True)
        lock = WriterLock(real, timeout=10.0)
        try:
            for suffix in ("", ".journal", ".bak"):
                if beside(real, suffix).exists():
                    msg = f"{path}: expected nothing there yet, got {beside(real, suffix).name}. Choose another path, or move the old history and its companions away."
                    raise UsageError(msg)
            with install(real, backup=beside(real, ".bak")) as temporary:
                write_base(temporary, content, embeddings={}, writer=_version())
            return cls(path, lock)
        except BaseException:
            lock.release()
            raise

    @classmethod
    def open(cls, path: str | Path, *, write: bool = False, lock_timeout: float = 10.0) -> History:
        """Open a history.

        Args:
            path: of the file.
            write: take the writer's lock.
            lock_timeout: seconds to wait for another writer.

        Raises:
            MissingPathError: nothing there.
            HistoryDamagedError: truncated, altered or no history; the message names the way back.
            HistoryVersionError: written by a newer version.
            HistoryLockedError: another process writes it.
            HistoryReadOnlyError: `write` where the file or its folder may not be written.
        """
        path = Path(path)
        if not write:
            return cls(path, None)
        real = path.resolve()
        if not real.is_file():
            open_file(path).close()  # raises what fits
        check_may_write(real)
        lock = WriterLock(real, timeout=lock_timeout)
        try:
            return cls(path, lock)
        except BaseException:
            lock.release()
            raise

    def close(self) -> None:
        """Compact a long journal, let the next writer in, close the file. Images already given out stay valid."""
        if self._closed:
            return
        try:
            if self._files is not None and self._lock is not None and self._lock.held:
                if self._files.journal_lines > _COMPACT_LINES:
                    self._replace(self._state())
                self._files.close()
        finally:
            self._closed = True
            if self._lock is not None:
                self._lock.release()
            if self._file is not None:
                self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"History({str(self.path)!r}, revision={self.revision}, datasets={len(self.datasets)}, configs={len(self.configs)}, evaluations={self.n_evaluations})"

    def refresh(self) -> bool:
        """Read what others have written since; returns whether anything changed."""
        self._check_open()
        before = self._content.serial
        self._load()
        return self._content.serial != before

    # What it holds.

    @property
    def id(self) -> str:
        """Name of the history for life, 32 hexadecimal digits."""
        return self._content.id

    @property
    def revision(self) -> int:
        """Number of changes so far to datasets, configurations and evaluations (embeddings and results count not)."""
        return self._content.revision

    @property
    def space_json(self) -> str:
        """The search space as ConfigSpace JSON, as it was given."""
        return self._content.space_json

    @property
    def stored_size(self) -> int:
        """Side of the stored images in pixels."""
        return self._content.stored_size

    @property
    def notes(self) -> dict[str, str]:
        """What was noted when it was created."""
        return dict(self._content.notes)

    @property
    def writable(self) -> bool:
        """Tell whether this object may write."""
        return not self._closed and self._lock is not None and self._lock.held

    @property
    def datasets(self) -> tuple[DatasetInfo, ...]:
        """The datasets, in the order in which they were added."""
        return tuple(self._content.datasets)

    @property
    def names(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(info.name for info in self._content.datasets)

    @property
    def groups(self) -> tuple[str, ...]:
        """Their sibling groups."""
        return tuple(info.group for info in self._content.datasets)

    def dataset(self, name: str) -> DatasetInfo:
        """Find a dataset by name.

        Raises:
            UsageError: there is none of that name.
        """
        return self._content.datasets[self._content.index(name, str(self.path))]

    @property
    def configs(self) -> tuple[dict[str, Value], ...]:
        """The configurations, in the order of the columns of `errors`."""
        return tuple(dict(config) for config in self._content.configs)

    @property
    def configs_unit(self) -> NDArray[np.float64]:
        """The configurations as `c x d` float64 in the order of the space; NaN = inactive."""
        return self._content.unit.copy()

    @property
    def errors(self) -> NDArray[np.float64]:
        """Validation errors, `m x c` float64 in [0, 1], mean over seeds; NaN = missing, or no run gave one.

        A diverged run counts with the error of a constant prediction.
        """
        return self._content.table.errors(len(self._content.datasets), len(self._content.configs))

    @property
    def n_evaluations(self) -> int:
        """Number of evaluations."""
        return len(self._content.base_table) + len(self._content.tail)

    def table(self) -> EvaluationTable:
        """Give all evaluations as columns."""
        return self._content.table

    def evaluations(self, dataset: str | None = None) -> tuple[Evaluation, ...]:
        """Give evaluations in the order in which they were appended.

        Args:
            dataset: only those of this one.

        Raises:
            UsageError: there is none of that name.
        """
        content = self._content
        rows = np.arange(len(content.table))
        if dataset is not None:
            rows = np.flatnonzero(content.table.dataset == content.index(dataset, str(self.path)))
        return tuple(content.table.records(self.names, self.configs, rows))

    def has_images(self, name: str) -> bool:
        """Tell whether the images of a dataset are inside.

        Raises:
            UsageError: there is no dataset of that name.
        """
        self._content.index(name, str(self.path))
        with damage(self.path):
            return quoted(name) in self._h5["images"]

    def images(self, name: str) -> StoredImages:
        """Open the images of a dataset through the memory map of the file.

        Raises:
            UsageError: there is no dataset of that name.
            ImagesMissingError: the history holds it without images.
        """
        if name not in self._images:
            info = self.dataset(name)
            if not self.has_images(name):
                step = f"`warmstart history add` puts them in from manifest {info.manifest!r}" if info.manifest else f"`warmstart history add` puts them in from a folder ({info.source or 'source not stated'}; it names no manifest)"
                msg = f"{self.path}: expected images of {name!r}, got a history that holds it without. {step}: `warmstart history add --help`."
                raise ImagesMissingError(msg)
            with damage(self.path):
                if self._map is None:
                    self._map = map_file(self._h5)
                self._images[name] = map_images(self._h5, quoted(name), name, str(self.path), self._map)
        return self._images[name]

    @property
    def model_hashes(self) -> tuple[str, ...]:
        """Hashes of the models whose embeddings are inside."""
        with damage(self.path):
            return tuple(self._h5["embeddings"])

    def embeddings(self, model_hash: str) -> dict[str, NDArray[np.float32]]:
        """Give the embeddings that a model gave the datasets: vectors by name, empty for an unknown model."""
        return read_embeddings(self._h5, str(self.path), model_hash)

    def get_result(self, key: str) -> dict[str, Any] | None:
        """Give a stored result, or None."""
        value = self._content.results.get(key)
        return None if value is None else dict(value)

    # What changes it. Each returns only when the change is on the disk.

    def append(self, evaluation: Evaluation) -> None:
        """Add one evaluation; see `extend`."""
        self.extend([evaluation])

    def extend(self, evaluations: Iterable[Evaluation]) -> None:
        """Add evaluations, all or none; configurations that are new are checked against the space and added.

        Raises:
            DataError: a dataset is unknown, a configuration does not fit, or the same run (dataset, configuration, seed
                and origin) is there already. Runs of an unknown seed may repeat.
            HistoryReadOnlyError: opened for reading.
            StorageError: it could not be written; nothing was added, nothing lost.
        """
        content = self._state()
        runs = list(evaluations)
        if not runs:
            return
        self._commit(content.plan_extend(runs, str(self.path)), whole=len(runs) > _JOURNAL_RUNS)

    def add_dataset(
        self, info: DatasetInfo, images: ImageSet | None = None, split: NDArray[np.int8] | None = None
    ) -> None:
        """Add one dataset; see `add_datasets`."""
        if images is None:
            self._commit(self._state().plan_add(info, str(self.path)))
        else:
            self.add_datasets([(info, images, split)])

    def add_datasets(self, items: Iterable[tuple[DatasetInfo, ImageSet | None, NDArray[np.int8] | None]]) -> None:
        """Add datasets with their images, all or none; the file is written once, one dataset in memory at a time.

        A dataset that is there without images gets them, where the description is the same.

        Args:
            items: description, images at the history's stored size, and the code of each image's part (0 train,
                1 val, 2 test; None where all are train).

        Raises:
            DataError: a name is taken, or images, labels and counts contradict the description.
            HistoryReadOnlyError: opened for reading.
            StorageError: it could not be written; nothing was added, nothing lost.
        """
        content = self._state().copy()
        self._replace(content, add=self._additions(content, items))

    def remove_dataset(self, name: str) -> None:
        """Take a dataset out with its images, evaluations and embeddings; the backup keeps it until the next write.

        Raises:
            UsageError: there is none of that name.
        """
        content = self._state().copy()
        content.index(name, str(self.path))
        content.apply({"op": "remove-dataset", "name": name})
        self._replace(content, without=name, keep_backup=True)

    def set_embeddings(self, model_hash: str, vectors: Mapping[str, NDArray[np.float32]]) -> None:
        """Store the embeddings that a model gave the datasets, in place of earlier ones.

        Args:
            model_hash: hexadecimal.
            vectors: `d` float32 by dataset name, all of one length.

        Raises:
            UsageError: a name is unknown, or the hash is none.
            DataError: lengths differ, or a number is not finite.
        """
        content = self._state().copy()
        for name in vectors:
            content.index(name, str(self.path))
        if not model_hash or not model_hash.isalnum():
            msg = f"{self.path}: expected a model hash of letters and digits, got {model_hash!r}. Use the model's own."
            raise UsageError(msg)
        arrays = {name: np.asarray(vector, dtype=np.float32) for name, vector in vectors.items()}
        shapes = {array.shape for array in arrays.values()}
        if len(shapes) > 1 or any(len(shape) != 1 for shape in shapes) or not all(np.isfinite(a).all() for a in arrays.values()):
            msg = f"{self.path}: expected finite vectors of one length, got shapes {sorted(shapes)}. Embed all datasets with one model."
            raise DataError(msg)
        content.apply({"op": "touch", "revision": False})
        self._replace(content, embeddings={model_hash: arrays})

    def set_result(self, key: str, value: Mapping[str, Any]) -> None:
        """Store a result that was computed from the history; an earlier one of that key is replaced.

        Args:
            key: e.g. `calibration/<revision>/<model hash>`.
            value: JSON values.

        Raises:
            DataError: JSON cannot hold the value.
        """
        self._commit({"op": "set-result", "key": str(key), "value": dict(value)})

    def compact(self, *, drop_images: bool = False, path: str | Path | None = None) -> None:
        """Write the journal into the file.

        Args:
            drop_images: leave the images out.
            path: write a copy there instead, which must not exist, and leave this history as it is; needs no lock.

        Raises:
            UsageError: something is at `path` already.
            StorageError: it could not be written; the history is as before.
        """
        if path is None:
            self._replace(self._state(), drop_images=drop_images)
            return
        self._check_open()
        target = Path(path)
        check_may_write(target.resolve(), new=True)
        if target.exists() or beside(target, ".journal").exists():
            msg = f"{target}: expected nothing there yet, got a file. Choose another path."
            raise UsageError(msg)
        with install(target.resolve(), backup=None) as temporary:
            self._write(temporary, self._content, drop_images=drop_images)

    # Loading.

    @property
    def _h5(self) -> h5py.File:
        self._check_open()
        if self._file is None:
            msg = f"{self.path}: expected a loaded history, got one whose last write failed. Open it again."
            raise StorageError(msg)
        return self._file

    def _load(self) -> None:
        """Read file and journal as one consistent state, again where a writer came between."""
        log = beside(self._real, ".journal")
        for attempt in range(_TRIES):
            file = open_file(self._real)
            try:
                content = read_content(file, str(self._real))
                serial = content.serial
                text = journal.load(log)
                if not _is_at(file, self._real):
                    file.close()
                    continue
                journal.check(text, content.id, log, hint(str(self._real)))
                missing = text.after(content.serial)
                if [op["serial"] for op in missing] == list(range(content.serial + 1, content.serial + 1 + len(missing))):
                    with damage(log):
                        for operation in missing:
                            content.apply(operation)
                    break
                file.close()
                time.sleep(0.001 * attempt)
            except BaseException:
                file.close()
                raise
        else:
            msg = f"{log}: expected operations from number {content.serial + 1} on, got a gap. {hint(str(self._real))}"
            raise HistoryDamagedError(msg)
        if self._file is not None:
            self._file.close()
        self._file, self._content = file, content
        self._map: mmap.mmap | None = None
        self._images: dict[str, StoredImages] = {}
        if self._lock is not None:
            if self._files is not None:
                self._files.close()
            self._files = Files(self._real, (content.id, serial), text)
        self._stale = False

    def _check_open(self) -> None:
        if self._closed:
            msg = f"{self.path}: expected an open history, got a closed one. Open it again."
            raise UsageError(msg)

    # Writing.

    def _state(self) -> Content:
        """Return the content that the next write starts from, read anew where the last one failed half way."""
        self._check_open()
        check_writer(self._lock, self.path)
        if self._stale:
            self._load()
        return self._content

    def _writer(self) -> Files:
        assert self._files is not None  # noqa: S101 - a lock holder has loaded
        return self._files

    def _commit(self, operation: Operation, *, whole: bool = False) -> None:
        """Carry out a planned operation: a line of the journal, or the whole file."""
        content = self._state()
        if whole:
            content = content.copy()
            content.apply(operation)
            self._replace(content)
            return
        line = encode_operation(operation, content.serial + 1)
        self._stale = True
        self._writer().append(line)
        content.apply(operation)
        self._stale = False

    def _replace(
        self,
        content: Content,
        *,
        add: Iterable[WriteImages] = (),
        without: str | None = None,
        drop_images: bool = False,
        keep_backup: bool = False,
        embeddings: Mapping[str, Mapping[str, NDArray[np.float32]]] | None = None,
    ) -> None:
        """Put a new file in the place of the old one."""
        self._state()
        self._stale = True
        with self._writer().replacing(keep_backup=keep_backup) as temporary:
            self._write(
                temporary, content, add=add, without=without, drop_images=drop_images, embeddings=embeddings or {}
            )
        self._load()

    def _write(
        self,
        target: Path,
        content: Content,
        *,
        add: Iterable[WriteImages] = (),
        without: str | None = None,
        drop_images: bool = False,
        embeddings: Mapping[str, Mapping[str, NDArray[np.float32]]] | None = None,
    ) -> None:
        file = self._h5
        with damage(self._real):
            vectors = {key: read_embeddings(file, str(self.path), key) for key in file["embeddings"]}
            kept = [] if drop_images else [n for n in self.names if n != without and quoted(n) in file["images"]]
        for by_name in vectors.values():
            by_name.pop(without or "", None)
        write_base(
            target,
            content,
            embeddings=vectors | dict(embeddings or {}),
            keep=[(file["images"][quoted(name)], name) for name in kept],
            add=add,
            writer=_version(),
        )

    def _additions(
        self, content: Content, items: Iterable[tuple[DatasetInfo, ImageSet | None, NDArray[np.int8] | None]]
    ) -> Iterator[WriteImages]:
        for info, images, split in items:
            known = info.name in content.dataset_of
            if known and images is not None and info.name in self.names and not self.has_images(info.name):
                stored = self.dataset(info.name)
                if stored != info:
                    msg = f"{self.path}: expected images of {info.name!r} as the history describes it, got another description. Compare `fingerprint`, the counts and `decoding`."
                    raise DataError(msg)
                content.apply({"op": "touch", "revision": True})
            else:
                content.apply(content.plan_add(info, str(self.path)))
            if images is None:
                continue
            codes = np.zeros(len(images.labels), np.int8) if split is None else np.asarray(split)
            check_images(info, images.images, images.labels, codes, self.stored_size, str(self.path))
            yield partial(
                write_images,
                key=quoted(info.name),
                images=images.images,
                labels=images.labels,
                split=codes,
                class_names=images.class_names,
            )


def check_writer(lock: WriterLock | None, path: Path) -> None:
    """Check that this process may write.

    Raises:
        HistoryReadOnlyError: opened for reading, or by the parent of this process.
    """
    if lock is None:
        msg = f"{path}: expected a history opened for writing, got one opened for reading. Open it with write=True."
        raise HistoryReadOnlyError(msg)
    if lock.pid != os.getpid():
        msg = f"{path}: expected the process that opened it for writing ({lock.pid}), got its child {os.getpid()}. Open it there, or send evaluations to the parent."
        raise HistoryReadOnlyError(msg)


def _is_at(file: h5py.File, path: Path) -> bool:
    """Tell whether an open file is still the one at its path."""
    mine = os.fstat(file.id.get_vfd_handle())
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    return (mine.st_dev, mine.st_ino) == (there.st_dev, there.st_ino)


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("warmstart")
    except PackageNotFoundError:
        return "unknown"

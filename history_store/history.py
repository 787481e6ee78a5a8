"""The history: one HDF5 file, replaced whole, and a journal beside it. `history_store/FORMAT.md` describes both."""

from __future__ import annotations

import contextlib
import uuid
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.errors import (
    DataError,
    HistoryDamagedError,
    HistoryWarning,
    MissingPathError,
    StorageError,
    UsageError,
)
from warmstart.history_store.file import durable
from warmstart.history_store.file.append_index import is_indexed, write_index
from warmstart.history_store.file.base import WriteImages, identity_of, read_embeddings, write_base
from warmstart.history_store.file.codec import Operation, encode_operation, native
from warmstart.history_store.file.content import Content, index_digests, is_blank, quoted, unit_rows
from warmstart.history_store.file.durable import beside
from warmstart.history_store.file.journal import JournalText
from warmstart.history_store.file.layout import damage_errors, open_file
from warmstart.history_store.file.lock import WriterLock
from warmstart.history_store.file.snapshot import Snapshot
from warmstart.history_store.file.stored_images import check_images, write_images
from warmstart.history_store.file.writing import HistoryFiles, check_free, check_writable, check_writer, install
from warmstart.history_store.json_text import parse_stored_json
from warmstart.history_store.records import Config, DatasetInfo, Evaluation
from warmstart.history_store.space import space_names, with_logarithms
from warmstart.history_store.wording import in_shell, in_words

if TYPE_CHECKING:
    from warmstart.history_store.images import ImageSet

_JOURNAL_RUNS = 500
"""Longer batches of evaluations are written into the file at once."""


class History(Snapshot):
    """Datasets, configurations and evaluations: the record from which suggestions are chosen.

    Reading needs no lock: an object sees the state at the moment it was opened (or refreshed), whoever writes
    meanwhile. One process writes at a time. An object belongs to one thread. A value that a property returned never
    changes later.
    """

    def __init__(self, path: Path, lock: WriterLock | None) -> None:
        """Load a history; use `open` or `create` instead."""
        self._lock = lock
        self._files: HistoryFiles | None = None
        self._is_stale = False
        super().__init__(path)

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
        """Create an empty history and open it for writing.

        Args:
            path: of the new file, which must not exist.
            space_json: the search space as ConfigSpace JSON.
            configs: the shared configurations; more are added with the evaluations that use them.
            stored_size: side of the images that it may hold, in pixels.
            notes: texts to store with the history.

        Raises:
            UsageError: something is there already, or the size is no positive number.
            MissingPathError: the folder does not exist.
            DataError: the space cannot be read, or a configuration does not fit it.
            StorageError: it cannot be written there.
        """
        path = Path(path)
        if stored_size < 1:
            msg = (
                f"{path}: expected a stored size of at least 1 pixel, got stored_size={stored_size}. The default is 32."
            )
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
        check_writable(real, new=True)
        lock = WriterLock(real, timeout=10.0)
        try:
            check_free(real)
            with install(real, backup=beside(real, ".bak"), lock=lock) as temporary:
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
            HistoryDamagedError: truncated, altered or no history; the message says how to restore it.
            HistoryVersionError: written by a newer version.
            HistoryLockedError: another process writes it.
            HistoryReadOnlyError: `write`, and the file or its folder may not be written.
        """
        path = Path(path)
        if not write:
            return cls(path, None)
        real = path.resolve()
        if not real.is_file():
            # No file: opening it raises the right error.
            open_file(path).close()
        check_writable(real)
        lock = WriterLock(real, timeout=lock_timeout)
        try:
            return cls(path, lock)
        except BaseException:
            lock.release()
            raise

    def close(self) -> None:
        """Compact a long journal, release the lock and close the file; images that were read before stay valid.

        Raises:
            HistoryDamagedError: a file that was altered meanwhile.

        Warns:
            HistoryWarning: all is on the disk, but a long journal could not be written into the file.
        """
        if self._closed:
            return
        try:
            if self._files is not None and self._lock is not None and self._lock.is_held:
                if self._files.has_long_journal:
                    self._compact_on_close()
                if not self._is_stale:
                    # Everything is on the disk already; without an index the file is read.
                    with contextlib.suppress(StorageError, MemoryError):
                        self._write_append_index()
                self._files.close()
        finally:
            self._closed = True
            if self._lock is not None:
                self._lock.release()
            super().close()

    def _compact_on_close(self) -> None:
        """Write a long journal into the file; warn if that fails, since the journal is on the disk already."""
        try:
            self._replace_file(self._writable_content())
        except HistoryDamagedError:
            raise
        except StorageError as error:
            warnings.warn(
                f"{self.path}: all was recorded, but its journal could not be written into the file ({in_words(error.__cause__ or error)}). "
                f"`warmstart history compact {in_shell(self.path)}` does that later.",
                HistoryWarning,
                stacklevel=3,
            )

    @property
    def writable(self) -> bool:
        """Return whether this object may write."""
        return not self._closed and self._lock is not None and self._lock.is_held

    def refresh(self) -> bool:
        """Read the writes of other processes, and repair an own broken write; return whether anything changed.

        Raises:
            StorageError: the remains of a broken write could not be cut off.
        """
        self._check_open()
        if self._is_stale:
            self._open_files().recover()
        return super().refresh()

    # Changes. Each method returns only when the change is on the disk.

    def append(self, evaluation: Evaluation) -> None:
        """Add one evaluation; see `extend`."""
        self.extend([evaluation])

    def extend(self, evaluations: Iterable[Evaluation], *, datasets: Sequence[DatasetInfo] = ()) -> None:
        """Add evaluations, all or none; new configurations are checked against the space and added.

        Args:
            evaluations: of datasets that the history has, or of `datasets`. For a logarithm of the space its natural
                value is taken too.
            datasets: added first, without images.

        Raises:
            UsageError: a value and its logarithm that are not equal.
            DataError: a dataset is unknown, a configuration does not fit, or the same run (dataset, configuration, seed
                and origin) is there already. Runs of an unknown seed may repeat.
            HistoryReadOnlyError: opened for reading.
            StorageError: it could not be written; nothing was added, nothing lost.
        """
        content, location = self._writable_content(), str(self.path)
        runs = [
            evaluation if evaluation.config is config else replace(evaluation, config=config)
            for evaluation in evaluations
            for config in [self._in_space_names(evaluation.config)]
        ]
        if not datasets and len(runs) <= _JOURNAL_RUNS:
            if runs:
                self._append_operation(content.plan_extend(runs, location))
            return
        content = content.copy()
        for info in datasets:
            content.apply(content.plan_add(info, location))
        if runs:
            content.apply(content.plan_extend(runs, location))
        self._replace_file(content)

    def add_configs(self, configs: Iterable[Config]) -> None:
        """Add shared configurations before their evaluations, so that their order is fixed.

        Known configurations stay in place.

        Raises:
            DataError: one does not fit the space.
            HistoryReadOnlyError: opened for reading.
            StorageError: it could not be written; nothing was added, nothing lost.
        """
        operation = self._writable_content().plan_configs(
            [self._in_space_names(config) for config in configs], str(self.path)
        )
        if operation["configs"]:
            self._append_operation(operation)

    def _in_space_names(self, config: Config) -> Config:
        """Return a configuration in the names of the space."""
        names = self._space_names
        # A value that is no mapping passes: the check of the configuration reports it.
        has_space_names = not isinstance(config, Mapping) or names.issuperset(config)
        return config if has_space_names else with_logarithms(config, names, location=str(self.path))

    @cached_property
    def _space_names(self) -> frozenset[str]:
        return frozenset(space_names(self.space_json))

    def add_dataset(
        self, info: DatasetInfo, images: ImageSet | None = None, split: NDArray[np.int8] | None = None
    ) -> None:
        """Add one dataset; see `add_datasets`."""
        if images is None and info.name not in self.names:
            self._append_operation(self._writable_content().plan_add(info, str(self.path)))
        else:
            self.add_datasets([(info, images, split)])

    def add_datasets(self, items: Iterable[tuple[DatasetInfo, ImageSet | None, NDArray[np.int8] | None]]) -> None:
        """Add datasets with their images, all or none; the file is written once, one dataset in memory at a time.

        A dataset without images gets them if the description is the same. A dataset with runs alone gets description
        and images; its runs stay.

        Args:
            items: description, images at the history's stored size, and the code of each image's part (0 train,
                1 val, 2 test; None = all are train).

        Raises:
            DataError: a name is taken, or images, labels and counts contradict the description.
            HistoryReadOnlyError: opened for reading.
            StorageError: it could not be written; nothing was added, nothing lost.
        """
        content = self._writable_content().copy()
        self._replace_file(content, image_writers=self._add_images(content, items))

    def remove_dataset(self, name: str) -> None:
        """Remove a dataset with its images, evaluations and embeddings; the backup keeps it until the next write.

        Raises:
            UsageError: there is none of that name.
        """
        content = self._writable_content().copy()
        content.index(name, str(self.path))
        content.apply({"op": "remove-dataset", "name": name})
        self._replace_file(content, removed=name, keep_backup=True)

    def set_embeddings(self, model_hash: str, vectors: Mapping[str, NDArray[np.float32]]) -> None:
        """Store a model's embeddings of the datasets; they replace earlier ones.

        Args:
            model_hash: hexadecimal.
            vectors: `d` float32 by dataset name, all of one length.

        Raises:
            UsageError: a name is unknown, or the hash is none.
            DataError: lengths differ, or a number is not finite.
        """
        content = self._writable_content().copy()
        for name in vectors:
            content.index(name, str(self.path))
        if not model_hash or not model_hash.isalnum():
            msg = f"{self.path}: expected a model hash of letters and digits, got {model_hash!r}. Use the model's own."
            raise UsageError(msg)
        arrays = {name: np.asarray(vector, dtype=np.float32) for name, vector in vectors.items()}
        shapes = {array.shape for array in arrays.values()}
        if (
            len(shapes) > 1
            or any(len(shape) != 1 for shape in shapes)
            or not all(np.isfinite(a).all() for a in arrays.values())
        ):
            msg = f"{self.path}: expected finite vectors of one length, got shapes {sorted(shapes)}. Embed all datasets with one model."
            raise DataError(msg)
        content.apply({"op": "touch", "revision": False})
        self._replace_file(content, embeddings={model_hash: arrays})

    def set_result(self, key: str, value: Mapping[str, Any]) -> None:
        """Store a result that was computed from the history; it replaces an earlier one of that key.

        Args:
            key: e.g. `calibration/<revision>/<model hash>`.
            value: JSON values.

        Raises:
            DataError: JSON cannot hold the value.
        """
        self._append_operation({"op": "set-result", "key": str(key), "value": dict(value)})

    def rewrite(
        self,
        *,
        datasets: Sequence[DatasetInfo],
        configs: Sequence[Config],
        evaluations: Sequence[Evaluation],
        results: Mapping[str, Mapping[str, Any]],
        embeddings: Mapping[str, Mapping[str, NDArray[np.float32]]] | None = None,
    ) -> None:
        """Replace all datasets, configurations and evaluations in one write; images stay with their datasets.

        Args:
            datasets: all; every dataset with images must be among them with its description.
            configs: the first ones; others follow in the order of the evaluations.
            evaluations: all, in order.
            results: added to the stored ones.
            embeddings: by model; they replace the stored ones.

        Raises:
            DataError: a configuration does not fit the space, or a run is there twice; nothing was changed.
            StorageError: it could not be written; nothing was lost.
        """
        old, location = self._writable_content(), str(self.path)
        described = {info.name: info for info in datasets}
        lost = [name for name in self.names if self.has_images(name) and described.get(name) != self.dataset(name)]
        if lost:
            msg = f"{location}: expected {lost[0]!r}, of which it has images, as it is described, got another description. Remove it first."
            raise DataError(msg)
        content = Content(
            id=old.id,
            space_json=old.space_json,
            stored_size=old.stored_size,
            notes=old.notes,
            serial=old.serial,
            revision=old.revision + 1,
            results={**old.results, **{key: dict(value) for key, value in results.items()}},
        )
        content.apply(content.plan_configs([self._in_space_names(config) for config in configs], location))
        for info in datasets:
            content.apply(content.plan_add(info, location))
        content.apply(
            content.plan_extend([replace(e, config=self._in_space_names(e.config)) for e in evaluations], location)
        )
        vectors = {key: self.embeddings(key) for key in self.model_hashes} | dict(embeddings or {})
        remaining = {key: {n: v for n, v in by_name.items() if n in described} for key, by_name in vectors.items()}
        self._replace_file(content, embeddings=remaining)

    def compact(self, *, drop_images: bool = False, path: str | Path | None = None) -> None:
        """Write the journal into the file.

        Args:
            drop_images: leave the images out; the backup keeps them until the next write.
            path: write a copy there instead, where nothing must exist, and leave this history as it is; needs no lock.

        Raises:
            UsageError: something is at `path` already.
            StorageError: it could not be written; the history is as before.
        """
        if path is None:
            self._replace_file(
                self._writable_content(), drop_images=drop_images, keep_backup=drop_images and self.holds_images
            )
            return
        self._check_open()
        target = Path(path)
        check_writable(target.resolve(), new=True)
        check_free(target.resolve())
        with install(target.resolve(), backup=None) as temporary:
            self._write_file(temporary, self._content, drop_images=drop_images)

    def copy_as_new(self, path: str | Path) -> str:
        """Write a copy with an id of its own, which is another history; needs no lock.

        Embeddings, calibrations and references are valid for the copy, which begins with the same datasets. `notes`
        name the original.

        Args:
            path: of the copy, which must not exist.

        Returns: the id of the copy.

        Raises:
            UsageError: something is at `path` already.
            StorageError: it could not be written.
        """
        self._check_open()
        real = Path(path).resolve()
        check_writable(real, new=True)
        check_free(real)
        content = self._content.copy()
        content.id = uuid.uuid4().hex
        content.notes = {**content.notes, "copied_from": f"{self.id}, revision {self.revision}"}
        with install(real, backup=None) as temporary:
            self._write_file(temporary, content)
        return content.id

    # Writing.

    def _load(self) -> tuple[int, JournalText]:
        serial, text = super()._load()
        if self._lock is not None:
            if self._files is not None:
                self._files.close()
            self._files = HistoryFiles(self._real, identity_of(self._h5, str(self._real)), text, self._lock)
        self._is_stale = False
        return serial, text

    def _writable_content(self) -> Content:
        """Return the content for the next write, read again if the last write failed half way."""
        self._check_open()
        check_writer(self._lock, self.path)
        if self._is_stale:
            self.refresh()
        return self._content

    def _open_files(self) -> HistoryFiles:
        assert self._files is not None  # noqa: S101 - a lock holder has loaded
        return self._files

    def _append_operation(self, operation: Operation) -> None:
        """Append a planned operation to the journal, and apply it."""
        content = self._writable_content()
        line = encode_operation(operation, content.serial + 1)
        # A copied file needs a salt of its own first: else its journal would fit the other copies too.
        if self._open_files().is_copy:
            content = content.copy()
            content.apply(operation)
            self._replace_file(content)
            return
        # While set, memory and disk may differ: after a failed write, the next one reads both again.
        self._is_stale = True
        self._open_files().append(line)
        content.apply(parse_stored_json(line) if operation["op"] == "set-result" else operation)
        self._is_stale = False

    def _write_append_index(self) -> None:
        """Write the append index, with which the next run can be appended without reading the history."""
        content, files = self._content, self._open_files()
        state = files.state(content.serial)
        if state is not None and not is_indexed(self._real, state):
            write_index(self._real, state, *index_digests(content), len(content.base) + len(content.tail))

    def _replace_file(
        self,
        content: Content,
        *,
        image_writers: Iterable[WriteImages] = (),
        removed: str | None = None,
        drop_images: bool = False,
        keep_backup: bool = False,
        embeddings: Mapping[str, Mapping[str, NDArray[np.float32]]] | None = None,
    ) -> None:
        """Replace the file by a new one."""
        self._writable_content()
        self._is_stale = True
        with self._open_files().replacing(keep_backup=keep_backup) as temporary:
            self._write_file(
                temporary,
                content,
                image_writers=image_writers,
                removed=removed,
                drop_images=drop_images,
                embeddings=embeddings or {},
            )
            self._close_before_replacing()
        self._load()

    def _write_file(
        self,
        target: Path,
        content: Content,
        *,
        image_writers: Iterable[WriteImages] = (),
        removed: str | None = None,
        drop_images: bool = False,
        embeddings: Mapping[str, Mapping[str, NDArray[np.float32]]] | None = None,
    ) -> None:
        file = self._h5
        with damage_errors(self._real):
            vectors = {key: read_embeddings(file, str(self._real), key) for key in file["embeddings"]}
            image_names = [] if drop_images else [n for n in self.names if n != removed and quoted(n) in file["images"]]
        for by_name in vectors.values():
            by_name.pop(removed or "", None)
        write_base(
            target,
            content,
            embeddings=vectors | dict(embeddings or {}),
            image_groups=[(file["images"][quoted(name)], name) for name in image_names],
            image_writers=image_writers,
            writer=_version(),
        )

    def _add_images(
        self, content: Content, items: Iterable[tuple[DatasetInfo, ImageSet | None, NDArray[np.int8] | None]]
    ) -> Iterator[WriteImages]:
        for info, images, split in items:
            exists = info.name in content.dataset_of
            if exists and is_blank(content.datasets[content.dataset_of[info.name]]) and not is_blank(info):
                content.apply(content.plan_describe(info, str(self.path)))
            elif exists and images is not None and info.name in self.names and not self.has_images(info.name):
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


def remove_empty(path: str | Path) -> None:
    """Remove a history without datasets, configurations and runs, and its companions, unless it is being written."""
    real = Path(path).resolve()
    with contextlib.suppress(MissingPathError, StorageError):
        with History.open(real, write=True, lock_timeout=0.0) as history:
            if history.names or history.configs or history.n_evaluations:
                return
            for suffix in ("", ".bak", ".journal"):
                durable.remove(beside(real, suffix))
        # After `close`, which writes the one and needs the other.
        for suffix in (".index", ".lock"):
            durable.remove(beside(real, suffix))


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("warmstart")
    except PackageNotFoundError:
        return "unknown"

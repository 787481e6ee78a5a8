"""The history: one HDF5 file, replaced whole, and a journal beside it. `docs/history-format.md` describes both."""

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
from warmstart.history_store.file.content import Content, digests_of, is_blank, quoted, unit_rows
from warmstart.history_store.file.durable import beside
from warmstart.history_store.file.journal import JournalText
from warmstart.history_store.file.layout import damage, open_file
from warmstart.history_store.file.lock import WriterLock
from warmstart.history_store.file.snapshot import Snapshot
from warmstart.history_store.file.stored_images import check_images, write_images
from warmstart.history_store.file.writing import Files, check_free, check_may_write, check_writer, install
from warmstart.history_store.json_text import parse_stored_json
from warmstart.history_store.records import Config, DatasetInfo, Evaluation
from warmstart.history_store.space import space_names, with_logarithms
from warmstart.history_store.wording import in_shell, in_words

if TYPE_CHECKING:
    from warmstart.history_store.images import ImageSet

_JOURNAL_RUNS = 500
"""Longer batches of evaluations are written into the file at once."""


class History(Snapshot):
    """Datasets, configurations and evaluations: the record that suggestions are chosen from.

    Reading needs no lock: an object sees the state at the moment it was opened (or refreshed), whoever writes
    meanwhile. One process writes at a time. An object belongs to one thread. A value that a property returned never
    changes later.
    """

    def __init__(self, path: Path, lock: WriterLock | None) -> None:
        """Load a history; use `open` or `create` instead."""
        self._lock = lock
        self._files: Files | None = None
        self._stale = False
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
        check_may_write(real, new=True)
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
        """Compact a long journal, let the next writer in, close the file. Images already given out stay valid.

        Raises:
            HistoryDamagedError: a file that was altered meanwhile.

        Warns:
            HistoryWarning: all is on the disk, but a long journal could not be written into the file.
        """
        if self._closed:
            return
        try:
            if self._files is not None and self._lock is not None and self._lock.held:
                if self._files.has_long_journal:
                    self._compact_at_last()
                if not self._stale:
                    with contextlib.suppress(StorageError, MemoryError):  # all is written; without it the file is read
                        self._index()
                self._files.close()
        finally:
            self._closed = True
            if self._lock is not None:
                self._lock.release()
            super().close()

    def _compact_at_last(self) -> None:
        """Write a long journal into the file; where that is refused, say so: all in it is on the disk already."""
        try:
            self._replace(self._state())
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
        return not self._closed and self._lock is not None and self._lock.held

    def refresh(self) -> bool:
        """Read what others have written since, and settle a write of ours that was broken off; returns whether anything changed.

        Raises:
            StorageError: what a broken write left could not be cut off.
        """
        self._check_open()
        if self._stale:
            self._writer().recover()
        return super().refresh()

    # What changes it. Each returns only when the change is on the disk.

    def append(self, evaluation: Evaluation) -> None:
        """Add one evaluation; see `extend`."""
        self.extend([evaluation])

    @property
    def origins(self) -> dict[str, int]:
        """Count the evaluations by who measured them."""
        return self._content.origin_counts()

    def extend(self, evaluations: Iterable[Evaluation], *, datasets: Sequence[DatasetInfo] = ()) -> None:
        """Add evaluations, all or none; configurations that are new are checked against the space and added.

        Args:
            evaluations: of datasets that the history has, or of `datasets`. For a logarithm of the space its natural value is
                taken too.
            datasets: added first, without images.

        Raises:
            UsageError: a value and its logarithm that are not equal.
            DataError: a dataset is unknown, a configuration does not fit, or the same run (dataset, configuration, seed
                and origin) is there already. Runs of an unknown seed may repeat.
            HistoryReadOnlyError: opened for reading.
            StorageError: it could not be written; nothing was added, nothing lost.
        """
        content, where = self._state(), str(self.path)
        runs = [
            each if each.config is config else replace(each, config=config)
            for each in evaluations
            for config in [self._in_our_names(each.config)]
        ]
        if not datasets and len(runs) <= _JOURNAL_RUNS:
            if runs:
                self._commit(content.plan_extend(runs, where))
            return
        content = content.copy()
        for info in datasets:
            content.apply(content.plan_add(info, where))
        if runs:
            content.apply(content.plan_extend(runs, where))
        self._replace(content)

    def add_configs(self, configs: Iterable[Config]) -> None:
        """Add shared configurations ahead of their evaluations, so that their order does not depend on what ends first.

        Those that it has already stay where they are.

        Raises:
            DataError: one does not fit the space.
            HistoryReadOnlyError: opened for reading.
            StorageError: it could not be written; nothing was added, nothing lost.
        """
        operation = self._state().plan_configs([self._in_our_names(each) for each in configs], str(self.path))
        if operation["configs"]:
            self._commit(operation)

    def _in_our_names(self, config: Config) -> Config:
        """Return a configuration in the names of the space; itself where it is."""
        names = self._names_of_space
        is_ours = not isinstance(config, Mapping) or names.issuperset(
            config
        )  # what is none is told where it is checked
        return config if is_ours else with_logarithms(config, names, where=str(self.path))

    @cached_property
    def _names_of_space(self) -> frozenset[str]:
        return frozenset(space_names(self.space_json))

    def add_dataset(
        self, info: DatasetInfo, images: ImageSet | None = None, split: NDArray[np.int8] | None = None
    ) -> None:
        """Add one dataset; see `add_datasets`."""
        if images is None and info.name not in self.names:
            self._commit(self._state().plan_add(info, str(self.path)))
        else:
            self.add_datasets([(info, images, split)])

    def add_datasets(self, items: Iterable[tuple[DatasetInfo, ImageSet | None, NDArray[np.int8] | None]]) -> None:
        """Add datasets with their images, all or none; the file is written once, one dataset in memory at a time.

        A dataset that is there without images gets them, where the description is the same. One of which runs alone are
        known gets description and images; its runs stay.

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
        """Store a model's embeddings of the datasets, in place of earlier ones.

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
        if (
            len(shapes) > 1
            or any(len(shape) != 1 for shape in shapes)
            or not all(np.isfinite(a).all() for a in arrays.values())
        ):
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

    def rewrite(
        self,
        *,
        datasets: Sequence[DatasetInfo],
        configs: Sequence[Config],
        evaluations: Sequence[Evaluation],
        results: Mapping[str, Mapping[str, Any]],
        embeddings: Mapping[str, Mapping[str, NDArray[np.float32]]] | None = None,
    ) -> None:
        """Put other datasets, configurations and evaluations in place of all, as one write; images stay with their datasets.

        Args:
            datasets: all; those that have images must be among them, described as they are.
            configs: that come first; others follow in the order of the evaluations.
            evaluations: all, in order.
            results: stored besides those that are there.
            embeddings: by model, in place of those that are there.

        Raises:
            DataError: a configuration does not fit the space, or a run is there twice; nothing was changed.
            StorageError: it could not be written; nothing was lost.
        """
        old, where = self._state(), str(self.path)
        described = {info.name: info for info in datasets}
        lost = [name for name in self.names if self.has_images(name) and described.get(name) != self.dataset(name)]
        if lost:
            msg = f"{where}: expected {lost[0]!r}, of which it has images, as it is described, got another description. Remove it first."
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
        content.apply(content.plan_configs([self._in_our_names(each) for each in configs], where))
        for info in datasets:
            content.apply(content.plan_add(info, where))
        content.apply(
            content.plan_extend([replace(e, config=self._in_our_names(e.config)) for e in evaluations], where)
        )
        vectors = {key: self.embeddings(key) for key in self.model_hashes} | dict(embeddings or {})
        kept = {key: {n: v for n, v in by_name.items() if n in described} for key, by_name in vectors.items()}
        self._replace(content, embeddings=kept)

    def compact(self, *, drop_images: bool = False, path: str | Path | None = None) -> None:
        """Write the journal into the file.

        Args:
            drop_images: leave the images out; the backup keeps them until the next write.
            path: write a copy there instead, which must not exist, and leave this history as it is; needs no lock.

        Raises:
            UsageError: something is at `path` already.
            StorageError: it could not be written; the history is as before.
        """
        if path is None:
            self._replace(self._state(), drop_images=drop_images, keep_backup=drop_images and self.holds_images)
            return
        self._check_open()
        target = Path(path)
        check_may_write(target.resolve(), new=True)
        check_free(target.resolve())
        with install(target.resolve(), backup=None) as temporary:
            self._write(temporary, self._content, drop_images=drop_images)

    def copy_as_new(self, path: str | Path) -> str:
        """Write a copy that is another history: with an id of its own, all else as it is here; needs no lock.

        Embeddings, calibrations and references hold for it too, as it begins with the same datasets. `notes` say what
        it was copied from.

        Args:
            path: where nothing must be yet.

        Returns: the id of the copy.

        Raises:
            UsageError: something is at `path` already.
            StorageError: it could not be written.
        """
        self._check_open()
        real = Path(path).resolve()
        check_may_write(real, new=True)
        check_free(real)
        content = self._content.copy()
        content.id = uuid.uuid4().hex
        content.notes = {**content.notes, "copied_from": f"{self.id}, revision {self.revision}"}
        with install(real, backup=None) as temporary:
            self._write(temporary, content)
        return content.id

    # Writing.

    def _load(self) -> tuple[int, JournalText]:
        serial, text = super()._load()
        if self._lock is not None:
            if self._files is not None:
                self._files.close()
            self._files = Files(self._real, identity_of(self._h5, str(self._real)), text, self._lock)
        self._stale = False
        return serial, text

    def _state(self) -> Content:
        """Return the content that the next write starts from, read anew where the last one failed half way."""
        self._check_open()
        check_writer(self._lock, self.path)
        if self._stale:
            self.refresh()
        return self._content

    def _writer(self) -> Files:
        assert self._files is not None  # noqa: S101 - a lock holder has loaded
        return self._files

    def _commit(self, operation: Operation) -> None:
        """Carry out a planned operation as a line of the journal."""
        content = self._state()
        line = encode_operation(operation, content.serial + 1)
        if self._writer().is_copy:  # its first write gives it a salt of its own
            content = content.copy()
            content.apply(operation)
            self._replace(content)
            return
        self._stale = True
        self._writer().append(line)
        content.apply(parse_stored_json(line) if operation["op"] == "set-result" else operation)
        self._stale = False

    def _index(self) -> None:
        """Leave the index behind that lets the next run be appended without reading the history."""
        content, files = self._content, self._writer()
        state = files.state(content.serial)
        if state is not None and not is_indexed(self._real, state):
            write_index(self._real, state, *digests_of(content), len(content.base) + len(content.tail))

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
            vectors = {key: read_embeddings(file, str(self._real), key) for key in file["embeddings"]}
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
            if known and is_blank(content.datasets[content.dataset_of[info.name]]) and not is_blank(info):
                content.apply(content.plan_describe(info, str(self.path)))
            elif known and images is not None and info.name in self.names and not self.has_images(info.name):
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
    """Remove a history without datasets, configurations and runs, and its companions; any other one stays, as does one that is being written."""
    real = Path(path).resolve()
    with contextlib.suppress(MissingPathError, StorageError):
        with History.open(real, write=True, lock_timeout=0.0) as history:
            if history.names or history.configs or history.n_evaluations:
                return
            for suffix in ("", ".bak", ".journal"):
                durable.remove(beside(real, suffix))
        for suffix in (".index", ".lock"):  # closing it writes the one and needs the other
            durable.remove(beside(real, suffix))


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("warmstart")
    except PackageNotFoundError:
        return "unknown"

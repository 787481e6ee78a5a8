"""Verification of a history, restoration of a damaged one, upgrade of an old one."""

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import h5py
import numpy as np

from warmstart.history_store.errors import (
    DataError,
    HistoryDamagedError,
    HistoryVersionError,
    MissingPathError,
    StorageError,
    UsageError,
    WarmstartError,
)
from warmstart.history_store.file import durable, journal
from warmstart.history_store.file.append_index import SUFFIX
from warmstart.history_store.file.base import check_base, read_content, read_embeddings, read_identity
from warmstart.history_store.file.codec import Operation, decode_info, encode_operation
from warmstart.history_store.file.content import Content, check_info, decode_evaluation, quoted, unit_rows
from warmstart.history_store.file.durable import beside
from warmstart.history_store.file.layout import BROKEN, CURRENT, check_file, damage_errors, get_text, open_file
from warmstart.history_store.file.lock import WriterLock
from warmstart.history_store.file.stored_images import check_images, map_file, map_images
from warmstart.history_store.file.table import EvaluationTable
from warmstart.history_store.file.writing import check_writable
from warmstart.history_store.history import History
from warmstart.history_store.wording import counted


@dataclass(frozen=True, slots=True)
class HistoryFault:
    """A fault of a history.

    Attributes:
        location: element, companion file or line.
        message: in words.
    """

    location: str
    message: str


@dataclass(frozen=True, slots=True)
class Report:
    """Result of `verify`.

    Attributes:
        path: of the history.
        problems: faults; empty = sound.
        remarks: observations that are no faults.
        n_datasets: datasets, with the journal; likewise the next three. All 0 where the file cannot be read.
        n_configs: configurations.
        n_evaluations: evaluations.
        n_images: stored images.
    """

    path: str
    problems: tuple[HistoryFault, ...]
    remarks: tuple[str, ...]
    n_datasets: int = 0
    n_configs: int = 0
    n_evaluations: int = 0
    n_images: int = 0

    @property
    def ok(self) -> bool:
        """Return whether the history is sound."""
        return not self.problems


def verify(path: str | Path) -> Report:
    """Read every byte of a history and its companions, and check them; nothing is changed.

    A history that another process writes meanwhile may be reported with a gap: verify it again when that one is done.

    Raises:
        MissingPathError: nothing there.
        UsageError: a folder.
    """
    path = Path(path).resolve()
    remarks: list[str] = []
    counts = dict.fromkeys(("n_datasets", "n_configs", "n_evaluations", "n_images"), 0)
    try:
        with open_file(path) as file:
            problems = list(_check_elements(file, path))
            content = read_content(file, str(path))
            problems += _check_stored_images(file, content, path, counts)
            problems += _check_embeddings(file, content, path)
            problems += _check_journal(content, beside(path, ".journal"), remarks)
            problems += _check_content(content, str(path))
            counts |= {"n_datasets": len(content.datasets), "n_configs": len(content.configs)}
            counts["n_evaluations"] = len(content.table)
            problems += _check_backup(path, content.id, remarks)
    except (StorageError, *BROKEN) as error:
        if isinstance(error, MissingPathError | UsageError):
            raise
        return Report(str(path), (HistoryFault("file", str(error)),), tuple(remarks))
    leftovers = (beside(path, suffix) for suffix in (".tmp", ".bak.tmp", ".journal.tmp", ".index.tmp"))
    remarks += [
        f"{p.name} was left by a writer that was stopped; the next write removes it" for p in leftovers if p.exists()
    ]
    return Report(str(path), tuple(problems), tuple(remarks), **counts)


def restore(path: str | Path, *, lock_timeout: float = 10.0) -> Report:
    """Restore a damaged or missing history from its backup and the journal.

    The damaged file is kept as `<file>.damaged`. A journal with altered lines, or with operations that do not fit the
    history, gives all its other operations and is kept as `<file>.journal.damaged`. A sound history is left alone.

    Args:
        path: of the history.
        lock_timeout: seconds to wait for another writer.

    Returns: the report on the restored history; its remarks begin with what was done.

    Raises:
        HistoryDamagedError: the file is damaged and there is no sound backup.
        HistoryLockedError: another process writes it.
        HistoryReadOnlyError: its folder may not be written.
    """
    real = Path(path).resolve()
    check_writable(real, new=True)
    actions: list[str] = []
    lock = WriterLock(real, timeout=lock_timeout)
    try:
        with durable.storage_errors(real):
            if not _is_sound(real) or _backup_fits_better(real):
                note = f"; the damaged file is {real.name}.damaged" if real.exists() else ""
                _restore_backup(real, lock)
                actions.append(f"brought back from {beside(real, '.bak').name}{note}")
            salvaged = _salvage_journal(real, journal.load(beside(real, ".journal")))
            if salvaged is not None:
                actions.append(salvaged)
            # The index may hold runs that are lost.
            if actions:
                durable.remove(beside(real, SUFFIX))
    finally:
        lock.release()
    report = verify(real)
    return replace(report, remarks=(*actions, *report.remarks))


def upgrade(path: str | Path) -> bool:
    """Rewrite a history whose elements have older versions; return whether there was one.

    Raises:
        StorageError: as `History.open` and `History.compact` tell.
    """
    with History.open(path, write=True) as history:
        with open_file(history.path) as file:
            old: list[str] = []

            def note(name: str, element: h5py.Group | h5py.Dataset) -> None:
                type_ = get_text(element, "encoding-type")
                if type_ in CURRENT and get_text(element, "encoding-version") != CURRENT[type_]:
                    old.append(name)

            note("/", file)
            file.visititems(note)
        if old:
            history.compact()
        return bool(old)


def _check_elements(file: h5py.File, path: Path) -> Iterator[HistoryFault]:
    with damage_errors(path):
        for element, fault in check_file(file, str(path)):
            yield HistoryFault(element, fault)


def _check_stored_images(
    file: h5py.File, content: Content, path: Path, counts: dict[str, int]
) -> Iterator[HistoryFault]:
    with damage_errors(path):
        keys = list(file["images"])
        info_by_key = {quoted(info.name): info for info in content.datasets}
        mapped = map_file(file)
    for key in keys:
        element = f"/images/{key}"
        if key not in info_by_key:
            yield HistoryFault(element, "images of a dataset that the history does not have")
            continue
        info = info_by_key[key]
        try:
            with damage_errors(path):
                stored = map_images(file, key, info.name, str(path), mapped)
            counts["n_images"] += len(stored)
            check_images(info, stored.array, stored.labels, stored.split, content.stored_size, str(path))
            class_counts = np.bincount(stored.labels[stored.split == 0], minlength=info.n_classes)
            if info.class_counts and tuple(class_counts.tolist()) != tuple(info.class_counts):
                yield HistoryFault(element, "training images a class differ from the dataset's class counts")
            if len(stored.class_names) != info.n_classes:
                yield HistoryFault(element, f"{len(stored.class_names)} class names for {info.n_classes} classes")
        except (StorageError, DataError) as error:
            yield HistoryFault(element, str(error))


def _check_embeddings(file: h5py.File, content: Content, path: Path) -> Iterator[HistoryFault]:
    for model_hash in list(file["embeddings"]):
        element = f"/embeddings/{model_hash}"
        try:
            vectors = read_embeddings(file, str(path), model_hash)
        except StorageError as error:
            yield HistoryFault(element, str(error))
            continue
        strangers = sorted(set(vectors) - set(content.dataset_of))
        if strangers:
            yield HistoryFault(element, f"vectors of datasets that the history does not have: {', '.join(strangers)}")
        if not all(np.isfinite(vector).all() for vector in vectors.values()):
            yield HistoryFault(element, "vectors with numbers that are not finite")


def _check_journal(content: Content, log: Path, remarks: list[str]) -> Iterator[HistoryFault]:
    """Check the journal, and apply its operations to the content as far as they fit."""
    text = journal.load(log)
    for number in text.damaged:
        yield HistoryFault(f"{log.name} line {number}", "altered: the line does not match its checksum")
    if text.torn:
        remarks.append(
            f"{log.name} ends in a torn line, an append that was stopped before it was acknowledged; it is passed over"
        )
    try:
        journal.check(text, (content.id, content.serial, content.salt), log, "")
    except (HistoryDamagedError, HistoryVersionError) as error:
        if not text.damaged:
            yield HistoryFault(log.name, str(error))
        return
    for operation in text.after(content.serial):
        if operation.get("serial") != content.serial + 1:
            yield HistoryFault(
                log.name,
                f"expected operation {content.serial + 1}, got {operation.get('serial')}: a gap or a repetition",
            )
            return
        try:
            content.apply(operation)
        except BROKEN as error:
            yield HistoryFault(f"{log.name} operation {operation['serial']}", f"cannot be applied: {error!r}")
            return


def _check_content(content: Content, location: str) -> Iterator[HistoryFault]:
    """Check names, space, configurations and repetitions."""
    for info in content.datasets:
        try:
            check_info(info, location)
        except DataError as error:
            yield HistoryFault("/datasets", str(error))
    try:
        unit = unit_rows(content.space_json, content.configs, location)
        if unit.shape != content.unit.shape or not np.allclose(unit, content.unit, rtol=0, atol=1e-9, equal_nan=True):
            yield HistoryFault("/configs_unit", "does not encode the configurations in the space")
    except DataError as error:
        yield HistoryFault("/configs", str(error))
    repeated = _count_repeated(content.table)
    if repeated:
        yield HistoryFault("/evaluations", f"{repeated} evaluations occur twice (dataset, configuration, seed, origin)")


def _count_repeated(table: EvaluationTable) -> int:
    rows = table.seed >= 0
    keys = np.stack([table.dataset, table.config, table.seed, table.origin], axis=1)[rows]
    ordered = keys[np.lexsort(keys.T)]
    return int((ordered[1:] == ordered[:-1]).all(axis=1).sum())


def _check_backup(path: Path, history_id: str, remarks: list[str]) -> Iterator[HistoryFault]:
    backup = beside(path, ".bak")
    if not backup.exists():
        remarks.append(f"there is no backup {backup.name}; the next write makes one")
        return
    if backup.is_symlink():
        yield HistoryFault(backup.name, "a link, which is not followed; the next write puts a backup in its place")
        return
    try:
        if read_identity(backup).id != history_id:
            yield HistoryFault(backup.name, "the backup of another history")
        else:
            check_base(backup)
    except WarmstartError as error:
        yield HistoryFault(backup.name, str(error))


def _is_sound(path: Path) -> bool:
    try:
        check_base(path)
        with open_file(path) as file:
            read_content(file, str(path))
    except (HistoryDamagedError, MissingPathError):
        return False
    return True


def _backup_fits_better(path: Path) -> bool:
    """Return whether the journal belongs to the backup and not to the file, which is then another copy."""
    backup = beside(path, ".bak")
    text = journal.load(beside(path, ".journal"))
    try:
        current, stored = read_identity(path), read_identity(backup)
    except (StorageError, MissingPathError):
        return False
    return (
        text.header is not None
        and text.header.get("history") == current.id == stored.id
        and not journal.belongs(text, current.serial, current.salt)
        and journal.belongs(text, stored.serial, stored.salt)
        and _is_sound(backup)
    )


def _restore_backup(path: Path, lock: WriterLock) -> None:
    backup, temporary = beside(path, ".bak"), beside(path, ".tmp")
    if not backup.exists() or backup.is_symlink() or not _is_sound(backup):
        msg = f"{path}: expected a sound backup {backup.name} to restore from, got {'a damaged one' if backup.exists() else 'none'}. Rebuild the history from its shards with `warmstart history import`."
        raise HistoryDamagedError(msg)
    durable.copy(backup, temporary)
    if path.exists():
        _keep_copy(path, beside(path, ".damaged"))
    lock.lock_new_file(temporary)
    durable.replace(temporary, path)
    durable.sync_folder(path.parent)
    lock.adopt_new_file()


def _salvage_journal(path: Path, text: journal.JournalText) -> str | None:
    """Rewrite a damaged journal with the operations that fit; return what was done, or None."""
    log = beside(path, ".journal")
    with open_file(path) as file:
        content = read_content(file, str(path))
    later = text.after(content.serial)
    first, n = content.serial + 1, len(later)
    gapless = [operation["serial"] for operation in later] == list(range(first, first + n))
    is_same_history = text.header is None or (
        text.header.get("history") == content.id and journal.belongs(text, content.serial, content.salt)
    )
    if not text.damaged and gapless and is_same_history and _can_apply(content, later):
        return None
    lines, n_applied = [journal.header(content.id, content.salt)], 0
    for operation in later if is_same_history else ():
        with contextlib.suppress(WarmstartError, *BROKEN):
            for planned in _planned_operations(content, operation, str(path)):
                line = encode_operation(planned, content.serial + 1)
                content.apply(planned)
                lines.append(journal.line(line))
            n_applied += 1
    _keep_copy(log, beside(log, ".damaged"))
    durable.write_file(log, b"".join(lines), path)
    n_lost = f"{counted(len(text.damaged), 'altered line')} {'is' if len(text.damaged) == 1 else 'are'} lost"
    if not is_same_history:
        lost = "for it is the journal of another history"
    elif text.damaged or n_applied == n:
        lost = f"and {n_lost}"
    else:
        lost = f"the {'other does' if n - n_applied == 1 else 'others do'} not fit the history"
    return f"{n_applied} of {n} whole operations of the journal were kept, {lost}; the old one is {log.name}.damaged"


def _can_apply(content: Content, operations: Sequence[Operation]) -> bool:
    """Return whether operations fit a history, each after those before it."""
    tried = content.copy()
    try:
        for operation in operations:
            tried.apply(operation)
    except (WarmstartError, *BROKEN):
        return False
    return True


def _planned_operations(content: Content, operation: Operation, location: str) -> Iterator[Operation]:
    """Plan an operation of a damaged journal again, without its lost neighbours; apply each before the next."""
    if operation["op"] == "extend":
        # Configurations that no run uses count too, in their order.
        if operation["configs"]:
            yield content.plan_configs([config for config, _ in operation["configs"]], location)
        yield content.plan_extend([decode_evaluation(item, location) for item in operation["evaluations"]], location)
    elif operation["op"] == "add-dataset":
        yield content.plan_add(decode_info(operation["info"], location), location)
    else:
        # Without its serial number: it gets a new one.
        yield {key: value for key, value in operation.items() if key != "serial"}


def _keep_copy(path: Path, target: Path) -> None:
    """Link or copy a file to a second name."""
    target.unlink(missing_ok=True)
    try:
        os.link(path, target)
    except OSError:
        durable.copy(path, target)

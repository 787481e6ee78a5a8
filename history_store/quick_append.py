"""Appending one run to a history without reading it: see `warmstart.history_store.file.append_index`.

Imports neither numpy nor HDF5, which take longer to load than the rest takes.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from warmstart.history_store.errors import DataError, StorageError
from warmstart.history_store.file import durable, journal
from warmstart.history_store.file.append_index import AppendIndex, digest_config, digest_name, digest_run, stamp
from warmstart.history_store.file.codec import Operation, config_key, encode_operation
from warmstart.history_store.file.durable import beside
from warmstart.history_store.file.lock import WriterLock
from warmstart.history_store.records import Evaluation

_LEFTOVERS = (".tmp", ".bak.tmp", ".journal.tmp")


def append_quickly(path: Path, evaluation: Evaluation) -> int | None:
    """Append a run of a known dataset and configuration, durably.

    Every other case is left to `History.append`: a new configuration, an unknown dataset, a run that is stored already,
    a journal that is long, damaged or has lost lines, files that changed since the last writer.

    Args:
        path: of the history.
        evaluation: the run.

    Returns: the new number of evaluations; None = nothing was done, `History.append` is needed.

    Raises:
        HistoryLockedError: another process writes it.
        StorageError: it could not be written; nothing was added, nothing lost.
    """
    real = path.resolve()
    try:
        index = AppendIndex(real)
    except (OSError, ValueError, StorageError):
        return None
    with index:
        if not _is_writable(real):
            return None
        lock = WriterLock(real)
        try:
            with durable.storage_errors(real):
                return _append(real, evaluation, index, lock)
        except ValueError:  # a block of the index was altered
            return None
        finally:
            lock.release()


def _append(real: Path, evaluation: Evaluation, index: AppendIndex, lock: WriterLock) -> int | None:
    """Append a run under the lock."""
    lock.check()
    state, log = index.state, beside(real, ".journal")
    if (stamp(real), stamp(beside(real, ".bak"))) != (state.file, state.backup) or state.file[:1] == ():
        return None
    if any(os.path.lexists(beside(real, suffix)) for suffix in _LEFTOVERS):
        return None
    text = _read_journal(log, journal.most_bytes(state.file[1]))
    if text is None or not _is_continuation(text, index):
        return None
    # The index counts lines that are gone from the journal.
    if journal.checksum(log, state.journal[0]) != state.journal[1]:
        return None
    later = text.operations
    try:
        if not _is_new_run(evaluation, later, index):
            return None
    except (KeyError, TypeError, AttributeError, DataError):  # impossible operations: `History` reports them
        return None
    operation = {"op": "extend", "configs": [], "evaluations": [evaluation]}
    line = encode_operation(operation, state.serial + len(later) + 1)
    # The last rename may not be on the disk yet.
    durable.sync_folder(real.parent)
    writer = journal.JournalWriter(log, state.history, text, salt=state.salt, history=real)
    try:
        writer.append(line)
        # Again: if the files were replaced meanwhile, the line is lost and must not be acknowledged.
        lock.check()
    finally:
        writer.close()
    uncounted = (operation for operation in later if operation["serial"] > state.counted)
    return index.n_evaluations + sum(len(operation.get("evaluations", ())) for operation in uncounted) + 1


def _read_journal(log: Path, most: int) -> journal.JournalText | None:
    # A long journal is left to `History.close`, which writes it into the file.
    try:
        return None if os.path.lexists(log) and log.lstat().st_size > most else journal.load(log)
    except StorageError:
        return None


def _is_continuation(text: journal.JournalText, index: AppendIndex) -> bool:
    """Return whether a journal continues the file, whole and without a gap."""
    state = index.state
    if text.damaged or text.torn:
        return False
    if text.header is None:
        return not text.operations
    is_same_file = text.header.get("history") == state.history and text.salt == state.salt
    numbers = [operation["serial"] for operation in text.operations]
    return is_same_file and numbers == list(range(state.serial + 1, state.serial + 1 + len(numbers)))


def _is_new_run(evaluation: Evaluation, later: Sequence[Operation], index: AppendIndex) -> bool:
    """Return whether dataset and configuration are known, in the file or the journal, and the run is not."""
    datasets, configs, runs = set(), set(), set()
    for operation in later:
        if operation["op"] == "extend":
            configs |= {config_key(config) for config, _ in operation["configs"]}
            runs |= {
                (run["dataset"], config_key(run["config"]), run["seed"], run["origin"])
                for run in operation["evaluations"]
            }
        elif operation["op"] == "add-dataset":
            datasets.add(operation["info"]["name"])
        elif operation["op"] != "set-result":
            return False
    key = config_key(evaluation.config)
    dataset = index.find("names", digest_name(evaluation.dataset))
    config = index.find("configs", digest_config(evaluation.config))
    if (dataset is None and evaluation.dataset not in datasets) or (config is None and key not in configs):
        return False
    if evaluation.seed is None:
        return True
    if (evaluation.dataset, key, int(evaluation.seed), evaluation.origin) in runs:
        return False
    if dataset is None or config is None or evaluation.origin not in index.origins:
        return True
    origin = index.origins.index(evaluation.origin)
    return index.find("runs", digest_run(dataset, config, int(evaluation.seed), origin)) is None


def _is_writable(real: Path) -> bool:
    """Return whether file and folder may be written; their write bits count for the superuser too."""
    try:
        modes = [entry.stat().st_mode for entry in (real.parent, real)]
    except OSError:
        return False
    return all(mode & 0o222 for mode in modes) and os.access(real, os.W_OK) and os.access(real.parent, os.W_OK)

"""Names of studies: what was asked, unless `study` says otherwise; a changed question begins another study."""

from __future__ import annotations

import itertools
import os
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from warmstart.history_store.canonical import canonical
from warmstart.history_store.errors import UsageError
from warmstart.history_store.json_text import plain_fault
from warmstart.studies.output_paths import delete_study
from warmstart.studies.results.study_record import study_names
from warmstart.studies.state.removal import begins_anew, count_trials
from warmstart.studies.state.spec import StudySpec
from warmstart.studies.state.split import Split
from warmstart.studies.state.storage import Store, is_new_storage, open_store
from warmstart.studies.state.trial_queue import find_plan
from warmstart.studies.tune_options import TuneOptions, dataset_labels, default_name
from warmstart.training.workloads import get_workload

if TYPE_CHECKING:
    from warmstart.suggestions.query import Query


@dataclass(slots=True)
class OpenedDatasets:
    """The datasets of a call, each opened once.

    Attributes:
        options: of the call.
        opened: query by path; None where only the path is needed.
    """

    options: TuneOptions
    opened: dict[str | None, Query | None] = field(default_factory=dict)

    def __getitem__(self, path: str | None) -> Query | None:
        if path not in self.opened:
            self.opened[path] = self.options.open(path)
        return self.opened[path]


def study_name(dataset: str | None, options: TuneOptions) -> str:
    """Return the default name of a study: the dataset's folder, and the script or the workload with its space."""
    parts = [] if dataset is None else [_dataset_word(dataset)]
    if (workload := options.own_workload) is None:
        parts.append(default_name(None, options.objective, options.command))
    else:
        parts += [workload, *_space_word(options, workload)]
    return re.sub(r"[^\w.]+", "-", "-".join(parts)).strip("-")


def explicit_names(paths: Sequence[str | None], study: str) -> tuple[str, ...]:
    """Return the names of the studies of a call that names them: with each dataset's name, where there are several.

    Raises:
        UsageError: a name that no storage keeps.
    """
    if fault := plain_fault(study):
        msg = f"expected a name in Unicode, got {fault}. Write it in UTF-8."
        raise UsageError(msg, param="study")
    if len(paths) == 1:
        return (study,)
    return tuple(f"{study}-{label}" for label in dataset_labels([path or "" for path in paths]))


def names_of_0_2(paths: Sequence[str | None], options: TuneOptions) -> list[str]:
    """Return the default names that versions before 0.3 gave, which their studies still have."""
    labels = dataset_labels([path for path in paths if path is not None]) if len(paths) > 1 else paths
    return [options.name(label) for label in labels]


def _dataset_word(dataset: str) -> str:
    """Return the name of a dataset's folder or file, by whichever path or link it was reached."""
    head, *further = dataset.split("::")
    inner = [part for part in further if "=" not in part]
    return "-".join([Path(canonical(head)).name or head, *inner])


def _space_word(options: TuneOptions, workload: str) -> list[str]:
    """Return the name of a space other than the workload's usual one; empty for that."""
    if not isinstance(options.space, str):
        return [] if options.space is None else ["space"]
    name = options.space.removeprefix(f"{workload}:")
    usual = get_workload(workload).spaces[0]
    return [] if name in (workload, usual) else [Path(name).stem]


def candidate_names(paths: Sequence[str | None], options: TuneOptions) -> Iterator[tuple[tuple[str, ...], bool]]:
    """Yield default names for the studies of a call, and whether a new study may have them: those of 0.2 may not."""
    old = names_of_0_2(paths, options)
    new = [study_name(path, options) for path in paths]
    words = [canonical(path or "") for path in paths]
    if len(set(new)) < len(new):  # folders of one name
        new = [f"{name}-{_checksum(word)}" for name, word in zip(new, words, strict=True)]
    if old != new:
        yield tuple(old), False
    yield tuple(new), True
    for number in itertools.count(2):
        yield tuple(f"{name}-{number}" for name in new), True


def _checksum(text: str) -> str:

    return f"{zlib.crc32(os.fsencode(text)):08x}"


def choose_names(
    paths: Sequence[str | None], options: TuneOptions, datasets: OpenedDatasets, *, split: Split = "equal"
) -> tuple[tuple[str, ...], TuneOptions]:
    """Return the names of the studies of a call: of studies that ask the same, else new ones, with a line on why.

    A call that names no workload asks the same as the study of 0.2 with its name, whichever workload that trains.

    Args:
        paths: of the datasets.
        options: of the call, without `study`.
        datasets: of the call.
        split: of several datasets.

    Returns: the names, and the options with the workload of these studies.

    Raises:
        WarmstartError: as `TuneOptions.plan`, or a storage that cannot be read.
    """
    store = None if is_new_storage(options.storage) else open_store(options.storage)
    try:
        return _choose(paths, options, datasets, split, store)
    finally:
        if store is not None:
            store.close()


def _choose(
    paths: Sequence[str | None], options: TuneOptions, datasets: OpenedDatasets, split: Split, store: Store | None
) -> tuple[tuple[str, ...], TuneOptions]:
    earlier: tuple[str, Sequence[str]] | None = None
    for names, may_begin in candidate_names(paths, options):
        stored = {} if store is None else stored_plans(store, names)
        if not stored:
            if may_begin:
                break
            continue
        members = names if len(names) > 1 else ()
        pairs = zip(names, paths, strict=True)
        asked = options if may_begin else with_workload_of(stored, options)
        differences = [
            difference
            for name, path in pairs
            if name in stored
            for difference in _differences(stored[name], path, asked, datasets, members, split)
        ]
        if not differences or (may_begin and store is not None and _all_without_result(store, stored)):
            return names, asked
        earlier = next(iter(stored)), differences
    if earlier is not None:
        options.on_message(new_study_line(names[0], earlier[0], "; ".join(earlier[1][:2])))
    return names, options


def with_workload_of(stored: Mapping[str, StudySpec | None], options: TuneOptions) -> TuneOptions:
    """Return the options of a call with the workload of stored studies, where it names none."""
    workload = next((plan.workload for plan in stored.values() if plan is not None), None)
    if workload is None or options.workload is not None or options.own_workload is None:
        return options
    return replace(options, workload=workload)


def new_study_line(name: str, earlier: str, differences: str) -> str:
    """Return the line that a changed question begins another study, and how the earlier one goes on."""
    return f"{name} is a new study: {differences}; the earlier one goes on with its own options and `study` {earlier}."


def _all_without_result(store: Store, stored: Mapping[str, StudySpec | None]) -> bool:
    return all(plan is not None and begins_anew(store, name, plan) for name, plan in stored.items())


def stored_plans(store: Store, names: Sequence[str]) -> dict[str, StudySpec | None]:
    """Return the plans of those of the names that are studies; None for a study of another program."""
    existing = set(study_names(store)).intersection(names)
    return {name: find_plan(store, name) for name in names if name in existing}


def _differences(
    stored: StudySpec | None,
    path: str | None,
    options: TuneOptions,
    datasets: OpenedDatasets,
    members: tuple[str, ...],
    split: Split,
) -> list[str]:
    """Return how a call differs from a stored study, in words."""
    if stored is None:
        return ["it is of another program"]
    workload = options.own_workload
    if stored.workload != workload:  # no history need be read for that
        return [f"`workload` {workload or 'none'} instead of {stored.workload or 'none'}"]
    plan = options.plan(path, stored, query=datasets[path], members=members, split=split)
    return [re.sub(r"\(the study has (.*)\)", r"instead of \1", text) for text in stored.differences(plan)]


def begin_anew(
    store: Store,
    plans: Mapping[str, StudySpec],
    stored: Mapping[str, StudySpec | None],
    trials: float,
    on_message: Callable[[str], object],
) -> list[str]:
    """Remove studies without any result that a call asks something else, or that have all trials of the call; return their names."""
    anew = []
    for name, old in stored.items():
        if old is None or not begins_anew(store, name, old):
            continue
        is_other = bool(old.differences(plans[name]))
        if is_other or (old.workload is None and count_trials(store, name) >= trials):
            delete_study(store, name)
            reason = "it had no result, and was asked something else" if is_other else "all its trials failed"
            on_message(f"{name}: begun anew: {reason}.")
            anew.append(name)
    return anew

"""Merge bundles into a history: the set of records grows, and the runs used are chosen anew from all of it."""

import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from warmstart.histories.bundle import described_lines
from warmstart.histories.merge_view import (
    LOCAL,
    OUTLIER,
    REPEATED,
    Contradiction,
    MergeView,
    build_view,
    describe_all,
    first_features,
)
from warmstart.histories.merged import KEY, Merged, contributed_line, copied_runs, current_ids, read_merged, with_ids
from warmstart.history_store.bundle.file import SUFFIX, Bundle, read_bundle
from warmstart.history_store.bundle.records import (
    Described,
    Embedding,
    Features,
    Record,
    SharedRun,
    SharedSpace,
    dataset_id,
    embedding_line,
    is_sound,
    parse,
    record_id,
    run_line,
    shared_origin,
    split_origin,
    to_line,
    with_contributor,
)
from warmstart.history_store.errors import DataError, MissingPathError, UsageError
from warmstart.history_store.file.codec import config_key
from warmstart.history_store.history import History
from warmstart.history_store.made_history import removed_unless_filled
from warmstart.history_store.records import Config, DatasetInfo, Evaluation
from warmstart.history_store.space import same_space
from warmstart.history_store.wording import in_shell
from warmstart.locations import shipped_model
from warmstart.metafeat.feature_names import FEATURES
from warmstart.metafeat.model_file import read_header
from warmstart.metafeat.spec import EMBEDDING
from warmstart.suggestions.embeddings import fits_model
from warmstart.suggestions.references import FEATURES_KEY, References


@dataclass(frozen=True, slots=True)
class QuarantinedRun:
    """A contributed run that is kept but not used.

    Attributes:
        id: of its record.
        dataset: name.
        by: the history that contributed it.
        config: values by name.
        error: None for a failed run.
        why: reason in words.
    """

    id: str
    dataset: str
    by: str
    config: Config
    error: float | None
    why: str

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON types."""
        return {
            "id": self.id,
            "dataset": self.dataset,
            "by": self.by,
            "config": dict(self.config),
            "error": self.error,
            "why": self.why,
        }


@dataclass(frozen=True, slots=True)
class MergePlan:
    """The effect of a merge on a history.

    Attributes:
        new_records: records that the history did not have.
        changes: whether the merge changes the history.
        datasets: all datasets afterwards, its own first.
        new_datasets: names of the new ones.
        answering: number of contributed runs used afterwards.
        quarantined: runs that do not fit the others.
        contradictions: between runs, with whose error counts.
        repeated: number of repeated runs.
        configs: shared configurations, first in the table.
        evaluations: all runs used.
        merged: record of everything contributed.
        features: of datasets without images.
        embeddings: by model and name.
    """

    new_records: int
    changes: bool
    datasets: tuple[DatasetInfo, ...]
    new_datasets: tuple[str, ...]
    answering: int
    quarantined: tuple[QuarantinedRun, ...]
    contradictions: tuple[Mapping[str, Any], ...]
    repeated: int
    configs: tuple[Config, ...]
    evaluations: tuple[Evaluation, ...]
    merged: Merged
    features: References
    embeddings: Mapping[str, Mapping[str, np.ndarray[Any, Any]]]

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON types."""
        return {
            "new_records": self.new_records,
            "n_datasets": len(self.datasets),
            "new_datasets": list(self.new_datasets),
            "contributed_runs": self.answering,
            "repeated": self.repeated,
            "quarantined": [item.to_dict() for item in self.quarantined],
            "contradictions": [dict(item) for item in self.contradictions],
        }


def merge_files(path: Path, bundles: Sequence[str | Path], *, dry_run: bool = False) -> MergePlan:
    """Merge bundles into a history, all or none; create the history if it does not exist.

    Args:
        path: of the history.
        bundles: files, and folders of files.
        dry_run: write nothing.

    Raises:
        MissingPathError: a bundle is not there.
        HistoryDamagedError: a bundle or the history is damaged.
        DataError: a bundle is over another space, or holds what does not fit the history; nothing was changed.
        StorageError: the history cannot be written; nothing was lost.
    """
    bundles = [file for file_path in bundles for file in _files(Path(file_path))]
    contents = [read_bundle(file_path) for file_path in bundles]
    for file_path, bundle in zip(bundles, contents, strict=True):
        _check_embeddings(bundle, str(file_path))
        _check_space(bundle, None if path.exists() else contents[0], str(file_path))
    whole = Bundle(frozenset().union(*(file_path.lines for file_path in contents)))
    if not path.exists():
        try:
            return _merge_into_new(path, whole, dry_run=dry_run)
        except UsageError:
            if not path.exists():
                raise
            # Another process made it at the same moment: merge into that one.
    with History.open(path, write=not dry_run) as history:
        for file_path, bundle in zip(bundles, contents, strict=True):
            _check_history_space(history, bundle, str(file_path))
        plan = plan_merge(history, whole)
        if not dry_run and plan.changes:
            carry_out(history, plan)
    return plan


def _files(path: Path) -> list[Path]:
    """Return the path of a bundle, or those in a folder, by name.

    Raises:
        MissingPathError: a folder without any.
    """
    if not path.is_dir():
        return [path]
    files = sorted(path.glob(f"*{SUFFIX}"))
    if not files:
        msg = f"{path}: expected bundles, named *{SUFFIX}, got a folder without any. `warmstart history bundle HISTORY --out {in_shell(path)}` puts one there."
        raise MissingPathError(msg)
    return files


def plan_merge(
    history: "History", bundle: Bundle, *, release: Collection[str] = (), without: Collection[str] = ()
) -> MergePlan:
    """Plan a merge, without writing.

    Args:
        history: to merge into.
        bundle: to merge.
        release: ids of records to use though they do not fit, besides those released before.
        without: lines of records of the history that are taken out again.

    Raises:
        DataError: a run of a dataset without description.
    """
    merged = read_merged(history)
    infos = [info for info in history.datasets if info.name not in merged.datasets]
    new_ids = current_ids(infos, (*merged.lines, *bundle.lines))
    local_runs, contributed = _split_runs(history, merged, new_ids)
    stored_lines = {*(with_ids(line, new_ids) for line in merged.lines), *(run.line for run in contributed)}
    stored_lines -= set(without)
    local_lines = {_record_line(run, history.id[:12]) for run in local_runs} | copied_runs(history).lines
    local_lines |= {with_ids(line, new_ids) for line in described_lines(history, infos)}
    fresh = (
        {with_ids(line, new_ids) for line in bundle.lines if '"kind":"space"' not in line} - stored_lines - local_lines
    )
    records = [parse(line, "record") for line in sorted(stored_lines | fresh)]
    runs = [record for record in records if isinstance(record, SharedRun)]
    described = [record for record in records if isinstance(record, Described) and record.id not in new_ids]
    local = _local_by_id(infos, new_ids, lambda: {*_described_names(bundle), *_contributed_names(history)})
    contributed_infos = describe_all(local, described)
    about = {**contributed_infos, **local}
    for run in runs:
        if run.run.dataset not in about:
            msg = f"record {run.id}: expected a description of the dataset {run.run.dataset} with its runs, got none. Ask for the bundle again."
            raise DataError(msg)
    released = merged.released | frozenset(release) | _released_under_former_ids(runs, new_ids, merged.released)
    all_records, records = records, [record for record in records if is_sound(record)]
    features = first_features((record for record in records if isinstance(record, Features)), size=history.stored_size)
    view = build_view(local_runs, runs, about=about, features=features, released=released)
    used_datasets = {run.run.dataset for run in view.answering}
    used_infos = {key: info for key, info in contributed_infos.items() if key in used_datasets}
    used_runs = {run.id for run in view.answering}
    start = len(history.configs) if merged.n_local_configs is None else merged.n_local_configs
    lines = frozenset(
        to_line(record) for record in all_records if not (isinstance(record, SharedRun) and record.id in used_runs)
    )
    datasets = (*infos, *used_infos.values())
    return MergePlan(
        new_records=len(fresh),
        changes=bool(fresh) or used_runs != {run.id for run in contributed} or dict(view.aside) != dict(merged.aside),
        datasets=datasets,
        new_datasets=tuple(sorted({info.name for info in used_infos.values()} - set(history.names))),
        answering=len(view.answering),
        quarantined=_quarantined(runs, view, about),
        contradictions=tuple(_contradiction_dict(record, about) for record in view.contradictions),
        repeated=sum(why.startswith(REPEATED) for why in view.aside.values()),
        configs=_local_configs(history, start),
        evaluations=(*_local_evaluations(history), *(_to_evaluation(run, about) for run in view.answering)),
        merged=Merged(lines, {info.name: key for key, info in used_infos.items()}, dict(view.aside), released, start),
        features=_references({info.name: features[key] for key, info in used_infos.items() if key in features}),
        embeddings=_embeddings(history, records, {key: info.name for key, info in used_infos.items()}),
    )


def _released_under_former_ids(
    runs: Iterable[SharedRun], new_ids: Mapping[str, str], released: Collection[str]
) -> set[str]:
    """Return the ids of runs that were released under the former id of their dataset."""
    before = {new: old for old, new in new_ids.items()}
    moved = (run for run in runs if released and run.run.dataset in before)
    return {run.id for run in moved if record_id(run_line(run.run, before[run.run.dataset], run.by)) in released}


def _local_by_id(
    infos: Sequence[DatasetInfo], new_ids: Mapping[str, str], contributed_names: Callable[[], Collection[str]]
) -> dict[str, DatasetInfo]:
    """Return the history's own datasets by id; of several with the same images one with a contributed name, else the first."""
    ids = {info.name: new_ids.get(key := dataset_id(info), key) for info in infos}
    by_id: dict[str, DatasetInfo] = {}
    for info in infos:
        by_id.setdefault(ids[info.name], info)
    if len(by_id) == len(infos):
        return by_id
    names = contributed_names()
    return by_id | {ids[info.name]: info for info in reversed(infos) if info.name in names}


def _described_names(bundle: Bundle) -> set[str]:
    described = (parse(line, "record") for line in bundle.lines if '"kind":"dataset"' in line)
    return {record.info.name for record in described if isinstance(record, Described)}


def _contributed_names(history: "History") -> set[str]:
    """Return the names of datasets with contributed runs in the history."""
    return {run.dataset for run in history.evaluations() if split_origin(run.origin)[1] is not None}


def carry_out(history: "History", plan: MergePlan) -> None:
    """Write a merge plan as one write of the whole file.

    Raises:
        DataError: a configuration does not fit the space; nothing was changed.
        StorageError: a failed write; nothing was lost.
    """
    history.rewrite(
        datasets=plan.datasets,
        configs=plan.configs,
        evaluations=plan.evaluations,
        results={KEY: plan.merged.to_dict(), FEATURES_KEY: plan.features.to_dict()},
        embeddings=plan.embeddings,
    )


def quarantine_of(history: "History") -> tuple[QuarantinedRun, ...]:
    """Return the quarantined runs of a history: contributed, kept, but unused as they do not fit."""
    return plan_merge(history, Bundle(frozenset())).quarantined


def release(history: "History", names: Collection[str]) -> MergePlan:
    """Release quarantined runs, so that they are used.

    Args:
        history: open for writing.
        names: ids of records, contributors, or names of datasets.

    Raises:
        UsageError: no quarantined run has that id, contributor or dataset.
    """
    held = quarantine_of(history)
    unknown = sorted({name for name in names if not any(name in (run.id, run.by, run.dataset) for run in held)})
    if unknown:
        msg = f"expected the id of a quarantined run, its dataset or its contributor, got {unknown[0]!r}. `warmstart history quarantine {in_shell(history.path)}` lists them."
        raise UsageError(msg, param="release")
    ids = {run.id for run in held if not {run.id, run.by, run.dataset}.isdisjoint(names)}
    plan = plan_merge(history, Bundle(frozenset()), release=ids)
    carry_out(history, plan)
    return plan


def _merge_into_new(path: Path, whole: Bundle, *, dry_run: bool) -> MergePlan:
    """Create a history from bundles, first in a temporary folder, so that a failure leaves nothing at `path`."""
    spaces = sorted(record.text for record in whole.records if isinstance(record, SharedSpace))
    if not spaces:
        msg = f"{path}: expected bundles with runs to make a history of, got none. Create one: `warmstart history create {in_shell(path)}`."
        raise DataError(msg)
    sizes = [record.size for record in whole.records if isinstance(record, Features)]
    # The most frequent size, of several the smallest, whatever the order of bundles.
    size = max(sorted(set(sizes)), key=sizes.count) if sizes else 32
    with tempfile.TemporaryDirectory() as folder:
        with History.create(Path(folder) / "tried.h5", spaces[0], stored_size=size) as trial_history:
            plan = plan_merge(trial_history, whole)
            carry_out(trial_history, plan)
        if dry_run:
            return plan
        with History.create(path, spaces[0], stored_size=size) as created, removed_unless_filled(created):
            carry_out(created, plan)
    return plan


def _check_embeddings(bundle: Bundle, file: str) -> None:
    """Raise if embeddings of the shipped model have another length than that model gives."""
    header = read_header(shipped_model())
    for record in bundle.records:
        if isinstance(record, Embedding) and record.model == header.hash and not fits_model(len(record.vector), header):
            msg = f"{file}: expected embeddings of {EMBEDDING} numbers of the model {header.hash}, got {len(record.vector)}. Ask for the bundle again."
            raise DataError(msg)


def _check_space(bundle: Bundle, first: Bundle | None, file: str) -> None:
    if first is not None and any(
        not same_space(space, first_space) for space in _spaces(bundle) for first_space in _spaces(first)
    ):
        msg = f"{file}: expected bundles over one space, got another one. Merge those of one space at a time."
        raise DataError(msg)


def _check_history_space(history: "History", bundle: Bundle, file: str) -> None:
    if not all(same_space(space, history.space_json) for space in _spaces(bundle)):
        msg = f"{file}: expected runs over the space of {history.path}, got another space. Merge it into a history of its own: `warmstart history merge OTHER.h5 {in_shell(file)}`."
        raise DataError(msg)


def _spaces(bundle: Bundle) -> list[str]:
    """Return the spaces of a bundle as ConfigSpace JSON."""
    return [record.text for record in bundle.records if isinstance(record, SharedSpace)]


def _split_runs(
    history: "History", merged: Merged, new_ids: Mapping[str, str]
) -> tuple[list[SharedRun], list[SharedRun]]:
    """Split the runs of a history into its own and contributed ones, as records."""
    ids = {name: new_ids.get(key, key) for name, key in merged.ids(history).items()}
    local: list[SharedRun] = []
    contributed: list[SharedRun] = []
    for run in history.evaluations():
        line = contributed_line(run, ids[run.dataset])
        if line is None:
            named = replace(run, dataset=ids[run.dataset], origin=shared_origin(run.origin))
            local.append(SharedRun(LOCAL, named, run_line(named, named.dataset, LOCAL)))
        else:
            record = parse(line, "record")
            assert isinstance(record, SharedRun)  # noqa: S101
            contributed.append(record)
    return local, contributed


def _record_line(run: SharedRun, by: str) -> str:
    """Return the record line of a local run, as it is in bundles."""
    return run_line(run.run, run.run.dataset, by)


def _local_configs(history: "History", start: int) -> tuple[Config, ...]:
    """Return the history's own configurations: those before the first merge, those it used since, and unused ones."""
    configs = list(history.configs[:start])
    keys = {config_key(config) for config in configs}
    for run in _local_evaluations(history):
        if (key := config_key(run.config)) not in keys:
            keys.add(key)
            configs.append(dict(run.config))
    used = keys | {config_key(run.config) for run in history.evaluations()}
    configs += [dict(config) for config in history.configs[start:] if config_key(config) not in used]
    return tuple(configs)


def _local_evaluations(history: "History") -> tuple[Evaluation, ...]:
    return tuple(run for run in history.evaluations() if split_origin(run.origin)[1] is None)


def _to_evaluation(run: SharedRun, about: Mapping[str, DatasetInfo]) -> Evaluation:
    """Return a contributed run as an evaluation of the history."""
    return replace(run.run, dataset=about[run.run.dataset].name, origin=with_contributor(run.run.origin, run.by))


def _quarantined(
    runs: Sequence[SharedRun], view: MergeView, about: Mapping[str, DatasetInfo]
) -> tuple[QuarantinedRun, ...]:
    quarantined = [
        QuarantinedRun(
            run.id,
            about[run.run.dataset].name,
            run.by,
            run.run.config,
            run.run.error if run.run.status.has_error else None,
            view.aside[run.id].removeprefix(f"{OUTLIER}: "),
        )
        for run in runs
        if view.aside.get(run.id, "").startswith(OUTLIER)
    ]
    return tuple(sorted(quarantined, key=lambda item: (item.dataset, item.by, item.id)))


def _contradiction_dict(contradiction: Contradiction, about: Mapping[str, DatasetInfo]) -> Mapping[str, Any]:
    """Return a contradiction as a JSON object."""
    return {
        "dataset": about[contradiction.dataset].name,
        "config": dict(contradiction.config),
        "origin": contradiction.origin,
        "errors": {by or "yours": error for by, error in contradiction.errors.items()},
        "answers": [by or "yours" for by in contradiction.answers],
    }


def _references(features: Mapping[str, Features]) -> References:
    """Return the features of datasets as references, without those of another length."""
    usual = [record for record in features.values() if record.features.shape == (len(FEATURES),)]
    widths = [len(record.pixels) for record in usual]
    # The most frequent width counts; records of another one are left out.
    width = max(sorted(set(widths)), key=widths.count) if widths else 0
    alike = {name: record for name, record in features.items() if record in usual and len(record.pixels) == width}
    return References(
        tuple(alike),
        np.array([record.effect for record in alike.values()]),
        np.array([record.pixels for record in alike.values()]).reshape(len(alike), width),
        features=np.array([record.features for record in alike.values()]).reshape(len(alike), len(FEATURES)),
    )


def _embeddings(
    history: "History", records: Sequence[Record], names: Mapping[str, str]
) -> dict[str, dict[str, np.ndarray[Any, Any]]]:
    """Return the embeddings of all models, those of the history and of contributed datasets."""
    by_model: dict[str, dict[str, np.ndarray[Any, Any]]] = {}
    for record in sorted((record for record in records if isinstance(record, Embedding)), key=embedding_line):
        if record.dataset in names:
            by_model.setdefault(record.model, {}).setdefault(names[record.dataset], record.vector)
    for model, vectors in by_model.items():
        stored = {name: vector for name, vector in history.embeddings(model).items() if name not in names.values()}
        widths = [len(vector) for vector in (*stored.values(), *vectors.values())]
        width = len(next(iter(stored.values()))) if stored else max(sorted(set(widths)), key=widths.count)
        by_model[model] = stored | {name: vector for name, vector in vectors.items() if len(vector) == width}
    shipped = read_header(shipped_model())
    if shipped.hash in (*by_model, *history.model_hashes):
        vectors = {**history.embeddings(shipped.hash), **by_model.get(shipped.hash, {})}
        by_model[shipped.hash] = {name: vector for name, vector in vectors.items() if fits_model(len(vector), shipped)}
    return by_model

"""Merge bundles into a history: the set of records grows, and what answers is decided anew from all of it."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from warmstart.histories.bundle import described_lines
from warmstart.histories.merge_view import (
    OUTLIER,
    OWN,
    REPEATED,
    Contradiction,
    View,
    describe_all,
    first_features,
    view_of,
)
from warmstart.histories.merged import KEY, Merged, copied_runs, foreign_line, ids_now, read_merged, with_ids
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
from warmstart.history_store.records import Config, DatasetInfo, Evaluation
from warmstart.history_store.space import same_space
from warmstart.history_store.wording import in_shell
from warmstart.metafeat.handcrafted import FEATURES
from warmstart.suggestions.references import FEATURES_KEY, References

if TYPE_CHECKING:
    from warmstart.history_store.history import History


@dataclass(frozen=True, slots=True)
class SetAside:
    """A contributed run that is kept and does not answer.

    Attributes:
        id: of its record.
        dataset: name.
        by: the history that contributed it.
        config: values by name.
        error: None where it failed.
        why: in words.
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
    """What a merge does to a history.

    Attributes:
        new_records: records that the history did not have.
        changes: whether the history is another one afterwards.
        datasets: all datasets afterwards, its own first.
        new_datasets: names of those that are new.
        answering: contributed runs that answer afterwards.
        quarantined: those that do not fit what the others say.
        contradictions: between runs, and whose error counts.
        repeated: runs that came twice.
        configs: shared configurations that come first.
        evaluations: all runs that answer.
        merged: what is kept of all that came.
        features: what datasets without images are like.
        embeddings: by model and name.
    """

    new_records: int
    changes: bool
    datasets: tuple[DatasetInfo, ...]
    new_datasets: tuple[str, ...]
    answering: int
    quarantined: tuple[SetAside, ...]
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
            "quarantined": [each.to_dict() for each in self.quarantined],
            "contradictions": [dict(each) for each in self.contradictions],
        }


def merge_files(path: Path, bundles: Sequence[str | Path], *, dry_run: bool = False) -> MergePlan:
    """Merge bundles into a history, all or none; where none is at `path`, one is made.

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
    from warmstart.history_store.history import History

    bundles = [file for each in bundles for file in _files(Path(each))]
    read = [read_bundle(each) for each in bundles]
    for each, found in zip(bundles, read, strict=True):
        _check_space(found, None if path.exists() else read[0], str(each))
    whole = Bundle(frozenset().union(*(each.lines for each in read)))
    if not path.exists():
        return _into_new(path, whole, dry_run=dry_run)
    with History.open(path, write=not dry_run) as history:
        for each, found in zip(bundles, read, strict=True):
            _check_history_space(history, found, str(each))
        plan = plan_merge(history, whole)
        if not dry_run and plan.changes:
            carry_out(history, plan)
    return plan


def _files(path: Path) -> list[Path]:
    """Return a bundle, or those of a folder in order of their names.

    Raises:
        MissingPathError: a folder without any.
    """
    if not path.is_dir():
        return [path]
    found = sorted(path.glob(f"*{SUFFIX}"))
    if not found:
        msg = f"{path}: expected bundles, named *{SUFFIX}, got a folder without any. `warmstart history bundle HISTORY --out {in_shell(path)}` puts one there."
        raise MissingPathError(msg)
    return found


def plan_merge(history: "History", bundle: Bundle, *, release: Collection[str] = ()) -> MergePlan:
    """Decide what a merge does; the history stays as it is.

    Args:
        history: that grows.
        bundle: what comes.
        release: ids of records that answer though they do not fit, besides those released before.

    Raises:
        DataError: a run of a dataset that nobody describes.
    """
    merged = read_merged(history)
    infos = [info for info in history.datasets if info.name not in merged.datasets]
    now = ids_now(infos, (*merged.lines, *bundle.lines))
    own, foreign = _rows(history, merged, now)
    known = {*(with_ids(line, now) for line in merged.lines), *(run.line for run in foreign)}
    mine = {_under(run, history.id[:12]) for run in own} | copied_runs(history).lines
    mine |= {with_ids(line, now) for line in described_lines(history, infos)}
    fresh = {with_ids(line, now) for line in bundle.lines if '"kind":"space"' not in line} - known - mine
    records = [parse(line, "record") for line in sorted(known | fresh)]
    runs = [each for each in records if isinstance(each, SharedRun)]
    described = [each for each in records if isinstance(each, Described) and each.id not in now]
    own_ids = _by_id(infos, now, lambda: {*_described_names(bundle), *_contributed_names(history)})
    others = describe_all(own_ids, described)
    about = {**others, **own_ids}
    for run in runs:
        if run.run.dataset not in about:
            msg = f"record {run.id}: expected a description of the dataset {run.run.dataset} beside its runs, got none. Ask for the bundle again."
            raise DataError(msg)
    released = merged.released | frozenset(release) | _released_before(runs, now, merged.released)
    features = first_features((each for each in records if isinstance(each, Features)), size=history.stored_size)
    view = view_of(own, runs, about=about, features=features, released=released)
    used = {run.run.dataset for run in view.answering}
    shown = {key: info for key, info in others.items() if key in used}
    kept = {run.id for run in view.answering}
    start = len(history.configs) if merged.own_configs is None else merged.own_configs
    lines = frozenset(to_line(each) for each in records if not (isinstance(each, SharedRun) and each.id in kept))
    datasets = (*infos, *shown.values())
    return MergePlan(
        new_records=len(fresh),
        changes=bool(fresh) or kept != {run.id for run in foreign} or dict(view.aside) != dict(merged.aside),
        datasets=datasets,
        new_datasets=tuple(sorted({info.name for info in shown.values()} - set(history.names))),
        answering=len(view.answering),
        quarantined=_quarantined(runs, view, about),
        contradictions=tuple(_told(each, about) for each in view.contradictions),
        repeated=sum(why.startswith(REPEATED) for why in view.aside.values()),
        configs=_own_configs(history, start),
        evaluations=(*_own_evaluations(history), *(_row(run, about) for run in view.answering)),
        merged=Merged(lines, {info.name: key for key, info in shown.items()}, dict(view.aside), released, start),
        features=_references({info.name: features[key] for key, info in shown.items() if key in features}),
        embeddings=_embeddings(history, records, {key: info.name for key, info in shown.items()}),
    )


def _released_before(runs: Iterable[SharedRun], now: Mapping[str, str], released: Collection[str]) -> set[str]:
    """Find the runs that were released when their dataset had its former id."""
    before = {new: old for old, new in now.items()}
    moved = (run for run in runs if released and run.run.dataset in before)
    return {run.id for run in moved if record_id(run_line(run.run, before[run.run.dataset], run.by)) in released}


def _by_id(
    infos: Sequence[DatasetInfo], now: Mapping[str, str], named: Callable[[], Collection[str]]
) -> dict[str, DatasetInfo]:
    """Return the history's own datasets by id; of several with the same images one that contributors name so, else the first."""
    ids = {info.name: now.get(key := dataset_id(info), key) for info in infos}
    found: dict[str, DatasetInfo] = {}
    for info in infos:
        found.setdefault(ids[info.name], info)
    if len(found) == len(infos):
        return found
    names = named()
    return found | {ids[info.name]: info for info in reversed(infos) if info.name in names}


def _described_names(bundle: Bundle) -> set[str]:
    described = (parse(line, "record") for line in bundle.lines if '"kind":"dataset"' in line)
    return {each.info.name for each in described if isinstance(each, Described)}


def _contributed_names(history: "History") -> set[str]:
    """Name the datasets under which contributed runs answer already."""
    return {run.dataset for run in history.evaluations() if split_origin(run.origin)[1] is not None}


def carry_out(history: "History", plan: MergePlan) -> None:
    """Write what was planned, as one write of the whole file.

    Raises:
        DataError: a configuration does not fit the space; nothing was changed.
        StorageError: it could not be written; nothing was lost.
    """
    history.rewrite(
        datasets=plan.datasets,
        configs=plan.configs,
        evaluations=plan.evaluations,
        results={KEY: plan.merged.to_dict(), FEATURES_KEY: plan.features.to_dict()},
        embeddings=plan.embeddings,
    )


def quarantine_of(history: "History") -> tuple[SetAside, ...]:
    """List the contributed runs that a history keeps and that do not answer because they do not fit."""
    return plan_merge(history, Bundle(frozenset())).quarantined


def release(history: "History", asked: Collection[str]) -> MergePlan:
    """Let quarantined runs answer, from now on.

    Args:
        history: open for writing.
        asked: ids of records, contributors, or names of datasets.

    Raises:
        UsageError: nothing of that name is quarantined.
    """
    held = quarantine_of(history)
    unknown = sorted({each for each in asked if not any(each in (run.id, run.by, run.dataset) for run in held)})
    if unknown:
        msg = f"expected the id of a quarantined run, its dataset or its contributor, got {unknown[0]!r}. `warmstart history quarantine {in_shell(history.path)}` lists them."
        raise UsageError(msg, param="release")
    ids = {run.id for run in held if not {run.id, run.by, run.dataset}.isdisjoint(asked)}
    plan = plan_merge(history, Bundle(frozenset()), release=ids)
    carry_out(history, plan)
    return plan


def _into_new(path: Path, whole: Bundle, *, dry_run: bool) -> MergePlan:
    """Make a history of bundles; beside `path` first, so that what fails leaves nothing there."""
    import tempfile

    from warmstart.history_store.history import History
    from warmstart.history_store.made_history import removed_unless_filled

    spaces = sorted(each.text for each in whole.records if isinstance(each, SharedSpace))
    if not spaces:
        msg = f"{path}: expected bundles with runs to make a history of, got none. Create one: `warmstart history create {in_shell(path)}`."
        raise DataError(msg)
    sizes = [each.size for each in whole.records if isinstance(each, Features)]
    size = max(sorted(set(sizes)), key=sizes.count) if sizes else 32
    with tempfile.TemporaryDirectory() as folder:
        with History.create(Path(folder) / "tried.h5", spaces[0], stored_size=size) as tried:
            plan = plan_merge(tried, whole)
            carry_out(tried, plan)
        if dry_run:
            return plan
        with History.create(path, spaces[0], stored_size=size) as made, removed_unless_filled(made):
            carry_out(made, plan)
    return plan


def _check_space(bundle: Bundle, first: Bundle | None, where: str) -> None:
    if first is not None and any(not same_space(one, other) for one in _spaces(bundle) for other in _spaces(first)):
        msg = f"{where}: expected bundles over one space, got another one. Merge those of one space at a time."
        raise DataError(msg)


def _check_history_space(history: "History", bundle: Bundle, where: str) -> None:
    if not all(same_space(each, history.space_json) for each in _spaces(bundle)):
        msg = f"{where}: expected runs over the space of {history.path}, got another space. Merge it into a history of its own: `warmstart history merge OTHER.h5 {in_shell(where)}`."
        raise DataError(msg)


def _spaces(bundle: Bundle) -> list[str]:
    """List the spaces of a bundle as ConfigSpace JSON."""
    return [each.text for each in bundle.records if isinstance(each, SharedSpace)]


def _rows(history: "History", merged: Merged, now: Mapping[str, str]) -> tuple[list[SharedRun], list[SharedRun]]:
    """Take a history apart: its own runs, as records would have them, and the contributed ones that answer."""
    ids = {name: now.get(key, key) for name, key in merged.ids(history).items()}
    own: list[SharedRun] = []
    foreign: list[SharedRun] = []
    for run in history.evaluations():
        line = foreign_line(run, ids[run.dataset])
        if line is None:
            named = replace(run, dataset=ids[run.dataset], origin=shared_origin(run.origin))
            own.append(SharedRun(OWN, named, run_line(named, named.dataset, OWN)))
        else:
            record = parse(line, "record")
            assert isinstance(record, SharedRun)  # noqa: S101
            foreign.append(record)
    return own, foreign


def _under(run: SharedRun, by: str) -> str:
    """Write a run of one's own as the record that others get."""
    return run_line(run.run, run.run.dataset, by)


def _own_configs(history: "History", start: int) -> tuple[Config, ...]:
    """List the configurations of a history itself: those from before the first merge, those that it used since, and those that no run uses."""
    configs = list(history.configs[:start])
    seen = {config_key(config) for config in configs}
    for run in _own_evaluations(history):
        if (key := config_key(run.config)) not in seen:
            seen.add(key)
            configs.append(dict(run.config))
    used = seen | {config_key(run.config) for run in history.evaluations()}
    configs += [dict(config) for config in history.configs[start:] if config_key(config) not in used]
    return tuple(configs)


def _own_evaluations(history: "History") -> tuple[Evaluation, ...]:
    return tuple(run for run in history.evaluations() if split_origin(run.origin)[1] is None)


def _row(run: SharedRun, about: Mapping[str, DatasetInfo]) -> Evaluation:
    """Make the row of the history that a contributed run becomes."""
    return replace(run.run, dataset=about[run.run.dataset].name, origin=with_contributor(run.run.origin, run.by))


def _quarantined(runs: Sequence[SharedRun], view: View, about: Mapping[str, DatasetInfo]) -> tuple[SetAside, ...]:
    found = [
        SetAside(
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
    return tuple(sorted(found, key=lambda each: (each.dataset, each.by, each.id)))


def _told(found: Contradiction, about: Mapping[str, DatasetInfo]) -> Mapping[str, Any]:
    """Return a contradiction as JSON types."""
    return {
        "dataset": about[found.dataset].name,
        "config": dict(found.config),
        "origin": found.origin,
        "errors": {by or "yours": error for by, error in found.errors.items()},
        "answers": [by or "yours" for by in found.answers],
    }


def _references(features: Mapping[str, Features]) -> References:
    """Put what datasets are like into one table; those of another kind are left out."""
    usual = [each for each in features.values() if each.features.shape == (len(FEATURES),)]
    widths = [len(each.pixels) for each in usual]
    width = max(sorted(set(widths)), key=widths.count) if widths else 0
    kept = {name: each for name, each in features.items() if each in usual and len(each.pixels) == width}
    return References(
        tuple(kept),
        np.array([each.effect for each in kept.values()]),
        np.array([each.pixels for each in kept.values()]).reshape(len(kept), width),
        features=np.array([each.features for each in kept.values()]).reshape(len(kept), len(FEATURES)),
    )


def _embeddings(
    history: "History", records: Sequence[Record], names: Mapping[str, str]
) -> dict[str, dict[str, np.ndarray[Any, Any]]]:
    """Return the meta-features of every model, those of contributed datasets added to what the history has."""
    found: dict[str, dict[str, np.ndarray[Any, Any]]] = {}
    for each in sorted((each for each in records if isinstance(each, Embedding)), key=embedding_line):
        if each.dataset in names:
            found.setdefault(each.model, {}).setdefault(names[each.dataset], each.vector)
    for model, vectors in found.items():
        known = {name: vector for name, vector in history.embeddings(model).items() if name not in names.values()}
        widths = [len(vector) for vector in (*known.values(), *vectors.values())]
        width = len(next(iter(known.values()))) if known else max(sorted(set(widths)), key=widths.count)
        found[model] = known | {name: vector for name, vector in vectors.items() if len(vector) == width}
    return found

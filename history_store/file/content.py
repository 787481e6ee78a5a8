"""Content of a history in memory, without images and embeddings, and the operations of the journal on it."""

import math
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.errors import DataError, UsageError
from warmstart.history_store.file.append_index import digest_config, digest_name, digest_runs
from warmstart.history_store.file.cells import Cells
from warmstart.history_store.file.codec import (
    Operation,
    config_key,
    decode_info,
    decode_run,
    encode_info,
    native,
)
from warmstart.history_store.file.dataset_list import DatasetList
from warmstart.history_store.file.table import (
    EvaluationTable,
    StoredTable,
    empty_table,
    extended_table,
    run_columns,
)
from warmstart.history_store.records import Config, DatasetInfo, Evaluation, Value
from warmstart.history_store.wording import suggest_names

_NAME_BYTES = 200
_FEW_LOOKUPS, _FEW_RUNS = 20, 10_000


@dataclass(slots=True)
class Content:
    """The state of a history at one serial number.

    An operation is planned (checked in full against this state, which stays as it is), written by the caller, and only
    then applied; applying a planned operation cannot fail. `serial` counts operations, `revision` those that change
    datasets, configurations or evaluations. `salt` is that of its file.
    """

    id: str
    space_json: str
    stored_size: int
    notes: dict[str, str]
    salt: str = ""
    serial: int = 0
    revision: int = 0
    datasets: DatasetList = field(default_factory=DatasetList)
    configs: list[dict[str, Value]] = field(default_factory=list)
    unit: NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 0)))
    base: EvaluationTable | StoredTable = field(default_factory=empty_table)
    results: dict[str, dict[str, Any]] = field(default_factory=dict)
    tail: list[tuple[Evaluation, int, int]] = field(default_factory=list)
    _dataset_of: dict[str, int] | None = None
    _config_of: dict[frozenset[tuple[str, Value]], int] | None = None
    _run_keys: set[tuple[int, int, int, str]] | None = None
    _n_run_lookups: int = 0

    def copy(self) -> Self:
        """Copy the parts that operations change; arrays and records, which nothing changes, are shared."""
        return replace(
            self,
            datasets=self.datasets.copy(),
            configs=list(self.configs),
            results=dict(self.results),
            tail=list(self.tail),
            _dataset_of=None,
            _config_of=None,
            _run_keys=None,
        )

    @property
    def base_table(self) -> EvaluationTable:
        """Return all evaluations except those of `tail` as columns."""
        if isinstance(self.base, StoredTable):
            self.base = self.base.load()
        return self.base

    @property
    def table(self) -> EvaluationTable:
        """Return all evaluations as columns."""
        if self.tail:
            runs, datasets, configs = zip(*self.tail, strict=True)
            self.base = extended_table(self.base_table, runs, datasets, configs)
            self.tail.clear()
        return self.base_table

    @property
    def dataset_of(self) -> dict[str, int]:
        """Return the index of each dataset by its name."""
        if self._dataset_of is None:
            self._dataset_of = {name: index for index, name in enumerate(self.datasets.names)}
        return self._dataset_of

    @property
    def config_of(self) -> dict[frozenset[tuple[str, Value]], int]:
        """Return the index of each configuration by its `config_key`."""
        if self._config_of is None:
            self._config_of = {config_key(config): index for index, config in enumerate(self.configs)}
        return self._config_of

    @property
    def run_keys(self) -> set[tuple[int, int, int, str]]:
        """Return (dataset, configuration, seed, origin) of the evaluations with a seed, which must differ."""
        if self._run_keys is None:
            table = self.table
            rows = zip(
                table.dataset.tolist(), table.config.tolist(), table.seed.tolist(), table.origin.tolist(), strict=True
            )
            self._run_keys = {(d, c, s, table.origins[o]) for d, c, s, o in rows if s >= 0}
        return self._run_keys

    def outcomes(self) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Return mean errors over seeds, and which cells have evaluations, `m x c` each; see `Cells`."""
        return self.cells().outcomes()

    def n_runs(self) -> NDArray[np.int64]:
        """Count the evaluations of each dataset, `m`."""
        return self.cells().n_runs()

    def origin_counts(self) -> dict[str, int]:
        """Count the evaluations by origin."""
        counts = self.base.origin_counts()
        for run, *_ in self.tail:
            counts[run.origin] = counts.get(run.origin, 0) + 1
        return counts

    def cells(self) -> Cells:
        """Return the sums over the evaluations of each cell."""
        m, c = len(self.datasets), len(self.configs)
        cells = self.base.cells(m, c)
        if self.tail:
            runs, datasets, configs = zip(*self.tail, strict=True)
            cells = cells.plus(run_columns(runs, datasets, configs), m, c)
        return cells

    def has_run(self, dataset: int, config: int, seed: int, origin: str) -> bool:
        """Return whether the history has a run of this dataset, configuration, seed and origin."""
        # The first calls search the columns; building the set of all runs pays only for many calls.
        self._n_run_lookups += 1
        if self._run_keys is not None or self._n_run_lookups > _FEW_LOOKUPS or len(self.base) < _FEW_RUNS:
            return (dataset, config, seed, origin) in self.run_keys
        late = ((d, c, e.seed, e.origin) for e, d, c in self.tail)
        return self.base_table.has_run(dataset, config, seed, origin) or (dataset, config, seed, origin) in late

    def index(self, name: str, location: str) -> int:
        """Return the index of a dataset.

        Raises:
            UsageError: the history has no dataset of that name.
        """
        if name not in self.dataset_of:
            step = suggest_names([name], self.dataset_of, otherwise="`warmstart history list` names its datasets.")
            msg = f"{location}: expected one of its datasets, got {name!r}. {step}"
            raise UsageError(msg)
        return self.dataset_of[name]

    def plan_extend(self, evaluations: Sequence[Evaluation], location: str) -> Operation:
        """Check evaluations and return the operation that appends them all.

        Raises:
            DataError: a dataset is unknown, a configuration does not fit the space, or a run is there already.
        """
        new_indices: dict[frozenset[tuple[str, Value]], int] = {}
        new_configs: list[dict[str, Value]] = []
        new_runs: set[tuple[int, int, int, str]] = set()
        for e in evaluations:
            dataset = self.dataset_of.get(e.dataset)
            if dataset is None:
                msg = f"{location}: expected an evaluation of one of its datasets, got {e.dataset!r}. Add the dataset first: `warmstart history add`, or a table of its runs with `warmstart history import`."
                raise DataError(msg)
            key = config_key(e.config)
            config = self.config_of.get(key, new_indices.get(key))
            if config is None:
                config = new_indices[key] = len(self.configs) + len(new_configs)
                new_configs.append(native(e.config))
            if e.seed is not None:
                run = (dataset, config, int(e.seed), e.origin)
                if run in new_runs or self.has_run(*run):
                    msg = f"{location}: expected a run that it does not have, got {e.dataset!r} with configuration {config}, seed={e.seed}, origin={e.origin!r} a second time. Leave it out, or give its own seed."
                    raise DataError(msg)
                new_runs.add(run)
        return {"op": "extend", "configs": self._encode_configs(new_configs, location), "evaluations": evaluations}

    def plan_configs(self, configs: Sequence[Config], location: str) -> Operation:
        """Check configurations and return the operation that adds the new ones in their order.

        Raises:
            DataError: one does not fit the space.
        """
        by_key = {config_key(config): native(config) for config in configs}
        new_configs = [config for key, config in by_key.items() if key not in self.config_of]
        return {"op": "extend", "configs": self._encode_configs(new_configs, location), "evaluations": []}

    def _encode_configs(self, configs: Sequence[dict[str, Value]], location: str) -> list[Any]:
        unit = unit_rows(self.space_json, configs, location) if configs else np.zeros((0, 0))
        return [
            [config, [None if math.isnan(u) else u for u in row.tolist()]]
            for config, row in zip(configs, unit, strict=True)
        ]

    def plan_add(self, info: DatasetInfo, location: str) -> Operation:
        """Check a dataset and return the operation that adds it.

        Raises:
            DataError: its name is taken or unusable, or its numbers contradict each other.
        """
        check_info(info, location)
        if info.name in self.dataset_of:
            msg = f"{location}: expected a new dataset, got {info.name!r}, which it has. Choose another name, or remove that one first."
            raise DataError(msg)
        return {"op": "add-dataset", "info": encode_info(info)}

    def plan_describe(self, info: DatasetInfo, location: str) -> Operation:
        """Check the description of a dataset without one, and return the operation that adds it.

        Raises:
            UsageError: there is no dataset of that name.
            DataError: the dataset has a description, or the new one contradicts itself.
        """
        check_info(info, location)
        stored = self.datasets[self.index(info.name, location)]
        if not is_blank(stored):
            msg = f"{location}: expected a dataset of which runs alone are known, got {info.name!r}, which is described. Choose another name."
            raise DataError(msg)
        return {"op": "describe-dataset", "info": encode_info(info)}

    def apply(self, operation: Operation) -> None:
        """Change the state by one operation and count it.

        Raises:
            DataError: the operation was not made by a `plan_` method of this state.
        """
        kind = operation["op"]
        if kind not in _APPLY:
            msg = f"expected an operation among {', '.join(_APPLY)}, got {kind!r}. Upgrade warmstart."
            raise DataError(msg)
        changes = _APPLY[kind](self, operation)
        self.serial += 1
        self.revision += changes

    def _extend(self, operation: Operation) -> bool:
        if operation["configs"]:
            rows = np.array([row for _, row in operation["configs"]], dtype=np.float64)  # None becomes NaN
            self.unit = np.concatenate([self.unit, rows]) if len(self.configs) else rows
        for config, _ in operation["configs"]:
            self.config_of[config_key(config)] = len(self.configs)
            self.configs.append(config)
        for item in operation["evaluations"]:
            e = item if isinstance(item, Evaluation) else decode_evaluation(item, "journal")
            dataset, config = self.dataset_of[e.dataset], self.config_of[config_key(e.config)]
            self.tail.append((e, dataset, config))
            if self._run_keys is not None and e.seed is not None:
                self._run_keys.add((dataset, config, int(e.seed), e.origin))
        return True

    def _add(self, operation: Operation) -> bool:
        info = decode_info(operation["info"], "journal")
        self.dataset_of[info.name] = len(self.datasets)
        self.datasets.append(info)
        return True

    def _describe(self, operation: Operation) -> bool:
        info = decode_info(operation["info"], "journal")
        self.datasets[self.dataset_of[info.name]] = info
        return True

    def _remove(self, operation: Operation) -> bool:
        index = self.dataset_of[operation["name"]]
        self.base = self.table.without_dataset(index)
        del self.datasets[index]
        self._dataset_of = self._run_keys = None
        return True

    def _set_result(self, operation: Operation) -> bool:
        if not isinstance(operation["key"], str) or not isinstance(operation["value"], dict):
            msg = f"expected a result as an object by a text, got {operation['key']!r:.60}. Leave it out."
            raise DataError(msg)
        self.results[operation["key"]] = operation["value"]
        return False

    def _touch(self, operation: Operation) -> bool:
        return bool(operation["revision"])


_APPLY: dict[str, Callable[[Content, Operation], bool]] = {
    "extend": Content._extend,  # noqa: SLF001 - the table of this class's own operations
    "add-dataset": Content._add,  # noqa: SLF001
    "describe-dataset": Content._describe,  # noqa: SLF001 - applied to files written whole, never a line of a journal
    "remove-dataset": Content._remove,  # noqa: SLF001
    "set-result": Content._set_result,  # noqa: SLF001
    "touch": Content._touch,  # noqa: SLF001
}


def index_digests(content: Content) -> tuple[dict[str, NDArray[np.uint64]], tuple[str, ...]]:
    """Compute the tables of an append index: digests of names, configurations and runs; and the origins by number."""
    table = content.base_table
    rows = table.seed >= 0
    columns = [column[rows] for column in (table.dataset, table.config, table.seed, table.origin)]
    return {
        "names": np.array([digest_name(name) for name in content.datasets.names], np.uint64),
        "configs": np.array([digest_config(config) for config in content.configs], np.uint64),
        "runs": digest_runs(columns),
    }, table.origins


def decode_evaluation(values: Mapping[str, Any], location: str) -> Evaluation:
    """Build an evaluation from its JSON values in the journal, with dataset and configuration."""
    run = {key: value for key, value in values.items() if key not in ("dataset", "config")}
    return decode_run(run, values["dataset"], values["config"], location)


def unit_rows(space_json: str, configs: Sequence[Config], location: str) -> NDArray[np.float64]:
    """Encode configurations of a space as `n x d` numbers, NaN = inactive; this needs ConfigSpace.

    Raises:
        DataError: a configuration does not fit the space.
    """
    from warmstart.history_store.numbering import to_unit
    from warmstart.history_store.space import load_space

    try:
        return to_unit(load_space(space_json, location), configs)
    except DataError as error:
        msg = f"{location}: {error}"
        raise DataError(msg) from error


def is_blank(info: DatasetInfo) -> bool:
    """Return whether a dataset has no description of images: its runs were imported by its name alone."""
    return info.n_images == 0


def check_info(info: DatasetInfo, location: str) -> None:
    """Check the description of a dataset.

    Raises:
        DataError: an unusable name, or numbers that contradict each other.
    """
    name = info.name
    if not name or not name.isprintable() or name != name.strip() or "::" in name or len(quoted(name)) > _NAME_BYTES:
        msg = f"{location}: expected a dataset name of printable characters, at most {_NAME_BYTES} bytes when quoted, without '::' and outer spaces, got {name!r}. Choose another name."
        raise DataError(msg)
    counts = (info.n_train, info.n_val, info.n_test, info.n_classes, *info.class_counts)
    if min(counts) < 0 or info.channels not in (1, 3) or not 0.0 < info.fraction <= 1.0:
        msg = f"{location}: expected numbers ≥ 0, 1 or 3 channels and a fraction in (0, 1] for {name!r}, got {counts}, channels={info.channels}, fraction={info.fraction}. Correct them."
        raise DataError(msg)
    if info.class_counts and len(info.class_counts) != info.n_classes:
        msg = f"{location}: expected {info.n_classes} class counts for {name!r}, got {len(info.class_counts)}. Give one a class, or none."
        raise DataError(msg)


def quoted(name: str) -> str:
    """Quote a dataset's name as the name of a group or a file; `urllib.parse.unquote` undoes it."""
    text = urllib.parse.quote(name, safe=" ()+,=@!'~")
    return "%2E" + text[1:] if text.startswith(".") else text

"""Related tasks: evaluations on other datasets for multi-task surrogates [Springenberg2016bayesian] §3.2."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from warmstart.bo.space.encoding import Encoding
from warmstart.bo.surrogates import Task
from warmstart.history_store.axes import plain_config
from warmstart.history_store.errors import DataError, UsageError
from warmstart.history_store.records import Config

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class RelatedTask:
    """Evaluations on another dataset, over the same space.

    Attributes:
        configs: `n` configurations.
        errors: `n`, in the units of this task. NaN or infinite = failed; such a row is left out.
        meta_feature: `p`, meta-feature of the dataset, or None if no task has one.
    """

    configs: Sequence[Config]
    errors: Sequence[float]
    meta_feature: Sequence[float] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the record in JSON types."""
        errors = np.asarray(self.errors, dtype=np.float64)
        return {
            "configs": [plain_config(config) for config in self.configs],
            "errors": [error if np.isfinite(error) else None for error in errors.tolist()],
            "meta_feature": None if self.meta_feature is None else np.asarray(self.meta_feature).tolist(),
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Self:
        """Read a record of `to_dict`."""
        errors = [np.nan if error is None else error for error in record["errors"]]
        return cls(record["configs"], errors, record["meta_feature"])


def thinned(errors: ArrayLike, most: int) -> list[int]:
    """Choose the most informative evaluations of a task: half the best, half spread over the rest.

    Args:
        errors: `n`; NaN or infinite = failed, never chosen.
        most: largest number of them.

    Returns: rows in growing order.
    """
    table = np.asarray(errors, dtype=np.float64)
    order = np.argsort(table, kind="stable")
    order = order[np.isfinite(table[order])]
    if len(order) > most:
        best = most // 2
        spread = np.linspace(best, len(order) - 1, most - best).round().astype(np.int64)
        order = order[[*range(best), *spread]]
    rows: list[int] = np.sort(order).tolist()
    return rows


def tasks_of(
    related: Sequence[RelatedTask], meta_feature: Sequence[float] | None, encoding: Encoding
) -> tuple[list[Task], Floats | None]:
    """Encode related tasks and the meta-feature of the target; tasks without an error are left out.

    Raises:
        UsageError: when errors and configurations differ in number, or meta-features in kind or length.
        DataError: when a configuration does not fit the space, or a meta-feature is not finite.
    """
    of_related = [_numbers(task.meta_feature, f"related[{i}].meta_feature") for i, task in enumerate(related)]
    metas = [_numbers(meta_feature, "meta_feature"), *of_related]
    if len({None if meta is None else meta.shape for meta in metas}) > 1 and related:
        shapes = ["none" if meta is None else str(meta.shape) for meta in metas]
        msg = f"related: expected meta-features of one length for the task at hand and for every related one, or none at all, got {', '.join(shapes)}. Give all of them, or leave all out."
        raise UsageError(msg)
    for i, meta in enumerate(metas):
        if meta is not None and (meta.ndim != 1 or not np.isfinite(meta).all()):
            name = f"related[{i - 1}].meta_feature" if i else "meta_feature"
            msg = f"{name}: expected finite numbers in one row, got {np.array2string(meta, threshold=8)}. Correct it, or leave the meta-features of all tasks out."
            raise DataError(msg)
    tasks: list[Task] = []
    for i, (task, meta) in enumerate(zip(related, metas[1:], strict=True)):
        errors = _numbers(task.errors, f"related[{i}].errors")
        if errors is None or errors.shape != (len(task.configs),):
            msg = f"related[{i}]: expected one error a configuration ({len(task.configs)}), got shape {np.shape(task.errors)}. Give NaN for a failed one."
            raise UsageError(msg)
        is_finite = np.isfinite(errors)
        if is_finite.any():
            tasks.append(Task(encoding.columns(_points(task.configs, encoding, i))[is_finite], errors[is_finite], meta))
    return tasks, metas[0]


def _numbers(values: Sequence[float] | None, name: str) -> Floats | None:
    """Return numbers as float64; None for None."""
    if values is None:
        return None
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        msg = f"{name}: expected numbers in one row, got {values!r}. Give floats."
        raise UsageError(msg) from error


def _points(configs: Sequence[Config], encoding: Encoding, i: int) -> Floats:
    """Encode the configurations of the i-th related task."""
    for j, config in enumerate(configs):
        entry: object = config
        if not isinstance(entry, Mapping):
            msg = f"related[{i}].configs[{j}]: expected a configuration, values by name, got {entry!r}. Give a dictionary."
            raise UsageError(msg)
    try:
        return encoding.encode(configs)
    except DataError as error:
        msg = f"related[{i}]: {error}"
        raise DataError(msg) from error

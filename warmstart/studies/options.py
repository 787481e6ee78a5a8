"""The options of tuning: name, type, default, and whether a value identifies the study.

The groups have no slots, so that ``Search.surrogate`` is the default of the option ``surrogate``. A new option is a field here,
a keyword of `warmstart.tune` and a parameter of the command. What decides the outcome of a study belongs to `Search` or
`WarmStart`: only these are stored in the study.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal

from warmstart.locations import PathLike
from warmstart.studies.objectives.metric import Scale
from warmstart.studies.related_dataset import AUTO, NEIGHBOURS

if TYPE_CHECKING:
    from warmstart.history_store.broken import SkipBroken
    from warmstart.integrations.ray.cluster import Cluster
    from warmstart.spaces import SpaceLike
    from warmstart.studies.results.progress import StudyProgress

Warm = Literal["design", "initial", "extra", "none"]
"""Warm configurations are the whole initial design, its first part, or added before it; or there are none."""
Initial = PathLike | tuple[Any, ...]
"""Configurations to evaluate first, or a file of them; those of a plan fit its space."""
Pruner = Literal["none", "median", "asha", "hyperband", "history"]

_IDENTITY = "identity"
_log = logging.getLogger("warmstart")


def identity(*values: tuple[str, Callable[[Any], object]] | Callable[[Any], object]) -> dict[str, Any]:
    """Return the metadata of a field that identifies a study.

    Args:
        values: functions of the record whose values are compared, with their labels if there are several. The field's
            value and name when left out.
    """
    return {_IDENTITY: values}


def identity_of(record: Any) -> dict[str, object]:
    """Return the fields that identify a study: values by label, in the order of the fields."""
    identities: dict[str, object] = {}
    for option in fields(record):
        if _IDENTITY not in option.metadata:
            continue
        for value in option.metadata[_IDENTITY] or (lambda record, name=option.name: getattr(record, name),):
            label, read = value if isinstance(value, tuple) else (f"`{option.name}`", value)
            identities[label] = read(record)
    return identities


@dataclass(frozen=True, kw_only=True)
class Problem:
    """The objective and its space; see `warmstart.tune` for every option of every group."""

    objective: str | Callable[..., object] | None = None
    command: str | None = None
    space: SpaceLike | None = None
    workload: str = "cnn"
    """`warmstart.training.workloads.DEFAULT`, whose package imports numpy: the command line reads the defaults for its help."""
    target_budget: str | None = None
    skip_broken: SkipBroken = None


@dataclass(frozen=True, kw_only=True)
class Search:
    """Options of the search; stored in the study."""

    seed: int = field(default=0, metadata=identity())
    surrogate: str = field(default="gp", metadata=identity())
    acquisition: str = field(default="ei", metadata=identity())
    pruner: Pruner = field(default="none", metadata=identity())
    budget: float | None = field(default=None, metadata=identity())
    metric: str | None = field(default=None, metadata=identity())
    maximize: bool = field(default=False, metadata=identity())
    scale: Scale | None = field(default=None, metadata=identity())


@dataclass(frozen=True, kw_only=True)
class WarmStart:
    """Options of the warm start; stored in the study. An option without effect does not identify it."""

    warm: Warm = field(default="design", metadata=identity())
    k: int = field(default=3, metadata=identity(lambda record: record.k if record.warm != "none" else 0))
    strategy: str | None = field(
        default=None, metadata=identity(lambda record: record.strategy if record.warm != "none" else None)
    )
    exclude_group: tuple[str, ...] = field(
        default=(),
        metadata=identity(lambda record: record.exclude_group if record.warm != "none" or record.related else ()),
    )
    n_startup_trials: int = field(
        default=3, metadata=identity(lambda record: record.n_startup_trials if record.warm != "design" else 0)
    )
    rename: tuple[tuple[str, str], ...] = field(
        default=(), metadata=identity(lambda record: _equations(record.rename) if record.warm != "none" else "")
    )
    initial: Initial = field(default=(), metadata=identity(lambda record: _digest(record.initial)))
    related: tuple[str, ...] = field(default=(), metadata=identity())
    neighbours: int = field(
        default=NEIGHBOURS, metadata=identity(lambda record: record.neighbours if record.related == (AUTO,) else 0)
    )

    def __post_init__(self) -> None:
        """Normalise names to tuples; sort related datasets and renamings."""
        object.__setattr__(self, "exclude_group", _names(self.exclude_group))
        object.__setattr__(self, "related", tuple(sorted(set(_names(self.related)))))
        object.__setattr__(self, "rename", tuple(sorted((old, new) for old, new in _pairs(self.rename))))
        if self.initial is None or not isinstance(self.initial, str | os.PathLike):
            object.__setattr__(self, "initial", tuple(self.initial or ()))


@dataclass(frozen=True, kw_only=True)
class Sources:
    """The history, the model of meta-features, and how datasets are loaded."""

    history: PathLike | None = None
    model: PathLike | None = None
    cache: bool = True
    download: bool = False


@dataclass(frozen=True, kw_only=True)
class Execution:
    """Where trials run, and their limits; calls of one study may differ."""

    trials: int | None = None
    timeout: str | float | None = None
    time: str | float | None = None
    trial_timeout: str | float | None = None
    trial_memory: str | int | None = None
    workers: int | None = None
    cluster: Cluster | None = None
    device: str = "auto"
    storage: PathLike | None = None
    study: str | None = None


@dataclass(frozen=True, kw_only=True)
class Outputs:
    """Files to write and messages to people."""

    log: PathLike | None = None
    record: str | None = None
    report: PathLike | Literal[True] | None = None
    save_model: PathLike | None = None
    ensemble: int = 1
    progress: Callable[[StudyProgress], None] | None = None
    on_message: Callable[[str], object] = _log.warning


@dataclass(frozen=True, kw_only=True)
class Caller:
    """What a caller within the package adds: no option of the command, nor a keyword of `tune`.

    Attributes:
        threads: of torch on a CPU in each trial of a workload.
        before_saving: called when the trials ended, before the networks are trained a last time.
    """

    threads: int = 1
    before_saving: Callable[[], object] | None = None


def pick(group: type[Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a group's fields, by name."""
    return {option.name: values[option.name] for option in fields(group) if option.init and option.name in values}


def pick_from(group: type[Any], record: object) -> dict[str, Any]:
    """Return a record's values of a group's fields, by name."""
    return {option.name: getattr(record, option.name) for option in fields(group)}


def _pairs(pairs: Any) -> Iterable[Any]:
    return pairs.items() if isinstance(pairs, Mapping) else pairs or ()


def _equations(pairs: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{old}={new}" for old, new in pairs)


def _digest(configs: Any) -> object:
    """Return the number of configurations and their text, which is compared and not shown."""
    return Digest(f"{len(configs)} configurations", repr(configs)) if configs else ""


@dataclass(frozen=True, slots=True)
class Digest:
    """A value that is compared as a whole and shown in short."""

    words: str
    whole: str

    def __str__(self) -> str:
        return self.words


def _names(names: Any) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names or ())

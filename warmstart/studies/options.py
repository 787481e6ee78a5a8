"""The options of tuning, each stated once: its name, its type, its default, and whether it makes a study another one.

The groups have no slots, so that ``Search.surrogate`` is the default of the option ``surrogate``. A new option is a field here,
a keyword of `warmstart.tune` and a parameter of the command; whatever decides the outcome of a study belongs to `Search` or
`WarmStart` and is kept in the study by that alone.
"""

from __future__ import annotations

import logging
import os
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal

from warmstart.locations import PathLike
from warmstart.studies.objectives.metric import Scale
from warmstart.studies.related_dataset import AUTO, NEIGHBOURS

if TYPE_CHECKING:
    from warmstart.integrations.ray.cluster import Cluster
    from warmstart.spaces import SpaceLike
    from warmstart.studies.results.progress import StudyProgress

Warm = Literal["design", "initial", "extra", "none"]
"""How warm configurations count: they are the whole design; its first; or come before it; there are none."""
Initial = PathLike | tuple[Any, ...]
"""Configurations to evaluate first: a file, or themselves; those of a plan are of its space."""
Pruner = Literal["none", "median", "asha", "hyperband", "history"]

_IDENTITY = "identity"
_log = logging.getLogger("warmstart")


def identity(*values: tuple[str, Callable[[Any], object]] | Callable[[Any], object]) -> dict[str, Any]:
    """Return the metadata of a field whose value makes a study another one.

    Args:
        values: what is compared, a function of the record; or several, each with its label. The field's own value and
            name when left out.
    """
    return {_IDENTITY: values}


def identity_of(record: Any) -> dict[str, object]:
    """Return what makes a record another one: values by their labels, in the order of the fields."""
    found: dict[str, object] = {}
    for each in fields(record):
        if _IDENTITY not in each.metadata:
            continue
        for value in each.metadata[_IDENTITY] or (lambda record, name=each.name: getattr(record, name),):
            label, read = value if isinstance(value, tuple) else (f"`{each.name}`", value)
            found[label] = read(record)
    return found


@dataclass(frozen=True, kw_only=True)
class Problem:
    """What is tuned; see `warmstart.tune` for every option of every group."""

    objective: str | Callable[..., object] | None = None
    command: str | None = None
    space: SpaceLike | None = None
    workload: str = "cnn"
    """`warmstart.training.workloads.DEFAULT`, whose package imports numpy: the command line reads the defaults for its help."""
    target_budget: str | None = None
    skip_broken: bool = False


@dataclass(frozen=True, kw_only=True)
class Search:
    """How it is searched; kept in the study."""

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
    """What is taken from the history; kept in the study. What is without effect makes no study another one."""

    warm: Warm = field(default="design", metadata=identity())
    k: int = field(default=3, metadata=identity(lambda asked: asked.k if asked.warm != "none" else 0))
    strategy: str | None = field(
        default=None, metadata=identity(lambda asked: asked.strategy if asked.warm != "none" else None)
    )
    exclude_group: tuple[str, ...] = field(
        default=(),
        metadata=identity(lambda asked: asked.exclude_group if asked.warm != "none" or asked.related else ()),
    )
    n_startup_trials: int = field(
        default=3, metadata=identity(lambda asked: asked.n_startup_trials if asked.warm != "design" else 0)
    )
    rename: tuple[tuple[str, str], ...] = field(
        default=(), metadata=identity(lambda asked: _equations(asked.rename) if asked.warm != "none" else "")
    )
    initial: Initial = field(default=(), metadata=identity(lambda asked: _digest(asked.initial)))
    related: tuple[str, ...] = field(default=(), metadata=identity())
    neighbours: int = field(
        default=NEIGHBOURS, metadata=identity(lambda asked: asked.neighbours if asked.related == (AUTO,) else 0)
    )

    def __post_init__(self) -> None:
        """Take one name as a tuple of one, and related datasets in any order."""
        object.__setattr__(self, "exclude_group", _names(self.exclude_group))
        object.__setattr__(self, "related", tuple(sorted(set(_names(self.related)))))
        object.__setattr__(self, "rename", tuple(sorted((old, new) for old, new in _pairs(self.rename))))
        if self.initial is None or not isinstance(self.initial, str | os.PathLike):
            object.__setattr__(self, "initial", tuple(self.initial or ()))


@dataclass(frozen=True, kw_only=True)
class Sources:
    """Where what is known comes from, and how it is fetched."""

    history: PathLike | None = None
    model: PathLike | None = None
    cache: bool = True
    download: bool = False


@dataclass(frozen=True, kw_only=True)
class Execution:
    """Where trials run and how much they may take; another call of the same study may have others."""

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
    """What is written and said."""

    log: PathLike | None = None
    record: str | None = None
    report: PathLike | Literal[True] | None = None
    save_model: PathLike | None = None
    ensemble: int = 1
    progress: Callable[[StudyProgress], None] | None = None
    on_message: Callable[[str], object] = _log.warning


def pick(group: type[Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return those values that are fields of a group, by their names."""
    return {each.name: values[each.name] for each in fields(group) if each.init and each.name in values}


def pick_from(group: type[Any], record: object) -> dict[str, Any]:
    """Return a record's values of the fields of a group."""
    return {each.name: getattr(record, each.name) for each in fields(group)}


def _pairs(given: Any) -> Iterable[Any]:
    return given.items() if isinstance(given, Mapping) else given or ()


def _equations(pairs: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{old}={new}" for old, new in pairs)


def _digest(configs: Any) -> str:
    """Tell configurations from others, in a few words."""
    return f"{len(configs)} configurations ({zlib.crc32(repr(configs).encode()):08x})" if configs else ""


def _names(given: Any) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given or ())

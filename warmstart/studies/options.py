"""The options of tuning: each is stated once, as a field of a record.

A field has the option's type, default, help, limits and whether it identifies the study. The command line
(`warmstart.cli.record_options`), the keywords and the documentation of `warmstart.tune`, and the bodies of the service
are made from the fields. What decides the outcome of a study belongs to `Search` or `WarmStart`: only these are stored
in the study.

The groups have no slots, so that ``Search.surrogate`` is the default of the option ``surrogate``.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

from warmstart.arguments import (
    check_callable,
    check_flag,
    check_gpus,
    check_length,
    check_names,
    check_objective,
    check_path,
    check_positive,
    check_report,
    check_seed,
    check_space,
    check_text,
    parse_pairs,
)
from warmstart.integrations.trackers.registry import TRACKERS
from warmstart.locations import PathLike
from warmstart.option import MOST_SEED, option
from warmstart.studies.objectives.metric import Scale
from warmstart.studies.related_dataset import AUTO, NEIGHBOURS
from warmstart.suggestions.lookup import Sources

if TYPE_CHECKING:
    from warmstart.integrations.ray.cluster import Cluster
    from warmstart.spaces import SpaceLike
    from warmstart.studies.results.progress import StudyProgress

Warm = Literal["design", "initial", "extra", "none"]
"""Warm configurations are the whole initial design, its first part, or added before it; or there are none."""
Initial = PathLike | tuple[Any, ...]
"""Configurations to evaluate first, or a file of them; those of a plan fit its space."""
Pruner = Literal["none", "median", "asha", "hyperband", "history"]

_log = logging.getLogger("warmstart")


def _workloads() -> Iterable[str]:
    from warmstart.training.workloads import WORKLOADS

    return WORKLOADS


def _acquisitions() -> Iterable[str]:
    from warmstart.bo.acquisition.registry import ACQUISITIONS

    return ACQUISITIONS


def _surrogates() -> Iterable[str]:
    from warmstart.bo.surrogates import SURROGATES

    return (name for name in SURROGATES if not name.startswith("mt-"))


def _strategies() -> Iterable[str]:
    from warmstart.bo.transfer.strategies import STRATEGIES

    return STRATEGIES


@dataclass(frozen=True, kw_only=True)
class Problem:
    """The objective and its space."""

    TITLE: ClassVar[str] = "Your script"
    objective: str | Callable[..., object] | None = option(
        None,
        "A function: module:function or file.py:function; see docs/tune.md for its arguments. "
        "Without it and without a command, the workload is trained.",
        check=check_objective,
    )
    command: str | None = option(
        None,
        'A program that prints its error, with {names} where values go: "python train.py --lr {learning_rate}".',
        check=check_text,
        is_main=True,
    )
    score: str | None = option(
        None,
        "What the program prints, larger is better: val_acc finds `val_acc: 71.2%`. Each such line is a report.",
        check=check_text,
        metavar="NAME",
        is_main=True,
    )
    loss: str | None = option(
        None,
        "What the program prints, less is better: val_loss finds `val_loss=0.31`. Each such line is a report.",
        check=check_text,
        metavar="NAME",
        is_main=True,
    )
    space: SpaceLike | None = option(
        None, "A file (YAML, JSON), compact or paper; the history's when left out.", check=check_space, is_main=True
    )
    workload: str | None = option(
        None,
        "What to train without an objective: transfer (pretrained networks), cnn, or one of an installed package; "
        "transfer when left out, where it is installed.",
        check=check_text,
        choices=_workloads,
    )
    target_budget: str | None = option(
        None,
        "Length of a training run of the workload; for cnn: compact-400 or paper; for transfer: time or steps.",
        check=check_text,
    )
    skip_broken: bool | None = option(
        None,
        "Leave out all pictures that cannot be decoded, or none; up to 5 % of them, named, when left out.",
        check=check_flag,
        flags=("--skip-broken/--strict",),
        type=bool | None,
    )


@dataclass(frozen=True, kw_only=True)
class Search:
    """Options of the search; stored in the study."""

    TITLE: ClassVar[str] = "Search"
    seed: int = option(
        0, "Seed of everything random, of the trials too.", check=check_seed, least=0, most=MOST_SEED, identity=()
    )
    surrogate: str = option(
        "gp",
        "Model of the error: gp, gp-map, dngo or bohamiann; see docs/how-it-works.md.",
        check=check_text,
        choices=_surrogates,
        identity=(),
    )
    acquisition: str = option(
        "ei",
        "What the next trial maximises: ei, pi, lcb or ei-per-second.",
        check=check_text,
        choices=_acquisitions,
        identity=(),
    )
    pruner: Pruner = option(
        "none",
        "Stop hopeless trials by their reports: median, asha, hyperband, or history: by its learning curves.",
        check=check_text,
        choices=get_args(Pruner),
        identity=(),
    )
    budget: float | None = option(
        None, "Budget of each trial, in the objective's own unit.", check=check_positive, type=float, identity=()
    )
    metric: str | None = option(
        None,
        "What the script gives instead of an error: a JSON key, last, regex:PATTERN or file:PATH:KEY.",
        identity=(),
    )
    maximize: bool = option(False, "A larger metric is better.", identity=())
    scale: Scale | None = option(
        None,
        "Range of the metric: fraction (0 to 1), percent (0 to 100) or any number.",
        check=check_text,
        choices=get_args(Scale),
        identity=(),
    )


@dataclass(frozen=True, kw_only=True)
class WarmStart:
    """Options of the warm start; stored in the study. An option without effect does not identify it."""

    TITLE: ClassVar[str] = "Warm start"
    warm: Warm = option(
        "design",
        "Warm configurations replace the Sobol design (design), begin it (initial), precede it (extra); or none.",
        check=check_text,
        choices=get_args(Warm),
        identity=(),
    )
    k: int = option(
        3,
        "Number of warm configurations.",
        least=1,
        flags=("-k",),
        identity=(lambda record: record.k if record.warm != "none" else 0,),
    )
    strategy: str | None = option(
        None,
        "Strategy for the warm configurations; see `warmstart suggest`.",
        check=check_text,
        choices=_strategies,
        identity=(lambda record: record.strategy if record.warm != "none" else None,),
    )
    exclude_group: tuple[str, ...] = option(
        (),
        "Leave out a sibling group of the history, or several.",
        check=check_names,
        identity=(lambda record: record.exclude_group if record.warm != "none" or record.related else (),),
    )
    n_startup_trials: int = option(
        3,
        "Points of the Sobol design, for initial, extra and none.",
        least=1,
        flags=("--n-startup-trials", "--startup"),
        identity=(lambda record: record.n_startup_trials if record.warm != "design" else 0,),
    )
    rename: tuple[tuple[str, str], ...] = option(
        (),
        "Names in the space of hyperparameters of the history.",
        metavar="HISTORY=OURS",
        identity=(lambda record: _equations(record.rename) if record.warm != "none" else "",),
    )
    initial: Initial = option(
        (),
        "Start from these configurations instead: a file of `suggest --format json`, yaml or csv.",
        type=str,
        identity=(lambda record: _digest(record.initial),),
    )
    related: tuple[str, ...] = option(
        (),
        "Also learn from this dataset of the history, or several, or auto: the nearest.",
        check=check_names,
        identity=(),
    )
    neighbours: int = option(
        NEIGHBOURS,
        "Number of datasets, each of another group, for related auto.",
        least=1,
        identity=(lambda record: record.neighbours if record.related == (AUTO,) else 0,),
    )

    def __post_init__(self) -> None:
        """Normalise names to tuples; sort related datasets and renamings."""
        object.__setattr__(self, "exclude_group", _names(self.exclude_group))
        object.__setattr__(self, "related", tuple(sorted(set(_names(self.related)))))
        object.__setattr__(self, "rename", tuple(sorted((old, new) for old, new in _pairs(self.rename))))
        if self.initial is None or not isinstance(self.initial, str | os.PathLike):
            object.__setattr__(self, "initial", tuple(self.initial or ()))


@dataclass(frozen=True, kw_only=True)
class Execution:
    """Where trials run, and their limits; calls of one study may differ."""

    TITLE: ClassVar[str] = "Running"
    trials: int | None = option(
        None, "Trials of the study in all; 50, or what the time allows.", type=int, least=1, is_main=True
    )
    timeout: str | float | None = option(None, "Start no trial after this time, e.g. 30m.", check=check_length)
    time: str | float | None = option(
        None,
        "Time of the whole call, e.g. 30m: a plan is shown, only what ends in time is begun, and late trials are stopped.",
        check=check_length,
        is_main=True,
    )
    trial_timeout: str | float | None = option(
        None, "Stop a trial after this time, e.g. 30m; it counts as failed.", check=check_length
    )
    trial_memory: str | int | None = option(
        None, "Stop a trial that uses more memory, e.g. 4G; it counts as failed.", check=check_length
    )
    workers: int | None = option(
        None,
        "Processes that run trials: 1 when left out, or one a GPU; with Ray, as many as fit.",
        type=int,
        least=1,
        is_main=True,
    )
    gpus: str | Sequence[str | int] | None = option(
        None,
        "A worker for each of these GPUs, which sees no other: 0,1,2,3, or auto for all.",
        check=check_gpus,
        metavar="LIST",
    )
    per_gpu: int = option(1, "Number of workers on each of the GPUs.", least=1)
    cluster: Cluster | None = option(
        None, "Of Ray, for the trials; its workers need the storage and the objective.", on_command_line=False
    )
    device: str = option("auto", "Where networks run: cpu, cuda, cuda:1, ... or auto.", check=check_text)
    storage: PathLike | None = option(
        None, "Path (SQLite, or .journal) or URL; warmstart-studies.db when left out.", check=check_path
    )
    study: str | None = option(
        None, "Name of the study; from the dataset and the objective when left out.", check=check_text, is_main=True
    )


@dataclass(frozen=True, kw_only=True)
class Outputs:
    """Files to write and messages to people."""

    TITLE: ClassVar[str] = "Files"
    log: PathLike | None = option(
        None, "Append the output of the trials to this file; beside the report when left out.", check=check_path
    )
    record: str | None = option(
        None, "At the end, add the dataset and its trials to the history under this name.", check=check_text
    )
    report: PathLike | Literal[True] | None = option(
        None,
        "Markdown file of the report, JSON and HTML beside it; True, or left out on the command line: in the folder "
        "STORAGE-reports.",
        check=check_report,
    )
    save_model: PathLike | None = option(
        None,
        "At the end, train the workload's best network again and save it to this file.",
        check=check_path,
    )
    track: str | tuple[str, ...] = option(
        (),
        "Also write trials and curves while they run: wandb, mlflow, tensorboard or jsonl; may be repeated.",
        check=check_names,
        metavar="NAME",
        choices=lambda: TRACKERS,
    )
    ensemble: int = option(1, "Number of the best networks that the saved file has.", least=1)
    progress: Callable[[StudyProgress], None] | None = option(
        None, "Called when a trial begins, reports or ends.", check=check_callable, on_command_line=False
    )
    on_message: Callable[[str], object] = option(
        _log.warning,
        "Called with each message line; logged by the logger `warmstart` when left out.",
        check=check_callable,
        on_command_line=False,
    )


@dataclass(frozen=True, kw_only=True)
class Caller:
    """What a caller within the package adds: no option of the command, nor a keyword of `tune`."""

    threads: int = option(1, "Threads of torch on a CPU in each trial of a workload.", on_command_line=False)
    before_saving: Callable[[], object] | None = option(
        None, "Called when the trials ended, before the networks are trained a last time.", on_command_line=False
    )


GROUPS = (Problem, Search, WarmStart, Sources, Execution, Outputs)
"""Every group; its `TITLE` is what people see."""
Group = Problem | Search | WarmStart | Sources | Execution | Outputs


def pick_from(group: type[Any], record: object) -> dict[str, Any]:
    """Return a record's values of a group's fields, by name."""
    return {option.name: getattr(record, option.name) for option in fields(group)}


def _pairs(pairs: Any) -> Iterable[Any]:
    is_text = not isinstance(pairs, Mapping) and any(isinstance(pair, str) for pair in pairs or ())
    named = parse_pairs("rename", pairs) if is_text else pairs
    return named.items() if isinstance(named, Mapping) else named or ()


def _equations(pairs: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{old}={new}" for old, new in pairs)


def _digest(configs: Any) -> object:
    """Return the number of configurations, and their text, which is compared and not shown."""
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

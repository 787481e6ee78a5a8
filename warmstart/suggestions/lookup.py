"""The options of a look into the history: which one, and how the dataset is read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from warmstart.arguments import check_device, check_flag, check_names, check_path
from warmstart.history_store.canonical import labelled
from warmstart.locations import PathLike
from warmstart.option import MOST_SEED, option, option_of

if TYPE_CHECKING:
    from warmstart.spaces import SpaceLike


@dataclass(frozen=True, kw_only=True)
class Labels:
    """Where the labels of a dataset are, if they are not the names of folders."""

    TITLE: ClassVar[str] = "Data"
    labels: str | None = option(
        None, "CSV file with a row a picture, where the folder has no class folders.", metavar="PATH"
    )
    labels_column: str | None = option(None, "Which column of the CSV file, or of a table, holds the labels.")

    def labelled(self, dataset: str) -> str:
        """Return the path of a dataset with that of its labels."""
        return labelled(dataset, self.labels, self.labels_column)


@dataclass(frozen=True, kw_only=True)
class Sources:
    """The history, the model of meta-features, and how datasets are loaded."""

    TITLE: ClassVar[str] = "History"
    history: PathLike | None = option(
        None, "The history file; $WARMSTART_HISTORY or the shipped one when left out.", check=check_path
    )
    model: PathLike | None = option(
        None, "The meta-feature model; $WARMSTART_MODEL or the shipped one when left out.", check=check_path
    )
    cache: bool = option(
        True,
        "Use the cache of meta-features, or do without.",
        check=check_flag,
        flags=("--cache/--no-cache",),
    )
    download: bool = option(False, "Allow torchvision to download torchvision:NAME.", check=check_flag)


@dataclass(frozen=True, kw_only=True)
class Lookup(Sources):
    """The arguments of `Advisor` that commands share."""

    TITLE: ClassVar[str] = "History"
    exclude_group: tuple[str, ...] = option(
        (), "Leave out a sibling group of the history, or several.", check=check_names
    )
    skip_broken: bool | None = option(
        None,
        "Leave out all pictures that cannot be decoded, or none; up to 5 % of them, named, when left out.",
        check=check_flag,
        flags=("--skip-broken/--strict",),
        type=bool | None,
    )
    seed: int = option(0, "Seed of the pictures that are looked at.", least=0, most=MOST_SEED)
    device: str = option("cpu", "Where networks run: cpu, cuda, cuda:1, ... or auto.", check=check_device)
    threads: int | None = option(1, "CPU threads of the networks.", type=int, least=1)


@dataclass(frozen=True, kw_only=True)
class Question:
    """What is asked of the history: how many configurations, of what, for which space and time."""

    TITLE: ClassVar[str] = "History"
    k: int | None = option(
        None,
        "How many configurations; 3 when left out, or all where there are fewer.",
        flags=("-k",),
        type=int,
        least=1,
        is_main=True,
    )
    time: str | float | None = option(
        None,
        "Plan what fits in this time, e.g. 10m, and pays most per minute; a short run tells how fast this machine is.",
        is_main=True,
    )
    explain: bool = option(False, "Say why: what the neighbours are, how the configurations did around.", is_main=True)
    workload: str | None = option(
        None,
        "What is trained: transfer (pretrained networks) or cnn (a small network from scratch). When left out: that of "
        "a named history, or what shares most with a space of yours; else transfer, where it is installed.",
        is_main=True,
    )
    space: "SpaceLike | None" = option(
        None,
        "Suggest for this space: a file (YAML, JSON), compact or paper; the history's when left out.",
        is_main=True,
    )
    rename: "Mapping[str, str] | Sequence[str] | None" = option(
        (), "Names of the space by those of the history, where they differ.", metavar="HISTORY=OURS", is_main=True
    )
    strategy: str | None = option(
        None,
        "joint, nearest, portfolio or average-rank; joint when left out, portfolio where distances say nothing.",
    )


@dataclass(frozen=True, kw_only=True)
class NeighbourQuestion:
    """How many datasets, of which history."""

    k: int = option_of(Question, "k", default=10, help="How many datasets.")
    workload: str | None = option_of(Question, "workload")

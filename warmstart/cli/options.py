"""The arguments and options that commands share."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from warmstart.history_store.errors import UsageError
from warmstart.option import MOST_SEED, option, option_of
from warmstart.suggestions.lookup import Labels, Lookup, Sources

if TYPE_CHECKING:
    from warmstart.integrations.ray.cluster import Cluster

DatasetArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="DATASET",
        help="Your images: a folder with a folder a class, .zip, .parquet, .tar, idx, CIFAR, .npz, FILE.h5::name, sklearn:digits, torchvision:NAME.",
    ),
]
HistoryFile = Annotated[str, typer.Argument(metavar="HISTORY", help="The history file.")]
HistoryByName = Annotated[
    str | None, typer.Option("--history", help="The same as HISTORY, by name.", rich_help_panel="History")
]
HistoryArgument = Annotated[
    str | None,
    typer.Argument(metavar="HISTORY", help="The history file; $WARMSTART_HISTORY or the shipped one when left out."),
]
ServerOption = Annotated[
    str | None,
    typer.Option(
        "--server",
        metavar="URL",
        help="Ask a server of `warmstart serve`; your pictures stay here.",
        rich_help_panel="History",
    ),
]
SeedOption = Annotated[
    int, typer.Option("--seed", min=0, max=MOST_SEED, help="Seed of everything random.", rich_help_panel="Output")
]
RawOption = Annotated[
    bool,
    typer.Option(
        "--raw",
        help="In CSV, leave texts that a spreadsheet takes for formulas without an apostrophe before them.",
        rich_help_panel="Output",
    ),
]


@dataclass(frozen=True, kw_only=True)
class DatasetOptions(Labels):
    """A dataset by the name of an option, and its labels."""

    TITLE: ClassVar[str] = "Data"
    dataset: str | None = option(None, "The same as DATASET, by name.", flags=("--dataset", "-d"))

    def source(self, path: str | None) -> str | None:
        """Return the dataset of the argument or of the option, with its labels; None without one.

        Raises:
            UsageError: two that differ, or labels without a dataset.
        """
        named = one_of("dataset", path, self.dataset)
        if named is not None:
            return self.labelled(named)
        for name in ("labels", "labels_column"):
            if getattr(self, name) is not None:
                msg = "needs `dataset`."
                raise UsageError(msg, param=name)
        return None

    def needed_source(self, path: str | None) -> str:
        """Return the dataset as `source`.

        Raises:
            UsageError: there is none, too.
        """
        source = self.source(path)
        if source is None:
            msg = "Give your images: `warmstart suggest photos/`."
            raise UsageError(msg)
        return source


@dataclass(frozen=True, kw_only=True)
class HistoryOptions:
    """A history, by its file or by what it measured."""

    TITLE: ClassVar[str] = "History"
    history: str | None = option_of(Sources, "history")
    workload: str | None = option(None, "The history of this workload: cnn, transfer; as in `suggest` when left out.")


@dataclass(frozen=True, kw_only=True)
class ModelOptions(HistoryOptions):
    """A history, and the model of its distances."""

    TITLE: ClassVar[str] = "History"
    model: str | None = option_of(Sources, "model")


@dataclass(frozen=True, kw_only=True)
class Threads:
    """CPU threads."""

    TITLE: ClassVar[str] = "Running"
    threads: int = option_of(Lookup, "threads")


@dataclass(frozen=True, kw_only=True)
class ModelUse(Threads):
    """A model, and where it runs."""

    TITLE: ClassVar[str] = "Running"
    model: str | None = option_of(Sources, "model")
    device: str = option_of(Lookup, "device")


@dataclass(frozen=True, kw_only=True)
class RayOptions:
    """A cluster of Ray, and what each trial takes of it."""

    TITLE: ClassVar[str] = "Running"
    ray: bool = option(
        False, "Run trials on Ray: $RAY_ADDRESS, else a cluster on this machine; see docs/optuna-ray.md."
    )
    ray_address: str | None = option(None, "Run trials on this Ray cluster: HOST:PORT, ray://HOST:PORT or auto.")
    cpus_per_trial: float | None = option(
        None, "With Ray: CPUs that each trial takes; 1 when left out.", type=float, least=0
    )
    gpus_per_trial: float | None = option(
        None, "With Ray: GPUs that each trial takes; 0 when left out.", type=float, least=0
    )

    def cluster(self) -> "Cluster | None":
        """Return the cluster; None without one."""
        from warmstart.integrations.ray.cluster import chosen_cluster

        return chosen_cluster(
            self.ray_address,
            use_ray=self.ray,
            cpus_per_trial=self.cpus_per_trial,
            gpus_per_trial=self.gpus_per_trial,
        )


def one_of(kind: str, position: str | None, name: str | None) -> str | None:
    """Return what is named by its position or by an option.

    Args:
        kind: of it, and the name of the option.
        position: value of the argument.
        name: value of the option.

    Raises:
        UsageError: both name one, and they differ.
    """
    if None not in (position, name) and position != name:
        msg = f"expected one {kind}, got {position!r} and --{kind} {name!r}. Leave one of the two out."
        raise UsageError(msg)
    return position or name

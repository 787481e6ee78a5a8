"""The options that commands share."""

from enum import StrEnum
from typing import Annotated

import typer


class Format(StrEnum):
    """Formats of a result."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"
    CSV = "csv"


class SuggestFormat(StrEnum):
    """Formats of suggestions: for people, for programs, for tuners."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"
    CSV = "csv"
    OPTUNA = "optuna"
    RAY = "ray"
    CONFIGSPACE = "configspace"
    TIMM = "timm"
    PYTHON = "python"
    TRAINER = "trainer"


class ScaleName(StrEnum):
    """Ranges of a metric; see docs/tune.md."""

    FRACTION = "fraction"
    PERCENT = "percent"
    ANY = "any"


FormatOption = Annotated[
    Format, typer.Option("--format", "-f", help="Format of the result on stdout.", rich_help_panel="Output")
]
SuggestFormatOption = Annotated[
    SuggestFormat,
    typer.Option(
        "--format", "-f", help="Format of the result on stdout; docs/suggest.md shows each.", rich_help_panel="Output"
    ),
]
SeedOption = Annotated[
    int, typer.Option("--seed", min=0, max=2**63 - 1, help="Seed of everything random.", rich_help_panel="Output")
]
QuietOption = Annotated[
    bool, typer.Option("--quiet", "-q", help="Write only errors to stderr.", rich_help_panel="Output")
]
RawOption = Annotated[
    bool,
    typer.Option(
        "--raw",
        help="In CSV, leave texts that a spreadsheet takes for formulas without an apostrophe before them.",
        rich_help_panel="Output",
    ),
]
VerboseOption = Annotated[
    int,
    typer.Option(
        "--verbose",
        "-v",
        count=True,
        show_default=False,
        help="Write more to stderr; -vv shows tracebacks.",
        rich_help_panel="Output",
    ),
]
DeviceOption = Annotated[
    str, typer.Option("--device", help="Where networks run: cpu, cuda, cuda:1, ... or auto.", rich_help_panel="Running")
]
ThreadsOption = Annotated[
    int, typer.Option("--threads", min=1, help="CPU threads of the networks.", rich_help_panel="Running")
]
NoCacheOption = Annotated[
    bool, typer.Option("--no-cache", help="Do not use the cache of meta-features.", rich_help_panel="History")
]
_DATASET = typer.Option(
    "--dataset",
    "-d",
    help="Your images: a folder, .zip, .parquet, .tar, idx, CIFAR, .npz, FILE.h5::name, sklearn:digits, torchvision:NAME.",
)
LabelsOption = Annotated[
    str | None,
    typer.Option(
        "--labels", help="CSV file with a row a picture, where the folder has no class folders; docs/datasets.md."
    ),
]
LabelsColumnOption = Annotated[
    str | None,
    typer.Option(
        "--labels-column", help="Which column of the CSV file, or of a table, holds the labels.", rich_help_panel="Data"
    ),
]
MaybeDatasetOption = Annotated[str | None, _DATASET]
DatasetArgument = Annotated[str | None, typer.Argument(metavar="DATASET", help="The same as --dataset.")]
RayOption = Annotated[
    bool,
    typer.Option(
        "--ray",
        help="Run trials on Ray: $RAY_ADDRESS, else a cluster on this machine; see docs/optuna-ray.md.",
        rich_help_panel="Running",
    ),
]
RayAddressOption = Annotated[
    str | None,
    typer.Option(
        "--ray-address",
        help="Run trials on this Ray cluster: HOST:PORT, ray://HOST:PORT or auto.",
        rich_help_panel="Running",
    ),
]
CpusOption = Annotated[
    float | None,
    typer.Option(
        "--cpus-per-trial",
        min=0,
        help="With Ray: CPUs that each trial takes; 1 when left out.",
        rich_help_panel="Running",
    ),
]
GpusOption = Annotated[
    float | None,
    typer.Option(
        "--gpus-per-trial",
        min=0,
        help="With Ray: GPUs that each trial takes; 0 when left out.",
        rich_help_panel="Running",
    ),
]
HistoryOption = Annotated[
    str | None,
    typer.Option(
        "--history",
        help="The history file; $WARMSTART_HISTORY or the shipped one when left out.",
        rich_help_panel="History",
    ),
]
ModelOption = Annotated[
    str | None,
    typer.Option(
        "--model",
        help="The meta-feature model; $WARMSTART_MODEL or the shipped one when left out.",
        rich_help_panel="History",
    ),
]
WorkloadOption = Annotated[
    str | None,
    typer.Option(
        "--workload",
        help="What is trained: transfer (pretrained networks) or cnn; transfer when left out, where it is installed and no history is named.",
    ),
]
SkipBrokenOption = Annotated[
    bool,
    typer.Option(
        "--skip-broken", help="Leave out pictures that cannot be decoded, and name them.", rich_help_panel="Data"
    ),
]
DownloadOption = Annotated[
    bool, typer.Option("--download", help="Allow torchvision to download torchvision:NAME.", rich_help_panel="Data")
]
BrokenOption = Annotated[
    bool | None,
    typer.Option(
        "--skip-broken/--strict",
        show_default=False,
        help="Leave out all pictures that cannot be decoded, or none; up to 5 % of them, named, when left out.",
        rich_help_panel="Data",
    ),
]
MetricOption = Annotated[
    str | None,
    typer.Option(
        "--metric", help="What the script gives instead of an error: a JSON key, last, regex:PATTERN or file:PATH:KEY."
    ),
]
ScoreOption = Annotated[
    str | None,
    typer.Option(
        "--score", metavar="NAME", help="What the script prints, larger is better: val_acc finds `val_acc: 71.2%`."
    ),
]
LossOption = Annotated[
    str | None,
    typer.Option(
        "--loss", metavar="NAME", help="What the script prints, less is better: val_loss finds `val_loss=0.31`."
    ),
]
MaximizeOption = Annotated[bool, typer.Option("--maximize", help="A larger metric is better.")]
ScaleOption = Annotated[
    ScaleName | None,
    typer.Option("--scale", help="Range of the metric: fraction (0 to 1), percent (0 to 100) or any number."),
]
HistoryWorkloadOption = Annotated[
    str | None,
    typer.Option("--workload", help="The history of this workload: cnn, transfer; as in `suggest` when left out."),
]
HistoryArgument = Annotated[
    str | None,
    typer.Argument(metavar="HISTORY", help="The history file; $WARMSTART_HISTORY or the shipped one when left out."),
]


def one_dataset(path: str | None, dataset: str | None) -> str | None:
    """Return the dataset named by the argument or by --dataset.

    Raises:
        UsageError: both name one, and they differ.
    """
    from warmstart.history_store.errors import UsageError

    if None not in (path, dataset) and path != dataset:
        msg = f"expected one dataset, got {path!r} and --dataset {dataset!r}. Leave one out."
        raise UsageError(msg)
    return path or dataset


def needed_dataset(path: str | None, dataset: str | None) -> str:
    """Return the dataset as `one_dataset`.

    Raises:
        UsageError: neither names one, too.
    """
    from warmstart.history_store.errors import UsageError

    named = one_dataset(path, dataset)
    if named is None:
        msg = "Give your images: `warmstart suggest photos/`."
        raise UsageError(msg)
    return named


def one_history(path: str | None, history: str | None) -> str | None:
    """Return the history file named by the argument or by --history.

    Raises:
        UsageError: both name one, and they differ.
    """
    from warmstart.history_store.errors import UsageError

    if None not in (path, history) and path != history:
        msg = f"expected one history, got {path!r} and --history {history!r}. Leave one of the two out."
        raise UsageError(msg)
    return path or history


HistoryFile = Annotated[str, typer.Argument(metavar="HISTORY", help="The history file.")]
ServerOption = Annotated[
    str | None,
    typer.Option("--server", metavar="URL", help="Ask a server of `warmstart serve`; your pictures stay here."),
]

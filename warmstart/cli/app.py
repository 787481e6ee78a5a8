"""The tree of commands, its help and examples.

A call imports only the module of its own command. The help of a group takes the lines of `COMMANDS`.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer

from warmstart.cli.grouped_help import GroupedCommand, GroupOfCommands
from warmstart.cli.spelling import FORMER_NAMES


class Entry(NamedTuple):
    """A command: group, name, ``module:function``, line in the group's help, examples."""

    group: str
    name: str
    target: str
    line: str
    example: tuple[str, ...]

    @property
    def words(self) -> tuple[str, ...]:
        """Return the words of the command line that name the command."""
        return (self.group, self.name) if self.group else (self.name,)

    @property
    def module(self) -> str:
        """Return the full name of the command's module."""
        return f"warmstart.cli.{self.target.partition(':')[0]}"

    def load(self) -> Callable[..., None]:
        """Import the function of the command."""
        function: Callable[..., None] = getattr(import_module(self.module), self.target.partition(":")[2])
        return function


TITLES = {
    "Pictures": ("classify", "example", "predict", "export"),
    "Your own training script": ("tune", "suggest", "studies"),
    "Past runs": ("history", "neighbours", "plot", "evaluate", "fit-similarity"),
    "More": ("serve", "backup", "restore-backup", "cache"),
}
"""Commands and groups by the titles of the help."""
GROUPS = {
    "history": "Create, fill, show and repair a history.",
    "plot": "Draw histories, evaluations and runs.",
    "space": "Write a search space to begin with.",
    "studies": "List, show, draw, export, rename and delete studies.",
}

COMMANDS = (
    Entry(
        "",
        "classify",
        "classify:classify",
        "Train a classifier of your pictures, and say how good it is.",
        (
            "warmstart classify photos/",
            "warmstart classify photos/ --time 30m --test held_out/",
        ),
    ),
    Entry(
        "",
        "example",
        "classify:example",
        "Write pictures to try with: handwritten digits as class folders.",
        ("warmstart example photos/",),
    ),
    Entry(
        "",
        "predict",
        "classify:predict",
        "Name the class of pictures, with its probability.",
        (
            "warmstart predict clf.safetensors photos/new/ a.jpg",
            "warmstart predict clf.safetensors --dataset sklearn:digits",
            "warmstart predict clf.safetensors photos/new/ --sort-into sorted/",
        ),
    ),
    Entry(
        "",
        "export",
        "classify:export",
        "Write a saved classifier as ONNX, or what is in it as JSON.",
        ("warmstart export clf.safetensors clf.onnx", "warmstart export clf.safetensors card.json"),
    ),
    Entry(
        "",
        "tune",
        "tune:tune",
        "Tune a training script, starting from what won on similar datasets.",
        (
            'warmstart tune --command "python train.py --lr {lr}" \\',
            "    --space space.yaml --score val_acc",
            "warmstart tune photos/ --time 30m",
        ),
    ),
    Entry(
        "",
        "suggest",
        "suggest:suggest",
        "Suggest what to try first on a dataset: what won on similar ones.",
        (
            "warmstart suggest photos/",
            "warmstart suggest sklearn:digits -k 5 --format json",
        ),
    ),
    Entry(
        "",
        "neighbours",
        "suggest:neighbours",
        "List the datasets that a dataset resembles, nearest first.",
        ("warmstart neighbours photos/ -k 5",),
    ),
    Entry(
        "",
        "evaluate",
        "evaluate:evaluate",
        "Measure how good suggestions are for datasets never seen.",
        (
            "warmstart evaluate --history mine.h5 --model mine.safetensors --protocol leave-source-out --out report.json",
            "warmstart evaluate --table errors.npz --methods random,portfolio,average-rank,joint --reference joint",
        ),
    ),
    Entry(
        "",
        "fit-similarity",
        "fit_similarity:fit_similarity",
        "Learn from a history which datasets are alike, for `suggest`.",
        ("warmstart fit-similarity mine.h5 --extractor adf --out mine.safetensors",),
    ),
    Entry(
        "",
        "serve",
        "serve:serve",
        "Serve suggestions and studies over HTTP.",
        (
            "warmstart serve",
            "warmstart serve --new-token ann --token-file tokens",
            "warmstart serve --host 0.0.0.0 --token-file tokens --history ours.h5",
        ),
    ),
    Entry(
        "",
        "backup",
        "backup:backup",
        "Save a history and studies in one archive, also while they are in use.",
        ("warmstart backup monday.tar --history ours.h5 --storage runs.db",),
    ),
    Entry(
        "",
        "restore-backup",
        "backup:restore",
        "Put the parts of a backup in their places.",
        ("warmstart restore-backup monday.tar --history ours.h5 --storage runs.db",),
    ),
    Entry(
        "",
        "cache",
        "cache:cache",
        "Show what is cached, or clear it.",
        (
            "warmstart cache",
            "warmstart cache --clear",
            "warmstart cache --limit 500",
        ),
    ),
    Entry(
        "history",
        "create",
        "maintain:create",
        "Create a history: empty, or a copy of the shipped one.",
        ("warmstart history create mine.h5 --space compact --configs 64",),
    ),
    Entry(
        "history",
        "add",
        "evaluations:add",
        "Add a dataset with its images, and runs on it.",
        ("warmstart history add mine.h5 photos/ --name photos --group photos",),
    ),
    Entry(
        "history",
        "record",
        "evaluations:record",
        "Record one run; it is on the disk when the command returns.",
        (
            "warmstart history record mine.h5 --dataset photos \\",
            '    --config \'{"log10_learning_rate": -3.0, "batch_size": 16}\' --error 0.12',
        ),
    ),
    Entry(
        "history",
        "collect",
        "collect:collect",
        "Measure the same configurations on every dataset.",
        ("warmstart history collect manifests/*.toml --history mine.h5 --configs 64 --budget 3h",),
    ),
    Entry(
        "history",
        "import",
        "evaluations:import_",
        "Import runs from CSV, Parquet, shards or another tool.",
        ("warmstart history import mine.h5 runs.csv",),
    ),
    Entry(
        "history",
        "export",
        "evaluations:export",
        "Export all evaluations as CSV, Parquet or text shards.",
        ("warmstart history export mine.h5 runs.parquet",),
    ),
    Entry(
        "history",
        "list",
        "inspect:list_",
        "List the datasets of a history.",
        (
            "warmstart history list",
            "warmstart history list mine.h5 --format json",
        ),
    ),
    Entry(
        "history",
        "show",
        "inspect:show",
        "Show a history, or one dataset of it.",
        ("warmstart history show photos --history mine.h5",),
    ),
    Entry(
        "history",
        "remove",
        "evaluations:remove",
        "Remove a dataset with its images and evaluations.",
        ("warmstart history remove mine.h5 photos --yes",),
    ),
    Entry(
        "history",
        "embed",
        "maintain:embed",
        "Store missing embeddings and statistics of the datasets, so that later calls are faster.",
        ("warmstart history embed mine.h5",),
    ),
    Entry(
        "history",
        "verify",
        "maintain:verify",
        "Check every byte of a history; exit code 4 if it is damaged.",
        ("warmstart history verify mine.h5",),
    ),
    Entry(
        "history",
        "compact",
        "maintain:compact",
        "Write the journal into the file, or write a copy.",
        ("warmstart history compact mine.h5 --drop-images --out small.h5",),
    ),
    Entry(
        "history",
        "bundle",
        "share:bundle",
        "Write the runs and features of a history as one file to share, without images and paths.",
        (
            "warmstart history bundle mine.h5 --out bundles/",
            "warmstart history bundle mine.h5 --own --out me.gz",
        ),
    ),
    Entry(
        "history",
        "merge",
        "share:merge",
        "Merge bundles into a history, all or none.",
        (
            "warmstart history merge mine.h5 bundles/ --dry-run",
            "warmstart history merge ours.h5 *.gz",
        ),
    ),
    Entry(
        "history",
        "quarantine",
        "share:quarantine",
        "List merged runs in quarantine, which are not used because they do not fit; or release them.",
        (
            "warmstart history quarantine mine.h5",
            "warmstart history quarantine mine.h5 --release photos",
        ),
    ),
    Entry(
        "history",
        "upgrade",
        "maintain:upgrade",
        "Upgrade a history to the newest version.",
        ("warmstart history upgrade old.h5",),
    ),
    Entry(
        "plot",
        "map",
        "plot:map_",
        "Draw a map of the datasets of a history.",
        ("warmstart plot map photos/ --out map.svg",),
    ),
    Entry(
        "plot",
        "ccov",
        "plot:ccov",
        "Draw where errors are high along each hyperparameter (CCoV).",
        (
            "warmstart plot ccov",
            "warmstart plot ccov mnist cifar10 --out ccov.svg",
        ),
    ),
    Entry(
        "plot",
        "regret",
        "plot:regret",
        "Draw an evaluation: regret curves and paired differences.",
        ("warmstart plot regret evaluation.json --out regret.svg",),
    ),
    Entry(
        "plot",
        "run",
        "plot:run",
        "Draw a study, or a run of the optimiser: errors over time, importance, parallel coordinates, slices, curves.",
        (
            "warmstart plot run run.json --out run.svg",
            "warmstart plot run warmstart-studies.db --study photos --out photos.svg",
        ),
    ),
    Entry(
        "space",
        "init",
        "space:init",
        "Write a search space with every kind of hyperparameter and comments, to be edited.",
        ("warmstart space init --out space.yaml",),
    ),
    Entry(
        "space",
        "from-script",
        "space:from_script",
        "Propose a search space from the arguments of a script, to be edited.",
        ("warmstart space from-script train.py --out space.yaml",),
    ),
    Entry(
        "studies",
        "list",
        "studies:list_",
        "List the studies of a storage: dataset, trials, best result.",
        (
            "warmstart studies list",
            "warmstart studies list runs.db --format json",
        ),
    ),
    Entry(
        "studies",
        "show",
        "studies:show",
        "Show a study: its best trials, what was expected of them, failures.",
        ("warmstart studies show photos --storage runs.db",),
    ),
    Entry(
        "studies",
        "plot",
        "studies:plot",
        "Draw a study: best so far, importance, parallel coordinates, slices, learning curves.",
        ("warmstart studies plot photos --storage runs.db --out photos.svg",),
    ),
    Entry(
        "studies",
        "export",
        "studies:export",
        "Write the trials of a study as a table, as JSON, or as a page with pictures that needs no network.",
        (
            "warmstart studies export trials.csv photos --storage runs.db",
            "warmstart studies export photos.html photos",
        ),
    ),
    Entry(
        "studies",
        "delete",
        "studies:delete",
        "Delete a study with its trials.",
        ("warmstart studies delete photos-transfer --storage runs.db",),
    ),
    Entry(
        "studies",
        "rename",
        "studies:rename",
        "Give a study another name.",
        ("warmstart studies rename photos-transfer first-try",),
    ),
)


def make_app(command: tuple[str, ...] | None = None) -> typer.Typer:
    """Build the tree of commands.

    Args:
        command: words of the command line that name the command; only its module is imported.
            None = import all modules.
    """
    tree = typer.Typer(
        name="warmstart",
        cls=type("AllCommands", (GroupOfCommands,), {"titles": TITLES}),
        help="Tune faster: start from configurations that won on similar datasets.",
        no_args_is_help=True,
        add_completion=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    tree.callback()(root)
    groups = {"": tree} | {
        name: typer.Typer(cls=GroupOfCommands, no_args_is_help=True, rich_markup_mode=None) for name in GROUPS
    }
    for entry in COMMANDS:
        is_called = command is None or command[: len(entry.words)] == entry.words
        run = entry.load() if is_called else _not_called
        groups[entry.group].command(
            entry.name, cls=GroupedCommand, short_help=entry.line, epilog=_example(entry.example)
        )(run)
        for former in (old for old, new in FORMER_NAMES.items() if (new,) == entry.words):
            tree.command(former, cls=GroupedCommand, hidden=True)(run)
    for name, line in GROUPS.items():
        tree.add_typer(groups[name], name=name, help=line)
    return tree


def root(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=lambda value: _show_version(show=value), help="Show the version."
        ),
    ] = False,
) -> None:
    """Tune faster: start from configurations that won on similar datasets."""


def _not_called() -> None:
    """Stand in for a command whose module is not imported.

    Raises:
        RuntimeError: always.
    """
    msg = "a command was called whose module is not imported"
    raise RuntimeError(msg)


def _example(lines: tuple[str, ...]) -> str:
    """Format the example in a command's help."""
    # The \b keeps Click from rewrapping the example.
    return "\b\nExample:\n" + "\n".join(f"  {line}" for line in lines)


def _show_version(*, show: bool) -> None:
    if show:
        import warmstart

        typer.echo(f"warmstart {warmstart.__version__}")
        raise typer.Exit


def __getattr__(name: str) -> Any:
    """Build the whole tree on first access to `app`."""
    if name != "app":
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    globals()["app"] = tree = make_app()
    return tree

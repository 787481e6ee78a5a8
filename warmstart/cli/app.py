"""The tree of commands."""

from typing import Annotated

import typer

from warmstart.cli import (
    cache,
    collect,
    evaluate,
    evaluations,
    inspect,
    maintain,
    plot,
    predict,
    serve,
    share,
    studies,
    suggest,
    train,
    tune,
)

app = typer.Typer(
    name="warmstart",
    help="Tune faster: start from configurations that won on similar datasets.",
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
history = typer.Typer(help="Create, fill, show and repair a history.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(history, name="history")
pictures = typer.Typer(help="Draw histories, evaluations and runs.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(pictures, name="plot")

kept = typer.Typer(
    help="Look at studies: what they are of, what came of them.", no_args_is_help=True, rich_markup_mode=None
)
app.add_typer(kept, name="studies")


def example(*lines: str) -> str:
    """Format the example that ends a command's help."""
    return "\b\nExample:\n" + "\n".join(f"  {line}" for line in lines)


def _show_version(*, wanted: bool) -> None:
    if wanted:
        import warmstart

        typer.echo(f"warmstart {warmstart.__version__}")
        raise typer.Exit


@app.callback()
def root(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=lambda value: _show_version(wanted=value), help="Show the version."
        ),
    ] = False,
) -> None:
    """Tune faster: start from configurations that won on similar datasets."""


app.command(
    "suggest",
    epilog=example(
        "warmstart suggest --dataset photos/", "warmstart suggest --dataset sklearn:digits -k 5 --format json"
    ),
)(suggest.suggest)
app.command("neighbours", epilog=example("warmstart neighbours --dataset photos/ -k 5"))(suggest.neighbours)
app.command("train", epilog=example("warmstart train --history mine.h5 --extractor adf --out mine.safetensors"))(
    train.train
)
app.command(
    "tune",
    epilog=example(
        "warmstart tune --dataset photos/ --trials 30",
        "warmstart tune --dataset photos/ --space space.json --trials 30 \\",
        '    --command "python train.py {learning_rate} {batch_size} {warmstart.seed}"',
    ),
)(tune.tune)
app.command(
    "evaluate",
    epilog=example(
        "warmstart evaluate --history mine.h5 --model mine.safetensors --protocol leave-source-out --out report.json",
        "warmstart evaluate --table errors.npz --rivals random,portfolio,average-rank,joint --ours joint",
    ),
)(evaluate.evaluate)
app.command(
    "serve",
    epilog=example(
        "warmstart serve",
        "warmstart serve --new-token ann --token-file tokens",
        "warmstart serve --host 0.0.0.0 --token-file tokens --history ours.h5",
    ),
)(serve.serve)
app.command(
    "predict",
    epilog=example(
        "warmstart predict clf.safetensors photos/new/ a.jpg",
        "warmstart predict clf.safetensors --dataset sklearn:digits",
    ),
)(predict.predict)
app.command("cache", epilog=example("warmstart cache", "warmstart cache --clear"))(cache.cache)
history.command("create", epilog=example("warmstart history create mine.h5 --space compact --configs 64"))(
    maintain.create
)
history.command("add", epilog=example("warmstart history add mine.h5 --dataset photos/ --name photos --group photos"))(
    evaluations.add
)
history.command(
    "record",
    epilog=example(
        "warmstart history record mine.h5 --dataset photos \\",
        '    --config \'{"log10_learning_rate": -3.0, "batch_size": 16}\' --error 0.12',
    ),
)(evaluations.record)
history.command(
    "collect", epilog=example("warmstart history collect manifests/*.toml --history mine.h5 --configs 64 --budget 3h")
)(collect.collect)
history.command("import", epilog=example("warmstart history import mine.h5 runs.csv"))(evaluations.import_)
history.command("export", epilog=example("warmstart history export mine.h5 runs.parquet"))(evaluations.export)
history.command("list", epilog=example("warmstart history list", "warmstart history list mine.h5 --format json"))(
    inspect.list_
)
history.command("show", epilog=example("warmstart history show photos --history mine.h5"))(inspect.show)
history.command("remove", epilog=example("warmstart history remove mine.h5 photos --yes"))(evaluations.remove)
history.command("embed", epilog=example("warmstart history embed mine.h5"))(maintain.embed)
history.command("verify", epilog=example("warmstart history verify mine.h5"))(maintain.verify)
history.command("compact", epilog=example("warmstart history compact mine.h5 --drop-images --out small.h5"))(
    maintain.compact
)
history.command(
    "bundle",
    epilog=example(
        "warmstart history bundle mine.h5 --out bundles/", "warmstart history bundle mine.h5 --own --out me.gz"
    ),
)(share.bundle)
history.command(
    "merge",
    epilog=example("warmstart history merge mine.h5 bundles/ --dry-run", "warmstart history merge ours.h5 *.gz"),
)(share.merge)
history.command(
    "quarantine",
    epilog=example("warmstart history quarantine mine.h5", "warmstart history quarantine mine.h5 --release photos"),
)(share.quarantine)
history.command("upgrade", epilog=example("warmstart history upgrade old.h5"))(maintain.upgrade)

pictures.command("map", epilog=example("warmstart plot map --dataset photos/ --out map.svg"))(plot.map_)
pictures.command("ccov", epilog=example("warmstart plot ccov", "warmstart plot ccov mnist cifar10 --out ccov.svg"))(
    plot.ccov
)
pictures.command("regret", epilog=example("warmstart plot regret evaluation.json --out regret.svg"))(plot.regret)
pictures.command(
    "run",
    epilog=example(
        "warmstart plot run run.json --out run.svg",
        "warmstart plot run warmstart-studies.db --study photos --out photos.svg",
    ),
)(plot.run)
kept.command("list", epilog=example("warmstart studies list", "warmstart studies list runs.db --format json"))(
    studies.list_
)
kept.command("show", epilog=example("warmstart studies show photos --storage runs.db"))(studies.show)
kept.command("plot", epilog=example("warmstart studies plot photos --storage runs.db --out photos.svg"))(studies.plot)
kept.command(
    "export",
    epilog=example(
        "warmstart studies export trials.csv photos --storage runs.db", "warmstart studies export photos.html photos"
    ),
)(studies.export)

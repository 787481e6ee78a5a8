"""`tune`: from a dataset or an objective to the best configuration found."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from warmstart.cli.options import (
    CpusOption,
    DownloadOption,
    ExcludeGroupOption,
    Format,
    FormatOption,
    GpusOption,
    HistoryOption,
    ModelOption,
    NoCacheOption,
    QuietOption,
    RayAddressOption,
    RayOption,
    SeedOption,
    VerboseOption,
)
from warmstart.cli.shell import Shell, write

if TYPE_CHECKING:
    from warmstart.studies.call import Options
    from warmstart.studies.progress import Progress
    from warmstart.studies.summary import JointResult, TuneResult
    from warmstart.studies.trial import Trial


class WarmName(StrEnum):
    """How warm configurations count; see docs/tuning.md."""

    DESIGN = "design"
    INITIAL = "initial"
    EXTRA = "extra"


class SplitName(StrEnum):
    """How several datasets share the trials; see docs/tuning.md."""

    EQUAL = "equal"
    GAIN = "gain"


class PrunerName(StrEnum):
    """What stops hopeless trials early; see docs/tuning.md."""

    NONE = "none"
    MEDIAN = "median"
    ASHA = "asha"
    HYPERBAND = "hyperband"


def tune(
    *,
    dataset: Annotated[
        list[str] | None,
        typer.Option(
            "--dataset",
            "-d",
            help="Your images, in any layout of `suggest`; the objective is given the path. Several are tuned at once.",
        ),
    ] = None,
    split: Annotated[
        SplitName, typer.Option("--split", help="How several datasets share the trials: equally, or by expected gain.")
    ] = SplitName.EQUAL,
    objective: Annotated[
        str | None,
        typer.Option("--objective", help="module:function or file.py:function; the target network when left out."),
    ] = None,
    command: Annotated[
        str | None,
        typer.Option("--command", help='A program that prints its error: "python train.py --lr {learning_rate}".'),
    ] = None,
    space: Annotated[
        str | None,
        typer.Option("--space", help="A file (YAML, JSON), compact or paper; the history's when left out."),
    ] = None,
    trials: Annotated[
        int | None,
        typer.Option("--trials", min=1, help="Trials of the study in the end; 50, or what --timeout allows."),
    ] = None,
    timeout: Annotated[
        str | None, typer.Option("--timeout", help="Begin no trial of this call after so long, e.g. 30m.")
    ] = None,
    storage: Annotated[
        str | None,
        typer.Option("--storage", help="Path (SQLite, or .journal) or URL; warmstart-studies.db when left out."),
    ] = None,
    study: Annotated[
        str | None, typer.Option("--study", help="Its name; made of the dataset's and the objective's when left out.")
    ] = None,
    warm: Annotated[
        WarmName,
        typer.Option("--warm", help="Warm configurations are the whole design, the first of it, or extra to it."),
    ] = WarmName.DESIGN,
    no_warm: Annotated[bool, typer.Option("--no-warm", help="Begin without what the history suggests.")] = False,
    k: Annotated[int, typer.Option("-k", min=1, help="How many warm configurations.")] = 3,
    startup: Annotated[
        int, typer.Option("--startup", min=1, help="Points of the Sobol design, for initial, extra and --no-warm.")
    ] = 3,
    strategy: Annotated[
        str | None, typer.Option("--strategy", help="Of the warm configurations; see `warmstart suggest`.")
    ] = None,
    history: HistoryOption = None,
    model: ModelOption = None,
    exclude_group: ExcludeGroupOption = None,
    related: Annotated[
        list[str] | None,
        typer.Option(
            "--related", help="Dataset of the history to learn from too, or auto: the nearest. May be given repeatedly."
        ),
    ] = None,
    neighbours: Annotated[int, typer.Option("--neighbours", min=1, help="How many --related auto stands for.")] = 3,
    surrogate: Annotated[
        str, typer.Option("--surrogate", help="gp, gp-map, dngo or bohamiann; see docs/optimiser.md.")
    ] = "gp",
    acquisition: Annotated[str, typer.Option("--acquisition", help="ei, pi, lcb or ei-per-second.")] = "ei",
    pruner: Annotated[
        PrunerName, typer.Option("--pruner", help="Stop hopeless trials by what they report.")
    ] = PrunerName.NONE,
    budget: Annotated[
        float | None, typer.Option("--budget", help="Of each trial, in the objective's own unit.")
    ] = None,
    target_budget: Annotated[
        str, typer.Option("--target-budget", help="Of the target network: compact-400 or paper.")
    ] = "compact-400",
    trial_timeout: Annotated[
        str | None, typer.Option("--trial-timeout", help="Stop a trial after so long, e.g. 30m; it counts as failed.")
    ] = None,
    trial_memory: Annotated[
        str | None, typer.Option("--trial-memory", help="Stop a trial that holds more, e.g. 4G; it counts as failed.")
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers", min=1, help="Processes that run trials: 1 when left out; with Ray, all that there is room for."
        ),
    ] = None,
    ray: RayOption = False,
    ray_address: RayAddressOption = None,
    cpus_per_trial: CpusOption = None,
    gpus_per_trial: GpusOption = None,
    log: Annotated[str | None, typer.Option("--log", help="File to which all that the trials print is added.")] = None,
    record: Annotated[
        str | None,
        typer.Option("--record", help="Add the dataset and its trials to the history in the end, under this name."),
    ] = None,
    report: Annotated[
        str | None,
        typer.Option("--report", help="Markdown file of the report, JSON beside it; beside the storage when left out."),
    ] = None,
    save_model: Annotated[
        str | None,
        typer.Option("--save-model", help="File for the best built-in network, trained again in the end."),
    ] = None,
    ensemble: Annotated[
        int, typer.Option("--ensemble", min=1, help="How many of the best networks --save-model keeps.")
    ] = 1,
    download: DownloadOption = False,
    format: FormatOption = Format.TABLE,  # noqa: A002
    seed: SeedOption = 0,
    device: Annotated[str, typer.Option("--device", help="cpu, cuda, cuda:1, ... or auto.")] = "auto",
    no_cache: NoCacheOption = False,
    quiet: QuietOption = False,
    verbose: VerboseOption = 0,
) -> None:
    """Tune, from the configurations on that won on datasets like yours. Goes on where it was stopped, even by a kill."""
    import contextlib
    import sys

    from warmstart.integrations.ray import chosen_cluster
    from warmstart.studies.summary import TuneResult
    from warmstart.tuning import tune, tune_many

    shell = Shell(format, quiet=quiet, verbose=verbose)
    paths, latest = dataset or [], list["Progress"]()
    # Ray prints what befalls its nodes; stdout is for the result.
    with shell.progress("tuning") as show, contextlib.redirect_stdout(sys.stderr):

        def told(now: "Progress") -> None:
            latest[:] = [now]
            where = f"{now.study}, " if len(paths) > 1 else ""
            show(now.done, None if now.total == float("inf") else int(now.total), _said(now, where))
            for trial in now.latest:
                shell.detail(where + _line(trial))

        try:
            options: Options = {
                "objective": objective,
                "command": command,
                "space": space,
                "trials": trials,
                "timeout": timeout,
                "storage": storage,
                "study": study,
                "warm": "none" if no_warm else warm.value,
                "k": k,
                "startup": startup,
                "strategy": strategy,
                "history": history,
                "model": model,
                "exclude_group": exclude_group or (),
                "related": related or (),
                "neighbours": neighbours,
                "surrogate": surrogate,
                "acquisition": acquisition,
                "pruner": pruner.value,
                "budget": budget,
                "target_budget": target_budget,
                "trial_timeout": trial_timeout,
                "trial_memory": trial_memory,
                "workers": workers,
                "cluster": chosen_cluster(
                    ray_address, is_wanted=ray, cpus_per_trial=cpus_per_trial, gpus_per_trial=gpus_per_trial
                ),
                "seed": seed,
                "device": device,
                "log": log,
                "record": record,
                "report": report or True,
                "save_model": save_model,
                "ensemble": ensemble,
                "cache": not no_cache,
                "download": download,
                "progress": told,
                "tell": shell.note,
            }
            found = (
                tune_many(paths, split=split.value, **options)
                if len(paths) > 1
                else tune(paths[0] if paths else None, **options)
            )
        except KeyboardInterrupt:
            ended = latest[0].done if latest else 0
            shell.note(f"Stopped after {ended} trials; all are kept. The same command goes on.")
            raise
    if isinstance(found, TuneResult):
        _print(shell, found)
    else:
        _print_joint(shell, found)


def _print_joint(shell: Shell, found: "JointResult") -> None:
    from warmstart.studies.report import joint_rows

    counts = ", ".join(f"{count} {status}" for status, count in found.counts.items())
    title = f"{len(found.studies)} datasets in {found.storage}: {counts or 'no trial yet'}\n"
    best = [{} if study.best is None else study.best.config for study in found.studies]
    rows = [{**row, **config} for row, config in zip(joint_rows(found), best, strict=True)]
    shell.result(found.to_dict(), rows, title=title)
    if shell.format == Format.TABLE:
        lines = [f"{study.dataset}: {study.comparison.line}" for study in found.studies if study.comparison is not None]
        write("\n" + "\n".join(lines))
        if found.report is not None:
            write(f"Report: {found.report}")


def _print(shell: Shell, found: "TuneResult") -> None:
    best = found.best
    row: dict[str, Any] = {} if best is None else {"trial": best.number, "error": best.error, **best.config}
    counts = ", ".join(f"{count} {status}" for status, count in found.counts.items())
    title = f"{found.study} in {found.storage}: {counts or 'no trial yet'}\n"
    shell.result(found.to_dict(), [row] if row else [], title=title)
    if shell.format == Format.TABLE:
        write("" if found.comparison is None else f"\n{found.comparison.line}")
        if found.report is not None:
            write(f"Report: {found.report}")


def _said(now: "Progress", where: str) -> str:
    """Write what is best so far."""
    return "" if now.best is None else f"{where}best {now.best.error:.4g} (trial {now.best.number})"


def _line(trial: "Trial") -> str:
    error = "" if trial.error is None else f" {trial.error:.4g}"
    took = "" if trial.duration is None else f", {trial.duration:.1f} s"
    return f"trial {trial.number}: {trial.status.value}{error}{took}{f': {trial.note}' if trial.note else ''}"

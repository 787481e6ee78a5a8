"""`history collect`: measure configurations on datasets."""

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from warmstart.cli.options import (
    CpusOption,
    Format,
    FormatOption,
    GpusOption,
    MaximizeOption,
    MetricOption,
    QuietOption,
    RayAddressOption,
    RayOption,
    ScaleName,
    ScaleOption,
    SeedOption,
    SkipBrokenOption,
    VerboseOption,
)
from warmstart.cli.shell import Shell
from warmstart.histories.collect import Job, Machines
from warmstart.history_store.errors import UsageError
from warmstart.history_store.wording import counted
from warmstart.training.collection.settings import CollectionSettings

if TYPE_CHECKING:
    from warmstart.bar import Show
    from warmstart.studies.own_workload import OwnScript
    from warmstart.training.collection.progress import CollectionProgress


def collect(
    manifests: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[MANIFEST]...",
            help="TOML files, folders of them, or images of your own; none: all datasets with images.",
        ),
    ] = None,
    *,
    history: Annotated[
        str, typer.Option("--history", help="The history file; made where it is not there.")
    ] = "history.h5",
    configs: Annotated[
        int, typer.Option("--configs", min=0, help="How many shared configurations, besides those of --first.")
    ] = CollectionSettings.configs,
    first: Annotated[
        str | None,
        typer.Option("--first", help="Measure these first: JSON, such as `suggest --format json` writes."),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option("--workers", min=1, help="Processes: 2 when left out; with Ray, all that there is room for."),
    ] = None,
    ray: RayOption = False,
    ray_address: RayAddressOption = None,
    cpus_per_trial: CpusOption = None,
    gpus_per_trial: GpusOption = None,
    budget: Annotated[str | None, typer.Option("--budget", help="Begin no run after so long, e.g. 3h, 90m.")] = None,
    workload: Annotated[
        str, typer.Option("--workload", help="What is trained: cnn, transfer, or one that an installed package adds.")
    ] = Job.workload,
    target_budget: Annotated[
        str | None,
        typer.Option(
            "--target-budget",
            help="Length of one training run, by name; of cnn: compact-400 or paper. Of your script: a number, its {warmstart.budget}.",
        ),
    ] = None,
    objective: Annotated[
        str | None,
        typer.Option("--objective", help="Measure your function: module:function or file.py:function."),
    ] = None,
    command: Annotated[
        str | None,
        typer.Option(
            "--command",
            help='Measure your program, which prints its error: "python train.py --data {warmstart.dataset} --lr {lr}".',
        ),
    ] = None,
    metric: MetricOption = None,
    maximize: MaximizeOption = False,
    scale: ScaleOption = None,
    log: Annotated[
        str | None, typer.Option("--log", help="File to which all that your script prints is added.")
    ] = None,
    space: Annotated[
        str | None,
        typer.Option("--space", help="For a new history: compact, paper or a file of a space (YAML, JSON)."),
    ] = None,
    root: Annotated[str | None, typer.Option("--root", help="Folder below which the manifests' images lie.")] = None,
    download: Annotated[
        bool, typer.Option("--download", help="Fetch what is missing, where a manifest says how.")
    ] = False,
    skip_broken: SkipBrokenOption = False,
    fraction: Annotated[
        list[float] | None, typer.Option("--fraction", help="Part of the training split, in (0, 1]; may be repeated.")
    ] = None,
    replicates: Annotated[
        int, typer.Option("--replicates", min=1, help="Seeds a configuration.")
    ] = CollectionSettings.replicates,
    race: Annotated[
        float | None,
        typer.Option(
            "--race",
            metavar="SE",
            help="Then repeat the best quarter until the median standard error ÷ range of a dataset's errors is SE, e.g. 0.015.",
        ),
    ] = None,
    timeout: Annotated[
        str | None, typer.Option("--timeout", help="Give one run up after so long, e.g. 30m, or a number of seconds.")
    ] = None,
    shards: Annotated[
        str | None, typer.Option("--shards", help="Folder of text shards; every run is written there too.")
    ] = None,
    format: FormatOption = Format.TABLE,  # noqa: A002
    seed: SeedOption = CollectionSettings.seed,
    device: Annotated[str, typer.Option("--device", help="cpu, cuda, cuda:1, ... or auto.")] = Machines.device,
    quiet: QuietOption = False,
    verbose: VerboseOption = 0,
) -> None:
    """Measure the same configurations on every dataset. Resumes after any interruption, even a kill."""
    from warmstart.cli.errors import log_in_options
    from warmstart.histories.collect import collect_into
    from warmstart.integrations.ray.cluster import chosen_cluster
    from warmstart.training.collection.cell_queue import log as cell_log
    from warmstart.training.collection.plan import parse_time

    shell = Shell(format, quiet=quiet, verbose=verbose)
    cell_log.addFilter(log_in_options)
    script = _script(objective, command, metric, maximize=maximize, scale=scale, amount=target_budget, log=log)
    job = Job(workload, target_budget if script is None else None, script, space)
    cluster = chosen_cluster(ray_address, use_ray=ray, cpus_per_trial=cpus_per_trial, gpus_per_trial=gpus_per_trial)
    cell_timeout = parse_time(timeout, param="timeout")
    if cell_timeout < 1:
        msg = f"expected at least one second for a run, got {timeout!r}. Write 30m, or a number of seconds."
        raise UsageError(msg, param="timeout")
    settings = CollectionSettings(
        root=root,
        download=download,
        on_broken=(lambda picture: shell.note(picture.left_out)) if skip_broken else None,
        fractions=tuple(fraction or CollectionSettings.fractions),
        configs=configs,
        replicates=replicates,
        race=race,
        seed=seed,
        time_budget=None if budget is None else parse_time(budget, param="budget"),
        cell_timeout=cell_timeout,
        shards=shards,
    )
    measured = 0
    # Ray prints what befalls its nodes; stdout is for the result.
    with shell.progress("collecting") as show, contextlib.redirect_stdout(sys.stderr):

        def update(now: "CollectionProgress") -> None:
            nonlocal measured
            measured = now.done
            _show(show, now)

        try:
            report = collect_into(
                Path(history),
                [Path(manifest) for manifest in manifests or ()],
                job=job,
                machines=Machines(workers, device, cluster),
                settings=settings,
                first=None if first is None else Path(first),
                progress=update,
                on_message=shell.note,
            )
        except KeyboardInterrupt:
            shell.note(
                f"Stopped after {counted(measured, 'run')}; all are in {history}. Run the same command again to continue."
            )
            raise
    row = {name: value for name, value in report.items() if name not in ("datasets", "noise")}
    row["measured"] = ", ".join(f"{count} {status}" for status, count in report["measured"].items()) or "none"
    shell.result({"schema_version": 1, **report}, [{"history": history, "datasets": len(report["datasets"]), **row}])


def _script(
    objective: str | None,
    command: str | None,
    metric: str | None,
    *,
    maximize: bool,
    scale: ScaleName | None,
    amount: str | None,
    log: str | None,
) -> "OwnScript | None":
    """Return the user's own script from the options; None without any of them."""
    if objective is None and command is None and metric is None and not (maximize or scale or log):
        return None

    from warmstart.studies.objectives.metric import Metric
    from warmstart.studies.own_workload import OwnScript, parse_amount

    return OwnScript(
        objective=objective,
        command=command,
        metric=Metric(metric, maximize, None if scale is None else scale.value),
        budget=parse_amount(amount),
        log=None if log is None else Path(log),
    )


def _show(show: "Show", now: "CollectionProgress") -> None:
    """Show the running cells and the last measured run."""
    last = now.latest
    more = "" if last is None else f"last {last.dataset} {last.error:.3f} {last.status.value}"
    text, since = "", None
    if len(now.running) == 1:
        (cell,) = now.running
        text, since = f"{cell.dataset}, configuration {cell.index}", cell.since
        more = f"error {cell.error:.3f}" if cell.error == cell.error else more
    elif now.running:
        text = "; ".join(
            f"{cell.dataset}, configuration {cell.index}" + ("" if not cell.share else f", {100 * cell.share:.0f} %")
            for cell in now.running[:3]
        ) + (f" and {len(now.running) - 3} more" if len(now.running) > 3 else "")
    parts = sum(cell.share or 0.0 for cell in now.running)
    # Parts of running cells never add up to a whole one.
    completed = now.done + min(parts, 0.99 * len(now.running))
    show(completed, now.total, text, left_s=now.left_s, since=since, more=more, ended=now.done)

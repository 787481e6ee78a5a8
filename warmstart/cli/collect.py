"""`history collect`: measure configurations on datasets."""

import contextlib
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from warmstart.cli.errors import log_in_options
from warmstart.cli.options import RayOptions
from warmstart.cli.record_options import takes_options
from warmstart.cli.shell import Shell
from warmstart.histories.collect import Job, Machines, collect_into
from warmstart.history_store.errors import UsageError
from warmstart.history_store.wording import counted
from warmstart.option import option, option_of
from warmstart.studies.objectives.metric import Metric, Scale
from warmstart.studies.options import Outputs, Problem, Search
from warmstart.training.collection.settings import CollectionSettings

if TYPE_CHECKING:
    from warmstart.bar import Show
    from warmstart.studies.own_workload import OwnScript
    from warmstart.training.collection.progress import CollectionProgress


@dataclass(frozen=True, kw_only=True)
class ScriptOptions:
    """A script of the user's own, and what it prints."""

    TITLE: ClassVar[str] = "Your script"
    command: str | None = option(
        None,
        'Measure your program, which prints its error: "python train.py --data {warmstart.dataset} --lr {lr}".',
        is_main=True,
    )
    objective: str | None = option_of(
        Problem, "objective", help="Measure your function: module:function or file.py:function."
    )
    score: str | None = option_of(Problem, "score", is_main=False)
    loss: str | None = option_of(Problem, "loss", is_main=False)
    metric: str | None = option_of(Search, "metric", is_main=False)
    maximize: bool = option_of(Search, "maximize")
    scale: Scale | None = option_of(Search, "scale")
    log: str | None = option_of(Outputs, "log", help="File to which all that your script prints is added.")

    def script(self, budget: str | None) -> "OwnScript | None":
        """Return the script, with the budget of its runs; None without any of these options."""
        if self == ScriptOptions():
            return None

        from warmstart.studies.own_workload import OwnScript, parse_amount
        from warmstart.studies.tune_options import with_printed_metric

        options = with_printed_metric(vars(self))
        return OwnScript(
            objective=self.objective,
            command=self.command,
            metric=Metric(options["metric"], options["maximize"], self.scale),
            budget=parse_amount(budget),
            log=None if self.log is None else Path(self.log),
        )


@takes_options
def collect(
    manifests: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="MANIFEST",
            help="TOML files, folders of them, or images of your own; none: all datasets with images.",
        ),
    ] = None,
    *,
    history: Annotated[
        str, typer.Option("--history", help="The history file; made where it is not there.")
    ] = "history.h5",
    first: Annotated[
        str | None,
        typer.Option("--first", help="Measure these first: JSON, such as `suggest --format json` writes."),
    ] = None,
    timeout: Annotated[
        str | None,
        typer.Option(
            "--timeout",
            help="Give one run up after so long, e.g. 30m, or a number of seconds.",
            rich_help_panel="Collection",
        ),
    ] = None,
    skip_broken: Annotated[
        bool,
        typer.Option(
            "--skip-broken",
            help="Leave out pictures that cannot be decoded, and name them.",
            rich_help_panel="Collection",
        ),
    ] = False,
    settings: CollectionSettings,
    job: Job,
    own: ScriptOptions,
    machines: Machines,
    ray: RayOptions,
    shell: Shell,
) -> None:
    """Measure the same configurations on every dataset. Resumes after any interruption, even a kill."""
    from warmstart.training.collection.cell_queue import log as cell_log
    from warmstart.training.collection.plan import parse_time

    cell_log.addFilter(log_in_options)
    script = own.script(job.target_budget)
    job = replace(job, script=script, target_budget=job.target_budget if script is None else None)
    machines = replace(machines, cluster=ray.cluster())
    cell_timeout = parse_time(timeout, param="timeout")
    if cell_timeout < 1:
        msg = f"expected at least one second for a run, got {timeout!r}. Write 30m, or a number of seconds."
        raise UsageError(msg, param="timeout")
    settings = replace(
        settings,
        on_broken=(lambda picture: shell.note(picture.left_out)) if skip_broken else None,
        time_budget=parse_time(settings.time_budget, param="budget"),
        cell_timeout=cell_timeout,
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
                machines=machines,
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

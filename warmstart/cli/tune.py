"""`tune`: tune an objective, starting from the history's suggestions."""

import contextlib
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, get_args

import typer

from warmstart.cli.options import RayOptions
from warmstart.cli.record_options import takes_options
from warmstart.cli.shell import Shell, display_path, write
from warmstart.history_store.errors import UsageError, WarmstartError
from warmstart.history_store.quoting import with_config
from warmstart.history_store.wording import counted, in_short
from warmstart.option import option, option_of
from warmstart.status import ALL_FAILED
from warmstart.studies.objectives.metric import Metric
from warmstart.studies.options import Execution, Outputs, Problem, Search, WarmStart
from warmstart.studies.state.split import Split
from warmstart.suggestions.lookup import Labels, Sources

if TYPE_CHECKING:
    from warmstart.studies.results.expectations import StudyExpectations
    from warmstart.studies.results.progress import StudyProgress
    from warmstart.studies.results.summary import JointResult, TuneResult
    from warmstart.studies.results.trial import Trial
    from warmstart.studies.tune_options import TuneOptions


@dataclass(frozen=True, kw_only=True)
class Datasets(Labels):
    """Several datasets, and how they share the trials."""

    TITLE: ClassVar[str] = "Data"
    labels: str | None = option_of(Labels, "labels")
    dataset: tuple[str, ...] = option((), "The same as DATASET, by name; may be repeated.", flags=("--dataset", "-d"))
    split: Split = option(
        "equal",
        "With several datasets: equal shares of the trials, or more where the expected gain is larger.",
        choices=get_args(Split),
    )

    def sources(self, paths: list[str] | None) -> list[str]:
        """Return the datasets of the arguments and of the option, with their labels.

        Raises:
            UsageError: labels without a dataset.
        """
        named = [*(paths or ()), *self.dataset]
        if not named and (name := "labels" if self.labels else "labels_column" if self.labels_column else None):
            msg = "needs `dataset`."
            raise UsageError(msg, param=name)
        return [self.labelled(path) for path in named]


_PAGE_S = 2.0
"""Least seconds to draw the page with pictures; a busy machine adds to it as it adds to loading."""


@takes_options
def tune(
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="DATASET",
            help="Pictures that it trains on, in any form of `suggest`: it starts from what won on similar ones. Several are tuned at once.",
        ),
    ] = None,
    *,
    problem: Problem,
    search: Search,
    execution: Execution,
    outputs: Outputs,
    datasets: Datasets,
    warm_start: WarmStart,
    rehearse: Annotated[
        bool,
        typer.Option(
            "--rehearse",
            help="Run one short trial of your script, say what can be read from it, and how to go on; no study is made.",
        ),
    ] = False,
    no_warm: Annotated[
        bool,
        typer.Option("--no-warm", help="Do not use the history's suggestions.", rich_help_panel="Warm start"),
    ] = False,
    sources: Sources,
    ray: RayOptions,
    server: Annotated[
        str | None,
        typer.Option(
            "--server",
            metavar="URL",
            help="Keep the study on a server of `warmstart serve`; trials run here.",
            rich_help_panel="Running",
        ),
    ] = None,
    shell: Shell,
) -> None:
    """Tune a training script, starting from what won on similar datasets.

    Run the same command again to resume after any interruption.
    """
    began = monotonic()

    from warmstart.studies.objectives.load import nothing_to_tune
    from warmstart.studies.results.progress import show_progress
    from warmstart.studies.results.summary import TuneResult
    from warmstart.studies.tune import tune_dataset, tune_datasets
    from warmstart.studies.tune_options import TuneOptions, with_printed_metric

    loaded, groups = monotonic() - began, (problem, search, execution, outputs, warm_start, sources)
    options = with_printed_metric({name: value for group in groups for name, value in vars(group).items()})
    objective_metric = Metric(options["metric"], options["maximize"], options["scale"])
    is_classifier = problem.objective is None and problem.command is None
    shown_metric = objective_metric.shown(is_classifier=is_classifier)
    paths, latest = datasets.sources(paths), list["StudyProgress"]()
    if not paths and is_classifier:
        raise nothing_to_tune()
    if rehearse:
        _rehearse(shell, paths, options)
        return
    # Ray prints what befalls its nodes; stdout is for the result.
    with shell.progress("tuning") as show, contextlib.redirect_stdout(sys.stderr):

        def update(now: "StudyProgress") -> None:
            if not latest and now.done >= now.total:
                shell.note(f"{_all_there(now.done)} already: none was run. A larger --trials adds more.")
            latest[:] = [now]
            prefix = f"{now.study}, " if len(paths) > 1 else ""
            show_progress(show, now, prefix, shown_metric)
            for trial in now.latest:
                shell.detail(prefix + _line(trial, shown_metric, now.expected))

        try:
            changes = {
                "warm": _warm(warm_start.warm, no_warm=no_warm),
                "cluster": ray.cluster(),
                "scale": objective_metric.scale,
                "report": outputs.report or True,
                "progress": update,
                "on_message": shell.note,
            }
            call = TuneOptions.of(options | changes)
            if server is not None:
                result = _tune_on_server(server, paths, call, datasets.split)
            elif len(paths) > 1:
                result = tune_datasets(paths, call, split=datasets.split)
            else:
                result = tune_dataset(paths[0] if paths else None, call, began=began)
        except KeyboardInterrupt:
            ended = latest[0].done if latest else 0
            shell.note(
                f"Stopped after {counted(ended, 'trial')}; all are kept. Run the same command again to continue."
            )
            raise
    if call.time is None or began + call.check_time() - monotonic() > _PAGE_S + 3 * loaded:
        _write_page(shell, result)
    else:
        shell.note("No page with pictures was written: the time is over. `warmstart studies plot` draws them.")
    if isinstance(result, TuneResult):
        _print(shell, result)
    else:
        _print_joint(shell, result)
    studies = [result] if isinstance(result, TuneResult) else result.studies
    if call.save_model is not None and any(study.best is None for study in studies):
        # The model to save does not exist.
        raise typer.Exit(ALL_FAILED)


def _rehearse(shell: Shell, paths: list[str], options: dict[str, Any]) -> None:
    """Rehearse a trial, and print what was found; the exit code is 5 where a study would have no result."""
    from warmstart.histories.import_runs import parse_pairs
    from warmstart.studies.rehearsal import rehearse
    from warmstart.studies.tune_options import TuneOptions

    changes = {"rename": parse_pairs("rename", options["rename"] or ()), "on_message": shell.note}
    rehearsal = rehearse(paths[0] if paths else None, TuneOptions.of(options | changes))
    if shell.format == "table":
        config = ", ".join(f"{name} {in_short(value)}" for name, value in rehearsal.config.items())
        shell.line(f"One trial with {config}; no study was made.")
        for subject, words in rehearsal.lines:
            shell.line(f"{subject:8} {words}")
        if not rehearsal.is_usable:
            write(*(f"  | {line}" for line in rehearsal.last_lines))
    else:
        shell.result(rehearsal.to_dict(), [dict(rehearsal.lines)])
    if not rehearsal.is_usable:
        raise typer.Exit(ALL_FAILED)
    chosen = [] if rehearsal.guess is None else [f"--{rehearsal.guess.option}", rehearsal.guess.name]
    if "--rehearse" in sys.argv:
        typed = [word for word in sys.argv[1:] if word != "--rehearse"]
        shell.note(f"Go on with: {shlex.join(['warmstart', *typed, *chosen])}")
    else:
        shell.note(f"Go on with the same command without --rehearse{', and ' * bool(chosen)}{shlex.join(chosen)}")


def _all_there(n: int) -> str:
    return "The 1 trial is there" if n == 1 else f"All {n} trials are there"


def _tune_on_server(
    server: str, paths: list[str], options: "TuneOptions", split: "Split"
) -> "TuneResult | JointResult":
    from warmstart.client import Client
    from warmstart.remote_tuning import tune_on_server, tune_several_on_server
    from warmstart.suggestions.advisor import Advisor

    shared = {name: getattr(options, name) for name in ("seed", "device", "cache", "skip_broken")}
    advisor = Advisor(None, options.model, **shared)
    with Client(server, advisor=advisor) as client:
        if len(paths) > 1:
            return tune_several_on_server(paths, options, client, split=split)
        return tune_on_server(paths[0] if paths else None, options, client)


def _write_page(shell: Shell, result: "TuneResult | JointResult") -> None:
    """Write the report with pictures next to the Markdown; a failure is a note."""
    from warmstart.plots.study_page import write_report_page

    if result.report is None:
        return
    try:
        write_report_page(Path(result.report))
    except (WarmstartError, OSError) as error:
        shell.note(f"{result.report}: no page with pictures could be written: {error}")


def _warm(warm: str, *, no_warm: bool) -> str:
    """Return the value of `warm` from --warm and --no-warm.

    Raises:
        UsageError: both are given.
    """
    if no_warm and warm != WarmStart.warm:
        msg = f"cannot be used with --warm {warm}."
        raise UsageError(msg, param="no_warm")
    return "none" if no_warm else warm


def _report_line(report: str) -> str:
    """Return the paths of the report and of its page, unless an earlier call wrote the page."""
    page = Path(report).with_suffix(".html")
    is_current = page.is_file() and page.stat().st_mtime_ns >= Path(report).stat().st_mtime_ns
    return f"Report: {display_path(report)}" + (f", and with pictures {display_path(str(page))}" if is_current else "")


def _print_joint(shell: Shell, result: "JointResult") -> None:
    from warmstart.studies.results.report import joint_rows

    title = f"{len(result.studies)} datasets in {display_path(result.storage)}: {result.counts_line or 'no trial yet'}"
    best = [{} if study.best is None else shell.cells(study.best.config) for study in result.studies]
    rows = [with_config(row, config) for row, config in zip(joint_rows(result), best, strict=True)]
    shell.result(result.to_dict(), rows, title=title)
    if shell.format == "table":
        lines = [
            f"{study.dataset}: {study.comparison_line}" for study in result.studies if study.comparison is not None
        ]
        write("")
        lines += [f"{study.dataset}: {study.expected_line}" for study in result.studies if study.expected is not None]
        for line in lines:
            shell.say(line)
        if result.report is not None:
            shell.say(_report_line(result.report))


def _print(shell: Shell, result: "TuneResult") -> None:

    best, metric = result.best, result.shown_metric if shell.format == "table" else result.metric
    row: dict[str, Any] = {}
    if best is not None and best.error is not None:
        row = with_config({"trial": best.number, metric.name: metric.to_value(best.error)}, shell.cells(best.config))
    title = f"{result.study} in {display_path(result.storage)}: {result.counts_line or 'no trial yet'}"
    shell.result(result.to_dict(), [row] if row else [], title=title)
    if shell.format == "table":
        write("")
        if (last := result.unfinished) is not None:
            value = metric.to_value(last.curve[-1][1])
            reported = with_config({"trial": last.number, metric.name: value}, shell.cells(last.config))
            shell.table([reported], title=result.unfinished_line)
            write("")
        if result.comparison is not None:
            shell.say(result.comparison_line)
        if result.expected is not None:
            shell.say(result.expected_line)
        for line in result.tracked_lines:
            shell.say(line)
        if result.report is not None:
            shell.say(_report_line(result.report))


def _line(trial: "Trial", metric: "Metric", expectations: "StudyExpectations | None") -> str:
    from warmstart.studies.results.progress import in_metric

    error = "" if trial.error is None else f" {metric.said(trial.error)}"
    expected = None if expectations is None else expectations.of(trial.number)
    promised = "" if expected is None else f" ({in_metric(expected, metric)} expected)"
    took = "" if trial.duration is None else f", {trial.duration:.1f} s"
    return f"trial {trial.number}: {trial.status.value}{error}{promised}{took}{f': {trial.note}' if trial.note else ''}"

"""Outputs of a study: its record in a history, the file of its networks, its report and the log of its trials."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from warmstart.locations import PathLike, history_path
from warmstart.prediction import predict_validation
from warmstart.studies.execution.tracking import Tracking
from warmstart.studies.execution.trial_folder import TrialOutputs
from warmstart.studies.history.record import check_recordable, record_study
from warmstart.studies.objectives.base import Objective
from warmstart.studies.objectives.best_networks import BestNetworks
from warmstart.studies.objectives.command import DIR, placeholders
from warmstart.studies.objectives.workload import WorkloadObjective
from warmstart.studies.output_paths import (
    TRIALS,
    check_distinct,
    check_log,
    check_report_path,
    log_beside,
    study_folder,
)
from warmstart.studies.results.classifier_record import classifier_record
from warmstart.studies.results.report import add_classifier, write_joint_report, write_report
from warmstart.studies.results.saved_networks import CANDIDATES, check_savable, save_best, saved_model
from warmstart.studies.results.summary import JointResult, TuneResult
from warmstart.studies.results.trial import check_any_error
from warmstart.studies.state.spec import StudySpec
from warmstart.studies.state.storage import Store, local_path
from warmstart.studies.tune_options import TuneOptions
from warmstart.training.workloads import Classifier, Sample
from warmstart.training.workloads.classifier_file import read_header


@dataclass(frozen=True, slots=True)
class StudyOutputs:
    """The outputs of one study; None = not wanted.

    Attributes:
        record: name of its dataset in the history.
        save_model: file of its networks.
        networks: of the best trials, while the study runs.
        sample: of the pictures that the trials see; None = all.
    """

    record: str | None
    save_model: Path | None
    networks: BestNetworks | None = None
    sample: Sample | None = None

    def with_networks(self, target: Objective) -> Objective:
        """Return an objective that keeps its networks, if it is a workload."""
        return replace(target, networks=self.networks) if isinstance(target, WorkloadObjective) else target

    def check(self, plan: StudySpec, options: TuneOptions) -> None:
        """Check that the study can be recorded and its networks saved."""
        if self.record is not None:
            path = history_path(options.history, workload=plan.workload)
            check_recordable(path, self.record, plan, download=options.download)
        if self.save_model is not None:
            check_savable(self.save_model, is_custom=plan.workload is None)

    def record_and_save(
        self, result: TuneResult, plan: StudySpec, options: TuneOptions, *, deadline: float = math.inf
    ) -> tuple[TuneResult, Classifier | None]:
        """Add a study to the history and save its networks, as far as the options say and the time allows.

        Args:
            result: of the study.
            plan: of the study.
            options: of the call.
            deadline: `time.monotonic` at which the call must end.

        Returns: the result with the record of the saved networks, and these.
        """
        if self.record is not None:
            path = history_path(options.history, workload=plan.workload)
            options.on_message(record_study(path, self.record, plan, result.trials, download=options.download).line)
        if self.save_model is None:
            return result, None
        if options.before_saving is not None:
            options.before_saving()
        saved = save_best(
            self.save_model,
            plan,
            result.trials,
            options.ensemble,
            options.on_message,
            remaining=lambda: deadline - time.monotonic(),
            networks=self.networks,
            sample=self.sample,
        )
        if saved is None:
            return result, None
        return replace(result, saved_model=saved_model(self.save_model, saved)), saved


KEPT = "the study itself is kept. The same call writes it: name another file with `report`, or correct this."
KEPT_ON_SERVER = "the study is on the server all the same."


def finish_study(
    result: TuneResult,
    plan: StudySpec,
    outputs: StudyOutputs,
    options: TuneOptions,
    report: Path | None,
    *,
    kept: str = KEPT,
    deadline: float = math.inf,
) -> TuneResult:
    """Write the report of a study, record it, save its networks and add these to the report; return the whole result.

    Args:
        result: of the study.
        plan: of the study, with the path of the dataset on this machine.
        outputs: of the study.
        options: of the call.
        report: path; None = no report.
        kept: what is said of the study where the report cannot be written.
        deadline: `time.monotonic` at which the call must end.

    Raises:
        AllTrialsFailedError: no trial has an error.
    """
    if report is not None:
        reported = replace(result, report=str(report))
        is_written = try_write_report(report, lambda: write_report(report, reported, plan), options, kept)
        result = reported if is_written else result
    check_any_error(result.study, result.trials, workload=plan.workload)
    result, saved = outputs.record_and_save(result, plan, options, deadline=deadline)
    model = result.saved_model
    if saved is None or model is None or report is None or result.report is None or plan.dataset is None:
        return result
    judged, left_out = predict_validation(saved, model.path, plan.dataset, skip_broken=options.skip_broken)
    classifier = classifier_record(judged, model, left_out, saved.examination, read_header(model.path))
    try_write_report(report, lambda: add_classifier(report, classifier, model), options, kept)
    return result


def finish_studies(
    joint: JointResult,
    plans: Sequence[StudySpec],
    outputs: Sequence[StudyOutputs],
    options: TuneOptions,
    report: Path | None,
    *,
    title: str,
    kept: str = KEPT,
) -> JointResult:
    """Write the report of studies that were tuned together, record them and save their networks; as `finish_study`.

    Args:
        joint: result of the studies.
        plans: of the studies.
        outputs: of the studies.
        options: of the call.
        report: path; None = no report.
        title: of all together.
        kept: as in `finish_study`.
    """
    if report is not None:
        reported = replace(joint, report=str(report))
        is_written = try_write_report(report, lambda: write_joint_report(report, title, reported, plans), options, kept)
        joint = reported if is_written else joint
    check_any_error(title, [trial for result in joint.studies for trial in result.trials], workload=plans[0].workload)
    triples = zip(joint.studies, plans, outputs, strict=True)
    whole = replace(
        joint, studies=tuple(output.record_and_save(result, plan, options)[0] for result, plan, output in triples)
    )
    if report is not None and whole.report is not None and any(result.saved_model for result in whole.studies):
        try_write_report(report, lambda: write_joint_report(report, title, whole, plans), options, kept)
    return whole


def network_folder(options: TuneOptions, stack: ExitStack) -> BestNetworks | None:
    """Make a temporary folder for the best trials' networks; None on a cluster, whose nodes cannot write to it."""
    if options.save_model is None or options.cluster is not None:
        return None
    folder = stack.enter_context(TemporaryDirectory(prefix="warmstart-networks-", ignore_cleanup_errors=True))
    return BestNetworks(folder, max(options.ensemble, CANDIDATES))


def check_outputs(options: TuneOptions, plans: Mapping[str, StudySpec], outputs: Mapping[str, StudyOutputs]) -> None:
    """Check that all outputs of a call can be written."""
    storage = local_path(options.storage)
    check_distinct(storage=storage, log=options.log, report=options.report, save_model=options.save_model)
    check_log(options.log)
    check_report_path(options.report)
    for name, plan in plans.items():
        outputs[name].check(plan, options)


def try_write_report(path: Path, write: Callable[[], None], options: TuneOptions, kept: str) -> bool:
    """Write a report; a failure is a message, since the study itself is stored: `kept` says so."""
    try:
        if options.report is True:
            path.parent.mkdir(parents=True, exist_ok=True)
        write()
    except OSError as error:
        options.on_message(f"{path}: the report could not be written ({error.strerror}); {kept}")
        return False
    return True


def report_path(report: PathLike | Literal[True], store: Store, name: str, members: Sequence[str] = ()) -> Path:
    """Return the path of the report: as named, else in the folder of the study or studies."""
    return study_folder(store.path, name, members) / "report.md" if report is True else Path(report)


def with_log(options: TuneOptions, storage: Path | None, name: str, members: Sequence[str] = ()) -> TuneOptions:
    """Set the log to a file beside the report, unless named; not on a cluster, whose nodes may not see the folder."""
    if options.report is None or options.log is not None or options.cluster is not None:
        return options
    if options.report is not True:
        return replace(options, log=log_beside(options.report))
    folder = study_folder(storage, name, members)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        options.on_message(f"{folder}: no folder for the report and the log could be made ({error.strerror}).")
        return options
    return replace(options, log=log_beside(folder / "report.md"))


def outputs_of_trials(options: TuneOptions, name: str, members: Sequence[str] = ()) -> TrialOutputs:
    """Return where the trials of a call write: they have folders with a report, or if their command names them."""
    is_named = options.command is not None and DIR in placeholders(options.command)
    folder = study_folder(local_path(options.storage), name, members).absolute()
    report = options.report
    beside = Path(report).absolute().parent if isinstance(report, str | os.PathLike) else folder
    tracking = Tracking(options.trackers, beside, is_shared=bool(members))
    without_folders = TrialOutputs(log_file(options), tracking=tracking)
    if not is_named and (options.report is None or options.cluster is not None):
        return without_folders
    trials = folder / TRIALS
    existing = next(parent for parent in (trials, *trials.parents) if parent.exists())
    if not is_named and not (existing.is_dir() and os.access(existing, os.W_OK)):
        return without_folders  # a message says that there is no folder
    return replace(without_folders, path=trials, is_shared=bool(members))


def log_file(options: TuneOptions) -> Path | None:
    """Return the path of the trials' log; None = no log."""
    return None if options.log is None else Path(options.log)

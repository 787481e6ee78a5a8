"""What a study leaves in the end: its record in a history, the file of its networks, its report and the log of its trials."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from warmstart.locations import PathLike, history_path
from warmstart.studies.history.record import check_recordable, record_study
from warmstart.studies.objectives.base import Objective
from warmstart.studies.objectives.kept_networks import KeptNetworks
from warmstart.studies.objectives.workload import WorkloadObjective
from warmstart.studies.output_places import check_apart, check_log, check_report_place, log_beside, study_folder
from warmstart.studies.results.saved_networks import Saved, check_savable, save_best
from warmstart.studies.results.summary import TuneResult
from warmstart.studies.state.spec import StudySpec
from warmstart.studies.state.storage import Store, local_path
from warmstart.studies.tune_options import TuneOptions


@dataclass(frozen=True, slots=True)
class StudyOutputs:
    """What becomes of one study in the end: its name in the history, and the file of its networks; None = nothing.

    Attributes:
        record: the name.
        save_model: the file.
        networks: of the best trials, until then.
    """

    record: str | None
    save_model: Path | None
    networks: KeptNetworks | None = None

    def kept_by(self, target: Objective) -> Objective:
        """Let an objective keep its networks, where it is a workload."""
        return replace(target, networks=self.networks) if isinstance(target, WorkloadObjective) else target

    def check(self, plan: StudySpec, options: TuneOptions) -> None:
        """Check that there will be what is wanted in the end, and a place for it."""
        if self.record is not None:
            path = history_path(options.history, workload=plan.workload)
            check_recordable(path, self.record, plan, download=options.download)
        if self.save_model is not None:
            check_savable(self.save_model, is_own=plan.workload is None)

    def hand_out(
        self, found: TuneResult, plan: StudySpec, options: TuneOptions, *, over: float = math.inf
    ) -> tuple[TuneResult, Saved | None]:
        """Add a study to the history, and save its networks, as far as that is wanted and fits in until the call is over.

        Args:
            found: what the study came to.
            plan: of the study.
            options: of the call.
            over: `time.monotonic` when the call is over.

        Returns: the result, which tells of it, and what was saved.
        """
        if self.record is not None:
            path = history_path(options.history, workload=plan.workload)
            options.on_message(record_study(path, self.record, plan, found.trials, download=options.download).line)
        if self.save_model is None:
            return found, None
        saved = save_best(
            self.save_model,
            plan,
            found.trials,
            options.ensemble,
            options.on_message,
            left=lambda: over - time.monotonic(),
            networks=self.networks,
            threads=options.workers or 1 if options.cluster is None else 1,
        )
        return (found, None) if saved is None else (replace(found, saved_model=saved.record), saved)


def networks_of(options: TuneOptions, stack: ExitStack) -> KeptNetworks | None:
    """Make a folder for the networks of the best trials; other machines could not write to it."""
    if options.save_model is None or options.cluster is not None:
        return None
    folder = stack.enter_context(TemporaryDirectory(prefix="warmstart-networks-", ignore_cleanup_errors=True))
    return KeptNetworks(folder, options.ensemble)


def check_places(options: TuneOptions, plans: Mapping[str, StudySpec], outputs: Mapping[str, StudyOutputs]) -> None:
    """Check that there is a place for all that a call shall write."""
    storage = local_path(options.storage)
    check_apart(storage=storage, log=options.log, report=options.report, save_model=options.save_model)
    check_log(options.log)
    check_report_place(options.report)
    for name, plan in plans.items():
        outputs[name].check(plan, options)


def write_or_tell(place: Path, write: Callable[[], None], options: TuneOptions) -> bool:
    """Write a report; where that fails, say so: the study is kept all the same."""
    try:
        if options.report is True:
            place.parent.mkdir(parents=True, exist_ok=True)
        write()
    except OSError as error:
        options.on_message(
            f"{place}: the report could not be written ({error.strerror}); the study itself is kept. The same call writes it: name another file with `report`, or correct this."
        )
        return False
    return True


def report_place(report: PathLike | Literal[True], store: Store, name: str, members: Sequence[str] = ()) -> Path:
    """Return the place of the report: the one named, else in the folder of the study, or of several together."""
    return study_folder(store.path, name, members) / "report.md" if report is True else Path(report)


def with_log(options: TuneOptions, storage: Path | None, name: str, members: Sequence[str] = ()) -> TuneOptions:
    """Put the log beside the report where it is not named; a cluster's nodes may not see the folder."""
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


def log_file(options: TuneOptions) -> Path | None:
    """Return the file of what trials print; None = none."""
    return None if options.log is None else Path(options.log)
